"""Readers of time series in .csv, .parquet and .npz files; those of .ts files are in `ts`."""

import csv
import importlib
import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from eigenrnn.errors import check_installed
from eigenrnn.experiments.data.archives import read_arrays, wrap_parser_errors
from eigenrnn.experiments.data.sequences import (
    Sequences,
    as_float32,
    as_matrix,
    check_sequences,
    is_number,
    numbered_lines,
)
from eigenrnn.experiments.data.ts import read_ts
from eigenrnn.free_memory import check_memory

__all__ = ["READERS", "from_columns", "read_csv", "read_npz", "read_parquet", "read_series"]


SEQUENCE, TIME, LABEL, TARGET = "sequence", "time", "label", "target"
_ROW_NUMBERS = re.compile(r"Unnamed: \d+|__index_level_\d+__")
"""The names that pandas gives a column of row numbers, besides none."""

_OTHER_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'"}
_MISSING = ("", "-", "?", "na", "n/a", "nan", "null", "none")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_SHOWN = 40  # characters of a text that is not a number


def from_columns(
    columns: Mapping[str, Any], path: Path, row_location: Callable[[int], str]
) -> Sequences:
    """Group the rows of a table into sequences.

    The column `sequence` names the sequence of a row. The optional column `time` orders the rows
    of a sequence. The optional column `label` or `target`, of which there is at most one, is the
    same in all rows of a sequence. Every other column is a channel, and has a name. Sequences are
    in the order of their first rows.

    Args:
        columns: The one-dimensional array of each column; strings have the dtype object.
        path: The file.
        row_location: Describes the location of a row in the file, for error messages.

    Raises:
        ValueError: If a column is missing or not numeric, or the columns are inconsistent.
    """
    channels = _channels(list(columns), path)
    columns = {
        # a table in Parquet may hold numbers as texts
        name: _numbers(column, name, path, row_location)
        if name not in _TEXTS and np.asarray(column).dtype == object
        else column
        for name, column in columns.items()
    }
    names, first, which = np.unique(columns[SEQUENCE], return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))  # of each name, by its first row
    which = rank[which]
    keys = (which,) if TIME not in columns else (_times(columns[TIME], path, row_location), which)
    order = np.lexsort(keys)
    if TIME in columns:
        _check_times(keys[0][order], which[order], order, path, row_location)
    values = as_matrix([columns[name] for name in channels], path, channels)[order]
    labels, numbers = (
        _constant(columns.get(name), which, first, rank, path, row_location)
        for name in (LABEL, TARGET)
    )
    ordered = names[np.argsort(first)].tolist()
    return check_sequences(
        Sequences(
            path=path,
            values=values,
            lengths=np.bincount(which, minlength=len(names)),
            names=tuple(map(str, ordered)),
            channels=channels,
            labels=None if labels is None else tuple(map(str, labels.tolist())),
            targets=None if numbers is None else as_matrix([numbers], path, [TARGET])[:, 0],
            location=lambda number: f"the sequence {ordered[number]}",
        )
    )


def _channels(names: Sequence[str], path: Path) -> tuple[str, ...]:
    """Return the names of the channels of a table.

    Raises:
        ValueError: If a name is missing or occurs twice, if a column holds the row numbers of
            pandas, if there is no column `sequence` or no channel, or a `label` and a `target`.
    """
    for number, name in enumerate(names, start=1):
        if _ROW_NUMBERS.fullmatch(name) or (number == 1 and not name.strip()):
            raise ValueError(
                f"expected a name for each column of {path}, got {name!r} for column {number}, "
                "which seems to hold the row numbers that pandas writes: write the table with "
                "index=False, or remove the column"
            )
        if not name.strip():
            raise ValueError(
                f"expected a name for each column of {path}, got {name!r} for column {number}: "
                "name the column or remove it"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"expected different names of columns in {path}, got {', '.join(names)}")
    channels = tuple(name for name in names if name not in (SEQUENCE, TIME, LABEL, TARGET))
    if SEQUENCE not in names or not channels:
        raise ValueError(
            f"expected a column {SEQUENCE!r} and at least one channel in {path}, got the columns "
            f"{', '.join(names)}"
        )
    _check_one_answer(names, path)
    for name in channels:
        if name.strip().lower() in (SEQUENCE, TIME, LABEL, TARGET):
            raise ValueError(
                f"expected {name.strip().lower()!r} in lower case in {path}, got the column "
                f"{name!r}, which would be a channel: rename or remove it"
            )
    return channels


def _check_one_answer(names: Container[str], path: Path) -> None:
    """Check that a file has either labels or targets.

    Raises:
        ValueError: If it has both.
    """
    if LABEL in names and TARGET in names:
        raise ValueError(
            f"expected either {LABEL!r} (classes) or {TARGET!r} (numbers) in {path}, got both: "
            "remove the one that is not to be learnt"
        )


def _times(column: Any, path: Path, row_location: Callable[[int], str]) -> Any:
    times = np.asarray(column)
    if times.dtype.kind == "O":  # strings: numbers, or dates, which are sorted as text
        try:
            times = times.astype(np.float64)
        except (TypeError, ValueError):
            return np.unique(times, return_inverse=True)[1]
    missing = np.flatnonzero(np.isnat(times) if times.dtype.kind in "Mm" else ~np.isfinite(times))
    if len(missing):
        raise ValueError(
            f"expected a time in each row of {path}, got {times[missing[0]]} in "
            f"{row_location(int(missing[0]))}"
        )
    return times


def _check_times(
    times: Any, which: Any, order: Any, path: Path, row_location: Callable[[int], str]
) -> None:
    """Check that all rows of a sequence have different times.

    Raises:
        ValueError: If two times are equal.
    """
    twice = np.flatnonzero((np.diff(which) == 0) & (times[1:] == times[:-1]))
    if len(twice):
        one, other = (row_location(int(order[twice[0] + k])) for k in (0, 1))
        raise ValueError(
            f"expected each time once in a sequence of {path}, got one in {one} and in {other}"
        )


def _constant(
    column: Any | None,
    which: Any,
    first: Any,
    rank: Any,
    path: Path,
    row_location: Callable[[int], str],
) -> Any | None:
    """Return the label or target of each sequence, in the order of the sequences.

    Raises:
        ValueError: If it differs between the rows of a sequence.
    """
    if column is None:
        return None
    column = np.asarray(column)
    values: Sequence[Any] = column[first[np.argsort(rank)]]
    differs = np.flatnonzero(column != np.asarray(values)[which])
    if len(differs):
        row = int(differs[0])
        raise ValueError(
            f"expected one label or target in all rows of a sequence of {path}, got "
            f"{column[row]!s} and {values[int(which[row])]!s} in {row_location(row)}"
        )
    return values


_TEXTS = (SEQUENCE, TIME, LABEL)


def read_csv(path: Path, stream: BinaryIO | None = None) -> Sequences:
    """Read a table whose first line names its columns; see `from_columns`.

    Args:
        path: The file, named in errors.
        stream: Read in place of the file.

    Raises:
        ValueError: If the file is empty or not a text file, a row has another number of fields, or
            a value is not a number; the message names the line.
    """
    # Python takes about 60 bytes per field; the shortest field has two bytes in the file
    size = path.stat().st_size if stream is None else 0
    check_memory(32 * size, f"the table {path}", "write it as Parquet or .npz")
    reader = csv.reader(line for _, line in numbered_lines(path, stream))
    names = next(_parse_rows(reader, path), None)
    if not names:
        raise ValueError(f"expected a first line with the names of the columns in {path}")
    for separator, shown in _OTHER_SEPARATORS.items():
        if SEQUENCE not in names and any(separator in name for name in names):
            raise ValueError(
                f"expected values separated by commas in {path}, got a first line that seems to "
                f"be separated by {shown}: write the file with commas between the values, and "
                "with points in the numbers"
            )
    _channels(names, path)  # before the rows, whose errors would be misleading
    rows: list[list[str]] = []
    at: list[int] = []
    for row in _parse_rows(reader, path):
        if not row:
            continue
        if len(row) != len(names):
            raise ValueError(
                f"expected {len(names)} fields in line {reader.line_num} of {path}, got "
                f"{len(row)}; the line may be truncated"
            )
        rows.append(row)
        at.append(reader.line_num)
    if not rows:
        raise ValueError(f"expected at least one row after the names in {path}, got none")

    def row_location(row: int) -> str:
        return f"line {at[row]}"

    columns: dict[str, np.ndarray] = {}
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        if name in _TEXTS:
            # as objects: in an array of strings each takes as much memory as the longest
            columns[name] = np.array(column, object)
        else:
            columns[name] = _numbers(column, name, path, row_location)
    return from_columns(columns, path, row_location)


def _parse_rows(reader: Any, path: Path) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(
            f"expected comma-separated values in {path}, got an error in line "
            f"{reader.line_num}: {error}"
        ) from None


def _numbers(
    column: Sequence[Any], name: str, path: Path, row_location: Callable[[int], str]
) -> np.ndarray:
    """Return the numbers of a column of texts.

    Raises:
        ValueError: If one is a text, missing or not finite.
    """
    try:
        numbers = np.array(column, np.float64)
    except (TypeError, ValueError):
        numbers = np.array([_number(word) for word in column])
    missing = np.flatnonzero(~np.isfinite(numbers))
    if not len(missing):
        return numbers
    row = int(missing[0])
    word = str(column[row])
    place = f"the column {name!r} in {row_location(row)} of {path}"
    if _DECIMAL_COMMA.fullmatch(word.strip()):
        raise ValueError(
            f"expected a number in {place}, got the text {word!r}: write numbers with a decimal "
            "point"
        )
    if word.strip().lower() in _MISSING or is_number(word):
        raise ValueError(
            f"expected a finite number in {place}, got {word!r}; fill in or remove missing values"
        )
    raise ValueError(
        f"expected a number in {place}, got the text {word[:_SHOWN]!r}: remove the column, write "
        f"its values as numbers, or name it {LABEL!r} if it is the class of the sequence"
    )


def _number(word: Any) -> float:
    try:
        return float(word)
    except (TypeError, ValueError):
        return float("nan")


def read_parquet(path: Path) -> Sequences:
    """Read a Parquet table; see `from_columns` for its columns.

    Args:
        path: The file.

    Raises:
        ImportError: If pyarrow is not installed.
        ValueError: If the file is truncated or a value is missing.
    """
    check_installed("series", f"reading {path} (unlike .csv and .npz)", "pyarrow")
    pyarrow: Any = importlib.import_module("pyarrow")  # without types
    parquet: Any = importlib.import_module("pyarrow.parquet")
    with wrap_parser_errors("Parquet file", path):
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        size = sum(group.total_byte_size for group in groups)
    check_memory(4 * size, f"the table {path}", "cut it into smaller ones")
    with wrap_parser_errors("Parquet file", path):
        table = file.read()
        table.validate(full=True)
    _check_table(table, path, pyarrow.types)
    with wrap_parser_errors("Parquet file", path):
        columns = {name: table[name].to_numpy() for name in table.column_names}
    return from_columns(columns, path, lambda row: f"row {row + 1}")


def _check_table(table: Any, path: Path, types: Any) -> None:
    """Check that a table holds numbers, strings and times.

    Raises:
        ValueError: If it has no row, invalid column names, missing values or other types.
    """
    names = table.column_names
    if not table.num_rows:
        raise ValueError(f"expected at least one row in {path}, got none")
    _channels(names, path)
    for name in names:
        column = table[name]
        if types.is_nested(column.type) or types.is_binary(column.type):
            raise ValueError(
                f"expected numbers, strings or times in the column {name!r} of {path}, got "
                f"{column.type}"
            )
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise ValueError(
                f"expected a value in each row of {path}, got none in the column {name!r} of "
                f"row {row + 1}; fill in or remove missing values"
            )


def read_npz(path: Path) -> Sequences:
    """Read the arrays `x`, `lengths`, and `label` or `target` of an `.npz` archive.

    The array `x` holds the sequences either padded, (count, steps, channels), or concatenated,
    (sum of lengths, channels). The array `lengths` may be omitted if `x` has no padding. The
    arrays `channels` and `names` may hold the names of the channels and of the sequences.

    Args:
        path: The file.

    Raises:
        ValueError: If the file is truncated, or an array is missing or has another shape.
    """
    arrays = read_arrays(path, "the arrays", "cut the file into smaller ones")
    x = arrays.get("x")
    if x is None or x.ndim not in (2, 3) or x.dtype.kind not in "fiub":
        got = "no such array" if x is None else f"{x.dtype} of the shape {x.shape}"
        raise ValueError(
            f"expected numbers of the shape (count, steps, channels), or (sum of lengths, "
            f"channels), as x in {path}, got {got}"
        )
    _check_one_answer(arrays, path)
    lengths = _lengths(x, arrays.get("lengths"), path)
    if x.ndim == 3:
        x = x[np.arange(x.shape[1]) < lengths[:, None]]
    labels, numbers = (
        _targets(arrays.get(name), len(lengths), name, path) for name in _TARGET_NAMES
    )
    return check_sequences(
        Sequences(
            path=path,
            values=as_float32(x),
            lengths=lengths,
            names=_names(arrays.get("names"), len(lengths), "names", path),
            channels=_names(arrays.get("channels"), x.shape[-1], "channels", path),
            labels=None if labels is None else _labels(labels, path),
            targets=None if numbers is None else as_float32(numbers),
            location=lambda number: f"the sequence with index {number}",
        )
    )


_TARGET_NAMES = ("label", "target")


def _names(array: Any | None, count: int, name: str, path: Path) -> tuple[str, ...]:
    """Return the names of sequences or channels; by default their numbers from one.

    Raises:
        ValueError: If they are not texts, not one for each, or not different.
    """
    if array is None:
        return tuple(str(k) for k in range(1, count + 1))
    if array.dtype.kind != "U" or array.shape != (count,) or len(set(array.tolist())) != count:
        raise ValueError(
            f"expected {count} different texts as {name} in {path}, got {array.dtype} of the "
            f"shape {array.shape}"
        )
    return tuple(array.tolist())


def _labels(labels: Any, path: Path) -> tuple[str, ...]:
    """Return the labels as text.

    Raises:
        ValueError: If a label is missing.
    """
    words = tuple(map(str, labels.tolist()))
    missing = [number for number, word in enumerate(words) if word.strip() in {"", "nan", "None"}]
    if missing:
        raise ValueError(
            f"expected a label for every sequence in {path}, got none for that with index "
            f"{missing[0]}"
        )
    return words


def _lengths(x: Any, lengths: Any | None, path: Path) -> Any:
    if lengths is None:
        if x.ndim == 2:
            raise ValueError(
                f"expected lengths for the two-dimensional x in {path}, got no such array"
            )
        return np.full(len(x), x.shape[1], np.int64)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise ValueError(
            f"expected lengths as whole numbers in one dimension in {path}, got {lengths.dtype} "
            f"of the shape {lengths.shape}"
        )
    longest, count = (len(x), len(lengths)) if x.ndim == 2 else (x.shape[1], len(x))
    # check the range of each length before the sum, which could overflow
    fits = len(lengths) == count and ((lengths >= 1) & (lengths <= longest)).all()
    steps: Any = lengths.astype(np.int64)
    if not fits or (x.ndim == 2 and steps.sum() != len(x)):
        raise ValueError(
            f"expected lengths of whole numbers >= 1 that fit x of the shape {x.shape} in {path}, "
            f"got {len(lengths)} of them with the sum {sum(lengths.tolist())}"
        )
    return steps


def _targets(array: Any | None, count: int, name: str, path: Path) -> Any | None:
    if array is None:
        return None
    if array.shape != (count,) or (name == "target" and array.dtype.kind not in "fiu"):
        raise ValueError(
            f"expected {count} of {name} in {path}, got {array.dtype} of the shape {array.shape}"
        )
    return array


READERS: dict[str, Callable[[Path], Sequences]] = {
    ".ts": read_ts,
    ".npz": read_npz,
    ".csv": read_csv,
    ".parquet": read_parquet,
}
"""The reader of each file name extension."""


def read_series(path: str | Path) -> Sequences:
    """Read a file of time series.

    Args:
        path: The file; its extension determines the format. `-` reads CSV from standard input.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        ValueError: If there is no reader for the extension, or the file is empty.
    """
    if str(path) == "-":
        return read_csv(Path("standard input"), sys.stdin.buffer)
    path = Path(path).expanduser()
    if path.is_dir():
        readable = sorted(file for file in path.iterdir() if file.suffix.lower() in READERS)
        example = f", such as {readable[0]}" if readable else ""
        raise IsADirectoryError(
            f"expected a file of series, got the folder {path}: name a file in it{example}"
        )
    if not path.is_file():
        raise FileNotFoundError(f"expected a file of series, got {path}, which is not a file")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"expected a file that ends in {', '.join(READERS)}, got {path}")
    if not path.stat().st_size:
        raise ValueError(f"expected series in {path}, got an empty file")
    return reader(path)
