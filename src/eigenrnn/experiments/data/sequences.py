"""Sequences of unequal length with what is known of each, as every reader of series gives them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sequences", "as_float32", "as_values", "checked", "open_lines"]

Values = NDArray[np.float32]


@dataclass(frozen=True)
class Sequences:
    """What a file of series holds.

    Args:
        path: The file.
        values: The values of all sequences, one after the other.
        lengths: The number of steps of each sequence.
        channels: The name of each channel.
        labels: The class of each sequence, if the file names classes.
        numbers: The number that belongs to each sequence, if the file gives such.
        place: Says where in the file a sequence stands, for messages.

    Shape:
        values: (sum of lengths, channels).
    """

    path: Path
    values: Values
    lengths: NDArray[np.int64]
    channels: tuple[str, ...]
    labels: tuple[str, ...] | None
    numbers: Values | None
    place: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.lengths)


def checked(sequences: Sequences) -> Sequences:
    """Refuse what nobody can learn from.

    Raises:
        ValueError: If there is no channel, no sequence, an empty one, or a value that is missing,
            infinite or too large for single precision.
    """
    path = sequences.path
    if not sequences.channels:
        raise ValueError(f"expected at least one channel in {path}, got none")
    if not len(sequences):
        raise ValueError(f"expected at least one sequence in {path}, got none")
    empty = np.flatnonzero(sequences.lengths < 1)
    if len(empty):
        place = sequences.place(int(empty[0]))
        raise ValueError(f"expected sequences of at least one step in {path}, got none in {place}")
    bad = np.flatnonzero(~np.isfinite(sequences.values).all(1))
    if len(bad):
        ends = np.cumsum(sequences.lengths)
        number = int(np.searchsorted(ends, bad[0], side="right"))
        step = int(bad[0] - ends[number] + sequences.lengths[number])
        channel = int(np.flatnonzero(~np.isfinite(sequences.values[bad[0]]))[0])
        raise ValueError(
            f"expected finite values in {path}, got {sequences.values[bad[0], channel]} in "
            f"{sequences.place(number)}, channel {sequences.channels[channel]}, step {step + 1}; "
            "fill in or leave out what is missing"
        )
    if sequences.numbers is not None and not np.isfinite(sequences.numbers).all():
        number = int(np.flatnonzero(~np.isfinite(sequences.numbers))[0])
        raise ValueError(
            f"expected finite targets in {path}, got {sequences.numbers[number]} in "
            f"{sequences.place(number)}"
        )
    return sequences


def open_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text, one at a time.

    Raises:
        ValueError: If a line is not UTF-8; names its number and the byte.
    """
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"expected text in UTF-8 in {path}, got the byte 0x{line[error.start]:02x} "
                    f"at column {error.start + 1} of line {number} ({error.reason}); convert "
                    "the file, as by iconv -f latin1 -t utf-8, or mend that place"
                ) from None
            yield number, text.rstrip("\r\n")


def as_float32(values: Any) -> Values:
    """Round numbers; one that is too large becomes infinite, which `checked` refuses."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def as_values(rows: Any, path: Path, columns: Sequence[str]) -> Values:
    """Make a matrix of numbers of columns.

    Raises:
        ValueError: If a column holds something else.
    """
    matrix = np.empty((len(rows[0]) if rows else 0, len(columns)), np.float32)
    for number, (column, name) in enumerate(zip(rows, columns, strict=True)):
        try:
            matrix[:, number] = as_float32(np.asarray(column, np.float64))
        except (TypeError, ValueError):
            raise ValueError(
                f"expected numbers in the column {name!r} of {path}, got "
                f"{np.asarray(column).dtype}"
            ) from None
    return matrix
