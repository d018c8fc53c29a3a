"""The numerical range of a matrix, and its abscissa, the initial growth rate of states."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, NumberArray, as_matrix
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NumericalAbscissa", "numerical_abscissa"]

_MAX_PEAKS = 3


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
    *,
    angles: int = 180,
) -> NumericalAbscissa:
    r"""Compute the numerical abscissa, the numerical range and its radius.

    .. math:: \omega(W) = \lambda_{\max}\big(\tfrac{1}{2} (W + W^H)\big), \qquad
        F(W) = \{ u^H W u : \|u\|_2 = 1 \}, \qquad w(W) = \max_{z \in F(W)} |z|

    The abscissa and the boundary points are exact up to rounding. The radius is refined between
    the angles from its highest peaks; it is guaranteed only to within a factor of
    :math:`\cos(\pi / \text{angles})`.

    Args:
        W: The recurrent matrix, or a layer with only one.
        angles: The number of directions. Each costs one eigenvector, 1.7 s on one core for
            N = 1024; a real matrix needs half of them, and the radius some tens more.
    Shape:
        W: :math:`(N, N)`.
    Raises:
        ValueError: If W is not square or not finite, or there are fewer than three angles.
    Source:
        Johnson, SIAM J. Numer. Anal. 15(3), 1978. https://doi.org/10.1137/0715039; Trefethen and
        Embree, Spectra and Pseudospectra, 2005, section 17 (departures: none).
    Example:
        >>> result = numerical_abscissa([[0.0, 2.0], [0.0, 0.0]])
        >>> round(result.abscissa, 6), round(result.radius, 6)
        (1.0, 1.0)
    """
    matrix = as_matrix(W)
    check_positive_integer("angles", angles)
    if angles < 3:
        raise ValueError(f"expected at least 3 angles, got {angles}")
    is_real = not np.iscomplexobj(matrix)
    directions = 2 * np.pi * np.arange(angles) / angles
    farthest = [
        _farthest(matrix, direction)
        for direction in (directions[: angles // 2 + 1] if is_real else directions)
    ]
    if is_real:  # the other half is its mirror image
        farthest += [
            (extent, point.conjugate())
            for extent, point in reversed(farthest[1 : (angles + 1) // 2])
        ]
    extents = np.array([extent for extent, _ in farthest])
    return NumericalAbscissa(
        abscissa=float(extents[0]),
        radius=_refined_maximum(
            lambda direction: _farthest(matrix, direction)[0], directions, extents
        ),
        angles=directions,
        boundary=np.array([point for _, point in farthest]),
        eigenvalues=np.linalg.eigvals(matrix).astype(np.complex128),
    )


def _farthest(W: NumberArray, direction: float) -> tuple[float, complex]:
    """Return the extent of the numerical range in a direction, and its farthest point."""
    import scipy.linalg

    rotated = W if direction == 0 else np.exp(-1j * direction) * W
    eigh: Any = scipy.linalg.eigh
    last = len(W) - 1
    values, vectors = eigh((rotated + rotated.conj().T) / 2, subset_by_index=[last, last])
    u = vectors[:, 0]
    return float(values[0]), complex(u.conj() @ W @ u)


def _refined_maximum(
    f: Callable[[float], float],
    directions: NDArray[np.float64],  # (angles,)
    values: NDArray[np.float64],  # (angles,)
) -> float:
    """Return the maximum over the circle, starting from values at given angles."""
    import scipy.optimize

    peaks = np.flatnonzero((values >= np.roll(values, 1)) & (values >= np.roll(values, -1)))
    step, best = directions[1], float(values.max())

    def negative(direction: float) -> float:
        return -f(direction)

    minimise: Any = scipy.optimize.minimize_scalar
    for peak in peaks[np.argsort(-values[peaks])][:_MAX_PEAKS]:
        bounds = (directions[peak] - step, directions[peak] + step)
        minimum = minimise(negative, bounds=bounds, method="bounded", options={"xatol": 1e-8})
        best = max(best, -float(minimum.fun))
    return best
