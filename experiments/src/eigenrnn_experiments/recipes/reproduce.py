"""Trains the runs of a recipe, and compares the numbers of its paper with ours."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from rich.console import Console
from torch import nn

from eigenrnn.errors import check_positive_integer
from eigenrnn_experiments.console import plain_console
from eigenrnn_experiments.errors import (
    MissingDataError,
    NonFiniteLossError,
    RunExistsError,
    StoppedError,
)
from eigenrnn_experiments.files import write_atomically
from eigenrnn_experiments.recipes.comparison import Comparison, compare, runs_of, to_markdown
from eigenrnn_experiments.recipes.numbers import check_reported, numbers_of
from eigenrnn_experiments.recipes.recipe import Panel, Recipe, Reference, row_of
from eigenrnn_experiments.recipes.row import Computed, Row
from eigenrnn_experiments.tasks import Batch
from eigenrnn_experiments.training import Callback, Dynamics, Run, fit
from eigenrnn_experiments.training.fit import revision, versions
from eigenrnn_experiments.training.run import RunFolder, RunKey, RunNumber, locked
from eigenrnn_experiments.training.table import read_below

__all__ = [
    "Trained",
    "TrainedRow",
    "check_row",
    "check_rows",
    "compute",
    "download_data",
    "draw_panels",
    "folder_name",
    "reproduce",
    "train",
    "write_page",
]


def reproduce(
    recipe: Recipe,
    directory: str | Path,
    *,
    rows: list[str] | None = None,
    points: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    console: Console | None = None,
    dynamics_every: int | None = None,
    max_minutes: float | None = None,
) -> list[Comparison]:
    """Train the networks of a recipe, draw its pictures and write `results.md`.

    Each run has its own folder. The page is written after every run from all runs in the folder,
    also those of earlier calls. A picture is drawn from the finished runs as `NAME.png`, and its
    numbers are written to `NAME.csv`. The rows of another
    recipe are not trained: their runs are read from the folder of that recipe, beside this one.

    Args:
        recipe: The published comparison.
        directory: The folder of the results; each run has its own folder in it.
        rows: Parts of the labels of the rows to run; all rows by default.
        points: The points to run of the grids of the rows; all points by default.
        seeds: The seeds to run; the recipe's by default, the first of them if `quick`.
        quick: Whether each row takes a few steps only, too few for the reported numbers.
        resume: Whether to continue unfinished runs; finished runs are not repeated.
        overwrite: Whether to delete the existing runs of these rows.
        console: The console that shows the progress.
        dynamics_every: The number of steps between two measurements by `Dynamics`; None for none.
        max_minutes: The time limit of each run, see `fit`. A run that exceeds it does not count,
            and the next run begins.
    Returns:
        Each number of the paper beside the runs of its row, also those of earlier calls.
    Raises:
        StoppedError: If Ctrl-C or another signal ended a run; the runs before it stay.
        ValueError: If a row or a point is not in the recipe, a row states another number of
            parameters than its network has, or `dynamics_every` is not positive.
        MissingDataError: If a row's data is missing and cannot be downloaded.
        RunExistsError: If runs exist and neither `resume` nor `overwrite` is set.
        FolderInUseError: If another process is writing to the folder.
    """
    if dynamics_every is not None:
        check_positive_integer("dynamics_every", dynamics_every)
    folder = Path(directory)
    chosen = recipe.select(rows)
    labels = [row.label for row in chosen]
    computed = [row for row in chosen if isinstance(row, Computed)]
    keys = recipe.keys(chosen, points, seeds, quick=quick)
    is_new = not (resume or overwrite)
    if is_new and (keys or computed) and any(folder.glob("**/run.json")):
        # before any training: the first rows may take days
        raise RunExistsError(
            f"{folder} already holds runs: continue them with resume=True (on the command line: "
            "--resume), or delete those of the selected rows with overwrite=True (--overwrite)"
        )
    download_data([row_of(key, recipe) for key in keys])
    if not quick:
        check_rows(recipe, keys)
    found: list[Comparison] = []
    with locked(folder):
        for row in computed:
            key = RunKey(recipe.name, row.label, quick=quick, reduced=recipe.reduced_to)
            compute(row, key, folder / key.path)
        for key in keys:
            callbacks: list[Callback] = []
            if dynamics_every is not None:
                callbacks.append(Dynamics(dynamics_every))
            name = f"{key.network}, seed {key.seed}"
            signal: int | None = None
            try:
                run = train(
                    row_of(key, recipe),
                    key,
                    folder / key.path,
                    name=name,
                    callbacks=callbacks,
                    resume=resume,
                    overwrite=overwrite,
                    console=console,
                    max_minutes=max_minutes,
                )
                signal = run.signal
            except NonFiniteLossError as error:  # the other runs go on
                (console or plain_console(stderr=True)).print(
                    f"{name} diverged: {error}", markup=False, emoji=False, soft_wrap=True
                )
            found = write_page(folder, recipe, quick=quick, listed=labels)
            if signal is not None:
                raise StoppedError(signal)
        if recipe.panels or not found:
            found = write_page(folder, recipe, quick=quick, listed=labels, draws=True)
    return found


def download_data(rows: Sequence[Row]) -> None:
    """Download the data of all runs before the first row trains, which may take days.

    Raises:
        MissingDataError: If a data set is missing and cannot be downloaded.
    """
    for task in dict.fromkeys(row.task for row in rows):
        if task.missing_data() is None:
            continue
        try:
            next(task.batches("train", 1))  # downloads the data, or raises with instructions
        except MissingDataError as error:
            labels = ", ".join(dict.fromkeys(row.label for row in rows if row.task == task))
            raise MissingDataError(f"{error}; or choose other rows than {labels}") from None


def check_rows(recipe: Recipe, keys: Sequence[RunKey]) -> None:
    """Build the network of each row once, because the last row may train days after the first.

    Raises:
        ValueError: If a network has another number of parameters than its row states, the warm-up
            is as long as the run, two runs would have one folder, or no run can have a number
            that the row reports.
    """
    key_of: dict[Path, RunKey] = {}
    for key in keys:
        other = key_of.setdefault(key.path, key)
        if other != key:
            raise ValueError(
                f"expected a folder for each run, got {key.path} for {other} and for {key}: "
                "name one of them otherwise"
            )
    first = {key.row: key for key in reversed(keys)}
    for key in first.values():
        check_row(row_of(key, recipe))


def check_row(row: Row) -> None:
    """Build the network of a row, and check its length and its reported numbers.

    Raises:
        ValueError: As `check_rows`.
    """
    row.settings.pace(row.task)
    row.build(row.settings.seed)
    check_reported(row)


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
    if row.callback_factory is not None:
        callbacks = [*callbacks, row.callback_factory()]
    options = {"name": key.network, "network": row.describe()["network"], **options}
    model = row.build(row.settings.seed)
    run = fit(model, row.task, row.settings, folder, key=key, callbacks=callbacks, **options)
    if run.interrupted or run.numbers is not None:
        return run
    files = RunFolder(folder)
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


def write_page(
    folder: Path,
    recipe: Recipe,
    *,
    quick: bool,
    listed: Collection[str] | None = None,
    draws: bool = False,
) -> list[Comparison]:
    """Write `results.md` from the runs in a folder, and return the comparisons.

    Args:
        folder: The folder. The rows of another recipe are in its folder beside this one.
        recipe: The recipe.
        quick: Whether quick runs are compared.
        listed: The labels of the rows that are listed without runs too; all by default.
        draws: Whether the pictures are drawn, too.
    Raises:
        ValueError: If the record of a run is damaged.
    """
    beside = [row.recipe for row in recipe.rows if isinstance(row, Reference)]
    names = dict.fromkeys(folder_name(each, quick=quick) for each in beside)
    folders = [folder, *(folder.absolute().with_name(name) for name in names)]
    table = read_below(folders)
    for message in table[table["state"] == "unreadable"]["message"]:
        raise ValueError(message)
    found = compare(recipe, table, quick=quick, listed=listed)
    drawn = draw_panels(recipe, folder, table, quick=quick) if draws else None
    page = to_markdown(recipe, found, quick=quick, drawn=drawn)
    write_atomically(folder / "results.md", page.encode())
    return found


def folder_name(recipe: Recipe, *, quick: bool) -> str:
    """Return the default name of the folder of a recipe."""
    reduced = recipe.reduced_to
    name = recipe.name.replace("/", "-")
    if quick:
        return f"{name}-quick"
    if reduced:
        return f"{name}-{reduced.unit}-{reduced.number}"
    return name


def draw_panels(recipe: Recipe, folder: Path, table: pd.DataFrame, *, quick: bool) -> list[Panel]:
    """Draw every panel whose rows have finished runs; return these panels.

    Args:
        recipe: The recipe.
        folder: The folder of the pictures.
        table: The runs.
        quick: Whether the runs are quick ones.
    """
    trained: dict[str, list[TrainedRow]] = {}
    for row in recipe.rows:
        trained[row.label] = []
        its = runs_of(table, recipe, row, quick=quick)
        for path in its[its["state"] == "ended"]["folder"]:
            files = RunFolder(path)
            trained_by = row.recipe if isinstance(row, Reference) else recipe
            trained[row.label].append(TrainedRow(row_of(files.run.key, trained_by), files))
    return [panel for panel in recipe.panels if panel.save(folder, trained)]


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


Trained = Mapping[str, Sequence[TrainedRow]]
"""The finished runs of each row of a recipe, by its label."""
