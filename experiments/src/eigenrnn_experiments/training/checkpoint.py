"""Checkpoints: written atomically and verified when they are read."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch

from eigenrnn_experiments.errors import CheckpointError
from eigenrnn_experiments.files import write_atomically

__all__ = ["FORMAT", "load", "save"]

FORMAT = 1
"""The version of the layout."""


def save(path: str | Path, state: Mapping[str, Any]) -> None:
    """Write a checkpoint atomically: after a crash the file is the old one or the new one.

    Args:
        path: The file to write.
        state: Tensors, numbers and strings, in dicts and lists; the key `format` is added.

    Raises:
        OSError: If it cannot be written; an existing file is unchanged.
    """
    # Serialised in memory first: a full disk then fails in a plain write, not inside torch.
    buffer = io.BytesIO()
    torch.save({**state, "format": FORMAT}, buffer)
    write_atomically(Path(path), buffer.getvalue())


def load(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU, without running any code in it.

    Raises:
        CheckpointError: If the file is missing, truncated, damaged or not a checkpoint; the
            message says which.
    """
    path = Path(path)
    _verify(path)  # `torch.load` ignores checksums, and would return damaged weights
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types, none of which names the file
        # the first line: the rest explains how to load unsafe files
        reason = str(error).split("\n")[0].split(". ")[0]
        raise CheckpointError(f"{path} is not a readable checkpoint: {reason}") from error
    version = None
    if isinstance(state, dict):
        version = cast("dict[str, Any]", state).get("format")
    if not isinstance(version, int):
        raise CheckpointError(f"{path} is not a checkpoint of eigenrnn: it has no format number")
    if version > FORMAT:
        raise CheckpointError(
            f"{path} is of a newer eigenrnn: expected the format {FORMAT}, got {version}"
        )
    return cast("dict[str, Any]", state)


def _verify(path: Path) -> None:
    """Verify the checksum of every entry of the archive.

    Raises:
        CheckpointError: If a checksum is wrong, or the file is missing or not an archive.
    """
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except Exception as error:  # a damaged index can raise any exception
        raise CheckpointError(
            f"{path} is truncated or damaged, or is no checkpoint: {error}"
        ) from error
    if damaged is not None:
        raise CheckpointError(f"{path} is damaged: the checksum of {damaged} does not agree")
