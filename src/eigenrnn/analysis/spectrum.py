"""The eigenvalues of a recurrent matrix."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, as_matrix, power_of_two
from eigenrnn.analysis.base import Analysis, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Spectrum", "spectrum"]


@dataclass(frozen=True)
class Spectrum(Analysis):
    r"""The eigenvalues of a matrix, and its distance from orthogonality or unitarity.

    Args:
        eigenvalues: Largest first.
        orthogonality_error: :math:`\|W^* W - I\|_F`.
    Shape:
        eigenvalues: :math:`(N,)`.
    """

    eigenvalues: NDArray[np.complex128]
    orthogonality_error: float

    @property
    def radius(self) -> float:
        """The largest modulus."""
        return float(np.abs(self.eigenvalues[0]))

    def plot(self) -> "Figure":
        figure, (plane, distribution) = plot.canvas(2)
        plot.plane(plane, {"eigenvalues": self.eigenvalues})
        moduli = np.abs(self.eigenvalues)
        margin = max(0.05 * np.ptp(moduli), 0.05)  # an orthogonal matrix has only moduli of one
        bins = np.linspace(moduli.min() - margin, moduli.max() + margin, 32)
        plot.histogram(distribution, moduli, bins)
        plot.label(distribution, "modulus", "number of eigenvalues")
        return figure

    def table(self) -> Table:
        z = self.eigenvalues
        return {"real": z.real, "imaginary": z.imag, "modulus": np.abs(z), "angle": np.angle(z)}

    def headline(self) -> dict[str, float]:
        smallest = float(np.abs(self.eigenvalues[-1]))
        return {
            "spectral radius": self.radius,
            "smallest modulus": smallest,
            "orthogonality error": self.orthogonality_error,
        }


def spectrum(
    W: Matrix,  # (N, N)
) -> Spectrum:
    r"""Compute the eigenvalues, whose moduli are the growth rates of a linear network's modes.

    .. math:: W u_i = \lambda_i u_i, \qquad h_t = W h_{t-1}

    For a matrix far from normal, they say little about growth over the first steps: see `henrici`,
    `kreiss` and `pseudospectrum`.

    Args:
        W: The recurrent matrix, real or complex, or a layer with one.
    Shape:
        W: :math:`(N, N)`.
    Units:
        Angles in radians.
    Raises:
        ValueError: If it is not square or not finite, or the layer has several or none.
    Source:
        Trefethen and Embree, Spectra and Pseudospectra, 2005, section 1 (departures: none).
    Example:
        >>> result = spectrum([[0.0, -2.0], [2.0, 0.0]])
        >>> round(result.radius, 6), round(result.orthogonality_error, 6)
        (2.0, 4.242641)
    """
    matrix = as_matrix(W)
    eigenvalues = np.linalg.eigvals(matrix).astype(np.complex128)
    order = np.argsort(-np.abs(eigenvalues), kind="stable")
    size = max(power_of_two(matrix), 1.0)  # keeps squares in range
    gram = (matrix / size).conj().T @ (matrix / size) - np.eye(len(matrix)) / size / size
    return Spectrum(eigenvalues[order], float(np.linalg.norm(gram)) * size * size)
