"""Departure of a matrix from normality: Henrici's index, numerical range, and transient growth."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, NumberArray, as_matrix
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.spectrum import schur_form
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Henrici",
    "NumericalAbscissa",
    "TransientGrowth",
    "henrici",
    "numerical_abscissa",
    "transient_growth",
]

_ANGLES = 180  # directions of the boundary points

_PEAK_ROUNDING = 1e-10  # closer norms of powers count as equal


@dataclass(frozen=True)
class Henrici(Analysis):
    """The departure of a matrix from normality.

    Args:
        absolute: The departure; zero exactly for normal matrices.
        relative: The departure over the Frobenius norm; from 0 to 1, and 1 if W is nilpotent.
        singular_values: Largest first.
        moduli: The moduli of the eigenvalues, largest first; a normal matrix has the same ones.
    Shape:
        singular_values, moduli: (N,)
    """

    absolute: float
    relative: float
    singular_values: NDArray[np.float64]
    moduli: NDArray[np.float64]

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        series = {"singular values": self.singular_values, "|eigenvalues|": self.moduli}
        plot.lines(axes, np.arange(1, len(self.moduli) + 1), series, marker=".")
        title = f"departure from normality {self.absolute:.3g} ({self.relative:.1%} of the norm)"
        plot.label(axes, "rank", "size", title)
        return figure

    def table(self) -> Table:
        return {
            "rank": np.arange(1, len(self.moduli) + 1),
            "singular_value": self.singular_values,
            "eigenvalue_modulus": self.moduli,
        }

    def headline(self) -> dict[str, float]:
        return {"departure from normality": self.absolute, "relative departure": self.relative}


def henrici(
    W: Matrix,  # (N, N)
) -> Henrici:
    r"""Measure the departure from normality by Henrici's index.

    .. math:: d(W) = \sqrt{\lVert W \rVert_F^2 - \sum_i |\lambda_i|^2}
        = \lVert \Theta - \operatorname{diag} \Theta \rVert_F, \qquad W = P \Theta P^*

    The computation uses the second form, the off-diagonal part of a triangular :math:`\Theta`.
    Without cancellation, the result for a normal matrix is a rounding error, not the root of one.

    Args:
        W: The matrix, real or complex, or a layer with one.
    Shape:
        W: :math:`(N, N)`.
    Raises:
        ValueError: If it is not square or not finite, or the layer has several or none.
    Source:
        Henrici, Numerische Mathematik 4, 1962. https://doi.org/10.1007/BF01386294; relative as in
        Trefethen and Embree, Spectra and Pseudospectra, 2005 (departures: none).
    Example:
        >>> result = henrici([[0.0, 3.0], [0.0, 4.0]])
        >>> result.absolute, result.relative
        (3.0, 0.6)
    """
    matrix = as_matrix(W)
    form = schur_form(matrix)
    absolute = form.departure()
    size = float(np.linalg.norm(matrix))
    relative = 0.0
    if size:
        relative = absolute / size
    return Henrici(
        absolute=absolute,
        relative=relative,
        singular_values=np.linalg.svd(matrix, compute_uv=False).astype(np.float64),
        moduli=np.sort(np.abs(form.eigenvalues()))[::-1],
    )


@dataclass(frozen=True)
class NumericalAbscissa(Analysis):
    r"""The numerical range of a matrix, with its abscissa and radius.

    Args:
        abscissa: The largest real part; :math:`d \|h\| / d t \le \omega \|h\|` where
            :math:`\dot h = W h`, with equality for some h.
        radius: The largest modulus; :math:`\|W^k\|_2 \le 2 w^k`.
        angles: The directions of the boundary points.
        boundary: The farthest point of the range in each direction.
        eigenvalues: The eigenvalues of W, which lie inside the range.
    Shape:
        angles, boundary: (angles,); eigenvalues: (N,).
    Units:
        angles: Radians.
    """

    abscissa: float
    radius: float
    angles: NDArray[np.float64]
    boundary: NDArray[np.complex128]
    eigenvalues: NDArray[np.complex128]

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        plot.plane(
            axes,
            {"eigenvalues": self.eigenvalues},
            joined={"numerical range": self.boundary},
        )
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom, top + 0.25 * (top - bottom))  # room for the legend
        title = f"numerical abscissa {self.abscissa:.4g}, radius {self.radius:.4g}"
        plot.label(axes, "real part", "imaginary part", title)
        return figure

    def table(self) -> Table:
        return {"angle": self.angles, "x": self.boundary.real, "y": self.boundary.imag}

    def headline(self) -> dict[str, float]:
        return {"numerical abscissa": self.abscissa, "numerical radius": self.radius}


def numerical_abscissa(
    W: Matrix,  # (N, N)
) -> NumericalAbscissa:
    r"""Compute the numerical abscissa, the numerical range and its radius.

    .. math:: \omega(W) = \lambda_{\max}\big(\tfrac{1}{2} (W + W^H)\big), \qquad
        F(W) = \{ u^H W u : \|u\|_2 = 1 \}, \qquad w(W) = \max_{z \in F(W)} |z|

    The abscissa and the boundary points, in 180 directions, are exact up to rounding. The radius
    is that of the farthest of these points, which is exact for a normal matrix, and at least
    :math:`\cos(\pi / 180)` of the radius of any other.

    Args:
        W: The recurrent matrix, or a layer with only one.
    Shape:
        W: :math:`(N, N)`.
    Raises:
        ValueError: If W is not square or not finite.
    Source:
        Johnson, SIAM J. Numer. Anal. 15(3), 1978. https://doi.org/10.1137/0715039; Trefethen and
        Embree, Spectra and Pseudospectra, 2005, section 17 (departures: none).
    Example:
        >>> result = numerical_abscissa([[0.0, 2.0], [0.0, 0.0]])
        >>> round(result.abscissa, 6), round(result.radius, 6)
        (1.0, 1.0)
    """
    matrix = as_matrix(W)
    is_real = not np.iscomplexobj(matrix)
    directions = 2 * np.pi * np.arange(_ANGLES) / _ANGLES
    # the range of a real matrix is symmetric about the real axis: its upper half suffices
    computed = directions[: _ANGLES // 2 + 1] if is_real else directions
    found = [_farthest(matrix, direction) for direction in computed]
    points = [point for _, point in found]
    if is_real:
        # direction k is mirrored at 180 - k; 0 and pi are their own images
        points += [point.conjugate() for point in reversed(points[1:-1])]
    boundary = np.array(points)
    return NumericalAbscissa(
        abscissa=found[0][0],
        radius=float(np.abs(boundary).max()),
        angles=directions,
        boundary=boundary,
        eigenvalues=np.linalg.eigvals(matrix).astype(np.complex128),
    )


def _farthest(W: NumberArray, direction: float) -> tuple[float, complex]:
    """Return the extent of the numerical range in a direction, and its farthest point."""
    import scipy.linalg

    # The extent towards theta is the largest eigenvalue of the Hermitian part of exp(-i theta) W.
    # Without rotation a real matrix stays real, which is cheaper.
    rotated = W if direction == 0 else np.exp(-1j * direction) * W
    eigh: Any = scipy.linalg.eigh
    last = len(W) - 1
    hermitian = (rotated + rotated.conj().T) / 2
    values, vectors = eigh(hermitian, subset_by_index=[last, last])
    if not len(values):  # LAPACK may find none if many are almost equal
        values, vectors = eigh(hermitian, driver="evd")
    u = vectors[:, -1]
    return float(values[-1]), complex(u.conj() @ W @ u)


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
        return int((self.norms >= self.peak * (1 - _PEAK_ROUNDING)).argmax())

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

    Ensemble norms below 1e-150 are set to zero.

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
    Source:
        Kerg et al., NeurIPS 2019, section 3.1 and figure 1b. https://arxiv.org/abs/1905.12080;
        Trefethen and Embree, Spectra and Pseudospectra, 2005, chapter 14 (departures: none).
    Example:
        >>> result = transient_growth([[0.5, 3.0], [0.0, 0.5]], 10)
        >>> round(result.peak, 4), result.peak_at
        (3.0811, 1)
    """
    matrix = as_matrix(W)
    check_positive_integer("steps", steps)
    if ensemble:
        check_positive_integer("ensemble", ensemble)
    rng = np.random.default_rng(0) if generator is None else generator
    states = rng.standard_normal((len(matrix), ensemble))
    states = states / np.linalg.norm(states, axis=0)
    power: Any = np.eye(len(matrix), dtype=matrix.dtype)
    moments = [_ensemble_moments(states)]
    norms = [1.0]  # of W^0, the identity
    for k in range(1, steps + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # checked next
            power = matrix @ power
            states = matrix @ states
        if not np.abs(power).max() < 1e150:  # room for squares
            raise ValueError(
                "expected powers of W within double precision, got entries above 1e150 at step "
                f"{k}; use fewer steps, or scale W down"
            )
        norms.append(float(np.linalg.norm(power, 2)))
        moments.append(_ensemble_moments(states))
    columns = np.array(moments).T if ensemble else np.empty((4, 0))
    return TransientGrowth(
        norms=np.array(norms),
        state_norm_mean=columns[0],
        state_norm_std=columns[1],
        spread_mean=columns[2],
        spread_std=columns[3],
    )


def _ensemble_moments(states: NumberArray) -> tuple[float, float, float, float]:
    """Return mean and standard deviation of the norms and of the spreads across units."""
    if not states.size:
        return 0.0, 0.0, 0.0, 0.0
    norms = np.linalg.norm(states, axis=0)
    spreads = states.std(axis=0)
    return float(norms.mean()), float(norms.std()), float(spreads.mean()), float(spreads.std())
