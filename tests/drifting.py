"""A long walk through a set of matrices, to see whether rounding adds up."""

import math
from collections.abc import Collection, Iterator
from functools import partial

import torch
from torch import Generator, Tensor

from cases import CONFINED, TOLERANCES
from eigenrnn.constraints import Constraint

__all__ = ["LOOKS", "OPTIMISERS", "N", "bound", "walk"]

N = 16
LOOKS = (100, 10_000, 100_000)
OPTIMISERS = {
    "Adam": partial(torch.optim.Adam, lr=0.01),
    "RMSprop": partial(torch.optim.RMSprop, lr=0.001),
}
ROUND = 700  # steps in which the target comes back to where it was, but for its trembling


def bound(name: str) -> float:
    """What the residual must not exceed: 1e-5, or what a truncated series promises."""
    return CONFINED[name].tol(torch.float32, N) if name in TOLERANCES else 1e-5


def walk(
    constraint: Constraint, optimiser: str, looks: Collection[int] = LOOKS, seed: int = 0
) -> Iterator[tuple[int, float]]:
    r"""Train towards a target that turns and trembles, and yield steps and residual.

    .. math:: L_k = \tfrac 1 2 \|W - M_k\|_F^2, \qquad
        M_k = M' \cos \omega k + M'' \sin \omega k + E_k

    The target never rests, and neither does W. A residual is measured after every thousandth step
    and after those of `looks`, the last of which is the end.
    """
    generator = Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=()):
        constraint.reset(generator)
    first, second = (_normal(constraint, generator) for _ in range(2))
    stepper = OPTIMISERS[optimiser](constraint.parameters())
    for k in range(1, max(looks) + 1):
        angle = 2 * math.pi * k / ROUND
        target = math.cos(angle) * first + math.sin(angle) * second
        target += _normal(constraint, generator)
        stepper.zero_grad()
        W = constraint()
        W.backward(W.detach() - target)
        stepper.step()
        if k % 1000 == 0 or k in looks:
            yield k, constraint.residual(constraint())


def _normal(constraint: Constraint, generator: Generator) -> Tensor:  # (N, N)
    """Draw a matrix of about the norm of an orthogonal one."""
    n = constraint.size
    return torch.randn(n, n, dtype=constraint.dtype, generator=generator) / math.sqrt(n)
