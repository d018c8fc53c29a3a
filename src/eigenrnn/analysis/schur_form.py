"""Lower Schur forms, which turn a matrix into blocks on a diagonal and what is below them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from eigenrnn.analysis.matrices import NumberArray

__all__ = ["SchurForm", "schur_form"]


@dataclass(frozen=True)
class SchurForm:
    r"""The factors of :math:`W = P \Theta P^*`.

    Args:
        P: Orthogonal, or unitary.
        Theta: Lower triangular; if real, but for blocks of two rows on its diagonal.
    Shape:
        P, Theta: (N, N)
    """

    P: NumberArray
    Theta: NumberArray

    @property
    def pairs(self) -> NDArray[np.intp]:
        """The first row of each block of two."""
        return np.flatnonzero(self.Theta.diagonal(1))

    def eigenvalues(self) -> NDArray[np.complex128]:  # (N,)
        """Return those of the blocks, in order."""
        (a, b, c, d), i = self._blocks(), self.pairs
        found = self.Theta.diagonal().astype(np.complex128)
        root = np.sqrt(((a - d) / 2) ** 2 + b * c + 0j)
        found[i], found[i + 1] = (a + d) / 2 + root, (a + d) / 2 - root
        return found

    def below(self) -> NumberArray:  # (N, N)
        """Return what is outside of the diagonal and of its blocks."""
        rest = np.tril(self.Theta, -1)
        rest[self.pairs + 1, self.pairs] = 0
        return rest

    def departure(self) -> float:
        """Return the departure from normality, of the blocks and of what is below them."""
        a, b, c, d = self._blocks()
        turns = ((a - d) / 2) ** 2 + b * c < 0
        # both are |B|^2 - |l1|^2 - |l2|^2, for complex eigenvalues and for real ones
        squared = np.where(turns, (a - d) ** 2 + (b + c) ** 2, (b - c) ** 2)
        return float(np.hypot(np.linalg.norm(self.below()), np.sqrt(squared.sum())))

    def _blocks(self) -> tuple[NDArray[np.float64], ...]:
        """Return the entries of the blocks of two, row by row."""
        i = self.pairs
        places = ((i, i), (i, i + 1), (i + 1, i), (i + 1, i + 1))
        return tuple(self.Theta[rows, columns].real for rows, columns in places)


def schur_form(W: NumberArray) -> SchurForm:  # (N, N)
    """Decompose a matrix; real rows of two stand for pairs of complex eigenvalues."""
    output = "complex" if np.iscomplexobj(W) else "real"
    schur: Any = scipy.linalg.schur
    upper, basis = schur(W, output=output, check_finite=False)
    # the last Schur vector first: upper becomes lower
    return SchurForm(basis[:, ::-1].copy(), upper[::-1, ::-1].copy())
