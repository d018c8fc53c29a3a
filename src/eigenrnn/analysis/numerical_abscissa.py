"""How fast a matrix can make a state grow at first, and the set of values that says so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.matrices import Matrix, NumberArray, given_matrix
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NumericalAbscissa", "numerical_abscissa"]

_PEAKS = 3


@dataclass(frozen=True)
class NumericalAbscissa(Analysis):
    r"""The numerical range of a matrix, and how far it reaches.

    Args:
        abscissa: How far to the right it reaches; :math:`d \|h\| / d t \le \omega \|h\|` where
            :math:`\dot h = W h`, with equality for some h.
        radius: How far from zero it reaches; :math:`\|W^k\|_2 \le 2 w^k`.
        angles: The directions in which points of the boundary were sought.
        boundary: A point of the boundary that lies farthest in each direction.
        eigenvalues: The eigenvalues of W, which lie inside.
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

    The abscissa is exact but for round-off; so are points of the boundary. The radius is refined
    between the angles from its highest peaks; that it is the highest is certain only to within a
    factor of :math:`\cos(\pi / \text{angles})`.

    Args:
        W: The recurrent matrix, or a layer with only one.
        angles: The number of directions, each of which costs an eigenvector: 1.7 s on one core for
            N = 1024. Those of a real matrix take half of them; the radius takes some tens more.
    Shape:
        W: :math:`(N, N)`.
    Raises:
        ValueError: If W is not square or not finite, or there are fewer than three angles.
    Source:
        Johnson, SIAM J. Numer. Anal. 15(3), 1978. https://doi.org/10.1137/0715039; Trefethen and
        Embree, Spectra and Pseudospectra, 2005, section 17 (departures: none).
    Example:
        >>> found = numerical_abscissa([[0.0, 2.0], [0.0, 0.0]])
        >>> round(found.abscissa, 6), round(found.radius, 6)
        (1.0, 1.0)
    """
    matrix = given_matrix(W)
    check_positive_integer("angles", angles)
    if angles < 3:
        raise ValueError(f"expected at least 3 angles, got {angles}")
    is_real = not np.iscomplexobj(matrix)
    turns = 2 * np.pi * np.arange(angles) / angles
    farthest = [
        _farthest(matrix, turn) for turn in (turns[: angles // 2 + 1] if is_real else turns)
    ]
    if is_real:  # the other half is its mirror image
        farthest += [
            (reach, point.conjugate())
            for reach, point in reversed(farthest[1 : (angles + 1) // 2])
        ]
    reaches = np.array([reach for reach, _ in farthest])
    return NumericalAbscissa(
        abscissa=float(reaches[0]),
        radius=_highest(lambda turn: _farthest(matrix, turn)[0], turns, reaches),
        angles=turns,
        boundary=np.array([point for _, point in farthest]),
        eigenvalues=np.linalg.eigvals(matrix).astype(np.complex128),
    )


def _farthest(W: NumberArray, turn: float) -> tuple[float, complex]:
    """Return how far the numerical range reaches in a direction, and a point that is there."""
    turned = W if turn == 0 else np.exp(-1j * turn) * W
    eigh: Any = scipy.linalg.eigh
    last = len(W) - 1
    values, vectors = eigh((turned + turned.conj().T) / 2, subset_by_index=[last, last])
    u = vectors[:, 0]
    return float(values[0]), complex(u.conj() @ W @ u)


def _highest(
    f: Callable[[float], float],
    turns: NDArray[np.float64],  # (angles,)
    values: NDArray[np.float64],  # (angles,)
) -> float:
    """Return the maximum over the circle, from values that are there."""
    peaks = np.flatnonzero((values >= np.roll(values, 1)) & (values >= np.roll(values, -1)))
    step, best = turns[1], float(values.max())

    def lower(turn: float) -> float:
        return -f(turn)

    minimise: Any = scipy.optimize.minimize_scalar
    for peak in peaks[np.argsort(-values[peaks])][:_PEAKS]:
        bounds = (turns[peak] - step, turns[peak] + step)
        found = minimise(lower, bounds=bounds, method="bounded", options={"xatol": 1e-8})
        best = max(best, -float(found.fun))
    return best
