"""Departure of a matrix from normality: Henrici's index, pseudospectra, and transient growth."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, NumberArray, as_matrix, as_step_matrix
from eigenrnn.analysis.base import Analysis, Figure, Table
from eigenrnn.analysis.spectrum import schur_form
from eigenrnn.errors import check_positive_integer

__all__ = [
    "Henrici",
    "Pseudospectrum",
    "TransientGrowth",
    "henrici",
    "pseudospectrum",
    "transient_growth",
]


_EPSILON = float(np.finfo(np.float64).eps)
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

    def plot(self) -> Figure:
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
class Pseudospectrum(Analysis):
    r"""The distance of zI - W from singularity, over a rectangle in the plane.

    Args:
        x: The real parts of the grid points z.
        y: The imaginary parts of the grid points z.
        sigma_min: The smallest singular value of :math:`z I - W`.
        eigenvalues: The eigenvalues of W.
    Shape:
        x: (columns,); y: (rows,); sigma_min: (rows, columns); eigenvalues: (N,).
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    sigma_min: NDArray[np.float64]
    eigenvalues: NDArray[np.complex128]

    def plot(self) -> Figure:
        figure, (axes,) = plot.canvas()
        power = np.log10(np.maximum(self.sigma_min, 1e-300))  # zero at z = 0 of a zero matrix
        low = max(np.ceil(power.min()), -8.0)
        step = 0.5 if low >= -3 else 1.0
        levels = np.arange(low, power.max(), step)
        if len(levels) > 1:
            name = r"$\log_{10}\,\sigma_{\min}(zI - W)$"
            contour: Any = axes.contour
            drawn = contour(self.x, self.y, power, levels=levels, linewidths=1)
            figure.colorbar(drawn, ax=axes, shrink=0.85).set_label(name)
        plot.plane(axes, {"eigenvalues": self.eigenvalues})
        axes.set_xlim(self.x[0], self.x[-1])
        axes.set_ylim(self.y[0], self.y[-1])
        plot.label(axes, "real part", "imaginary part", "pseudospectra and eigenvalues (dots)")
        return figure

    def table(self) -> Table:
        x, y = np.meshgrid(self.x, self.y)
        return {"x": x.ravel(), "y": y.ravel(), "sigma_min": self.sigma_min.ravel()}

    def headline(self) -> dict[str, float]:
        return {"spectral radius": float(np.abs(self.eigenvalues).max())}


def pseudospectrum(
    W: Matrix,  # (N, N)
    *,
    resolution: int | None = None,
) -> Pseudospectrum:
    r"""Compute the pseudospectra of a matrix, the eigenvalues of its perturbations.

    .. math:: \Lambda_\epsilon(W) = \{ z : \sigma_{\min}(z I - W) \le \epsilon \}
        = \{ z : z \text{ is an eigenvalue of } W + E, \ \|E\|_2 \le \epsilon \}

    For a normal matrix, :math:`\sigma_{\min}` is the distance to the nearest eigenvalue.

    Args:
        W: The recurrent matrix, or a layer with only one.
        resolution: The number of points along each side of the grid, a square around all
            eigenvalues and the unit circle; None means 60 for up to 64 units, fewer for more, and
            at least 20. Each point costs a singular value decomposition.
    Shape:
        W: :math:`(N, N)`.
    Returns:
        The smallest singular values. Those below the rounding error,
        :math:`10^{-16} \|z I - W\|_2`, are replaced by it.
    Raises:
        ValueError: If W is not square or not finite, or the resolution is below 2.
    Source:
        Trefethen, Computation of pseudospectra, Acta Numerica 8, 1999.
        https://doi.org/10.1017/S0962492900002932 (departures: none).
    Example:
        >>> pseudospectrum(np.diag([0.5, -0.5]), resolution=3).sigma_min.round(3)
        array([[1.458, 1.346, 1.458],
               [0.75 , 0.5  , 0.75 ],
               [1.458, 1.346, 1.458]])
    """
    matrix = as_matrix(W)
    if resolution is None:
        resolution = int(np.clip(3840 // len(matrix), 20, 60))
    check_positive_integer("resolution", resolution)
    if resolution < 2:
        raise ValueError(f"expected resolution >= 2, got {resolution}")
    eigenvalues = np.linalg.eigvals(matrix).astype(np.complex128)
    reach = 1.25 * max(1.0, float(np.abs(eigenvalues).max()))
    x = np.linspace(-reach, reach, resolution)
    # sigma_min of a real matrix is the same at z and at its conjugate
    mirrored = not np.iscomplexobj(matrix)
    rows = x[: (resolution + 1) // 2] if mirrored else x
    smallest: list[float] = []
    for z in (x + 1j * rows[:, None]).flat:
        sigma = np.linalg.svd(z * np.eye(len(matrix)) - matrix, compute_uv=False)
        smallest.append(max(sigma[-1], _EPSILON * sigma[0]))
    sigma_min = np.reshape(smallest, (len(rows), resolution))
    if mirrored:  # the middle row of an odd number is its own image
        sigma_min = np.concatenate([sigma_min, sigma_min[: resolution // 2][::-1]])
    return Pseudospectrum(x, x, sigma_min, eigenvalues)


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

    def plot(self) -> Figure:
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

    Args:
        W: The recurrent matrix, real or complex, or a layer with one. Of a layer with a leak
            :math:`\alpha` it is :math:`I - \operatorname{diag} \alpha +
            \operatorname{diag}(\alpha) W`.
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
    matrix = as_step_matrix(W)
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
