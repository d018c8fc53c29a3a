"""Writes a file whole or not at all."""

import os
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` at `path` so that a crash at any moment leaves the old file or the new one.

    Raises:
        OSError: If it cannot be written, for instance on a full disk; the old file is untouched
            and nothing is left beside it.
    """
    temporary = path.with_name(f"{path.name}.tmp")  # same folder: a rename must not cross disks
    try:
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
