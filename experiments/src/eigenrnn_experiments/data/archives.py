"""Reading of gzip, zip and `.npz` files; a damaged one raises a ValueError that names it."""

import gzip
import io
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read_arrays", "read_gzip", "read_members", "wrap_parser_errors"]

_CANNOT_OPEN = (FileNotFoundError, IsADirectoryError, PermissionError)


@contextmanager
def wrap_parser_errors(what: str, path: Path) -> Generator[None]:
    """Turn every error that a parser raises on a damaged file into a ValueError.

    Errors of opening the file are raised unchanged.

    Raises:
        ValueError: If the parser fails for any other reason.
    """
    try:
        yield
    except Exception as error:  # zipfile, numpy and pyarrow raise a dozen kinds
        if isinstance(error, _CANNOT_OPEN):
            raise
        got = str(error) or type(error).__name__
        raise ValueError(f"expected a complete {what} in {path}, got: {got}") from error


def read_gzip(path: Path) -> bytes:
    """Decompress a file.

    Raises:
        ValueError: If the file is truncated or damaged.
    """
    with wrap_parser_errors("gzip file", path), gzip.open(path) as stream:
        return stream.read()


def read_members(path: Path, is_selected: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of files in a zip archive, in the order of their names.

    The checksum of each file is verified before it is yielded.

    Raises:
        ValueError: If the archive is damaged.
    """
    with wrap_parser_errors("zip archive", path), zipfile.ZipFile(path) as archive:
        selected = [member for member in archive.infolist() if is_selected(member.filename)]
        for member in sorted(selected, key=lambda member: member.filename):
            yield member.filename, archive.read(member)


def read_arrays(path: Path) -> dict[str, Any]:
    """Read the arrays of a `.npz` archive; pickled arrays are rejected.

    Raises:
        ValueError: If the archive is damaged, or an array is pickled.
    """
    arrays: dict[str, Any] = {}
    for name, content in read_members(path, lambda name: name.endswith(".npy")):
        with wrap_parser_errors(f"array {name}", path):
            arrays[name.removesuffix(".npy")] = np.lib.format.read_array(io.BytesIO(content))
    return arrays
