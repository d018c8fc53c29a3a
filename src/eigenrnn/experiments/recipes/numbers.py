"""The numbers that a paper would have reported of one of our runs."""

import csv
from dataclasses import replace
from pathlib import Path

from eigenrnn.experiments.recipes.base import Reported, Row
from eigenrnn.experiments.training import Result
from eigenrnn.experiments.training.selection import deciding_split

__all__ = ["deciding_loss", "number_of", "test_of_the_validated"]

_HIGHER_IS_BETTER = {"accuracy", "f1", "r2", "segsnr_db", "stoi", "pesq"}


def number_of(row: Row, result: Result) -> float | None:
    """Read off a run what its paper would have reported; None if the run would not count."""
    reported = row.reported
    if reported.quantity == "epoch_seconds":
        per_epoch = row.task.steps_per_epoch(row.settings.batch_size)
        return result.seconds / result.steps * (per_epoch or 1)
    if reported.quantity == "success":
        return float(_is_success(row, result))
    if reported.only_successes and not _is_success(row, result):
        return None
    return _chosen(reported, result)


def test_of_the_validated(row: Row, result: Result) -> float | None:
    """Give the test number of the validation-selected model, if there is such a number."""
    if "validation" not in result.best:
        return None
    figure = row.reported.quantity.removesuffix("_mean")  # of the steps of training
    return result.best.get("test", {}).get(figure)


def deciding_loss(row: Row, result: Result) -> float:
    """Give the best loss on the split that chooses between points of a search."""
    split = deciding_split(row.task)
    return result.best[split]["loss"] if split in result.best else result.train_loss


def _is_success(row: Row, result: Result) -> bool:
    loss = replace(row.reported, quantity="loss", rule="best", file=None)
    return _chosen(loss, result) < row.reported.success * row.task.baseline()


def _chosen(reported: Reported, result: Result) -> float:
    if reported.file is not None:
        return _column(result.directory / reported.file, reported.quantity)[-1]
    if reported.rule == "validation":
        return result.best[reported.split][reported.quantity]
    column = f"{reported.split}_{reported.quantity}"
    values = _column(result.directory / "metrics.csv", column)
    if reported.rule == "last":
        return values[-1]
    return max(values) if reported.quantity in _HIGHER_IS_BETTER else min(values)


def _column(path: Path, name: str) -> list[float]:
    with path.open(newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file) if row[name]]
