"""Locates data files in a folder of the user, in a cache, or on the web."""

import hashlib
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenrnn_experiments.errors import ChecksumError, MissingDataError

__all__ = ["DATA_VARIABLE", "DataFile", "cache_folder", "locate", "missing_file"]

DATA_VARIABLE = "EIGENRNN_DATA"
"""The environment variable that holds the data folder of the user."""


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class DataFile:
    """A published file, identified by its checksum.

    Args:
        path: The path of the file below a data folder, `<set>/<name>`.
        sha256: The checksum of the only accepted version, in lower-case hexadecimals.
        urls: The addresses to download the file from, tried in this order.
        digest: Computes the checksum; by default over all bytes of the file. For an archive that
            the server creates for each download, it is over the contents.
    """

    path: str
    sha256: str
    urls: tuple[str, ...]
    digest: Callable[[Path], str] = _digest

    def candidates(self, root: Path) -> tuple[Path, Path]:
        """The possible paths of the file below `root`: in the folder of its set, or directly."""
        return root / self.path, root / Path(self.path).name


def locate(file: DataFile, data_root: str | Path | None = None) -> Path:
    """Find a data file, or download it, and verify its checksum.

    If `data_root` is set, only that folder is searched, and a missing file is an error.
    Otherwise the search order is the folder in the environment variable `EIGENRNN_DATA`, the
    user's cache, and the web; a download is stored in the cache.

    Args:
        file: The file to find.
        data_root: The only folder to search.

    Returns:
        The path of the verified file.

    Raises:
        MissingDataError: If the file is not found and cannot be downloaded.
        ChecksumError: If the file found has another checksum.
    """
    expected: list[Path] = []
    for root in _roots(data_root):
        expected += file.candidates(root)
    for path in expected:
        if path.is_file():
            return _verified(path, file)
    if data_root is not None:
        raise MissingDataError(_missing_message(file, expected))
    return _download(file, expected)


def missing_file(
    required: Iterable[DataFile | Sequence[DataFile]], data_root: str | Path | None = None
) -> str | None:
    """Return the first file that is not on this machine, without reading or downloading any.

    Args:
        required: The required files; a sequence of files stands for alternatives.
        data_root: The only folder to search, as for `locate`.

    Returns:
        The path of the file below a data folder; None if no file is missing.
    """
    roots = _roots(data_root)
    for choice in required:
        files = choice
        if isinstance(files, DataFile):
            files = [files]
        candidates: list[Path] = []
        for file in files:
            for root in roots:
                candidates += file.candidates(root)
        if not any(path.is_file() for path in candidates):
            return files[0].path
    return None


def _roots(data_root: str | Path | None) -> list[Path]:
    if data_root is not None:
        return [Path(data_root).expanduser()]
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        return [cache_folder()]
    return [Path(named).expanduser(), cache_folder()]


def _pooch() -> Any:
    # imported at first use, because only tasks on real data need it
    return importlib.import_module("pooch")


def cache_folder() -> Path:
    """Return the folder in which downloads are stored."""
    return Path(_pooch().os_cache("eigenrnn"))


def _verified(path: Path, file: DataFile) -> Path:
    found = file.digest(path)
    if found != file.sha256:
        raise ChecksumError(
            f"expected {path} to have the sha256 {file.sha256}, got {found}; "
            "the file is damaged or another version, replace or delete it"
        )
    return path


def _download(file: DataFile, expected: Sequence[Path]) -> Path:
    pooch = _pooch()
    target = cache_folder() / file.path
    failures: list[Exception] = []
    for url in file.urls:
        # pooch writes to a temporary name and renames the file after it has verified the
        # checksum, so a broken download or a second process never sees half a file
        try:
            if file.digest is _digest:
                pooch.retrieve(url, known_hash=file.sha256, fname=target.name, path=target.parent)
            else:
                _retrieve_by_digest(url, file, target)
        except (OSError, ValueError) as failure:  # no connection or disk; a wrong checksum
            failures.append(failure)
        else:
            return target
    raise MissingDataError(_missing_message(file, expected, failures))


def _retrieve_by_digest(url: str, file: DataFile, target: Path) -> None:
    """Download a file that pooch cannot verify, and rename it after verification."""
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        _pooch().retrieve(url, known_hash=None, fname=partial.name, path=partial.parent)
        _verified(partial, file).replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _missing_message(
    file: DataFile, expected: Sequence[Path], failures: Sequence[Exception] = ()
) -> str:
    message = (
        f"expected the file {' or '.join(map(str, expected))}, got none of them; "
        f"download it from {' or '.join(file.urls)} "
        f"and set ${DATA_VARIABLE} or data_root to its folder"
    )
    if failures:
        message += f" (downloading failed: {'; '.join(map(str, failures))})"
    return message
