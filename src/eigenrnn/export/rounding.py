"""Matrices of whole numbers: rounding that keeps the spectrum of a recurrent matrix."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.linalg import as_numpy

__all__ = ["RoundedMatrix", "nearest", "rounded"]

Reals: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64] | NDArray[np.complex128]
Numbers: TypeAlias = NDArray[np.complex128]

_LARGEST_APART = 2**15 - 1
"""The largest entry of a row is kept in 16 bits, whatever the others have."""

_MOST_SENSITIVE = 1e6
"""Condition of the eigenvectors beyond which eigenvalues say nothing about a rounded matrix."""


@dataclass(frozen=True)
class RoundedMatrix:
    r"""A matrix of whole numbers with one scale a row.

    .. math:: W_{ij} \approx s_i\, q_{ij}, \qquad |q_{ij}| < 2^{\text{bits} - 1} \text{ for }
        j \neq k_i, \qquad |q_{i k_i}| < 2^{15}

    Args:
        integers: The whole numbers q, (R, C). A complex matrix has its real parts in the first
            half of the columns and its imaginary parts in the second.
        apart: The column k of the entry of each row that has 16 bits, (R,).
        scales: The scale s of each row, (R,).
        is_complex: Whether the matrix is complex.
    """

    integers: NDArray[np.int32]
    apart: NDArray[np.int64]
    scales: Reals
    is_complex: bool = False

    def matrix(self) -> Matrix:  # (R, C)
        """Return the matrix that the whole numbers stand for."""
        return _joined(self.scales[:, None] * self.integers, self.is_complex)

    def moduli(self) -> Reals:  # (N,)
        """Return the moduli of the eigenvalues, in descending order."""
        return np.sort(np.abs(np.linalg.eigvals(self.matrix())))[::-1]

    def singular_values(self) -> Reals:  # (N,)
        """Return the singular values, in descending order."""
        return np.linalg.svd(self.matrix(), compute_uv=False).astype(np.float64)


def nearest(W: ArrayLike | Tensor, bits: int = 8) -> RoundedMatrix:
    """Round each entry of a matrix to the nearest point of the grid of its row.

    The largest entry of each row is kept apart, in 16 bits on the same grid. The scale is thus
    as fine as the other entries allow.

    Args:
        W: A real or complex matrix, (R, C).
        bits: The bits of an entry with its sign, 2 to 16.
    Raises:
        ValueError: If W is no matrix of finite numbers, or `bits` is outside the range.
    """
    parts, is_complex = _parts(W, bits)
    scales, apart = _grid(parts, bits)
    integers = np.rint(parts / scales[:, None]).astype(np.int32)
    return RoundedMatrix(integers, apart, scales, is_complex)


def rounded(W: ArrayLike | Tensor, bits: int = 8) -> RoundedMatrix:
    r"""Round a recurrent matrix to whole numbers, and keep the moduli of its eigenvalues.

    Each entry becomes one of its two neighbours on the grid of `nearest`. A search chooses the
    neighbours. It first brings :math:`Q Q^*` near :math:`W W^*`, entry by entry, and then the
    moduli of the eigenvalues of Q near those of W, to first order in the change of a row:

    .. math:: \delta |\lambda_k| = \Re\left(\frac{\bar\lambda_k}{|\lambda_k|}\,
        u_k^* \,\delta Q\, v_k\right), \qquad u_k^* v_k = 1

    with the left and right eigenvectors :math:`u_k, v_k`. A long memory needs moduli of one: with
    nearest points of 8 bits the state of an orthogonal network grows severalfold in 1,000 steps.
    If the eigenvalues of W are too sensitive to say anything, as those of a chain, the result is
    `nearest`.

    Args:
        W: A real or complex matrix, (N, N).
        bits: The bits of an entry with its sign, 2 to 16.
    Raises:
        ValueError: If W is no square matrix of finite numbers, or `bits` is outside the range.
    Source:
        The search is ours; Foucault, Mamalet and Malgouyres (2024, https://arxiv.org/abs/2402.04012)
        round orthogonal matrices in training.
    Example:
        >>> W = ScaledCayley(64)().detach()
        >>> moduli = rounded(W, bits=8).moduli()
        >>> bool(abs(moduli - 1).max() < 1e-4)
        True
    """
    parts, is_complex = _parts(W, bits)
    exact = _joined(parts, is_complex)
    if exact.shape[0] != exact.shape[1]:
        raise ValueError(f"expected a square matrix, got shape {exact.shape}")
    scales, apart = _grid(parts, bits)
    eigenvalues, vectors = np.linalg.eig(exact)
    if np.linalg.cond(vectors) > _MOST_SENSITIVE:
        return nearest(W, bits)
    grid = _Neighbours(parts, scales, is_complex)
    _search_by_products(grid, exact @ exact.conj().T)
    _search_by_eigenvalues(grid, eigenvalues)
    _tune_scales(grid, eigenvalues)
    return RoundedMatrix(grid.integers(), apart, grid.scales, is_complex)


def _parts(W: ArrayLike | Tensor, bits: int) -> tuple[Reals, bool]:
    """Return real parts beside imaginary parts in double precision, and whether W is complex.

    Raises:
        ValueError: If W is no matrix of finite numbers, or `bits` is outside the range.
    """
    if bits not in range(2, 17):
        raise ValueError(f"expected 2 <= bits <= 16, got {bits!r}")
    values = W.detach().cpu() if isinstance(W, Tensor) else W
    matrix = as_numpy(values, "W")
    if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
        raise ValueError(f"expected a matrix of finite numbers, got shape {matrix.shape}")
    if np.iscomplexobj(matrix):
        return np.concatenate([np.real(matrix), np.imag(matrix)], axis=1).astype(np.float64), True
    return matrix.astype(np.float64), False


def _joined(parts: Reals, is_complex: bool) -> Matrix:
    """Return the matrix whose real and imaginary parts stand side by side."""
    if not is_complex:
        return parts
    real, imaginary = np.split(parts, 2, axis=1)
    return real + 1j * imaginary


def _grid(parts: Reals, bits: int) -> tuple[Reals, NDArray[np.int64]]:
    """Return the scale of each row, and the column of its largest entry."""
    magnitudes = np.abs(parts)
    apart = magnitudes.argmax(axis=1)
    rows = np.arange(len(parts))
    largest = magnitudes[rows, apart]
    magnitudes[rows, apart] = 0.0
    scales = np.maximum(magnitudes.max(axis=1) / (2 ** (bits - 1) - 1), largest / _LARGEST_APART)
    scales[scales == 0] = 1.0  # of a row of zeros
    return scales, apart


_NOTHING = 1e-15  # a gain of rounding errors


class _Neighbours:
    """The two neighbours on the grid of each entry, and which of them is taken.

    Args:
        parts: The exact matrix, (N, C); with C = 2 N, real parts beside imaginary ones.
        scales: The scale of each row, (N,).
        is_complex: Whether the matrix is complex.
    """

    def __init__(self, parts: Reals, scales: Reals, is_complex: bool) -> None:
        exact = parts / scales[:, None]
        nearby = np.rint(exact)
        below = np.floor(exact)
        # an entry on the grid stays: those beyond the largest number are not reached
        is_on_grid = np.abs(exact - nearby) < 1e-9
        self.scales = scales
        self.is_complex = is_complex
        self.taken = nearby
        self.other = np.where(is_on_grid, nearby, 2 * below + 1 - nearby)
        self.matrix = self.with_scales(scales)

    def with_scales(self, scales: Reals) -> Matrix:
        """Return the matrix of the same whole numbers with other scales."""
        return _joined(scales[:, None] * self.taken, self.is_complex)

    def changes(self, row: int) -> Reals:  # (C,)
        """Return by how much each entry of a row would change."""
        return self.scales[row] * (self.other[row] - self.taken[row])

    def swap(self, row: int, column: int) -> None:
        """Take the other neighbour of an entry."""
        taken = self.taken[row, column]
        self.taken[row, column] = self.other[row, column]
        self.other[row, column] = taken
        parts = self.scales[row] * self.taken[row : row + 1]
        self.matrix[row] = _joined(parts, self.is_complex)[0]

    def integers(self) -> NDArray[np.int32]:
        """Return the whole numbers."""
        return self.taken.astype(np.int32)

    def by_part(self, values: Matrix) -> Reals:
        r"""Return the real parts of c d for a real step d of each part of an entry.

        Args:
            values: The complex or real factor c of each entry, (..., N).
        """
        if not self.is_complex:
            return values.real
        return np.concatenate([values.real, -values.imag], axis=-1)


def _search_by_products(grid: _Neighbours, target: Matrix, sweeps: int = 3) -> None:
    """Take neighbours that bring Q Q* near a target, by descent on the squared Frobenius norm."""
    for _ in range(sweeps):
        any_swap = False
        for row in range(len(target)):
            for _ in range(grid.taken.shape[1]):
                gains = _gains_of_products(grid, row, target)
                best = int(gains.argmin())
                if gains[best] >= -_NOTHING:
                    break
                grid.swap(row, best)
                any_swap = True
        if not any_swap:
            return


def _gains_of_products(grid: _Neighbours, row: int, target: Matrix) -> Reals:  # (C,)
    """Return the change of the squared norm of Q Q* - target for a swap of each entry of a row."""
    Q = grid.matrix
    step = grid.changes(row)
    error = Q[row] @ Q.conj().T - target[row]  # (N,)
    own = error[row].real
    error[row] = 0.0
    slopes = grid.by_part(error.conj() @ Q.conj())
    squares = (np.abs(Q) ** 2).sum(0) - np.abs(Q[row]) ** 2
    if grid.is_complex:
        squares = np.concatenate([squares, squares])
    moved = 2 * step * grid.by_part(Q[row].conj()) + step**2
    return 2 * (2 * step * slopes + step**2 * squares) + (own + moved) ** 2 - own**2


def _search_by_eigenvalues(grid: _Neighbours, exact: Numbers, rounds: int = 30) -> None:
    """Take neighbours that bring the moduli of the eigenvalues to those of the exact matrix."""
    best = grid.taken.copy()
    least = np.inf
    for _ in range(rounds):
        found, right, excess = _excess(grid.matrix, exact)
        objective = float((excess**2).sum())
        if not objective < least:
            break
        least = objective
        best = grid.taken.copy()
        _improve_moduli(grid, found, right, excess)
    grid.taken = best
    grid.matrix = grid.with_scales(grid.scales)


def _tune_scales(grid: _Neighbours, exact: Numbers, rounds: int = 10) -> None:
    r"""Change the scales by Newton's method: they are no whole numbers, so little is left.

    With row i times 1 + d_i, the modulus of eigenvalue k changes by
    :math:`|\lambda_k| \Re \sum_i d_i u^*_{ki} v_{ik}`. The shortest d is taken.
    """
    least = np.inf
    scales = grid.scales
    for _ in range(rounds):
        found, right, excess = _excess(grid.with_scales(scales), exact)
        objective = float((excess**2).sum())
        if not objective < least:
            break
        least = objective
        grid.scales = scales
        effects = np.abs(found)[:, None] * (np.linalg.inv(right) * right.T).real
        change = np.linalg.lstsq(effects, -excess, rcond=1e-3)[0]
        scales = scales * (1 + change)
    grid.matrix = grid.with_scales(grid.scales)


def _improve_moduli(
    grid: _Neighbours,
    eigenvalues: Numbers,  # (N,)
    right: Numbers,  # (N, N), an eigenvector a column
    excess: Reals,  # (N,), what the moduli exceed their aims by
) -> None:
    """Swap entries, row by row, while the squared excess falls to first order."""
    left = np.linalg.inv(right)
    phases = np.exp(-1j * np.angle(eigenvalues))
    for row in range(len(right)):
        factors = (phases * left[:, row])[:, None] * right.T  # (N, N), eigenvalues by columns
        effects = grid.by_part(factors) * grid.changes(row)
        squares = (effects**2).sum(0)
        for _ in range(len(squares)):
            gains = 2 * excess @ effects + squares
            best = int(gains.argmin())
            if gains[best] >= -_NOTHING:
                break
            excess = excess + effects[:, best]
            effects[:, best] = -effects[:, best]
            grid.swap(row, best)


def _excess(matrix: Matrix, exact: Numbers) -> tuple[Numbers, Numbers, Reals]:
    """Return eigenvalues, eigenvectors by columns, and what the moduli exceed their aims by.

    The excess is infinite if the eigenvectors are too close to dependent to say anything.
    """
    found, right = np.linalg.eig(matrix)
    if np.linalg.cond(right) > _MOST_SENSITIVE:
        return found, right, np.full(len(found), np.inf)
    return found, right, np.abs(found) - _moduli_of_partners(found, exact)


def _moduli_of_partners(found: Numbers, exact: Numbers) -> Reals:  # (N,)
    """Return the modulus of the exact eigenvalue that belongs to each found one.

    The nearest pair belongs together, then the nearest of those that are left.
    """
    moduli = np.abs(exact)
    if np.ptp(moduli) < 1e-4:  # on a circle all have one aim
        return np.full(len(found), moduli.mean())
    distances = np.abs(found[:, None] - exact)
    aims = np.empty(len(found))
    for _ in found:
        one, other = np.unravel_index(distances.argmin(), distances.shape)
        aims[one] = moduli[other]
        distances[one] = np.inf
        distances[:, other] = np.inf
    return aims
