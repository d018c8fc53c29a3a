"""The sequences, labels and targets that every reader of time series returns."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sequences", "Values", "check_sequences", "numbered_lines"]

Values = NDArray[np.floating[Any]]

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Sequences:
    """The contents of a file of time series.

    Args:
        path: The file.
        values: The values of all sequences, concatenated, in double precision unless they were in
            single precision already.
        lengths: The number of steps of each sequence.
        names: The name of each sequence, or its number from one.
        channels: The name of each channel.
        labels: The class of each sequence, if the file has classes.
        targets: The target number of each sequence, if the file has any.
        location: Describes the location of a sequence in the file, for error messages.
        groups: The group of each sequence, such as a patient, if the file has groups.
        time: The column that orders the rows of a table, if there is one.

    Shape:
        values: (sum of lengths, channels).
    """

    path: Path
    values: Values
    lengths: NDArray[np.int64]
    names: tuple[str, ...]
    channels: tuple[str, ...]
    labels: tuple[str, ...] | None
    targets: Values | None
    location: Callable[[int], str]
    groups: tuple[str, ...] | None = None
    time: str | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        steps = ""
        if len(self):
            steps = f", of {min(self.lengths)} to {max(self.lengths)} steps"
        channels = f"{len(self.channels)} channels"
        return f"<Sequences in {self.path}: {len(self)} with {channels}{steps}>"


def check_sequences(sequences: Sequences, *, allow_missing: bool = False) -> Sequences:
    """Check that sequences can be trained on, and return them.

    Args:
        sequences: The sequences.
        allow_missing: Whether values of channels may be missing, which are NaN.

    Raises:
        ValueError: If there is no channel or no sequence, a sequence is empty, or a value is
            missing, infinite or too large for single precision.
    """
    path = sequences.path
    if not sequences.channels:
        raise ValueError(f"expected at least one channel in {path}, got none")
    if not len(sequences):
        raise ValueError(f"expected at least one sequence in {path}, got none")
    empty = np.flatnonzero(sequences.lengths < 1)
    if len(empty):
        location = sequences.location(int(empty[0]))
        raise ValueError(
            f"expected sequences of at least one step in {path}, got none in {location}"
        )
    wrong = np.argwhere(_is_wrong(sequences.values, allow_missing=allow_missing))
    if len(wrong):
        row, channel = wrong[0].tolist()
        ends = np.cumsum(sequences.lengths)
        number = int(np.searchsorted(ends, row, side="right"))
        step = int(row - ends[number] + sequences.lengths[number])
        value = sequences.values[row, channel]
        remedy = "fill in or remove missing values (training takes missing='mask' or 'forward')"
        if not np.isnan(value):
            remedy = "correct or remove infinite values, and those too large for float32"
        raise ValueError(
            f"expected finite values in {path}, got {value} in "
            f"{sequences.location(number)}, channel {sequences.channels[channel]}, step "
            f"{step + 1}; {remedy}"
        )
    targets = sequences.targets
    if targets is not None and _is_wrong(targets, allow_missing=False).any():
        number = int(np.flatnonzero(_is_wrong(targets, allow_missing=False))[0])
        raise ValueError(
            f"expected finite targets in {path}, got {targets[number]} in "
            f"{sequences.location(number)}"
        )
    return sequences


def _is_wrong(values: Values, *, allow_missing: bool) -> NDArray[np.bool_]:
    if allow_missing:  # a missing value is NaN, which is larger than nothing
        return np.abs(values) > _LARGEST
    return ~(np.abs(values) <= _LARGEST)


def numbered_lines(path: Path, stream: BinaryIO | None = None) -> Iterator[tuple[int, str]]:
    """Yield the line numbers and lines of a text file.

    Args:
        path: The file, named in errors.
        stream: Read in place of the file.

    Raises:
        ValueError: If a line is not UTF-8, or has a zero byte, as UTF-16 has; the message names
            the line.
    """
    with ExitStack() as stack:
        lines = stream
        if lines is None:
            lines = stack.enter_context(path.open("rb"))
        encoding = "utf-8-sig"  # without the byte order mark that some programs write first
        number = 0
        for line in lines:
            number += 1
            if b"\0" in line:
                raise ValueError(
                    f"expected text in UTF-8 in {path}, got a zero byte in line {number}: if the "
                    "file is in UTF-16, convert it with iconv -f utf-16 -t utf-8"
                )
            try:
                text = line.decode(encoding)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"expected text in UTF-8 in {path}, got the byte 0x{line[error.start]:02x} "
                    f"at column {error.start + 1} of line {number} ({error.reason}); convert "
                    "the file, for example with iconv -f latin1 -t utf-8, or correct that byte"
                ) from None
            first, *others = text.rstrip("\r\n").split("\r")  # alone it ends a line, too
            yield number, first
            for other in others:
                number += 1
                yield number, other
            encoding = "utf-8"
