"""Which evaluation of a run is its best."""

import math
from collections.abc import Mapping

from eigenrnn.experiments.tasks.base import Task

__all__ = ["chosen_by", "deciding_split", "is_better"]


def deciding_split(task: Task) -> str | None:
    """Name the split that chooses the best model: `validation`, else the first that is fixed."""
    splits = [split for split in task.splits if split != "train"]
    return "validation" if "validation" in splits else next(iter(splits), None)


def chosen_by(task: Task) -> str | None:
    """Say by what the best model is chosen, such as `validation accuracy`."""
    split = deciding_split(task)
    return None if split is None else f"{split} {task.metric_name}"


def is_better(task: Task, new: Mapping[str, float], old: Mapping[str, float] | None) -> bool:
    """Compare loss and metric of two evaluations; the loss decides between equal metrics."""
    return _rank(task, new) > _rank(task, old)


def _rank(task: Task, numbers: Mapping[str, float] | None) -> tuple[float, float]:
    if numbers is None or any(map(math.isnan, numbers.values())):
        return -math.inf, -math.inf
    metric = numbers[task.metric_name]
    return metric if task.higher_is_better else -metric, -numbers["loss"]
