"""Where the files of real data lie: in a folder that the user names, in a cache, or on the web."""

import hashlib
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenrnn.errors import ChecksumError, MissingDataError

__all__ = ["DATA_VARIABLE", "DataFile", "absent", "locate"]

DATA_VARIABLE = "EIGENRNN_DATA"
"""The environment variable that names the user's folder of data."""


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class DataFile:
    """A published file, known by its contents.

    Args:
        path: Where the file lies below a folder of data, `<set>/<name>`.
        sha256: The checksum of the one version that is accepted, in lower-case hexadecimals.
        urls: The addresses to download the file from, tried in this order.
        digest: Computes the checksum; by default over all bytes of the file. An archive that is
            packed anew at every download is known by what is in it.
    """

    path: str
    sha256: str
    urls: tuple[str, ...]
    digest: Callable[[Path], str] = _digest

    def candidates(self, root: Path) -> tuple[Path, Path]:
        """Where the file may lie below `root`: in the folder of its set, or directly."""
        return root / self.path, root / Path(self.path).name


def locate(file: DataFile, data_root: str | Path | None = None) -> Path:
    """Find a data file, downloading it where that is allowed, and check its contents.

    The file is looked for in `data_root`. Where none is given it is looked for in the folder that
    the environment variable `EIGENRNN_DATA` names, then in the user's cache, and is at last
    downloaded into that cache. A `data_root` is an instruction, so a file that it lacks is an
    error; the variable is a hint, and a file that its folder lacks is looked for further on.

    Args:
        file: The file to find.
        data_root: The only folder to look in.

    Returns:
        The path of a file whose checksum is the published one.

    Raises:
        MissingDataError: If the file is nowhere and cannot be downloaded.
        ChecksumError: If the file found is not the published one.
    """
    roots = _default_roots() if data_root is None else [Path(data_root).expanduser()]
    expected = [path for root in roots for path in file.candidates(root)]
    for path in expected:
        if path.is_file():
            return _verified(path, file)
    if data_root is not None:
        raise MissingDataError(_missing_message(file, expected))
    return _download(file, expected)


def absent(
    wanted: Iterable[DataFile | Sequence[DataFile]], data_root: str | Path | None = None
) -> str | None:
    """Name the first file that is not on this machine, without reading or downloading anything.

    Args:
        wanted: The files, or several that will each do.
        data_root: The only folder to look in, as for `locate`.

    Returns:
        Its path below a folder of data; None if all are there.
    """
    roots = _default_roots() if data_root is None else [Path(data_root).expanduser()]
    for choice in wanted:
        files = [choice] if isinstance(choice, DataFile) else choice
        candidates = (path for file in files for root in roots for path in file.candidates(root))
        if not any(path.is_file() for path in candidates):
            return files[0].path
    return None


def _default_roots() -> list[Path]:
    named = os.environ.get(DATA_VARIABLE)
    return [Path(named).expanduser(), _cache()] if named else [_cache()]


def _pooch() -> Any:
    # The package itself is imported without it: only experiments need data.
    return importlib.import_module("pooch")


def _cache() -> Path:
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
    pooch, target = _pooch(), _cache() / file.path
    failures: list[Exception] = []
    for url in file.urls:
        # pooch writes to a temporary name and renames the file once its checksum is right, so that
        # neither a broken download nor a second process ever meets half a file.
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
    """Download what pooch cannot check, and give it its name once it is known to be right."""
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
        f"and name its folder in ${DATA_VARIABLE} or as data_root"
    )
    if failures:
        message += f" (downloading failed: {'; '.join(map(str, failures))})"
    return message
