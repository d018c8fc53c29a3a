"""Trains the runs of a recipe, and takes from each the numbers that its paper reports."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.recipes.recipe import Computed, Recipe, Reported, Row
from eigenrnn_experiments.tasks import Batch
from eigenrnn_experiments.training import Callback, Run, fit
from eigenrnn_experiments.training.fingerprint import revision, versions
from eigenrnn_experiments.training.run import RunKey, RunNumber
from eigenrnn_experiments.training.run_folder import RunFolder

__all__ = [
    "TrainedRow",
    "compute",
    "download_data",
    "folder_name",
    "numbers_of",
    "row_of",
    "train",
]


class TrainedRow(NamedTuple):
    """A row with the folder of one of its runs, from which a panel is drawn.

    Args:
        row: The row at the point and with the seed of the run.
        files: The folder.
    """

    row: Row
    files: RunFolder

    def model(self) -> nn.Module:
        """Build the network with the weights of its best evaluation, or else the last weights."""
        model = self.row.build(self.row.settings.seed)
        model.load_state_dict(self.files.read_weights()[0])
        return model.eval()

    def batch(self, size: int) -> Batch:
        """Draw the first training batch of this many sequences."""
        return next(self.row.task.batches("train", size, self.row.settings.seed))


def row_of(key: RunKey, recipe: Recipe) -> Row:
    """Return the row of a recipe with the settings of a run.

    Raises:
        ValueError: If the recipe has no such row or point.
    """
    if key.reduced is not None and recipe.reduced_to is None:
        recipe = recipe.reduced(key.reduced)
    row = recipe.row(key.row)
    if key.quick:
        row = row.quick()
    seed = key.seed or 0
    if key.varied:
        return row.with_changes(key.varied).with_seed(seed)
    points = row.points()
    if key.point not in points:
        named = ", ".join(map(repr, points))
        raise ValueError(f"expected a point of {key.row} ({named}), got {key.point!r}")
    return points[key.point].with_seed(seed)


def train(
    row: Row, key: RunKey, folder: Path, *, callbacks: Sequence[Callback] = (), **options: Any
) -> Run:
    """Train a run, and add to its record the numbers and the scores that its row asks for.

    Args:
        row: The row at the point and with the seed of the run.
        key: What names the run.
        folder: The folder of the run.
        callbacks: Further callbacks.
        options: Further arguments of `fit`.
    Raises:
        NonFiniteLossError: If the run diverges.
    """
    files = RunFolder(folder)
    if row.callback_factory is not None:
        callbacks = [*callbacks, row.callback_factory()]
    options = {"name": key.network, "network": row.describe()["network"], **options}
    model = row.build(row.settings.seed)
    run = fit(model, row.task, row.settings, folder, key=key, callbacks=callbacks, **options)
    if run.interrupted or run.numbers is not None:
        return run
    scores: Mapping[str, float] = {}
    if row.score is not None:
        scores = row.score(TrainedRow(row, files).model(), row.task, folder / "scores")
    run = replace(run, numbers=numbers_of(row, run, files), scores=dict(scores))
    files.write(run)
    return run


def compute(row: Computed, key: RunKey, folder: Path) -> Run:
    """Compute a number without training, and write its record."""
    began = time.monotonic()
    value = row.compute()
    run = Run(
        key=key,
        state="computed",
        seconds=time.monotonic() - began,
        numbers={reported.measure: RunNumber(value) for reported in row.reported},
        revision=revision(),
        versions=versions(),
    )
    RunFolder(folder).write(run)
    return run


def numbers_of(row: Row, run: Run, files: RunFolder) -> dict[str, RunNumber | None]:
    """Return the numbers of a run that has ended beside those of its row, by their `measure`.

    A number that does not count by the paper's rule is None.

    Raises:
        ValueError: If the row compares the time of an epoch, and its task has none.
    """
    numbers: dict[str, RunNumber | None] = {}
    for reported in row.reported:
        if reported.measure in numbers:
            continue
        value = _value(row, reported, run, files)
        if value is None:
            numbers[reported.measure] = None
            continue
        selected: float | None = None
        if "validation" in run.best:
            metric = reported.quantity.removesuffix("_mean")  # a mean is of training losses only
            selected = run.best.get("test", {}).get(metric)
        numbers[reported.measure] = RunNumber(value, selected)
    return numbers


def _value(row: Row, reported: Reported, run: Run, files: RunFolder) -> float | None:
    """Return the number of a run by the paper's rule; None if the run does not count.

    Raises:
        ValueError: If the row compares the time of an epoch, and its task has none.
    """
    if reported.quantity == "epoch_seconds":
        per_epoch = row.task.steps_per_epoch(row.settings.batch_size)
        if per_epoch is None:
            raise ValueError(f"expected a task with epochs in {row.label}, got endless data")
        seconds = run.processor_seconds  # which other programs on the machine change little
        if seconds is None:
            seconds = run.seconds
        return seconds / run.steps * per_epoch
    if reported.quantity == "success":
        return float(_is_success(row, reported, run, files))
    if reported.only_successes and not _is_success(row, reported, run, files):
        return None
    return _by_rule(reported, run, files)


def _is_success(row: Row, reported: Reported, run: Run, files: RunFolder) -> bool:
    loss = replace(reported, quantity="loss", rule="best", column=None)
    return _by_rule(loss, run, files) < reported.success * row.task.baseline()


def _by_rule(reported: Reported, run: Run, files: RunFolder) -> float:
    if reported.rule == "validation":
        return run.best[reported.split][reported.quantity]
    column = reported.column or f"{reported.split}_{reported.quantity}"
    _, values = files.read_column(column)
    if reported.rule == "last":
        return values[-1]
    if reported.better == "higher":
        return max(values)
    return min(values)


def folder_name(recipe: Recipe, *, quick: bool) -> str:
    """Return the default name of the folder of a recipe."""
    reduced = recipe.reduced_to
    name = recipe.name.replace("/", "-")
    if quick:
        return f"{name}-quick"
    if reduced:
        return f"{name}-{reduced.unit}-{reduced.number}"
    return name


def download_data(rows: Sequence[Row]) -> None:
    """Download the data of all rows before the first row trains, which may take days.

    Raises:
        MissingDataError: If a data set is missing and cannot be downloaded.
    """
    for task in dict.fromkeys(row.task for row in rows):
        if task.missing_data() is None:
            continue
        try:
            next(task.batches("train", 1))  # downloads the data, or raises with instructions
        except MissingDataError as error:
            labels = ", ".join(row.label for row in rows if row.task == task)
            raise MissingDataError(f"{error}; or choose other rows than {labels}") from None
