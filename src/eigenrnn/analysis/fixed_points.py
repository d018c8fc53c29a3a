"""Where the state of a network stays if its input does not change."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.generators import check_torch_generator
from eigenrnn.analysis.recurrence import Recurrence, recurrences
from eigenrnn.analysis.sequences import given_numbers
from eigenrnn.analysis.trajectory import chosen
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from eigenrnn.linalg import check_finite

__all__ = ["FixedPoints", "fixed_points"]

_LEAST_DAMPING, _MOST_DAMPING = 1e-12, 1e6
_KINDS = ("stable", "marginal", "saddle", "unstable")
_AGREEMENT = 1e-9  # a modulus this near to one is neither inside nor outside


@dataclass(frozen=True)
class FixedPoints(Analysis):
    r"""Fixed points of the states under a constant input.

    Args:
        points: The points found, those with the smallest spectral radius first.
        eigenvalues: Those of the derivative of a step at each, by falling modulus.
        residuals: :math:`\|F(h) - h\|_2` at each.
        starts: How many states the search began from.
        failed: How many of them came to no fixed point.
    Shape:
        points: :math:`(P, S)`; eigenvalues: :math:`(P, S)`; residuals: :math:`(P,)`.
    """

    points: NDArray[np.float64]
    eigenvalues: NDArray[np.complex128]
    residuals: NDArray[np.float64]
    starts: int
    failed: int

    @property
    def kinds(self) -> list[str]:
        """Of each point: stable, marginal, saddle or unstable.

        That is, whether all moduli of eigenvalues are below one; the largest is one; some are
        above; or all are.
        """
        return [_kind(np.abs(moduli)) for moduli in self.eigenvalues]

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        kinds = np.array(self.kinds)
        points = {
            f"{int((kinds == kind).sum())} {kind}": self.eigenvalues[kinds == kind].ravel()
            for kind in _KINDS
            if kind in kinds
        }
        plot.plane(axes, points)
        title = f"eigenvalues at {', '.join(points) or 'no'} fixed points"
        plot.label(axes, "real part", "imaginary part", title)
        return figure

    def table(self) -> Table:
        P, S = self.eigenvalues.shape
        values = self.eigenvalues.ravel()
        return {
            "point": np.repeat(np.arange(P), S),
            "kind": np.repeat(np.array(self.kinds, dtype=str), S),
            "residual": np.repeat(self.residuals, S),
            "unit": np.tile(np.arange(S), P),
            "state": self.points.ravel(),
            "eigenvalue_real": values.real,
            "eigenvalue_imaginary": values.imag,
        }

    def headline(self) -> dict[str, float]:
        counts = {kind: float(self.kinds.count(kind)) for kind in _KINDS}
        return {"points": float(len(self.points)), **counts, "failed": float(self.failed)}


@torch.no_grad()
def fixed_points(
    layer: nn.Module,
    *,
    input: Tensor | ArrayLike | None = None,  # (M,)
    starts: int | Tensor = 64,  # (P, S)
    tolerance: float = 1e-9,
    steps: int = 200,
    generator: Generator | None = None,
    which: str = "l0",
) -> FixedPoints:
    r"""Search the fixed points of a network under a constant input, and tell their stability.

    .. math:: F(h^*) = h^*, \qquad q(h) = \tfrac12 \|F(h) - h\|^2, \qquad
        \lambda_i\!\left(\frac{\partial F}{\partial h}(h^*)\right)

    Levenberg and Marquardt's method lowers q from all starts at once, its damping shrinking where
    a step helps and growing where it does not. What ends within the tolerance is a fixed point;
    of those nearer to each other than the square root of the tolerance, the best alone is kept.
    Points that the search does not come to stay unknown; of a line of fixed points it finds some.

    Args:
        layer: A recurrent layer, ours or torch's, or a model with one.
        input: What the layer or direction reads at every step; zero by default.
        starts: The states to start from, or how many to draw from the normal distribution, the
            first being zero.
        tolerance: The largest :math:`\|F(h) - h\|_2` of a fixed point, relative to
            :math:`1 + \|h\|_2`.
        steps: The most steps of the search.
        generator: Torch's; the source of starts. Its global stream by default.
        which: The layer and direction.
    Shape:
        input: :math:`(M,)`; starts: :math:`(P, S)`.
    Raises:
        ValueError: If there is no such layer or direction, a shape is wrong, a number is not
            finite, or there are no starts, no steps or no tolerance.
        TypeError: If the generator is of another kind.
    Source:
        Sussillo and Barak, Neural Computation 25, 2013. https://doi.org/10.1162/NECO_a_00409
        (departures: Levenberg and Marquardt's method in place of Newton's with a trust region).
    Example:
        >>> fixed_points(torch.nn.RNN(1, 1, bias=False), starts=5).kinds
        ['stable']
    """
    recurrence = chosen({each.name: each for each in recurrences(layer)}, which)
    check_torch_generator(generator)
    check_positive_integer("steps", steps)
    if not tolerance > 0:
        raise ValueError(f"expected tolerance > 0, got {tolerance}")
    M, S = recurrence.input_size, recurrence.state_size
    x = _given(np.zeros(M) if input is None else input, "input", (M,))
    h = _starts(starts, S, generator)
    if not len(h) or h.dim() != 2:
        raise ValueError(f"expected at least one start, (P, {S}), got {tuple(h.shape)}")
    h, residual = _descend(recurrence, x.expand(len(h), M), h, steps, tolerance)
    reached = residual <= tolerance * (1 + h.norm(dim=1))
    h, residual, count = h[reached], residual[reached], len(h)
    kept = _distinct(h, residual, tolerance**0.5)
    h, residual = h[kept], residual[kept]
    J, _ = recurrence.jacobians(x.expand(len(h), M), h) if len(h) else (h.new_zeros(0, S, S), None)
    check_finite(J, "the Jacobians of fixed points")
    eigenvalues = torch.linalg.eigvals(J)
    order = eigenvalues.abs().argsort(dim=1, descending=True)
    eigenvalues = eigenvalues.gather(1, order)
    stablest = eigenvalues.abs()[:, 0].argsort(stable=True)
    return FixedPoints(
        h[stablest].numpy(),
        eigenvalues[stablest].numpy(),
        residual[stablest].numpy(),
        count,
        count - int(reached.sum()),
    )


def _descend(
    recurrence: Recurrence,
    x: Tensor,  # (P, M)
    h: Tensor,  # (P, S)
    steps: int,
    tolerance: float,
) -> tuple[Tensor, Tensor]:  # (P, S), (P,)
    """Lower q from every start, and return where it ends with what is left."""
    I = torch.eye(h.shape[1], dtype=h.dtype)
    damping = h.new_ones(len(h))
    r = recurrence.step(x, h) - h
    for _ in range(steps):
        # beyond the tolerance, as the last steps are cheap and tell near points apart
        busy = (r.norm(dim=1) > 1e-3 * tolerance) & (damping < _MOST_DAMPING)
        if not bool(busy.any()):
            break
        G = recurrence.jacobians(x[busy], h[busy])[0] - I
        normal = G.mT @ G + damping[busy, None, None] * I
        step = torch.linalg.lstsq(normal, -(G.mT @ r[busy, :, None])).solution.squeeze(2)
        tried = h[busy] + step
        left = recurrence.step(x[busy], tried) - tried
        better = left.norm(dim=1) < r[busy].norm(dim=1)
        h[busy] = torch.where(better[:, None], tried, h[busy])
        r[busy] = torch.where(better[:, None], left, r[busy])
        damping[busy] *= torch.where(better, 0.1, 8.0)
        damping = damping.clamp(min=_LEAST_DAMPING)
    return h, r.norm(dim=1)


def _distinct(
    h: Tensor,  # (P, S)
    residual: Tensor,  # (P,)
    apart: float,
) -> list[int]:
    """Return the numbers of points no two of which are the same, the best first."""
    kept: list[int] = []
    for i in residual.argsort(stable=True).tolist():
        near = (h[kept] - h[i]).norm(dim=1) <= apart * (1 + h[i].norm())
        if not bool(near.any()):
            kept.append(i)
    return kept


def _starts(
    starts: int | Tensor | ArrayLike, size: int, generator: Generator | None
) -> Tensor:  # (P, S)
    """Return those that are given, or draw so many.

    Raises:
        ValueError: If they are no states and no number.
    """
    if isinstance(starts, bool):
        raise ValueError(f"expected starts to be a number or states, got {starts}")
    if not isinstance(starts, int | np.integer):
        return _given(starts, "starts", (size,))
    h = torch.randn(max(int(starts), 0), size, generator=generator, dtype=torch.float64)
    h[:1] = 0
    return h


def _given(values: Tensor | ArrayLike, name: str, shape: tuple[int, ...]) -> Tensor:
    """Return numbers in double precision.

    Raises:
        ValueError: If they are not finite, or their last sizes are others.
    """
    given = given_numbers(values, name).clone()
    if given.shape[-1:] != shape:
        raise ValueError(f"expected {name} of size {shape[0]}, got shape {tuple(given.shape)}")
    if not bool(given.isfinite().all()):
        raise ValueError(f"expected finite numbers in {name}, got others")
    return given


def _kind(moduli: NDArray[np.float64]) -> str:
    if moduli.max() < 1 - _AGREEMENT:
        return "stable"
    if moduli.max() <= 1 + _AGREEMENT:
        return "marginal"
    return "unstable" if moduli.min() > 1 else "saddle"
