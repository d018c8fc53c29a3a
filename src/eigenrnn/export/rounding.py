"""Matrices of whole numbers: rounding that keeps the spectrum of a recurrent matrix."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.constraints import Constraint
from eigenrnn.constraints.rounded import LARGEST_APART, SCALE_BITS
from eigenrnn.constraints.whole_numbers import WholeNumbers
from eigenrnn.layers.direction import AbstractDirection
from eigenrnn.linalg import as_numpy

__all__ = ["RoundedMatrix", "nearest", "round_recurrent", "rounded"]

Reals: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = NDArray[np.complex128]

_PENALTIES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
"""What a squared distance from W counts beside squared errors of eigenvalues, by sweep."""

_LEAST_BLOCK = 32

_NOTHING = 1e-15
"""A gain of rounding errors."""

_MOST_SENSITIVE = 1e6
"""Condition of the eigenvectors beyond which eigenvalues say nothing about a rounded matrix."""


@dataclass(frozen=True)
class RoundedMatrix:
    r"""A matrix of whole numbers with one scale a row.

    .. math:: W_{ij} \approx s_i\, q_{ij}, \qquad |q_{ij}| < 2^{\text{bits} - 1} \text{ for }
        j \neq k_i, \qquad |q_{i k_i}| < 2^{15}

    Args:
        integers: The whole numbers q, (R, C).
        apart: The column k of the entry of each row that has 16 bits, (R,).
        scales: The scale s of each row, (R,).
    """

    integers: NDArray[np.int32]
    apart: NDArray[np.int64]
    scales: Reals

    def matrix(self) -> Reals:  # (R, C)
        """Return the matrix that the whole numbers stand for."""
        return self.scales[:, None] * self.integers

    def bits(self) -> int:
        """Return the bits that the entries need with their sign, but for those apart."""
        others = np.abs(self.integers)
        others[np.arange(len(others)), self.apart] = 0
        return int(others.max(initial=0)).bit_length() + 1

    def moduli(self) -> Reals:  # (N,)
        """Return the moduli of the eigenvalues, in descending order."""
        return np.sort(np.abs(np.linalg.eigvals(self.matrix())))[::-1]


def nearest(W: ArrayLike | Tensor, bits: int = 8) -> RoundedMatrix:
    """Round each entry of a matrix to the nearest point of the grid of its row.

    The largest entry of each row is kept apart, in 16 bits on the same grid. The scale is thus
    as fine as the other entries allow. It has 16 significant bits.

    Args:
        W: A real matrix, (R, C).
        bits: The bits of an entry with its sign, 2 to 16.
    Raises:
        ValueError: If W is no real matrix of finite numbers, or `bits` is outside the range.
    """
    exact = _checked(W, bits)
    scales, apart = _grid(exact, bits)
    integers = np.rint(exact / scales[:, None]).astype(np.int32)
    return RoundedMatrix(integers, apart, scales)


def rounded(W: ArrayLike | Tensor, bits: int = 8) -> RoundedMatrix:
    r"""Round a recurrent matrix to whole numbers, and keep its eigenvalues.

    Each entry becomes one of its two neighbours on the grid of `nearest`. A search chooses the
    neighbours so that the eigenvalues of Q come near those of W. To first order an entry moves
    them by

    .. math:: \delta \lambda_k = u_k^* \,\delta Q\, v_k, \qquad u_k^* v_k = 1

    with the left and right eigenvectors :math:`u_k, v_k`. Row by row those entries are swapped
    that bring the sum of squared errors down by more than a multiple of the distance from W that
    they add; the multiple falls from sweep to sweep. Then the scales change a little to bring the
    moduli to their aims, and two more sweeps follow.

    A long memory needs moduli of one and the right angles: with nearest points of 8 bits the state
    of an orthogonal network grows severalfold in 1,000 steps, and its phases drift. If the
    eigenvalues of W are too sensitive to say anything, as those of a chain, the result is
    `nearest`.

    Args:
        W: A real matrix, (N, N).
        bits: The bits of an entry with its sign, 2 to 16.
    Raises:
        ValueError: If W is no real, square matrix of finite numbers, or `bits` is outside the
            range.
    Source:
        The search is ours (departures: none). Foucault, Mamalet and Malgouyres (2024, https://arxiv.org/abs/2402.04012)
        round orthogonal matrices in training.
    Example:
        >>> W = ScaledCayley(64)().detach()
        >>> moduli = rounded(W, bits=8).moduli()
        >>> bool(abs(moduli - 1).max() < 1e-4)
        True
    """
    exact = _checked(W, bits)
    if exact.shape[0] != exact.shape[1]:
        raise ValueError(f"expected a square matrix, got shape {exact.shape}")
    scales, apart = _grid(exact, bits)
    eigenvalues, vectors = np.linalg.eig(exact)
    if np.linalg.cond(vectors) > _MOST_SENSITIVE:
        return nearest(W, bits)
    grid = _Neighbours(exact, scales)
    _choose_neighbours(grid, eigenvalues, _PENALTIES)
    _tune_scales(grid, eigenvalues)
    grid.scales = _stored(grid.scales, np.rint)
    _choose_neighbours(grid, eigenvalues, _PENALTIES[-2:])
    return RoundedMatrix(grid.integers(), apart, grid.scales)


def round_recurrent(model: nn.Module, bits: int = 8) -> None:
    r"""Round the recurrent matrices of a trained model in place, and keep them from training.

    Each matrix becomes that of `rounded`. Input weights, biases and heads still train, and make up
    for what the rounding changed if the model trains on for a while. `to_c` with a calibration, in
    at least as many bits, writes the same whole numbers.

    Call it before an optimiser or an average of the model is made. A state_dict that is saved
    afterwards loads into any model of these sizes, and rounds it. The elements of an `LRU`, which
    has no recurrent matrix, stay.

    Args:
        model: A layer or a model of this library.
        bits: The bits of an entry with its sign, 2 to 16.
    Raises:
        ValueError: If the model has no recurrent matrix or a layer of torch, if a matrix is
            complex, diagonal or not finite, or if `bits` is outside the range. Then no matrix has
            changed.
    Example:
        >>> model = SequenceModel(ScoRNN(3, 64), output_size=4)  # and train it
        >>> round_recurrent(model)  # and train it further
        >>> model.layer.directions[0].constraint
        WholeNumbers(64)
    """
    held: list[tuple[AbstractDirection, str, WholeNumbers]] = []
    for place, module in model.named_modules():
        if isinstance(module, nn.RNNBase):
            kind = type(module).__name__
            raise ValueError(f"expected layers of eigenrnn, got torch's {kind} at {place!r}")
        if isinstance(module, AbstractDirection) and module.has_matrix:
            for name, constraint in zip(module.matrix_names, module.constraints(), strict=True):
                held.append((module, name, _held(constraint, bits)))
    if not held:
        raise ValueError(f"expected a model with a recurrent matrix, got {type(model).__name__}")
    for direction, name, numbers in held:
        setattr(direction, name, numbers)
        direction.frozen = None  # it holds the matrix before the rounding


def _held(constraint: Constraint, bits: int) -> WholeNumbers:
    """Return the set of the rounded matrix of another set.

    Raises:
        ValueError: If the matrix is complex, diagonal or not finite, or `bits` out of range.
    """
    if constraint.is_complex or constraint.is_diagonal:
        raise ValueError(f"expected real, full matrices, got those of {constraint}")
    found = rounded(constraint(), bits)
    numbers = WholeNumbers(constraint.size).to(constraint.device, constraint.dtype)
    numbers.hold(torch.from_numpy(found.integers), torch.from_numpy(found.scales))
    return numbers


def _checked(W: ArrayLike | Tensor, bits: int) -> Reals:  # (R, C)
    """Return a matrix in double precision.

    Raises:
        ValueError: If W is no real matrix of finite numbers, or `bits` is outside the range.
    """
    if bits not in range(2, 17):
        raise ValueError(f"expected 2 <= bits <= 16, got {bits!r}")
    values = W.detach().cpu() if isinstance(W, Tensor) else W
    matrix = as_numpy(values, "W")
    if np.iscomplexobj(matrix):
        raise ValueError(f"expected a real matrix, got one of {matrix.dtype}")
    if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
        raise ValueError(f"expected a matrix of finite numbers, got shape {matrix.shape}")
    return matrix.astype(np.float64)


def _grid(exact: Reals, bits: int) -> tuple[Reals, NDArray[np.int64]]:
    """Return the scale of each row, and the column of its largest entry."""
    magnitudes = np.abs(exact)
    apart = magnitudes.argmax(axis=1)
    rows = np.arange(len(exact))
    largest = magnitudes[rows, apart]
    magnitudes[rows, apart] = 0.0
    scales = np.maximum(magnitudes.max(axis=1) / (2 ** (bits - 1) - 1), largest / LARGEST_APART)
    scales[scales == 0] = 1.0  # of a row of zeros
    return _stored(scales, np.ceil), apart


def _stored(scales: Reals, to_integer: Callable[[Reals], Reals]) -> Reals:
    """Return scales of few significant bits."""
    mantissas, exponents = np.frexp(scales)
    digits = to_integer(mantissas * 2.0**SCALE_BITS)
    return np.ldexp(digits / 2.0**SCALE_BITS, exponents)


class _Neighbours:
    """The two neighbours on the grid of each entry, and which of them is taken.

    Args:
        exact: The matrix, (N, N).
        scales: The scale of each row, (N,).
    """

    def __init__(self, exact: Reals, scales: Reals) -> None:
        in_units = exact / scales[:, None]
        nearby = np.rint(in_units)
        # an entry on the grid stays: those beyond the largest number are not reached
        is_on_grid = np.abs(in_units - nearby) < 1e-9
        self.exact = in_units
        self.scales = scales
        self.taken = nearby
        self.other = np.where(is_on_grid, nearby, 2 * np.floor(in_units) + 1 - nearby)

    def matrix(self, scales: Reals) -> Reals:
        """Return the matrix of the chosen whole numbers with some scales."""
        return scales[:, None] * self.taken

    def changes(self, row: int) -> Reals:  # (N,)
        """Return by how much each entry of a row would change."""
        return self.scales[row] * (self.other[row] - self.taken[row])

    def added_distances(self, row: int) -> Reals:  # (N,)
        """Return what each swap in a row would add to the squared distance from W."""
        before = (self.taken[row] - self.exact[row]) ** 2
        after = (self.other[row] - self.exact[row]) ** 2
        return self.scales[row] ** 2 * (after - before)

    def swap(self, row: int, column: int) -> None:
        """Take the other neighbour of an entry."""
        taken = self.taken[row, column]
        self.taken[row, column] = self.other[row, column]
        self.other[row, column] = taken

    def integers(self) -> NDArray[np.int32]:
        """Return the whole numbers."""
        return self.taken.astype(np.int32)


def _choose_neighbours(grid: _Neighbours, exact: Numbers, penalties: Sequence[float]) -> None:
    """Take neighbours that bring the eigenvalues to those of the exact matrix."""
    size = len(grid.scales)
    # a second-order error adds up over a block, and an eigenvalue problem solved anew removes it
    block = max(_LEAST_BLOCK, -(-size // 4))
    blocks = [range(first, min(first + block, size)) for first in range(0, size, block)]
    steps = [(penalty, rows) for penalty in penalties for rows in blocks]
    steps.append((0.0, range(0)))  # the last swaps are judged too
    best = grid.taken.copy()
    least = np.inf
    for penalty, rows in steps:
        _, right, errors = _errors(grid.matrix(grid.scales), exact)
        objective = _squares(errors)
        if not np.isfinite(objective):
            break
        if objective < least:
            least = objective
            best = grid.taken.copy()
        _swap(grid, rows, right, errors, penalty)
    grid.taken = best


def _swap(
    grid: _Neighbours,
    rows: range,
    right: Numbers,  # (N, N), an eigenvector a column
    errors: Numbers,  # (N,), of the eigenvalues
    penalty: float,
) -> None:
    """Swap entries, row by row, while the squared errors and the penalty fall to first order."""
    left = np.linalg.inv(right)
    for row in rows:
        effects = left[:, row, None] * right.T  # (N, N), eigenvalues by columns
        effects = effects * grid.changes(row)
        costs = (np.abs(effects) ** 2).sum(0) + penalty * grid.added_distances(row)
        for _ in range(len(costs)):
            gains = 2 * (errors.conj() @ effects).real + costs
            best = int(gains.argmin())
            if gains[best] >= -_NOTHING:
                break
            errors = errors + effects[:, best]
            grid.swap(row, best)
            effects[:, best] = 0.0  # once is enough until the eigenvalues are new
            costs[best] = 0.0


def _tune_scales(grid: _Neighbours, exact: Numbers, rounds: int = 10) -> None:
    r"""Change the scales by Newton's method, for the moduli of the eigenvalues.

    With row i times 1 + d_i, that of eigenvalue k changes by
    :math:`|\lambda_k| \Re \sum_i d_i u^*_{ki} v_{ik}`. The shortest d is taken.
    """
    least = np.inf
    scales = grid.scales
    for _ in range(rounds):
        found, right, errors = _errors(grid.matrix(scales), exact)
        excess = np.abs(found) - np.abs(found - errors)
        objective = _squares(excess)
        if not objective < least:
            break
        least = objective
        grid.scales = scales
        effects = np.abs(found)[:, None] * (np.linalg.inv(right) * right.T).real
        change = np.linalg.lstsq(effects, -excess, rcond=1e-3)[0]
        scales = scales * (1 + change)


def _squares(errors: Reals | Numbers) -> float:
    """Return the sum of the squared moduli."""
    return float((np.abs(errors) ** 2).sum())


def _errors(matrix: Reals, exact: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return eigenvalues, eigenvectors by columns, and the errors of the eigenvalues.

    The nearest pair of a found and an exact eigenvalue belongs together, then the nearest of those
    that are left. The errors are infinite if the eigenvectors are too close to dependent to say
    anything.
    """
    found, right = np.linalg.eig(matrix)
    if np.linalg.cond(right) > _MOST_SENSITIVE:
        return found, right, np.full(len(found), np.inf + 0j)
    distances = np.abs(found[:, None] - exact)
    errors = np.empty(len(found), np.complex128)
    for _ in found:
        one, other = np.unravel_index(distances.argmin(), distances.shape)
        errors[one] = found[one] - exact[other]
        distances[one] = np.inf
        distances[:, other] = np.inf
    return found, right, errors
