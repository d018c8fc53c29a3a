"""Constants of whole numbers, and the sums of products that they take part in.

A vector is 16-bit whole numbers in units of 2^-places. A sum of products and its bias are 32-bit
whole numbers in units of their own, chosen so that no sum can overflow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn.export.c.source import Array, Source, loop
from eigenrnn.export.rounding import RoundedMatrix, nearest

__all__ = [
    "LARGEST",
    "IntegerSource",
    "StoredMatrix",
    "Term",
    "UnsupportedError",
    "Vector",
    "as_array",
    "padded",
    "places_of_sum",
    "stacked",
]

LARGEST = 32767  # of 16 bits, on both sides of zero
_WIDEST = 256  # columns: so many products of 8 and 16 bits, one of them apart, fit into 32 bits
_MOST = 2**30  # of a sum


class UnsupportedError(ValueError):
    """A part of a network that has no form in whole numbers."""


@dataclass(frozen=True)
class Vector:
    """A vector of 16 bits.

    Args:
        name: Its name in C.
        size: How many numbers it has.
        places: They are in units of 2^-places.
    """

    name: str
    size: int
    places: int

    @property
    def largest(self) -> float:
        """The largest number that it can hold."""
        return LARGEST * 2.0**-self.places


@dataclass(frozen=True)
class Term:
    """A matrix and the places of the vector that it multiplies.

    Args:
        matrix: The matrix.
        places: Those of the vector.
        dropped: The binary places that a sum loses before it is scaled.
    """

    matrix: RoundedMatrix
    places: int
    dropped: int

    @property
    def scales(self) -> NDArray[np.float64]:  # (R,)
        """The scales of the sums."""
        is_zero = (self.matrix.integers == 0).all(1)
        return np.where(is_zero, 0.0, self.matrix.scales) * 2.0**self.dropped

    @property
    def exponent(self) -> int:
        """The largest one with which scales times 2^exponent have 31 bits."""
        largest = float(self.scales.max())
        if largest <= 0:
            return 31
        return math.floor(math.log2((2**31 - 2**15) / largest))

    @property
    def most(self) -> float:
        """The largest absolute product of a row."""
        sums = np.abs(self.matrix.integers).sum(1, dtype=np.float64)
        return float((sums * self.matrix.scales).max()) * LARGEST * 2.0**-self.places


@dataclass(frozen=True)
class Block:
    """Some columns of a matrix, in a constant of their own."""

    name: str
    first: int
    columns: int


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix that is written.

    Args:
        integers: Its whole numbers.
        scales: The scale of a row's sum, in units of 2^-exponent.
        exponent: That of the scales.
        dropped: The binary places that a sum loses before it is scaled.
        blocks: Its constants.
    """

    integers: NDArray[np.int64]
    scales: NDArray[np.int64]
    exponent: int
    dropped: int
    blocks: Sequence[Block]


def as_array(values: Tensor) -> NDArray[np.float64]:
    """Return weights in double precision."""
    return values.detach().cpu().double().numpy()


def stacked(matrices: Sequence[RoundedMatrix]) -> RoundedMatrix:
    """Return the rows of several matrices as one."""
    return RoundedMatrix(
        np.concatenate([each.integers for each in matrices]),
        np.concatenate([each.apart for each in matrices]),
        np.concatenate([each.scales for each in matrices]),
    )


def padded(rows: int) -> int:
    """Return the size of a local array of sums: rows are multiplied four at a time."""
    return -(-rows // 4) * 4


def places_of_sum(terms: Sequence[Term], biases: Sequence[Tensor | None] = ()) -> int:
    """Return the places of a sum of products and biases: as many as never overflow."""
    most = sum(term.most for term in terms)
    places = 30
    for bias in biases:
        if bias is not None:
            most += float(bias.detach().abs().max())
    if most > 0:
        # each product is rounded
        places = min(places, math.floor(math.log2(_MOST / most * 0.999)))
    for term in terms:
        if term.most > 0:
            places = min(places, term.places + term.exponent - 32)
    return places


@dataclass
class IntegerSource(Source):
    """Collects the constants of a network of whole numbers.

    Args:
        bits: Those of the entries of a matrix.
        values: The constants by name, for the tests.
    """

    bits: int = 8
    values: dict[str, Any] = field(default_factory=dict[str, Any])

    def rounded(self, weight: Tensor) -> RoundedMatrix:
        """Round a matrix that is no recurrent one."""
        return nearest(weight, self.bits)

    def term(self, matrix: RoundedMatrix, places: int) -> Term:
        """Return a product with a vector of the places given."""
        return Term(matrix, places, 8 if self.bits == 16 else 0)

    def vector_of_integers(
        self, name: str, values: NDArray[np.int64], comment: str, kind: str = "int16"
    ) -> str:
        """Write a vector, and return its name."""
        self.values[name] = values
        self._define(kind, name, [str(each) for each in values], comment)
        return name

    def first(self, state: Array) -> str:
        if state.initial is None:
            return loop(state.size, f"state->{state.name}[i] = 0;")
        name = f"{state.name}0"
        comment = f"the first state, ({state.size})"
        self.vector_of_integers(name, state.initial.numpy(), comment, state.kind)
        return loop(state.size, f"state->{state.name}[i] = {name}[i];")

    def at_start(
        self, z: str, rows: int, bias: Tensor | None, places: int, name: str, comment: str
    ) -> str:
        """Return the statement that sets sums to their bias."""
        if bias is None:
            return loop(padded(rows), f"{z}[i] = 0;")
        return loop(padded(rows), f"{z}[i] = {self.bias(name, bias, places, comment)};")

    def bias(self, name: str, bias: Tensor, places: int, comment: str) -> str:
        """Write a bias in 16 bits, and return the expression of entry i in the units of a sum."""
        exact = as_array(bias) * 2.0**places
        shift = max(0, math.ceil(math.log2(max(np.abs(exact).max() / LARGEST, 1))))
        values = np.zeros(padded(len(exact)), np.int64)
        values[: len(exact)] = np.rint(exact / 2**shift)
        self.values[name] = values * 2**shift
        self._define("int16", name, [str(each) for each in values], comment)
        return f"{name}[i] * {2**shift}"

    def state(
        self, name: str, comment: str, size: int, h0: Tensor | None, places: int, bits: int = 16
    ) -> Array:
        """Return a member of the state.

        Raises:
            UnsupportedError: If an initial number is too large for it.
        """
        initial = None
        if h0 is not None:
            largest = LARGEST if bits == 16 else 2**30
            exact = h0.detach().cpu().double() * 2.0**places
            if exact.abs().max() > largest + 1:  # 1 is cut to 1 - 2^-15, which is rounding
                reached = float(h0.detach().abs().max())
                raise UnsupportedError(f"an initial state of {reached:.3g}, outside the range")
            initial = exact.round().clamp(-largest, largest).long()
        unit = f"{comment} in units of 2^-{places}"
        return Array(name, size, unit, initial, f"int{bits}")

    def tanh(self, places: int) -> None:
        """Let the network call tanh of sums of the places given.

        Raises:
            UnsupportedError: If these are too few for its table.
        """
        if places < 5:
            raise UnsupportedError(f"sums in units of {2**-places}")
        self.helpers.add("tanh_of_integer")
        if "tanh_of_sixteenths" not in self.values:
            values = np.rint(32768 * np.tanh(np.arange(88) / 16)).astype(np.int64)
            self.vector_of_integers("tanh_of_sixteenths", values, "tanh(k / 16) in 2^-15")

    def sigmoid(self, places: int) -> None:
        """Let the network call the logistic function, as `tanh`."""
        self.tanh(places)
        self.helpers.add("sigmoid_of_integer")

    def product(self, name: str, term: Term, x: str, z: str, places: int, comment: str) -> str:
        """Write a matrix, and return the statements z += A x."""
        stored = self.store(name, term, 32 + places - term.places, comment)
        rows, columns = stored.integers.shape
        self.products += rows * columns
        helper = f"accumulate_int{self.bits}"
        self.helpers |= {"whole_numbers", "scaled_sum", helper}
        statements: list[str] = []
        for block in stored.blocks:
            start = f"{helper}({z}, {block.name}, {_from(x, block.first)}"
            statements.append(f"{start}, {rows}, {block.columns});")
        return "\n".join(statements)

    def symbol(self, stored: StoredMatrix, x: Vector) -> str:
        """Return the statements that copy the row of a symbol."""
        self.values["symbol_places"] = x.places
        shift = stored.exponent + stored.dropped - x.places
        helper = f"symbol_row_int{self.bits}"
        self.helpers |= {"saturated", helper}
        statements: list[str] = []
        for block in stored.blocks:
            start = f"{helper}({_from(x.name, block.first)}, {block.name}, symbol"
            statements.append(f"{start}, {block.columns}, {shift});")
        return "\n".join(statements)

    def store(self, name: str, term: Term, exponent: int, comment: str) -> StoredMatrix:
        """Write a matrix, with scales in units of 2^-exponent."""
        matrix = term.matrix
        columns = matrix.integers.shape[1]
        scales = _Scales(term.scales * 2.0**exponent)
        blocks: list[Block] = []
        for first in range(0, columns, _WIDEST):
            integers = matrix.integers[:, first : first + _WIDEST]
            block = Block(name, first, integers.shape[1])
            if columns > _WIDEST:
                block = replace(block, name=f"{name}_{first}")
            blocks.append(block)
            if self.bits == 8:
                numbers = _in_eight_bits(integers, matrix.apart - first, scales)
            else:
                numbers = _in_sixteen_bits(integers, scales)
            self._define(f"int{self.bits}", block.name, [str(each) for each in numbers], comment)
        stored = StoredMatrix(
            integers=matrix.integers.astype(np.int64),
            scales=scales.digits << scales.shifts,
            exponent=exponent,
            dropped=term.dropped,
            blocks=blocks,
        )
        self.values[name] = stored
        return stored


def _from(x: str, first: int) -> str:
    """Return the expression of a vector from an entry on."""
    return f"{x} + {first}" if first else x


class _Scales:
    """Scales as they are stored: 16 binary digits, and a shift to the left of up to 15.

    Shape:
        values: :math:`(R,)`, below 2^31.
    """

    def __init__(self, values: NDArray[np.float64]) -> None:
        shifts = np.ceil(np.log2(np.maximum(values, 1) / (2**16 - 0.6)))
        self.shifts = shifts.clip(0, 15).astype(np.int64)
        self.digits = np.rint(values / 2.0**self.shifts).astype(np.int64)


def _in_eight_bits(
    integers: NDArray[np.int32],  # (R, C)
    apart: NDArray[np.int64],  # (R,)
    scales: _Scales,
) -> list[int]:
    """Return the bytes of a matrix in the order of ``accumulate_int8``."""
    rows, columns = integers.shape
    full = columns // 4 * 4
    numbers: list[int] = []
    for first in range(0, rows, 4):
        group = np.zeros((4, columns), np.int64)
        ends = np.zeros((4, 4), np.int64)
        shifts = np.zeros(4, np.int64)
        for k, row in enumerate(range(first, min(first + 4, rows))):
            group[k] = integers[row]
            # any other column will do where the entry is in another block
            column = int(apart[row]) if 0 <= apart[row] < columns else 0
            # all 16 bits are 256 high + 128 + low
            high, low = divmod(int(integers[row, column]), 256)
            group[k, column] = low - 128
            ends[k, :2] = high, column
            ends[k, 2:] = scales.digits[row] % 256, scales.digits[row] // 256
            shifts[k] = scales.shifts[row]
        fours = group[:, :full].reshape(4, -1, 4).transpose(1, 0, 2)[:, :, [0, 2, 1, 3]]
        parts = [
            fours.ravel(),
            group[:, full:].T.ravel(),
            ((ends + 128) % 256 - 128).ravel(),
            shifts,
        ]
        numbers += np.concatenate(parts).tolist()
    return numbers


def _in_sixteen_bits(
    integers: NDArray[np.int32],  # (R, C)
    scales: _Scales,
) -> list[int]:
    """Return the numbers of a matrix in the order of ``accumulate_int16``."""
    rows, columns = integers.shape
    full = columns // 2 * 2
    numbers: list[int] = []
    for first in range(0, rows, 2):
        group = np.zeros((2, columns), np.int64)
        ends = np.zeros(4, np.int64)
        group[: rows - first] = integers[first : first + 2]
        ends[:2][: rows - first] = scales.digits[first : first + 2]
        ends[2:][: rows - first] = scales.shifts[first : first + 2]
        pairs = group[:, :full].reshape(2, -1, 2).transpose(1, 0, 2)
        parts = [pairs.ravel(), group[:, full:].T.ravel(), (ends + 32768) % 65536 - 32768]
        numbers += np.concatenate(parts).tolist()
    return numbers
