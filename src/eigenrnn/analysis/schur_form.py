"""Lower Schur forms, which turn a matrix into blocks on a diagonal and what is below them."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from eigenrnn.analysis.matrices import NumberArray, power_of_two
from eigenrnn.linalg import check_finite

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
        scaled, size = self.scaled()
        (a, b, c, d), i = scaled.blocks(), self.pairs
        found = scaled.Theta.diagonal().astype(np.complex128)
        root = np.sqrt(((a - d) / 2) ** 2 + b * c + 0j)
        found[i], found[i + 1] = (a + d) / 2 + root, (a + d) / 2 - root
        return found * size

    def scaled(self) -> tuple[Self, float]:
        """Return the form of W over a power of two, so that squares stay in range, and this."""
        size = power_of_two(self.Theta)
        return replace(self, Theta=self.Theta / size), size

    def below(self) -> NumberArray:  # (N, N)
        """Return what is outside of the diagonal and of its blocks."""
        rest = np.tril(self.Theta, -1)
        rest[self.pairs + 1, self.pairs] = 0
        return rest

    def share_below(self) -> float:
        """Return the Frobenius norm of what is below the blocks over that of all."""
        scaled, _ = self.scaled()
        size = np.linalg.norm(scaled.Theta)
        return float(np.linalg.norm(scaled.below()) / size) if size else 0.0

    def by_diagonal(self) -> NDArray[np.float64]:  # (N,)
        """Return the mean size of the entries of the blocks, and on each sub-diagonal below."""
        sizes, N, i = np.abs(self.Theta), len(self.Theta), self.pairs
        below = np.abs(self.below())
        outside = np.arange(N - 1, -1, -1) + 1.0  # how many entries there are
        blocks = np.concatenate([sizes.diagonal(), sizes[i, i + 1], sizes[i + 1, i]])
        if N > 1:
            outside[1] = max(outside[1] - len(i), 1)
        sums = [below.diagonal(-k).sum() / outside[k] for k in range(1, N)]
        return np.array([blocks.mean(), *sums])

    def departure(self) -> float:
        """Return the departure from normality, of the blocks and of what is below them."""
        scaled, size = self.scaled()
        a, b, c, d = scaled.blocks()
        turns = ((a - d) / 2) ** 2 + b * c < 0
        # both are |B|^2 - |l1|^2 - |l2|^2, for complex eigenvalues and for real ones
        squared = np.where(turns, (a - d) ** 2 + (b + c) ** 2, (b - c) ** 2)
        below = np.linalg.norm(scaled.below())
        return float(np.hypot(below, np.sqrt(squared.sum()))) * size

    def blocks(self) -> tuple[NDArray[np.float64], ...]:
        """Return the entries of the blocks of two, row by row."""
        i = self.pairs
        places = ((i, i), (i, i + 1), (i + 1, i), (i + 1, i + 1))
        return tuple(self.Theta[rows, columns].real for rows, columns in places)


def schur_form(W: NumberArray) -> SchurForm:  # (N, N)
    """Decompose a matrix; real rows of two stand for pairs of complex eigenvalues."""
    check_finite(W)
    output = "complex" if np.iscomplexobj(W) else "real"
    schur: Any = scipy.linalg.schur
    upper, basis = schur(W, output=output, check_finite=False)
    # the last Schur vector first: upper becomes lower
    return SchurForm(basis[:, ::-1].copy(), upper[::-1, ::-1].copy())
