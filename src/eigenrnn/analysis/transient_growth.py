"""Transient growth: how far states grow before they decay."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, NumberArray, as_matrix, check_numpy_generator
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import check_finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TransientGrowth", "transient_growth"]

_MAX_DENSE = 160  # rows up to which all singular values cost less than a few products
_TOLERANCE = 1e-12
_ROUNDING = 1e-10


@dataclass(frozen=True)
class TransientGrowth(Analysis):
    r"""Norms of the powers of a matrix, and of an ensemble of states that it maps.

    Args:
        norms: :math:`\|W^k\|_2` for k = 0, 1, ..., steps: the largest growth of any state.
        state_norm_mean: The mean norm of the ensemble at every step.
        state_norm_std: The standard deviation of this norm over the ensemble.
        spread_mean: The mean over the ensemble of the standard deviation across units.
        spread_std: The standard deviation of the same quantity over the ensemble.
    Shape:
        norms and all others: (steps + 1,); without an ensemble all others are empty.
    """

    norms: NDArray[np.float64]
    state_norm_mean: NDArray[np.float64]
    state_norm_std: NDArray[np.float64]
    spread_mean: NDArray[np.float64]
    spread_std: NDArray[np.float64]

    @property
    def peak(self) -> float:
        """The largest norm."""
        return float(self.norms.max())

    @property
    def peak_at(self) -> int:
        """The first step with the largest norm, up to rounding."""
        return int((self.norms >= self.peak * (1 - _ROUNDING)).argmax())

    def plot(self) -> "Figure":
        columns = self.table()
        figure, axes = plot.canvas(columns=2 if "spread_mean" in columns else 1)
        series = {"largest over all states": self.norms}
        if "spread_mean" in columns:
            series["mean of the ensemble"] = self.state_norm_mean
            bands = {"mean and std": self.spread_std}
            plot.lines(axes[1], columns["step"], {"mean and std": self.spread_mean}, bands=bands)
            title = "mean and standard deviation of the ensemble"
            plot.label(axes[1], "step k", "standard deviation across units", title)
        plot.lines(axes[0], columns["step"], series, log=True)
        title = f"peak {self.peak:.4g} at step {self.peak_at}"
        plot.label(axes[0], "step k", "norm of a state of initial norm 1", title)
        return figure

    def table(self) -> Table:
        columns: Table = {"step": np.arange(len(self.norms)), "norm": self.norms}
        if len(self.spread_mean):
            columns |= {
                "state_norm_mean": self.state_norm_mean,
                "state_norm_std": self.state_norm_std,
                "spread_mean": self.spread_mean,
                "spread_std": self.spread_std,
            }
        return columns

    def headline(self) -> dict[str, float]:
        return {"largest norm of a power": self.peak, "step of the largest norm": self.peak_at}


def transient_growth(
    W: Matrix,  # (N, N)
    steps: int,
    *,
    ensemble: int = 0,
    generator: np.random.Generator | None = None,
) -> TransientGrowth:
    r"""Compute the largest growth of any state of a linear network, and the growth of random ones.

    .. math:: \|W^k\|_2 = \max_{\|h_0\| = 1} \|h_k\|, \qquad h_k = W h_{k-1}

    Powers are formed one after the other. Their norms come from singular values up to 160 units
    and from Lanczos' method above, to at least ten digits. Ensemble norms below 1e-150 are zero.

    Args:
        W: The recurrent matrix, real or complex, or a layer with one.
        steps: The last power.
        ensemble: The number of initial states, uniform on the unit sphere; none by default.
        generator: NumPy's generator of initial states. None draws the same ones every time.
    Shape:
        W: :math:`(N, N)`; norms: (steps + 1,).
    Raises:
        ValueError: If W is not square or not finite, the layer has several or none, a number is
            out of range, or a power leaves double precision.
        TypeError: If the generator is not NumPy's.
    Source:
        Kerg et al., NeurIPS 2019, section 3.1 and figure 1b. https://arxiv.org/abs/1905.12080;
        Trefethen and Embree, Spectra and Pseudospectra, 2005, chapter 14 (departures: none).
    Example:
        >>> result = transient_growth([[0.5, 3.0], [0.0, 0.5]], 10)
        >>> round(result.peak, 4), result.peak_at
        (3.0811, 1)
    """
    matrix = as_matrix(W)
    check_numpy_generator(generator, optional=True)
    check_positive_integer("steps", steps)
    if ensemble:
        check_positive_integer("ensemble", ensemble)
    rng = np.random.default_rng(0) if generator is None else generator
    states = _unit_vectors(len(matrix), ensemble, rng)
    power: Any = np.eye(len(matrix), dtype=matrix.dtype)
    rows = [_ensemble_moments(states)]
    norms = [1.0]
    for k in range(1, steps + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            power, states = matrix @ power, matrix @ states
        _check_range(power, k)
        norms.append(_norm(power))
        rows.append(_ensemble_moments(states))
    return TransientGrowth(np.array(norms), *(np.array(rows).T if ensemble else np.empty((4, 0))))


def _unit_vectors(N: int, number: int, generator: np.random.Generator) -> NumberArray:
    """Draw unit vectors, one per column."""
    normal = generator.standard_normal((N, number))
    return normal / np.linalg.norm(normal, axis=0)


def _ensemble_moments(states: NumberArray) -> tuple[float, float, float, float]:
    """Return mean and standard deviation of the norms and of the spreads across units."""
    if not states.size:
        return 0.0, 0.0, 0.0, 0.0
    norms, spreads = np.linalg.norm(states, axis=0), states.std(axis=0)
    return float(norms.mean()), float(norms.std()), float(spreads.mean()), float(spreads.std())


def _norm(W: NumberArray) -> float:
    """Return the 2-norm."""
    import scipy.linalg
    import scipy.sparse.linalg

    check_finite(W)
    scale = float(np.abs(W).max())
    if scale == 0 or len(W) <= _MAX_DENSE:
        return float(scipy.linalg.svdvals(W, check_finite=False)[0])
    scaled = W / scale  # squares neither overflow nor underflow

    def gram(x: NumberArray) -> NumberArray:
        return scaled.conj().T @ (scaled @ x)

    operator: Any = scipy.sparse.linalg.LinearOperator
    eigsh: Any = scipy.sparse.linalg.eigsh
    start = np.random.default_rng(0).standard_normal(len(W)).astype(W.dtype)
    A = operator(W.shape, gram, dtype=W.dtype)
    largest = eigsh(A, 1, v0=start, tol=_TOLERANCE, return_eigenvectors=False)
    return scale * float(np.sqrt(largest[0]))


def _check_range(power: NumberArray, k: int) -> None:
    """Check that a power stays within range.

    Raises:
        ValueError: If an entry is too large.
    """
    if not np.abs(power).max() < 1e150:  # room for squares
        raise ValueError(
            f"expected powers of W within double precision, got entries above 1e150 at step {k}; "
            "give fewer steps, or scale W down"
        )
