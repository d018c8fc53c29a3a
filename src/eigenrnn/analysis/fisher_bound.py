"""What a strictly triangular network remembers at least."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.fisher_memory import fisher_memory
from eigenrnn.analysis.matrices import Matrix, NumberArray, given_matrix
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FisherBound", "fisher_bound"]

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class FisherBound(Analysis):
    r"""A bound of the Fisher memory curve from below, beside the curve.

    Args:
        log_bound: The natural logarithm of the bound; minus infinity for k >= N.
        curve: J(k), for a source at the first unit.
        alpha: The square of the entries below the diagonal.
        sigma_max: The largest singular value of the triangular factor.
    Shape:
        log_bound, curve: (steps,)
    """

    log_bound: NDArray[np.float64]
    curve: NDArray[np.float64]
    alpha: float
    sigma_max: float

    @property
    def bound(self) -> NDArray[np.float64]:  # (steps,)
        """The bound; zero where it is below the least number of double precision."""
        return np.exp(self.log_bound)

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        series = {"memory J": self.curve, "bound": self.bound}
        plot.lines(axes, np.arange(len(self.curve)), series, log=True)
        title = f"largest singular value {self.sigma_max:.4g}"
        plot.label(axes, "age k of the input (steps)", "Fisher information J(k)", title)
        return figure

    def table(self) -> Table:
        return {
            "age": np.arange(len(self.curve)),
            "fisher_memory": self.curve,
            "bound": self.bound,
            "log_bound": self.log_bound,
        }

    def headline(self) -> dict[str, float]:
        return {
            "total Fisher memory": float(self.curve.sum()),
            "total bound": float(self.bound.sum()),
            "largest singular value": self.sigma_max,
        }


def fisher_bound(
    W: Matrix,  # (N, N)
    steps: int,
) -> FisherBound:
    r"""Bound the Fisher memory of a network like a chain from below.

    .. math:: J(k) \ge \frac{\alpha^k}{\sigma_{\max}^{2 (N - 1)}}
        \frac{\alpha - 1}{\alpha^{k + 1} - 1}, \qquad k < N, \qquad W = D A

    D is the chain, with :math:`\sqrt \alpha` below the diagonal. A is lower triangular with ones
    on the diagonal; :math:`\sigma_{\max}` is its largest singular value. Its last row, which D
    drops, is taken as zero but for the one: this makes the bound the best. The input enters at the
    first unit. A bound far below the curve is of no use, though true: the power is large.

    Args:
        W: The recurrent matrix, real and strictly lower triangular, with the same number below the
            diagonal all along, or a layer with one.
        steps: The number of points of the curve.
    Shape:
        W: :math:`(N, N)` with N >= 2; log_bound, curve: (steps,).
    Raises:
        ValueError: If W is not such a matrix, `steps` is not a positive integer, or powers of W
            leave double precision.
    Source:
        Kerg et al., NeurIPS 2019, proposition 1 and appendix B. https://arxiv.org/abs/1905.12080
        (departures: none. The bound at alpha = 1 is the limit; the appendix writes the square of
        alpha, as for a chain of alpha).
    Example:
        >>> fisher_bound(np.diag(np.ones(3), -1), 3).bound.round(6).tolist()
        [1.0, 0.5, 0.333333]
    """
    matrix = given_matrix(W)
    link = _link(matrix)
    check_positive_integer("steps", steps)
    N = len(matrix)
    A = np.eye(N)
    A[:-1] = matrix[1:].real / link
    sigma = float(np.linalg.svd(A, compute_uv=False)[0])
    k = np.arange(min(steps, N))
    log_bound = np.full(steps, -np.inf)
    log_bound[: len(k)] = _log_chain(2 * np.log(abs(link)), k) - 2 * (N - 1) * np.log(sigma)
    curve = fisher_memory(matrix, np.eye(N)[0], steps).curve
    return FisherBound(log_bound, curve, float(link**2), sigma)


def _log_chain(log_alpha: float, k: NDArray[np.int_]) -> NDArray[np.float64]:
    """Return the logarithm of what a chain remembers."""
    if log_alpha == 0:
        return -np.log(k + 1.0)
    # alpha and 1 / alpha differ by the power k alone, and those of the smaller do not overflow
    decay = -abs(log_alpha)
    shared = np.log(np.expm1(decay) / np.expm1(decay * (k + 1)))
    return shared if log_alpha > 0 else shared + k * log_alpha


def _link(W: NumberArray) -> float:
    """Return what is below the diagonal.

    Raises:
        ValueError: If W is not real, strictly lower triangular and the same all along there.
    """
    below, N = W.diagonal(-1), len(W)
    outside = np.abs(np.triu(W)).max()
    if N < 2 or np.iscomplexobj(W) or outside:
        raise ValueError(
            "expected a real, strictly lower triangular W of at least 2 rows, got "
            f"{'complex' if np.iscomplexobj(W) else 'real'} numbers, {N} rows and "
            f"up to {outside:.3g} on or above the diagonal"
        )
    if not below[0] or np.ptp(below) > 10 * N * _EPSILON * abs(below[0]):
        raise ValueError(
            "expected the same number other than 0 all along below the diagonal of W, got "
            f"{below.min():.6g} to {below.max():.6g}; rescale units until it is"
        )
    return float(below[0])
