"""The runs of a recipe: one for each row, point of its grid and seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.recipes.outcome import Outcome, compared_numbers, numbers_by_rule
from eigenrnn_experiments.recipes.recipe import Entry, Recipe, Reference, Row
from eigenrnn_experiments.tasks import Batch
from eigenrnn_experiments.training import Callback, Result, fit
from eigenrnn_experiments.training.run_folder import RunFolder
from eigenrnn_experiments.training.run_key import RunKey, run_path

__all__ = [
    "Run",
    "download_data",
    "folder_name",
    "row_of",
    "runs_in",
    "runs_of",
]


@dataclass(frozen=True, eq=False)
class Run:
    """One training of a row, planned or finished.

    Args:
        recipe: The recipe.
        row: The row at one point of its grid, with the seed of the run.
        key: The name of the run.
        files: The folder of the run.
    """

    recipe: Recipe
    row: Row
    key: RunKey
    files: RunFolder

    @cached_property
    def description(self) -> dict[str, Any]:
        """Task, network and settings as data: runs with equal descriptions are the same run."""
        return self.row.describe()

    def train(self, callbacks: Sequence[Callback] = (), **options: Any) -> Result:
        """Train the network, and compute the further scores of its best model.

        Args:
            callbacks: Further callbacks.
            options: Further arguments of `fit`.
        Raises:
            NonFiniteLossError: If the run diverges.
        """
        row = self.row
        files = self.files
        if row.callback_factory is not None:
            callbacks = [*callbacks, row.callback_factory()]
        options = {
            "name": self.key.name,
            "key": self.key,
            "network": self.description["network"],
            **options,
        }
        model = row.build(self.key.seed)
        result = fit(model, row.task, row.settings, files.path, callbacks=callbacks, **options)
        if row.score is None or result.interrupted or files.read_status().scores is not None:
            return result
        model.load_state_dict(files.read_weights()[0])
        scores = dict(row.score(model.eval(), row.task, files.path / "scores"))
        files.write_status("ended", scores=scores)
        return result

    def add_to(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Add the numbers of a run that has ended or diverged to the outcomes of its row.

        Raises:
            ValueError: If a file is damaged, or of another version.
        """
        files = self.files
        if files.state not in ("ended", "diverged"):
            return list(outcomes)
        name = (self.key.point, self.key.seed, files.config.parameters)
        result = files.result
        scores = files.read_status().scores
        found: list[Outcome] = []
        for outcome, reported in zip(outcomes, compared_numbers(self.row), strict=True):
            if result is None:
                found.append(outcome.with_failure(reported, *name))
            else:
                numbers = numbers_by_rule(self.row, reported, result)
                found.append(outcome.with_run(*name, result.seconds, scores, **numbers))
        return found

    def model(self) -> nn.Module:
        """Build the network with the weights of its best evaluation, or else the last weights."""
        model = self.row.build(self.key.seed)
        model.load_state_dict(self.files.read_weights()[0])
        return model.eval()

    def batch(self, size: int) -> Batch:
        """Draw the first training batch of this many sequences."""
        return next(self.row.task.batches("train", size, self.key.seed))


def row_of(key: RunKey, recipe: Recipe) -> Row:
    """Return the row of a recipe with the settings of a run.

    Raises:
        ValueError: If the recipe has no such row or point.
    """
    if key.reduced is not None:
        recipe = recipe.reduced(key.reduced)
    row = recipe.row(key.row)
    if key.quick:
        row = row.quick()
    if key.varied:
        return row.with_changes(key.varied).with_seed(key.seed)
    points = row.points()
    if key.point not in points:
        named = ", ".join(map(repr, points))
        raise ValueError(f"expected a point of {key.row} ({named}), got {key.point!r}")
    return points[key.point].with_seed(key.seed)


def runs_of(
    recipe: Recipe,
    row: Entry,
    seeds: Sequence[int] | None = None,
    *,
    quick: bool = False,
    root: Path = Path(),
) -> Iterator[Run]:
    """Yield the runs of a row; none if it is not trained.

    Args:
        recipe: The recipe.
        row: The row.
        seeds: The seeds; those of the row by default.
        quick: Whether the runs are quick ones.
        root: The folder of the recipe.
    """
    if not isinstance(row, Row):
        return
    if seeds is None:
        seeds = recipe.seeds_of(row, quick=quick)
    for point, chosen in _points(row, quick=quick):
        for seed in seeds:
            yield _run(recipe, chosen, point, seed, quick=quick, root=root)


def runs_in(folder: Path, recipe: Recipe, row: Entry, *, quick: bool = False) -> Iterator[Run]:
    """Yield the runs of a row that have been started in the folder of its recipe.

    Those of a row of another recipe are in the folder of that recipe, beside this one.

    Raises:
        ValueError: If a `config.json` is damaged.
    """
    if isinstance(row, Reference):
        # this recipe's own folder has the runs of a version in which it trained the row itself
        own = list(_runs_in(folder, row.recipe, row.row, recipe.name, quick=quick))
        yield from own
        names = [run.key for run in own]
        beside = folder.absolute().with_name(folder_name(row.recipe, quick=quick))
        for run in _runs_in(beside, row.recipe, row.row, row.recipe.name, quick=quick):
            if run.key not in names:
                yield run
    elif isinstance(row, Row):
        yield from _runs_in(folder, recipe, row, recipe.name, quick=quick)


def _runs_in(
    folder: Path, recipe: Recipe, row: Row, trained_by: str, *, quick: bool
) -> Iterator[Run]:
    """Yield the runs of a row in a folder that a recipe of this name has trained."""
    for point, chosen in _points(row, quick=quick):
        configs = (folder / run_path(row.label, point, 0)).parent.glob("seed-*/config.json")
        for seed in sorted(int(file.parent.name.removeprefix("seed-")) for file in configs):
            run = _run(recipe, chosen, point, seed, quick=quick, root=folder)
            found = run.files.config.key
            if found is not None and found.kind == (trained_by, quick, recipe.reduced_to):
                yield run


def _run(recipe: Recipe, row: Row, point: str, seed: int, *, quick: bool, root: Path) -> Run:
    key = RunKey(recipe.name, row.label, point, seed, quick, recipe.reduced_to)
    return Run(recipe, row.with_seed(seed), key, RunFolder(root / key.path))


def _points(row: Row, *, quick: bool) -> Iterator[tuple[str, Row]]:
    if quick:
        row = row.quick()
    yield from row.points().items()


def folder_name(recipe: Recipe, *, quick: bool) -> str:
    """Return the default name of the folder of a recipe."""
    reduced = recipe.reduced_to
    name = recipe.name.replace("/", "-")
    if quick:
        return f"{name}-quick"
    if reduced:
        return f"{name}-{reduced.unit}-{reduced.number}"
    return name


def download_data(rows: list[Row]) -> None:
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
