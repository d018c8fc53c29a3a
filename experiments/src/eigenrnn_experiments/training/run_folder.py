"""The folder of a run: its files, their readers and writers, and its lock."""

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from filelock import FileLock, Timeout
from torch import Tensor

from eigenrnn_experiments.atomic import add_filename_to_errors, write_atomically
from eigenrnn_experiments.errors import FolderInUseError, RunExistsError
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing
from eigenrnn_experiments.training import checkpoint
from eigenrnn_experiments.training.files import (
    Columns,
    convert,
    read_lines,
    read_record,
    read_table,
    write_json,
)
from eigenrnn_experiments.training.run import Run, RunKey

__all__ = ["RunFolder", "locked"]

_REMEDY = "delete it: resume=True (--resume) writes it again from the checkpoint"


class RunFolder:
    """The files of one run, with their readers and writers.

    =================  ================================================================
    `run.json`         what was asked, and what came out; written at the start and at the end
    `metrics.csv`      losses, metrics and measurements by step
    `tensorboard/`     the same numbers for TensorBoard
    `dynamics.jsonl`   spectra and gradient norms, if the callback `Dynamics` is used
    `last.pt`          the latest checkpoint, from which the run can be resumed
    `best.pt`          the model at the best evaluation, also part of `last.pt`
    =================  ================================================================

    Readers raise a `ValueError` that names a damaged file, and run no code from it. The properties
    read a file once, the methods at each call.

    Args:
        path: The folder; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.run_file = self.path / "run.json"
        self.metrics_file = self.path / "metrics.csv"
        self.tensorboard = self.path / "tensorboard"
        self.dynamics_file = self.path / "dynamics.jsonl"
        self.last = self.path / "last.pt"
        self.best = self.path / "best.pt"

    @cached_property
    def run(self) -> Run:
        """The record of the run."""
        return self.read()

    def read(self) -> Run:
        """Read the record of the run.

        Raises:
            ValueError: If there is none, or it is damaged or of another version.
        """
        if not self.run_file.is_file():
            raise ValueError(f"expected the folder of a run, got {self.path}: it has no run.json")
        try:
            return read_record(self.run_file, Run)
        except ValueError as error:
            raise ValueError(f"{error}; {_REMEDY}") from None

    def write(self, run: Run) -> None:
        """Write the record of the run.

        Raises:
            WriteError: If it cannot be written.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.run_file, msgspec.to_builtins(replace(run, signal=None)))

    def write_failure(self, key: RunKey, message: str) -> None:
        """Record that the run has failed, also one that has not begun."""
        run = Run(key=key)
        if self.run_file.exists():
            run = self.read()
        self.write(replace(run, state="failed", message=message))

    @cached_property
    def metrics(self) -> Columns:
        """The columns of `metrics.csv`.

        Raises:
            ValueError: If the file is damaged.
        """
        return read_table(self.metrics_file)

    @cached_property
    def dynamics(self) -> list[dict[str, Any]]:
        """The recorded training dynamics; empty if they were not recorded."""
        if not self.dynamics_file.exists():
            return []
        return read_lines(self.dynamics_file)

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
            return checkpoint.load(self.last)
        self.path.mkdir(parents=True, exist_ok=True)
        for file in self._files():  # only the files of a run: the folder may hold others
            file.unlink(missing_ok=True)
        return None

    def _files(self) -> list[Path]:
        # The checkpoint is deleted first: after a crash no new run can resume from it.
        files = [self.last, self.best, self.metrics_file, self.dynamics_file]
        if not self.tensorboard.is_symlink():  # nothing behind a link is deleted
            files += self.tensorboard.glob("events.out.tfevents.*")
        return [*files, self.run_file]

    def read_preprocessing(self) -> TextPreprocessing | None:
        """Read what maps the user's own texts to inputs; None for a task without such texts.

        Raises:
            ValueError: If the file is damaged.
        """
        stored = self.run.preprocessing
        if stored is None:
            return None
        if stored.kind != TextPreprocessing.__name__:
            raise ValueError(f"{self.run_file} is damaged: there is no {stored.kind}")
        return convert(self.run_file, stored.options, TextPreprocessing)

    def read_column(self, name: str) -> tuple[list[int], list[float]]:
        """Read a column of `metrics.csv`: the steps with a number, and the numbers.

        Raises:
            ValueError: If the file is damaged, or has no such column.
        """
        columns = read_table(self.metrics_file)
        if name not in columns:
            got = ", ".join(columns)
            raise ValueError(f"expected a column {name} in {self.metrics_file}, got {got}")
        known = ~np.isnan(columns[name])  # evaluations have fewer rows than training
        return columns["step"][known].astype(int).tolist(), columns[name][known].tolist()

    def discard_dynamics(self, *, after: int) -> None:
        """Delete the records after a step; all of them if the run has not begun.

        Raises:
            ValueError: If the file is damaged.
            WriteError: If it cannot be written.
        """
        kept: list[dict[str, Any]] = []
        if after:  # a run that begins records step 0 again
            kept = [record for record in self.dynamics if record["step"] <= after]
        lines = map(_json_line, kept)
        write_atomically(self.dynamics_file, "".join(lines).encode())

    def write_dynamics(self, record: Mapping[str, Any]) -> None:
        """Append a record of the training dynamics and flush it to disk.

        Raises:
            WriteError: If it cannot be written.
        """
        with add_filename_to_errors(self.dynamics_file), self.dynamics_file.open("a") as file:
            file.write(_json_line(record))
            file.flush()
            os.fsync(file.fileno())

    def read_weights(self, file: Path | None = None) -> tuple[dict[str, Tensor], int]:
        """Read the weights of a checkpoint, and the number of steps before it.

        Args:
            file: The checkpoint. By default it is that of the best evaluation, or the last one of
                a run without any.
        Raises:
            CheckpointError: If there is no checkpoint, or it is damaged.
        """
        path = self.last
        if file is not None:
            path = file
        elif self.best.exists():
            path = self.best
        state = checkpoint.load(path)
        if "train_step" in state:
            return state["train_step"]["model"], int(state["state"]["step"])
        return state["model"], int(state["step"])


def _json_line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


@contextmanager
def locked(folder: Path, patience: float = 0.0) -> Generator[None]:
    """Lock a folder against other processes; it is created if it does not exist.

    The operating system holds the lock, so a killed process leaves none behind.

    Args:
        folder: The folder.
        patience: How many seconds to wait for another process.
    Raises:
        FolderInUseError: If another process holds the lock.
        OSError: If the folder cannot be created or locked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ".lock"
    lock = FileLock(file)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        raise FolderInUseError(
            f"{folder} is in use by another process: wait until it ends, or choose another folder"
        ) from None
    try:
        yield
    finally:
        # before the release, after which another process may create it
        file.unlink(missing_ok=True)
        lock.release()
