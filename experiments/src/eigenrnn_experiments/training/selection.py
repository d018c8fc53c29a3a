"""The rule that selects the best evaluation of a run."""

import math
from collections.abc import Mapping

from eigenrnn_experiments.tasks.base import Task

__all__ = ["is_better", "selection_metric", "selection_score", "selection_split"]


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
