"""The folder of a run: its files and its lock."""

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
    `config.json`      settings, task and versions, written when the run starts
    `metrics.csv`      losses, metrics and measurements by step
    `tensorboard/`     the same numbers for TensorBoard
    `dynamics.jsonl`   spectra and gradient norms, if the callback `Dynamics` is used
    `last.pt`          the latest checkpoint, from which the run can be resumed
    `best.pt`          the model at the best evaluation, also part of `last.pt`
    `result.json`      the result, written when the run is finished
    =================  ================================================================

    Args:
        path: The folder; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.csv"
        self.tensorboard = self.path / "tensorboard"
        self.dynamics = self.path / "dynamics.jsonl"
        self.last = self.path / "last.pt"
        self.best = self.path / "best.pt"
        self.result = self.path / "result.json"

    def open(self, *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
        """Prepare the folder for a run, and return the checkpoint to resume from, if any.

        Raises:
            RunExistsError: If it holds a run that should be neither resumed nor overwritten.
            CheckpointError: If the checkpoint to resume from is damaged.
        """
        if not resume and not overwrite and any(file.exists() for file in self._files()):
            raise RunExistsError(
                f"{self.path} already holds a run: resume it with resume=True "
                "(on the command line: --resume), or delete it with overwrite=True (--overwrite)"
            )
        if resume and self.last.exists():
            state = checkpoint.load(self.last)
            if "best" not in state:  # of an earlier version, which kept it in `best.pt` only
                state["best"] = checkpoint.load(self.best) if self.best.exists() else None
            return state
        self.path.mkdir(parents=True, exist_ok=True)
        for file in self._files():  # only the files of a run: the folder may hold others
            file.unlink(missing_ok=True)
        return None

    def _files(self) -> list[Path]:
        # The checkpoint is deleted first: after a crash no new run can resume from it.
        files = [self.last, self.best, self.result, self.metrics, self.dynamics, self.config]
        return [*files, *self.tensorboard.glob("events.out.tfevents.*")]


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock a folder against other processes; it is created if it does not exist.

    The operating system holds the lock, so a killed process leaves none behind.

    Raises:
        FolderInUseError: If another process holds the lock; the message names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, holder = folder / ".lock", folder / ".lock.json"
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FolderInUseError(
            f"{folder} is in use by {_lock_owner(holder)}: wait until it ends, or choose another "
            "folder"
        ) from None
    try:
        since = datetime.now().astimezone().isoformat(" ", "seconds")
        write_json(holder, {"pid": os.getpid(), "host": platform.node(), "since": since})
        yield
    finally:
        holder.unlink(missing_ok=True)
        file.unlink(
            missing_ok=True
        )  # before the release, after which another process may create it
        lock.release()


def _lock_owner(holder: Path) -> str:
    """Describe the process that holds the lock."""
    try:
        owner = json.loads(holder.read_text())
        return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # that process is just starting or ending
        return "another process"


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an indented JSON file atomically; values unknown to JSON become strings."""
    write_atomically(path, (json.dumps(content, indent=2, default=str) + "\n").encode())
