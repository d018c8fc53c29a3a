"""The runs of a recipe: one for each row, point of its grid and seed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eigenrnn.errors import MissingDataError, NonFiniteLossError
from eigenrnn.experiments.recipes.outcome import Outcome
from eigenrnn.experiments.recipes.recipe import Recipe, Row
from eigenrnn.experiments.training import Callback, fit
from eigenrnn.experiments.training.progress import plain_console
from eigenrnn.experiments.training.run_folder import RunFolder
from eigenrnn.models import count_parameters

__all__ = ["RecipeRun", "RunKey", "download_data", "run_path", "runs_of"]


@dataclass(frozen=True)
class RunKey:
    """The name of one run among the runs of all recipes; its `config.json` stores it.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        point: The point of the row's grid; empty without a grid.
        seed: The seed of the run.
        quick: Whether it is a quick run.
        varied: Hyperparameters that differ from the recipe, by dotted names. With them the run
            belongs to no point of the grid.
    """

    recipe: str
    row: str
    point: str
    seed: int
    quick: bool
    varied: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_config(self) -> dict[str, Any]:
        """Return the entries of `config.json` from which the key can be read back."""
        entries = {name: value for name, value in vars(self).items() if value or name != "varied"}
        return {"command": "reproduce", **entries}

    def find_row(self, recipe: Recipe) -> Row:
        """Return the row of the recipe with the settings of this run.

        Raises:
            ValueError: If the recipe has no such row or point.
        """
        rows = {row.label: row for row in recipe.rows if isinstance(row, Row) and row.layer}
        if self.row not in rows:
            raise ValueError(
                f"expected a row of {recipe.name} ({', '.join(rows)}), got {self.row!r}"
            )
        row = rows[self.row].quick() if self.quick else rows[self.row]
        if self.varied:
            return row.with_changes(self.varied).with_seed(self.seed)
        points = row.points()
        if self.point not in points:
            named = ", ".join(map(repr, points))
            raise ValueError(f"expected a point of {self.row} ({named}), got {self.point!r}")
        return points[self.point].with_seed(self.seed)


@dataclass(frozen=True)
class RecipeRun:
    """One training run of a row.

    Args:
        row: The row at one point of its grid, with the seed of the run.
        point: The name of the point; empty without a grid.
        seed: The seed of the run.
        path: The folder of the run, relative to that of the recipe.
        key: The name of the run.
    """

    row: Row
    point: str
    seed: int
    path: Path
    key: RunKey

    def train(
        self, folder: Path, outcome: Outcome, callbacks: Sequence[Callback], **options: Any
    ) -> Outcome:
        """Train the network and add its numbers to the outcome; a diverged run has none."""
        row, path = self.row, folder / self.path
        model = row.build(self.seed)
        count = count_parameters(model)
        # "lr-0-1, seed 3"
        point_and_seed = ", ".join(self.path.parts[1:]).replace("seed-", "seed ")
        if row.callback_factory is not None:
            callbacks = [*callbacks, row.callback_factory(path)]
        name = f"{row.label}, {point_and_seed}"
        options |= {"callbacks": callbacks, "name": name, "config": self.key.to_config()}
        try:
            result = fit(model, row.task, row.settings, path, **options)
        except NonFiniteLossError as error:
            console = options["console"] or plain_console(stderr=True)
            console.print(f"{name} diverged: {error}", markup=False, emoji=False, soft_wrap=True)
            return outcome.with_failure(row, self.seed, count, self.point)
        if result.interrupted:
            return replace(outcome, signal=result.signal)  # there is none if the time was over
        outcome = outcome.with_run(row, self.seed, count, result, self.point)
        if row.score is None:
            return outcome
        model.load_state_dict(RunFolder(path).best_weights())
        scores = row.score(model.eval(), row.task, path / "scores")
        return replace(outcome, scores=(*outcome.scores, dict(scores)))


def runs_of(
    recipe: Recipe, row: Row, seeds: Sequence[int] | None, *, quick: bool
) -> Iterator[RecipeRun]:
    """Yield the runs of a row; none if this version has no such layer."""
    if row.layer is None:
        return
    if seeds is None:
        seeds = (row.seeds or recipe.seeds)[: 1 if quick else None]
    for name, point in (row.quick() if quick else row).points().items():
        for seed in seeds:
            key = RunKey(recipe.name, row.label, name, seed, quick)
            path = run_path(row.label, name, seed)
            yield RecipeRun(point.with_seed(seed), name, seed, path, key)


def run_path(label: str, point: str, seed: int) -> Path:
    """Return the folder of a run, relative to that of its recipe."""
    return Path(_slug(label), _slug(point), f"seed-{seed}")


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


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
