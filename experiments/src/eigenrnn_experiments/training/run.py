"""A run: what names it, what was asked, and what came out. `run.json` holds it."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

__all__ = [
    "FRACTIONS",
    "Description",
    "FirstBelow",
    "Length",
    "Metrics",
    "Run",
    "RunKey",
    "RunNumber",
    "State",
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
        if self.number == 1:
            return f"1 {self.unit.removesuffix('s')}"
        return f"{self.number:,} {self.unit}"


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


@dataclass(frozen=True, kw_only=True, slots=True)  # msgspec leaves defaults out of __dict__
class Run:
    """The record of a run, written when it begins and when it ends.

    Args:
        key: What names it.
        name: Its name on the console.
        task: The task.
        files: The user's own text that the task reads, by the name of its option.
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
