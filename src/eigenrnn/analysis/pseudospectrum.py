"""Pseudospectra: where the eigenvalues of a matrix move under small perturbations."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, as_matrix
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.resolvent import smallest_singular_values, triangular
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Extent", "Pseudospectrum", "pseudospectrum"]

Extent = tuple[float, float, float, float]
"""Left, right, bottom and top of a rectangle in the complex plane."""

_MARGIN = 1.25
_LOWEST_LEVEL = -8


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

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        power = np.log10(self.sigma_min)
        # round levels, at most a dozen of them
        low = max(float(np.floor(power.min())), _LOWEST_LEVEL)
        levels = np.arange(low, power.max(), 1.0 if low < -3 else 0.5)
        if len(levels) > 1:
            name = r"$\log_{10}\,\sigma_{\min}(zI - W)$"
            plot.contours(axes, self.x, self.y, power, name, levels)
        plot.plane(axes, {"eigenvalues": self.eigenvalues})
        axes.set_xlim(self.x[0], self.x[-1])
        axes.set_ylim(self.y[0], self.y[-1])
        plot.label(axes, "real part", "imaginary part", "pseudospectra and eigenvalues (dots)")
        return figure

    def table(self) -> Table:
        x, y = np.meshgrid(self.x, self.y)
        return {"x": x.ravel(), "y": y.ravel(), "sigma_min": self.sigma_min.ravel()}

    def headline(self) -> dict[str, float]:
        """Return the spectral radius, and its largest value under a perturbation of norm 0.01.

        The second number is limited to the points of the grid.
        """
        z = self.x + 1j * self.y[:, None]
        reachable = np.abs(z[self.sigma_min <= 0.01])
        radius = float(np.abs(self.eigenvalues).max())
        return {
            "spectral radius": radius,
            "pseudospectral radius at 0.01": max(radius, float(reachable.max(initial=0.0))),
        }


def pseudospectrum(
    W: Matrix,  # (N, N)
    *,
    extent: Extent | None = None,
    resolution: int = 60,
) -> Pseudospectrum:
    r"""Compute the pseudospectra of a matrix, the eigenvalues of its perturbations.

    .. math:: \Lambda_\epsilon(W) = \{ z : \sigma_{\min}(z I - W) \le \epsilon \}
        = \{ z : z \text{ is an eigenvalue of } W + E, \ \|E\|_2 \le \epsilon \}

    One Schur form reduces the problem to a Lanczos iteration by triangular solves, which runs at
    all points together. For a real matrix and a symmetric extent, only the points on one side of
    the real axis are computed. Relative errors are at most 5e-5, and mostly below 1e-7.

    Args:
        W: The recurrent matrix, or a layer with only one.
        extent: Left, right, bottom and top of the grid; None means a square around all
            eigenvalues and the unit circle.
        resolution: The number of points along each side.
    Shape:
        W: :math:`(N, N)`; memory grows with :math:`N^2` and with the number of points.
    Returns:
        The smallest singular values. Those below the rounding error,
        :math:`10^{-16} \|z I - W\|_2`, are replaced by it.
    Raises:
        ValueError: If W is not square or not finite, the extent is empty, or the resolution is
            below 2.
    Source:
        Trefethen, Computation of pseudospectra, Acta Numerica 8, 1999, sections 2 and 8.
        https://doi.org/10.1017/S0962492900002932 (departures: all points iterate together).
    Example:
        >>> result = pseudospectrum(np.diag([0.5, -0.5]), extent=(0, 1, -1, 1), resolution=3)
        >>> result.sigma_min.round(3)
        array([[1.118, 1.   , 1.118],
               [0.5  , 0.   , 0.5  ],
               [1.118, 1.   , 1.118]])
    """
    matrix = as_matrix(W)
    check_positive_integer("resolution", resolution)
    if resolution < 2:
        raise ValueError(f"expected resolution >= 2, got {resolution}")
    if extent is not None:
        _check_extent(extent)
    T = triangular(matrix)
    eigenvalues = T.diagonal()
    reach = _MARGIN * max(1.0, float(np.abs(eigenvalues).max()))
    left, right, bottom, top = extent or (-reach, reach, -reach, reach)
    x, y = np.linspace(left, right, resolution), np.linspace(bottom, top, resolution)
    mirrored = not np.iscomplexobj(matrix) and bottom == -top
    rows = y[: (resolution + 1) // 2] if mirrored else y
    z = (x + 1j * rows[:, None]).ravel()
    sigma_min = smallest_singular_values(T, z).reshape(len(rows), resolution)
    if mirrored:
        sigma_min = np.concatenate([sigma_min, sigma_min[: resolution // 2][::-1]])
    return Pseudospectrum(x, y, sigma_min, eigenvalues)


def _check_extent(extent: Extent) -> None:
    """Check that an extent is a rectangle.

    Raises:
        ValueError: If it is not.
    """
    try:
        left, right, bottom, top = map(float, extent)
    except (TypeError, ValueError):
        left, right, bottom, top = np.nan, np.nan, np.nan, np.nan
    if not (np.isfinite([left, right, bottom, top]).all() and left < right and bottom < top):
        raise ValueError(f"expected an extent (left < right, bottom < top), got {extent}")
