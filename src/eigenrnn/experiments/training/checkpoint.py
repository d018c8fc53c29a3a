"""Checkpoints: written whole or not at all, verified before they are believed."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch

from eigenrnn.atomic import write_atomically
from eigenrnn.errors import CheckpointError

__all__ = ["FORMAT", "load", "save"]

FORMAT = 1
"""The version of the layout; a reader refuses those above its own."""


def save(path: str | Path, state: Mapping[str, Any]) -> None:
    """Write a checkpoint; after a crash at any moment the file is the old one or the new one.

    Args:
        path: The file to write.
        state: Tensors, numbers and strings, in dicts and lists; `format` is added.

    Raises:
        OSError: If it cannot be written; the file that was there before is untouched.
    """
    # Built in memory first: a full disk then fails in one plain write, not inside torch's writer.
    buffer = io.BytesIO()
    torch.save({**state, "format": FORMAT}, buffer)
    write_atomically(Path(path), buffer.getvalue())


def load(path: str | Path, *keys: str) -> dict[str, Any]:
    """Read a checkpoint onto the CPU; no code in it is ever run.

    Args:
        path: The file.
        keys: What it must hold.

    Raises:
        CheckpointError: If the file is missing, truncated, damaged, of something else or of a
            newer format, or lacks a key; says which.
    """
    path = Path(path)
    _verify(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen kinds, of which none names the file
        # its first line: torch goes on with how to load what is unsafe
        said = str(error).split("\n")[0].split(". ")[0]
        raise CheckpointError(f"{path} is not a readable checkpoint: {said}") from error
    version = cast("dict[str, Any]", state).get("format") if isinstance(state, dict) else None
    if not isinstance(version, int):
        raise CheckpointError(f"{path} is not a checkpoint of eigenrnn: it has no format number")
    if version > FORMAT:
        raise CheckpointError(
            f"expected a checkpoint of format <= {FORMAT}, got {version} in {path}: "
            "a newer eigenrnn wrote it"
        )
    missing = [key for key in keys if key not in state]
    if missing:
        held = ", ".join(key for key in cast("dict[str, Any]", state) if key != "format")
        raise CheckpointError(
            f"{path} has no {' and no '.join(missing)}, but {held or 'nothing'}: it is another "
            "checkpoint than is needed here, or damaged"
        )
    return cast("dict[str, Any]", state)


def _verify(path: Path) -> None:
    """Compare every part of the file with the checksum that was stored beside it.

    `torch.save` compresses nothing: the parts together are smaller than the file.

    Raises:
        CheckpointError: If one does not agree, the parts are larger than the file, or the file is
            missing or no archive.
    """
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}")
    with path.open("rb") as file:
        if file.read(2) not in (b"PK", b""):
            raise CheckpointError(f"{path} is not a checkpoint")
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            inflated = sum(part.file_size for part in archive.infolist())
            damaged = archive.testzip() if inflated <= size else None
    except Exception as error:  # a damaged index can break the reader in any way
        raise CheckpointError(f"{path} is truncated or damaged ({size} bytes): {error}") from error
    if inflated > size:
        raise CheckpointError(
            f"{path} is no checkpoint: its {size} bytes are an archive of {inflated} bytes, and a "
            "checkpoint is not compressed"
        )
    if damaged is not None:
        raise CheckpointError(f"{path} is damaged: the checksum of {damaged} does not agree")
