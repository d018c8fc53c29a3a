"""The result of a run, and the rule that selects its best evaluation."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eigenrnn_experiments.tasks.base import Task

__all__ = [
    "RESULT_REMEDY",
    "Metrics",
    "Result",
    "is_better",
    "selection_metric",
    "selection_score",
    "selection_split",
]

RESULT_REMEDY = "delete it: resume=True (--resume) writes it again from the checkpoint"
_NOT_WRITTEN = ("interrupted", "out_of_time", "signal")

Metrics = dict[str, dict[str, float]]
"""The loss and the metrics of each split, by name."""


@dataclass(frozen=True)
class Result:
    """The result of `fit`.

    Args:
        steps: The total number of optimiser steps.
        seconds: The time of training and evaluation, including that before the run was resumed.
        processor_seconds: The processor time of all threads of this process, which other programs
            on the machine hardly affect; None if it was not recorded.
        train_loss: The loss of the last step.
        last: The metrics of each split at the last evaluation.
        best: The metrics at the best evaluation; the model of that step is in `best.pt`.
        best_step: The step of the best evaluation; None without evaluations.
        best_by: The metric that selected it, such as `validation accuracy`; None without one.
        directory: The folder of the run.
        interrupted: Whether a signal or the time limit ended the run. After a signal in its last
            step it is complete. In either case it can be resumed with `resume=True`.
        out_of_time: Whether the time limit `max_minutes` ended it.
        signal: The number of the signal received; None without one.

    Units:
        Times in seconds; losses and metrics in the units of the task.
    """

    steps: int
    seconds: float
    train_loss: float
    last: Metrics
    best: Metrics
    best_step: int | None
    best_by: str | None
    directory: Path
    interrupted: bool = False
    out_of_time: bool = False
    processor_seconds: float | None = None
    signal: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return everything except the folder, which may move, and the interruption."""
        numbers = asdict(self)
        for name in ("directory", *_NOT_WRITTEN):
            del numbers[name]
        return numbers


def selection_split(task: Task) -> str | None:
    """Return the split that selects the best model.

    It is `validation` if the task has one, otherwise the first split after `train`.
    """
    if "validation" in task.splits:
        return "validation"
    splits = [split for split in task.splits if split != "train"]
    return next(iter(splits), None)


def selection_metric(task: Task, best_by: str | None = None) -> str | None:
    """Return the metric that selects the best model, such as `validation accuracy`.

    Args:
        task: The task.
        best_by: The metric in `Settings`.

    Raises:
        ValueError: If the task has no such metric.
    """
    if best_by is not None and best_by not in task.metric_names:
        raise ValueError(
            f"expected best_by among {', '.join(task.metric_names)}, the metrics of the task, got "
            f"{best_by!r}"
        )
    split = selection_split(task)
    if split is None:
        return None
    return f"{split} {best_by or task.metric_name}"


def selection_score(task: Task, best_by: str | None, numbers: Mapping[str, float]) -> float:
    """Return the metric that selects the best model, with a sign so that larger is better.

    It is NaN if an evaluation lacks it, as the AUC if only one class occurs.
    """
    name = best_by or task.metric_name
    score = numbers.get(name, math.nan)
    return score if task.is_higher_better(name) else -score


def is_better(
    task: Task,
    new: Mapping[str, float],
    old: Mapping[str, float] | None,
    best_by: str | None = None,
) -> bool:
    """Compare two evaluations by their metric; the loss decides between equal metrics."""
    return _rank(task, new, best_by) > _rank(task, old, best_by)


def _rank(
    task: Task, numbers: Mapping[str, float] | None, best_by: str | None
) -> tuple[float, float]:
    if numbers is None or any(map(math.isnan, numbers.values())):
        return -math.inf, -math.inf
    score = selection_score(task, best_by, numbers)
    if math.isnan(score):
        return -math.inf, -math.inf
    return score, -numbers["loss"]  # of equal metrics, such as counts, the lower loss is better
