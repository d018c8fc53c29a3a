"""The folder of a run: which files it holds, and when it may be written to."""

import json
import os
import platform
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from eigenrnn.atomic import write_atomically
from eigenrnn.errors import FolderInUseError, RunExistsError
from eigenrnn.experiments.training import checkpoint

__all__ = ["RunDirectory", "locked", "write_json"]


class RunDirectory:
    """The files of one run.

    =================  ================================================================
    `config.json`      settings, task and versions, written when the run begins
    `metrics.csv`      the journal
    `tensorboard/`     the same for TensorBoard
    `dynamics.jsonl`   spectra and gradients on the way, if they were asked for
    `last.pt`          the newest checkpoint, from which the run can go on
    `best.pt`          the model at its best evaluation, a copy of that in `last.pt`
    `result.json`      what came out, written when the run has ended
    =================  ================================================================

    Args:
        path: The folder; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.csv"
        self.board = self.path / "tensorboard"
        self.dynamics = self.path / "dynamics.jsonl"
        self.last = self.path / "last.pt"
        self.best = self.path / "best.pt"
        self.result = self.path / "result.json"

    def open(self, *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
        """Make the folder ready for a run, and return the checkpoint to go on from, if any.

        Raises:
            RunExistsError: If it holds a run and should be neither resumed nor overwritten.
            CheckpointError: If the checkpoint to resume cannot be believed.
        """
        if not resume and not overwrite and any(file.exists() for file in self._files()):
            raise RunExistsError(
                f"{self.path} already holds a run: go on with it with resume=True "
                "(on the command line: --resume), or delete it with overwrite=True (--overwrite)"
            )
        if resume and self.last.exists():
            state = checkpoint.load(self.last)
            if "best" not in state:  # an earlier version kept it in its own file alone
                state["best"] = checkpoint.load(self.best) if self.best.exists() else None
            return state
        self.path.mkdir(parents=True, exist_ok=True)
        for file in self._files():  # only what a run writes: the folder may hold other things
            file.unlink(missing_ok=True)
        return None

    def _files(self) -> list[Path]:
        # The checkpoint goes first: whatever a crash leaves is never a new run with an old state.
        files = [self.last, self.best, self.result, self.metrics, self.dynamics, self.config]
        return [*files, *self.board.glob("events.out.tfevents.*")]


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Keep other processes from writing to a folder meanwhile; it is made if it is not there.

    The operating system holds the lock for the process, so one that is killed leaves none behind.

    Raises:
        FolderInUseError: If a process holds it already; says which, where and since when.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, holder = folder / ".lock", folder / ".lock.json"
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FolderInUseError(
            f"{folder} is in use by {_process(holder)}: wait until it ends, or choose another "
            "folder"
        ) from None
    try:
        since = datetime.now().astimezone().isoformat(" ", "seconds")
        write_json(holder, {"pid": os.getpid(), "host": platform.node(), "since": since})
        yield
    finally:
        holder.unlink(missing_ok=True)
        file.unlink(missing_ok=True)  # before it is released: it may be another's at once
        lock.release()


def _process(holder: Path) -> str:
    """Describe the process that holds a lock."""
    try:
        known = json.loads(holder.read_text())
        return f"process {known['pid']} on {known['host']} since {known['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has just begun, or ends
        return "another process"


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a readable JSON file, whole or not at all; what JSON has no word for becomes text."""
    write_atomically(path, (json.dumps(content, indent=2, default=str) + "\n").encode())
