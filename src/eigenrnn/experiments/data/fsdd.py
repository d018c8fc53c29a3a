"""The Free Spoken Digit Dataset, read from its zip file as it is."""

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Literal

from torch import Tensor

from eigenrnn.experiments.data.audio import at_rate, read_recording
from eigenrnn.experiments.data.files import DataFile, locate
from eigenrnn.experiments.data.packed import read_members

__all__ = ["FSDD", "read_fsdd"]

_GITHUB = "https://github.com/Jakobovski/free-spoken-digit-dataset/archive"


def _is_recording(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parent.name == "recordings" and path.suffix == ".wav"


def _digest(path: Path) -> str:
    """Compute the checksum of all recordings, joined in the order of their names."""
    content = hashlib.sha256()
    try:
        for _, recording in read_members(path, _is_recording):
            content.update(recording)
    except ValueError as error:
        return f"none ({error})"
    return content.hexdigest()


FSDD = DataFile(
    "fsdd/fsdd-recordings.zip",
    "ddb17656a0bca4c5ddace082be188ca630516dc2ef1110afe3c4e9cc71173de4",
    (
        f"{_GITHUB}/26eb9aaf76e81b692f806f9140c2d2777410d7a1.zip",
        f"{_GITHUB}/refs/heads/master.zip",
    ),
    _digest,
)
"""Any zip file with the recordings of the one version, such as GitHub packs."""

_INDICES = {"train": range(10, 50), "validation": range(5, 10), "test": range(5)}


def read_fsdd(
    split: Literal["train", "validation", "test"], data_root: str | Path | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the samples of each recording, in the order of their names.

    The test part is the official one, recordings 0 to 4 of each digit by each speaker; 5 to 9 are
    held out for validation.

    Args:
        split: Which part.
        data_root: The folder to look in; see `eigenrnn.experiments.data.locate` for where else.

    Raises:
        MissingDataError: If the file is nowhere and cannot be downloaded.
        ChecksumError: If the file is not the published one.

    Source:
        Jackson and others, https://github.com/Jakobovski/free-spoken-digit-dataset.
    """
    path = locate(FSDD, data_root)
    for name, content in read_members(path, lambda name: _is_in(name, split)):
        place = f"{name} of {path}"
        samples, rate = read_recording(content, place)
        yield Path(name).stem, at_rate(samples, rate, place)


def _is_in(name: str, split: str) -> bool:
    return _is_recording(name) and int(Path(name).stem.rsplit("_", 1)[1]) in _INDICES[split]
