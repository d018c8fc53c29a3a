"""A run: its key, its record (`run.json`: what was asked, what came out), and its folder."""

import json
import math
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from filelock import FileLock, Timeout
from torch import Tensor

from eigenrnn_experiments.errors import CheckpointError, FolderInUseError, RunExistsError
from eigenrnn_experiments.files import (
    Columns,
    add_filename_to_errors,
    convert,
    read_lines,
    read_record,
    read_table,
    write_atomically,
    write_json,
)
from eigenrnn_experiments.statistics import counted
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing
from eigenrnn_experiments.training import checkpoint
from eigenrnn_experiments.training.settings import MAY_CHANGE_ON_RESUME

__all__ = [
    "FRACTIONS",
    "Description",
    "FirstBelow",
    "Length",
    "Metrics",
    "Run",
    "RunFolder",
    "RunKey",
    "RunNumber",
    "State",
    "first_below",
    "locked",
    "slug",
]

Metrics = dict[str, dict[str, float]]
"""The loss and the metrics of each split, by name."""

State = Literal["unfinished", "ended", "diverged", "failed", "computed"]

FRACTIONS = (0.9, 0.5, 0.2, 0.1)
"""Shares of the chance-level loss; a run stores the first step at which its loss is below each."""

_MAX_FOLDER_NAME = 80  # characters


class Length(NamedTuple):
    """The length of a reduced run, which is shorter than the paper's.

    Args:
        unit: What is counted.
        number: How many.
    """

    unit: Literal["epochs", "steps"]
    number: int

    def __str__(self) -> str:
        """Return it in words, such as `5 epochs`."""
        return counted(self.number, self.unit.removesuffix("s"))


@dataclass(frozen=True, slots=True)
class RunKey:
    """What names a run.

    Args:
        recipe: The name of the recipe; empty for a run of no recipe.
        row: The label of the row.
        point: The point of the row's grid; empty without a grid.
        seed: The seed of the run; None for a number without training.
        quick: Whether it is a quick run.
        reduced: The length of a reduced run; None for a full run.
        varied: Hyperparameters that differ from the recipe, by dotted names. With them the run
            belongs to no point of the recipe's grid.
        number: The number of the point in a sweep with a grid or a search of its own.
    """

    recipe: str = ""
    row: str = ""
    point: str = ""
    seed: int | None = None
    quick: bool = False
    reduced: Length | None = None
    varied: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    number: int | None = None

    @property
    def path(self) -> Path:
        """The folder of the run, relative to that of its recipe or sweep."""
        folder = slug(self.point)
        if self.number is not None:
            folder = f"{self.number:03d}-{folder}".strip("-")[:_MAX_FOLDER_NAME].strip("-")
        path = Path(slug(self.row), folder)
        if self.seed is None:
            return path
        return path / f"seed-{self.seed}"

    @property
    def network(self) -> str:
        """The row and the point in words, as on the console."""
        name = ", ".join(part for part in (self.row, self.point) if part)
        if self.varied and self.recipe:
            return f"{name} (not comparable with the paper)"
        return name

    def __str__(self) -> str:
        """Return it in words, such as `scornn/table1, scoRNN 170, seed 0`."""
        parts = [self.recipe, self.row, self.point]
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        if self.reduced is not None:
            parts.append(str(self.reduced))
        return ", ".join(part for part in parts if part)


class Description(msgspec.Struct, frozen=True):
    """An object as data: the name of its class, and the options of its constructor."""

    kind: str = msgspec.field(name="class", default="")
    options: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class RunNumber:
    """The number of a run beside one of its paper's.

    Args:
        value: The number by the paper's rule.
        selected: The test number of the model selected on the validation set; None without one.
    """

    value: float
    selected: float | None = None


@dataclass(frozen=True, slots=True)
class FirstBelow:
    """Where a curve first falls below a fraction of the chance-level loss.

    Args:
        column: The column of `metrics.csv`.
        fraction: The fraction.
        step: The first step below; None if the curve never gets there.
    """

    column: str
    fraction: float
    step: int | None


def first_below(columns: Columns, baseline: float) -> tuple[FirstBelow, ...]:
    """Return where each loss first falls below fractions of the chance-level loss."""
    found: list[FirstBelow] = []
    for name, values in columns.items():
        if "loss" not in name:
            continue
        for fraction in FRACTIONS:
            below = np.flatnonzero(values < fraction * baseline)
            step: int | None = None
            if len(below):
                step = int(columns["step"][below[0]])
            found.append(FirstBelow(name, fraction, step))
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)  # msgspec leaves defaults out of __dict__
class Run:
    """The record of a run, written when it begins and when it ends.

    Args:
        key: What names it.
        name: Its name on the console.
        task: The task.
        files: The user's own text that the task reads, by the name of its option.
        sha256: Its checksum, by the same name.
        network: The call that makes the network; None for one that was made in Python.
        layer: The class of the recurrent layer.
        modules: The modules of the network, as torch prints them.
        parameters: The number of trained parameters.
        settings: The training settings.
        best_by: The metric that selects the best evaluation, such as `validation accuracy`.
        preprocessing: What maps the user's own texts to inputs.
        versions: The versions of the software, and the machine.
        revision: The commit of the source tree, and whether it was modified; None if unknown.
        state: `unfinished`, `ended`, `diverged` (a loss was not finite), `failed` (with an error),
            or `computed` for a number without training.
        message: Why it has diverged or failed.
        ended: When it ended or diverged, in ISO 8601.
        steps: The number of optimiser steps taken.
        seconds: The time of training and evaluation, including that before it was resumed.
        processor_seconds: The processor time of all threads, which other programs on the machine
            hardly affect; None if it was not recorded.
        train_loss: The loss of the last step.
        last: The metrics of each split at the last evaluation.
        best: The metrics at the best evaluation; the model of that step is in `best.pt`.
        best_step: The step of the best evaluation; None without evaluations.
        baseline: The chance-level loss; None if unknown.
        first_below: The first steps below fractions of it; None of a run that did not keep them.
        numbers: The number beside each of its row, by its `measure`, the main one first; None if
            it does not count by the paper's rule. None until they are known.
        scores: Further scores of the best model.
        signal: The number of the signal that ended it early. It is not stored.
        curves: Thinned curves, in an archive, which has no `metrics.csv`.
    Units:
        Times in seconds; losses and metrics in the units of the task.
    """

    key: RunKey = field(default_factory=RunKey)
    name: str = ""
    task: Description = field(default_factory=Description)
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    sha256: Mapping[str, str] = field(default_factory=dict[str, str])
    network: Mapping[str, Any] | None = None
    layer: str = ""
    modules: str = ""
    parameters: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    best_by: str | None = None
    preprocessing: Description | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    revision: Mapping[str, Any] | None = None
    state: State = "unfinished"
    message: str = ""
    ended: str | None = None
    steps: int = 0
    seconds: float = 0.0
    processor_seconds: float | None = None
    train_loss: float | None = None
    last: Metrics = field(default_factory=dict[str, dict[str, float]])
    best: Metrics = field(default_factory=dict[str, dict[str, float]])
    best_step: int | None = None
    baseline: float | None = None
    first_below: tuple[FirstBelow, ...] | None = None
    numbers: Mapping[str, RunNumber | None] | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    signal: int | None = None
    curves: Mapping[str, dict[str, list[float | None]]] = field(
        default_factory=dict[str, dict[str, list[float | None]]]
    )

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What determines its numbers, and may not change when it is resumed."""
        may_change = MAY_CHANGE_ON_RESUME
        if self.settings["lr_schedule"] != "constant":  # which depends on the length
            may_change = may_change - {"steps", "epochs"}
        found: dict[str, Any] = {
            "settings": {n: value for n, value in self.settings.items() if n not in may_change},
            "task": {"class": self.task.kind, "options": self.task.options},
            "network": self.network or self.modules,
        }
        if self.sha256:
            found["sha256"] = self.sha256
        if self.preprocessing is not None:  # the symbols of a text, each with its embedding
            found["preprocessing"] = self.preprocessing.options
        return found

    @property
    def interrupted(self) -> bool:
        """Whether a signal or the time limit ended its training, which may be complete."""
        return self.state == "unfinished" or self.signal is not None

    @property
    def value(self) -> float | None:
        """The number beside the main one of its row; None if there is none that counts."""
        main = next(iter((self.numbers or {}).values()), None)
        return None if main is None else main.value

    @property
    def deciding(self) -> float:
        """The loss by which the best point of a search is chosen; infinite if it diverged."""
        if self.state == "diverged":
            return math.inf
        for split in ("validation", *self.best):  # or the first split
            if split in self.best:
                return self.best[split]["loss"]
        return math.inf if self.train_loss is None else self.train_loss


def slug(label: str) -> str:
    """Return the folder name of a label."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


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
            CheckpointError: If the checkpoint to resume from is damaged, or that of a run that
                ended is gone.
        """
        if not resume and not overwrite and any(file.exists() for file in self._files()):
            raise RunExistsError(
                f"{self.path} already holds a run: resume it with resume=True "
                "(on the command line: --resume), or delete it with overwrite=True (--overwrite)"
            )
        if resume and self.last.exists():
            return checkpoint.load(self.last)
        if resume and self.run_file.exists() and self.read().state == "ended":
            raise CheckpointError(
                f"{self.path} holds a run that ended, without the {self.last.name} to go on from: "
                "take another folder, or delete the run with overwrite=True (--overwrite)"
            )
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
            file: The checkpoint. By default it is that of the best evaluation, which the last one
                holds too, or the last one of a run without any.
        Raises:
            CheckpointError: If there is no checkpoint, or it is damaged.
        """
        path = self.last
        if file is not None:
            path = file
        elif self.best.exists():
            path = self.best
        state = checkpoint.load(path)
        if file is None and state.get("best") is not None:
            state = state["best"]
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
