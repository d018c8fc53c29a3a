"""Files: read with errors that name the file, written atomically."""

import csv
import io
import json
import math
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from eigenrnn_experiments.errors import WriteError

__all__ = [
    "Columns",
    "add_filename_to_errors",
    "convert",
    "read_json",
    "read_lines",
    "read_record",
    "read_rows",
    "read_table",
    "read_text",
    "write_atomically",
    "write_json",
]


@contextmanager
def add_filename_to_errors(path: Path) -> Generator[None]:
    """Raise a failed write as an error that names the file, which Python sometimes omits.

    Raises:
        WriteError: If a write fails.
    """
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(error.errno, error.strerror, str(path)) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` to `path`; a crash at any moment leaves the old file or the new one.

    A link is replaced by a file, and the file it leads to is unchanged. What a killed process
    leaves behind, `path` with the ending `.tmp`, is deleted by the next call.

    Raises:
        WriteError: If the write fails, for instance on a full disk. The old file is unchanged, and
            no temporary file remains.
    """
    temporary = path.with_name(f"{path.name}.tmp")  # a rename cannot cross disks
    with add_filename_to_errors(path):
        file = temporary.open("wb")
    try:
        with add_filename_to_errors(path):
            with file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Flush a rename to disk, so that it survives a power cut; Windows cannot do this."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_R = TypeVar("_R")
Columns = dict[str, NDArray[np.float64]]
"""Columns of numbers by name; NaN for an empty cell."""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ValueError: If the file is damaged.
    """
    text = read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is truncated or damaged: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: expected an object, got {type(content).__name__}")
    return cast("dict[str, Any]", content)


def read_record(path: Path, kind: type[_R]) -> _R:
    """Read a record from a JSON file.

    Raises:
        ValueError: If the file is damaged, or of another version; names the field that is wrong.
    """
    return convert(path, read_json(path), kind)


def convert(path: Path, content: Mapping[str, Any], kind: type[_R]) -> _R:
    """Return the record that some content of a file describes.

    Raises:
        ValueError: If a field is missing or wrong; names the file and the field.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path} is damaged or of another version: {error}") from None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an indented JSON file atomically.

    Raises:
        TypeError: If a value is none that JSON can hold.
    """
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


def read_table(path: Path) -> Columns:
    """Read a CSV file of numbers.

    Raises:
        ValueError: If the file has no header, or a row is damaged.
    """
    header, rows = read_rows(path)
    table = np.full((len(rows), len(header)), math.nan)
    for number, row in enumerate(rows):
        try:
            table[number] = [float(cell) if cell else math.nan for cell in row]
        except ValueError as error:
            # the header is line 1
            raise ValueError(f"{path} is damaged in line {number + 2}: {error}") from None
    return {name: table[:, column] for column, name in enumerate(header)}


def read_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Read the header and the rows of a CSV file.

    An incomplete last line is ignored, because the run may be writing it.

    Raises:
        ValueError: If the file has no header, or a row has another number of cells.
    """
    text = read_text(path)
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if not rows or not rows[0] or not text.partition("\n")[1]:
        raise ValueError(f"{path} is truncated: it has no header")
    header = rows[0]
    rows = rows[1:]
    if not text.endswith("\n"):  # a crash has cut the last row, which a resumed run writes again
        rows = rows[:-1]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(
                f"{path} is damaged: expected {len(header)} cells in line {number}, got {len(row)}"
            )
    return header, rows


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON objects, one per line; an incomplete last line is ignored.

    Raises:
        ValueError: If a line is damaged.
    """
    text = read_text(path)
    lines = text.splitlines()
    if not text.endswith("\n"):  # a crash has cut the last line
        lines = lines[:-1]
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is damaged in line {number}: {error}") from None
        if not isinstance(content, dict) or not isinstance(content.get("step"), int):
            raise ValueError(f"expected an object with a step in line {number} of {path}")
        found.append(cast("dict[str, Any]", content))
    return found


def read_text(path: Path) -> str:
    """Read a text file.

    Raises:
        ValueError: If it is not UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is damaged: it is not text") from None
