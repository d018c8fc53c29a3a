"""Writes a file whole or not at all."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from eigenrnn.errors import WriteError

__all__ = ["naming_the_file", "write_atomically"]


@contextmanager
def naming_the_file(path: Path) -> Generator[None]:
    """Add the name of the file to the error of a failed write, where Python leaves it out.

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
    """Put `content` at `path` so that a crash at any moment leaves the old file or the new one.

    Raises:
        WriteError: If it cannot be written, for instance on a full disk; the old file is untouched
            and nothing is left beside it.
    """
    temporary = path.with_name(f"{path.name}.tmp")  # same folder: a rename must not cross disks
    try:
        with naming_the_file(path):
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename outlast a power cut, where the system can open a folder."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
