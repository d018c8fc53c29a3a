"""Packed files: gzip, zip and numpy's `.npz`. What is damaged is refused with the file's name."""

import gzip
import io
import math
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eigenrnn.memory import check_memory

__all__ = ["read_arrays", "read_gzip", "read_members", "refuse_damage"]

_CANNOT_OPEN = (FileNotFoundError, IsADirectoryError, PermissionError)
_PIECE = 2**20
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextmanager
def refuse_damage(what: str, path: Path, remedy: str = "") -> Generator[None]:
    """Raise one kind of error for all that a parser raises on a damaged file.

    That the file cannot be opened is told as it is.

    Raises:
        ValueError: If the parser fails for another reason.
    """
    try:
        yield
    except Exception as error:  # zipfile, numpy and pyarrow raise a dozen kinds
        if isinstance(error, _CANNOT_OPEN):
            raise
        got, hint = str(error) or type(error).__name__, f"; {remedy}" if remedy else ""
        raise ValueError(f"expected a complete {what} in {path}, got: {got}{hint}") from error


def read_gzip(path: Path, what: str, peak: int, remedy: str) -> bytes:
    """Unpack a file, as long as what is made of its content fits into memory.

    Args:
        path: The file.
        what: What to call its content in messages.
        peak: The bytes of memory that each unpacked byte will take.
        remedy: What the user can do about too large a content.

    Raises:
        ValueError: If the file is cut off or damaged, or too large.
    """
    pieces: list[bytes] = []
    size = 0
    with gzip.open(path) as stream:
        while True:
            try:
                piece = stream.read(_PIECE)
            except Exception as error:  # EOFError, zlib.error and OSError
                raise ValueError(
                    f"expected a complete gzip file, got {path} of {path.stat().st_size} bytes, "
                    f"which cannot be read on after about {size} unpacked bytes ({error}); copy "
                    "or download it again"
                ) from error
            if not piece:
                return b"".join(pieces)
            size += len(piece)
            check_memory(peak * size, f"{what} in {path}", remedy)
            pieces.append(piece)


def read_members(path: Path, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of files in a zip archive, in the order of their names.

    The checksum of each is verified before it is yielded.

    Raises:
        ValueError: If the archive is damaged, or a member does not fit into memory.
    """
    with refuse_damage("zip archive", path), zipfile.ZipFile(path) as archive:
        wanted = [member for member in archive.infolist() if is_wanted(member.filename)]
    largest = max((member.file_size for member in wanted), default=0)
    check_memory(largest, f"each file in {path}", "download the archive again")
    with refuse_damage("zip archive", path), zipfile.ZipFile(path) as archive:
        size = path.stat().st_size
        for member in sorted(wanted, key=lambda member: member.filename):
            # zipfile makes room for as many bytes as the index says
            if member.compress_size > size:
                raise ValueError(f"{member.compress_size} bytes in a file of {size}")
            yield member.filename, archive.read(member)


def read_arrays(path: Path, what: str, remedy: str) -> dict[str, Any]:
    """Read the arrays of a `.npz` archive, none of which may be pickled.

    Args:
        path: The file.
        what: What to call its content in messages.
        remedy: What the user can do about too large a content.

    Raises:
        ValueError: If the archive is damaged or too large, or an array would have to be unpickled.
    """
    with refuse_damage(".npz archive", path), zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    check_memory(2 * size, f"{what} of {path}", remedy)
    arrays: dict[str, Any] = {}
    for name, content in read_members(path, lambda name: name.endswith(".npy")):
        with refuse_damage(f"array {name}", path):
            arrays[name.removesuffix(".npy")] = _array(content)
    return arrays


def _array(content: bytes) -> Any:
    """Read an array, once it is known to be as large as its header says.

    Raises:
        ValueError: If it is not, or its elements are pickled.
    """
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"the format {version}, which holds neither numbers nor text")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject:  # what is pickled is code, and is not run
        raise ValueError("pickled objects, where only numbers and text are read")
    size, held = math.prod(shape) * dtype.itemsize, len(content) - stream.tell()
    if size != held:
        raise ValueError(f"{held} bytes for {dtype} of the shape {shape}, which takes {size}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)
