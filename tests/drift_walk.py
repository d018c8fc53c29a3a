"""Long training of a constraint in float32, to test whether rounding accumulates."""

import math
from collections.abc import Collection, Iterator
from functools import partial

import torch
from torch import Generator, Tensor

from cases import CONFINED, TOLERANCES
from eigenrnn.constraints import Constraint

N = 16
MEASURED_STEPS = (100, 10_000, 100_000)
OPTIMISERS = {
    "Adam": partial(torch.optim.Adam, lr=0.01),
    "RMSprop": partial(torch.optim.RMSprop, lr=0.001),
}
PERIOD = 700  # steps of one turn of the target, apart from its noise


def bound(name: str) -> float:
    """Return the largest allowed residual: 1e-5, or the bound of a truncated series."""
    return CONFINED[name].tol(torch.float32, N) if name in TOLERANCES else 1e-5


def walk(
    constraint: Constraint,
    optimiser: str,
    measured: Collection[int] = MEASURED_STEPS,
    seed: int = 0,
) -> Iterator[tuple[int, float]]:
    r"""Train towards a rotating target with noise, and yield steps and residuals.

    .. math:: L_k = \tfrac 1 2 \|W - M_k\|_F^2, \qquad
        M_k = M' \cos \omega k + M'' \sin \omega k + E_k

    The target never rests, and neither does W. The residual is measured after every thousandth
    step and after the steps in `measured`; training ends after the last of these.
    """
    generator = Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=()):
        constraint.reset(generator)
    first, second = (_normal(constraint, generator) for _ in range(2))
    stepper = OPTIMISERS[optimiser](constraint.parameters())
    for k in range(1, max(measured) + 1):
        angle = 2 * math.pi * k / PERIOD
        target = math.cos(angle) * first + math.sin(angle) * second
        target += _normal(constraint, generator)
        stepper.zero_grad()
        W = constraint()
        W.backward(W.detach() - target)
        stepper.step()
        if k % 1000 == 0 or k in measured:
            yield k, constraint.residual(constraint())


def _normal(constraint: Constraint, generator: Generator) -> Tensor:  # (N, N)
    """Draw a matrix of about the norm of an orthogonal one."""
    n = constraint.size
    return torch.randn(n, n, dtype=constraint.dtype, generator=generator) / math.sqrt(n)
