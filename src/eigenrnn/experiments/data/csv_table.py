"""Series as comma-separated values."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eigenrnn.experiments.data.long_format import LABEL, SEQUENCE, TIME, from_columns
from eigenrnn.experiments.data.sequences import Sequences, open_lines
from eigenrnn.memory import check_memory

__all__ = ["read_csv"]

_TEXTS = (SEQUENCE, TIME, LABEL)


def read_csv(path: Path) -> Sequences:
    """Read a table whose first line names its columns; see `from_columns`.

    Args:
        path: The file.

    Raises:
        ValueError: If the file is empty or no text, or a row has another number of fields or
            something else than numbers; names the line.
    """
    # Python keeps about 60 bytes for a field, of which the shortest takes two bytes in the file.
    check_memory(32 * path.stat().st_size, f"the table {path}", "write it as Parquet or .npz")
    reader = csv.reader(line for _, line in open_lines(path))
    names = next(_parsed(reader, path), None)
    if not names:
        raise ValueError(f"expected a first line with the names of the columns in {path}")
    if len(set(names)) < len(names):
        raise ValueError(f"expected different names in line 1 of {path}, got {', '.join(names)}")
    rows: list[list[str]] = []
    at: list[int] = []
    for row in _parsed(reader, path):
        if not row:
            continue
        if len(row) != len(names):
            raise ValueError(
                f"expected {len(names)} fields in line {reader.line_num} of {path}, got "
                f"{len(row)}; the line may be cut off"
            )
        rows.append(row)
        at.append(reader.line_num)
    if not rows:
        raise ValueError(f"expected at least one row after the names in {path}, got none")
    if "sequence" not in names:
        raise ValueError(
            f"expected a column 'sequence' and at least one channel in {path}, got the columns "
            f"{', '.join(names)}"
        )
    columns = {
        # as objects: an array of texts takes for each as much memory as for the longest
        name: np.array(column, object) if name in _TEXTS else _numbers(column, name, path, at)
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    return from_columns(columns, path, lambda row: f"line {at[row]}")


def _parsed(reader: Any, path: Path) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(
            f"expected comma-separated values in {path}, got an error in line "
            f"{reader.line_num}: {error}"
        ) from None


def _numbers(column: tuple[str, ...], name: str, path: Path, at: list[int]) -> np.ndarray:
    try:
        numbers = np.array(column, np.float64)
    except ValueError:
        numbers = np.array([_number(word) for word in column])
    missing = np.flatnonzero(~np.isfinite(numbers))
    if len(missing):
        row = int(missing[0])
        raise ValueError(
            f"expected a finite number in the column {name!r} in line {at[row]} of {path}, got "
            f"{column[row]!r}; fill in or leave out what is missing"
        )
    return numbers


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return float("nan")
