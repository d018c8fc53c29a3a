"""Fixed points of a recurrent network under a constant input, and their stability."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import as_real_tensor, check_torch_generator
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.recurrence import Recurrence, recurrences, select_recurrence
from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import check_finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FixedPoints", "fixed_points"]

_MIN_DAMPING, _MAX_DAMPING = 1e-12, 1e6
_KINDS = ("stable", "marginal", "saddle", "unstable")
_MODULUS_TOLERANCE = 1e-9  # a modulus this close to one counts as one


@dataclass(frozen=True)
class FixedPoints(Analysis):
    r"""Fixed points of the states under a constant input.

    Args:
        points: The fixed points, in order of rising spectral radius.
        eigenvalues: The eigenvalues of the Jacobian at each point, by falling modulus.
        residuals: :math:`\|F(h) - h\|_2` at each point.
        starts: The number of initial states of the search.
        failed: The number of initial states from which it did not converge.
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
        """The kind of each point: stable, marginal, saddle or unstable.

        In this order: all moduli of its eigenvalues are below one; the largest is one; only some
        are above one; all are above one.
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
    r"""Find fixed points of a network under a constant input, and classify their stability.

    .. math:: F(h^*) = h^*, \qquad q(h) = \tfrac12 \|F(h) - h\|^2, \qquad
        \lambda_i\!\left(\frac{\partial F}{\partial h}(h^*)\right)

    The Levenberg-Marquardt method minimises q from all initial states at once. Its damping shrinks
    after a step that helps and grows after one that does not. A state within the tolerance is a
    fixed point; of points closer than the square root of the tolerance only the best is kept. The
    search may miss fixed points. Of a line of fixed points, it returns only some.

    Args:
        layer: A recurrent layer, ours or torch's, or a model with one.
        input: The input of the layer or direction at every step; zero by default.
        starts: The initial states, or how many to draw from the normal distribution; the first
            of these is zero.
        tolerance: The largest :math:`\|F(h) - h\|_2` of a fixed point, relative to
            :math:`1 + \|h\|_2`.
        steps: The largest number of iterations of the search.
        generator: Torch's generator of initial states; its global stream by default.
        which: The layer and direction.
    Shape:
        input: :math:`(M,)`; starts: :math:`(P, S)`.
    Raises:
        ValueError: If the layer or direction does not exist, a shape is wrong, a number is not
            finite, or `starts`, `steps` or `tolerance` is not positive.
        TypeError: If the generator is not torch's.
    Source:
        Sussillo and Barak, Neural Computation 25, 2013. https://doi.org/10.1162/NECO_a_00409
        (departures: the Levenberg-Marquardt method in place of Newton's with a trust region).
    Example:
        >>> fixed_points(torch.nn.RNN(1, 1, bias=False), starts=5).kinds
        ['stable']
    """
    recurrence = select_recurrence({each.name: each for each in recurrences(layer)}, which)
    check_torch_generator(generator)
    check_positive_integer("steps", steps)
    if not tolerance > 0:
        raise ValueError(f"expected tolerance > 0, got {tolerance}")
    M, S = recurrence.input_size, recurrence.state_size
    x = _finite_tensor(np.zeros(M) if input is None else input, "input", (M,))
    h = _initial_states(starts, S, generator)
    if not len(h) or h.dim() != 2:
        raise ValueError(
            f"expected starts to contain at least one state, (P, {S}), got {tuple(h.shape)}"
        )
    h, residual = _minimise(recurrence, x.expand(len(h), M), h, steps, tolerance)
    converged = residual <= tolerance * (1 + h.norm(dim=1))
    h, residual, count = h[converged], residual[converged], len(h)
    kept = _distinct(h, residual, tolerance**0.5)
    h, residual = h[kept], residual[kept]
    J, _ = recurrence.jacobians(x.expand(len(h), M), h) if len(h) else (h.new_zeros(0, S, S), None)
    check_finite(J, "the Jacobians of fixed points")
    eigenvalues = torch.linalg.eigvals(J)
    order = eigenvalues.abs().argsort(dim=1, descending=True)
    eigenvalues = eigenvalues.gather(1, order)
    by_stability = eigenvalues.abs()[:, 0].argsort(stable=True)
    return FixedPoints(
        h[by_stability].numpy(),
        eigenvalues[by_stability].numpy(),
        residual[by_stability].numpy(),
        count,
        count - int(converged.sum()),
    )


def _minimise(
    recurrence: Recurrence,
    x: Tensor,  # (P, M)
    h: Tensor,  # (P, S)
    steps: int,
    tolerance: float,
) -> tuple[Tensor, Tensor]:  # (P, S), (P,)
    """Minimise q from every state; return the final states and their residuals."""
    I = torch.eye(h.shape[1], dtype=h.dtype)
    damping = h.new_ones(len(h))
    r = recurrence.step(x, h) - h
    for _ in range(steps):
        # beyond the tolerance: the last steps are cheap and separate nearby points
        active = (r.norm(dim=1) > 1e-3 * tolerance) & (damping < _MAX_DAMPING)
        if not bool(active.any()):
            break
        G = recurrence.jacobians(x[active], h[active])[0] - I
        normal = G.mT @ G + damping[active, None, None] * I
        step = torch.linalg.lstsq(normal, -(G.mT @ r[active, :, None])).solution.squeeze(2)
        proposal = h[active] + step
        proposal_residual = recurrence.step(x[active], proposal) - proposal
        better = proposal_residual.norm(dim=1) < r[active].norm(dim=1)
        h[active] = torch.where(better[:, None], proposal, h[active])
        r[active] = torch.where(better[:, None], proposal_residual, r[active])
        damping[active] *= torch.where(better, 0.1, 8.0)
        damping = damping.clamp(min=_MIN_DAMPING)
    return h, r.norm(dim=1)


def _distinct(
    h: Tensor,  # (P, S)
    residual: Tensor,  # (P,)
    min_distance: float,
) -> list[int]:
    """Return the indices of distinct points, the best first."""
    kept: list[int] = []
    for i in residual.argsort(stable=True).tolist():
        near = (h[kept] - h[i]).norm(dim=1) <= min_distance * (1 + h[i].norm())
        if not bool(near.any()):
            kept.append(i)
    return kept


def _initial_states(
    starts: int | Tensor | ArrayLike, size: int, generator: Generator | None
) -> Tensor:  # (P, S)
    """Return the initial states, or draw the requested number of them.

    Raises:
        ValueError: If the argument is neither states nor a number.
    """
    if isinstance(starts, bool):
        raise ValueError(f"expected starts to be a number or states, got {starts}")
    if not isinstance(starts, int | np.integer):
        return _finite_tensor(starts, "starts", (size,))
    h = torch.randn(max(int(starts), 0), size, generator=generator, dtype=torch.float64)
    h[:1] = 0
    return h


def _finite_tensor(values: Tensor | ArrayLike, name: str, shape: tuple[int, ...]) -> Tensor:
    """Return numbers in double precision.

    Raises:
        ValueError: If a number is not finite, or the last dimension is wrong.
    """
    tensor = as_real_tensor(values, name).clone()
    if tensor.shape[-1:] != shape:
        raise ValueError(f"expected {name} of size {shape[0]}, got shape {tuple(tensor.shape)}")
    if not bool(tensor.isfinite().all()):
        raise ValueError(f"expected finite numbers in {name}, got others")
    return tensor


def _kind(moduli: NDArray[np.float64]) -> str:
    if moduli.max() < 1 - _MODULUS_TOLERANCE:
        return "stable"
    if moduli.max() <= 1 + _MODULUS_TOLERANCE:
        return "marginal"
    return "unstable" if moduli.min() > 1 else "saddle"
