"""Atomic writing of files."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from eigenrnn_experiments.errors import WriteError

__all__ = ["add_filename_to_errors", "write_atomically"]


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
