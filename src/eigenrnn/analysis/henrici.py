"""The departure of a matrix from normality."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, as_matrix, power_of_two
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.schur_structure import schur_form

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Henrici", "henrici"]


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
    absolute, scale = form.departure(), power_of_two(matrix)
    size = float(np.linalg.norm(matrix / scale))
    return Henrici(
        absolute=absolute,
        relative=absolute / scale / size if size else 0.0,
        singular_values=np.linalg.svd(matrix, compute_uv=False).astype(np.float64),
        moduli=np.sort(np.abs(form.eigenvalues()))[::-1],
    )
