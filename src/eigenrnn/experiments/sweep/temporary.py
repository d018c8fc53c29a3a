"""The folder for what Ray keeps meanwhile; those of sweeps that were killed are removed."""

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from eigenrnn.experiments.sweep.files import read_json

__all__ = ["temporary_folder"]

_PREFIX = "eigenrnn-"
_DRIVER = "driver.json"


@contextmanager
def temporary_folder() -> Generator[str]:
    """Make a folder for this user alone and remove it afterwards.

    The folders of sweeps that were killed before are removed too.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    try:
        pid = os.getpid()
        content = {"pid": pid, "began": _began(pid), "where": _where()}
        (Path(folder) / _DRIVER).write_text(json.dumps(content))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes of this machine that are gone.

    What cannot be known is kept: folders of other users, machines and containers, and all of them
    on systems without `/proc`.
    """
    for file in parent.glob(f"{_PREFIX}*/{_DRIVER}"):
        try:
            content = read_json(file, ("pid", "began", "where"))
        except (OSError, ValueError):
            continue
        known = content["began"] is not None and content["where"] == _where()
        known &= isinstance(content["pid"], int)
        # a number is used again, but not by a process that began at the same time
        if known and _began(content["pid"]) != content["began"]:
            shutil.rmtree(file.parent, ignore_errors=True)


def _began(pid: int) -> str | None:
    """Say when a process began, in ticks since the machine did; None if there is none."""
    try:
        # behind the name of the program, which stands in parentheses and may hold anything
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def _where() -> str:
    """Name the machine and, in a container, its own numbering of processes."""
    try:
        numbering = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        numbering = ""
    return f"{platform.node()} {numbering}"
