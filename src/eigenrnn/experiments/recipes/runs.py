"""The runs of a recipe: one for each row, point of its grid and seed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from torch import nn

from eigenrnn.errors import MissingDataError, NonFiniteLossError
from eigenrnn.experiments.recipes.outcome import Outcome
from eigenrnn.experiments.recipes.recipe import Recipe, Row
from eigenrnn.experiments.training import Callback, fit
from eigenrnn.experiments.training.files import check_types
from eigenrnn.experiments.training.progress import plain_console
from eigenrnn.experiments.training.run_folder import RunFolder
from eigenrnn.models import count_parameters

__all__ = [
    "Run",
    "RunKey",
    "download_data",
    "folder_name",
    "kind_of_runs",
    "run_path",
    "runs_in",
    "runs_of",
]

_OPTIONAL = ("reduced_epochs", "varied")

_KEY_TYPES: dict[str, Any] = {
    **{"recipe": str, "row": str, "point": str, "seed": int},
    **{"quick": bool, "reduced_epochs": int, "varied": dict[str, object]},
}


@dataclass(frozen=True)
class RunKey:
    """The name of one run among the runs of all recipes; its `config.json` stores it.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        point: The point of the row's grid; empty without a grid.
        seed: The seed of the run.
        quick: Whether it is a quick run.
        reduced_epochs: The number of epochs of a reduced run; None for a full run.
        varied: Hyperparameters that differ from the recipe, by dotted names. With them the run
            belongs to no point of the grid.
    """

    recipe: str
    row: str
    point: str
    seed: int
    quick: bool = False
    reduced_epochs: int | None = None
    varied: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def path(self) -> Path:
        """The folder of the run, relative to that of its recipe."""
        return run_path(self.row, self.point, self.seed)

    def to_config(self) -> dict[str, Any]:
        """Return the entries of `config.json` from which the key can be read back."""
        entries = {
            name: value for name, value in vars(self).items() if value or name not in _OPTIONAL
        }
        return {"command": "reproduce", **entries}

    @classmethod
    def from_config(cls, entry: Mapping[str, Any]) -> Self:
        """Read the key that `to_config` has written.

        Raises:
            ValueError: If an entry is missing or has another type.
        """
        required = [name for name in _KEY_TYPES if name not in _OPTIONAL]
        missing = [name for name in required if name not in entry]
        if missing:
            raise ValueError(f"its config.json is damaged: {', '.join(missing)} is missing")
        check_types(Path("config.json"), entry, _KEY_TYPES)
        return cls(**{name: entry[name] for name in _KEY_TYPES if name in entry})

    def find_row(self, recipe: Recipe) -> Row:
        """Return the row of the recipe with the settings of this run.

        Raises:
            ValueError: If the recipe has no such row or point.
        """
        if self.reduced_epochs is not None:
            recipe = recipe.reduced(self.reduced_epochs)
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


@dataclass(frozen=True, eq=False)
class Run:
    """One training of a row.

    Args:
        recipe: The recipe.
        row: The row at one point of its grid, with the seed of the run.
        key: The name of the run.
    """

    recipe: Recipe
    row: Row
    key: RunKey

    @cached_property
    def path(self) -> Path:
        """The folder of the run, relative to that of the recipe."""
        return self.key.path

    @cached_property
    def description(self) -> dict[str, Any]:
        """Task, network and settings as data: runs with equal descriptions are the same run."""
        return self.row.describe()

    @property
    def config(self) -> dict[str, Any]:
        """The entries of `config.json` that name the run and describe its network."""
        return {**self.key.to_config(), "network": self.description["network"]}

    def accepts(self, other: "Run") -> bool:
        """Whether the same run of another row records everything that this row needs.

        Callbacks, extra scores and panels need a run whose row has the same ones.
        """
        return (
            self.row.callback_factory in (None, other.row.callback_factory)
            and self.row.score in (None, other.row.score)
            and not any(self.row.label in panel.required_rows for panel in self.recipe.panels)
        )

    def train(
        self, folder: Path, outcome: Outcome, callbacks: Sequence[Callback], **options: Any
    ) -> Outcome:
        """Train the network and add its numbers to the outcome; a diverged run has none."""
        row, files = self.row, RunFolder(folder / self.path)
        # "lr-0-1, seed 3"
        point_and_seed = ", ".join(self.path.parts[1:]).replace("seed-", "seed ")
        name = f"{row.label}, {point_and_seed}"
        if row.callback_factory is not None:
            callbacks = [*callbacks, row.callback_factory(files.path)]
        options |= {"callbacks": callbacks, "name": name, "config": self.config}
        model = row.build(self.key.seed)
        try:
            result = fit(model, row.task, row.settings, files.path, **options)
        except NonFiniteLossError as error:
            console = options["console"] or plain_console(stderr=True)
            console.print(f"{name} diverged: {error}", markup=False, emoji=False, soft_wrap=True)
            count = count_parameters(model)
            return outcome.with_failure(row, self.key.seed, count, self.key.point)
        if result.interrupted:
            return replace(outcome, signal=result.signal)  # none if the time was over
        if row.score is not None and "scores" not in files.read_status():
            model.load_state_dict(files.best_weights())
            self.score(model.eval(), files)
        return self.add_to(outcome, files)

    def score(self, model: nn.Module, files: RunFolder) -> dict[str, float]:
        """Compute the further scores of the best model, and store them in the run's folder."""
        if self.row.score is None:
            return {}
        scores = dict(self.row.score(model, self.row.task, files.path / "scores"))
        files.write_status("ended", scores=scores)
        return scores

    def add_to(self, outcome: Outcome, files: RunFolder) -> Outcome:
        """Add the numbers of a run that has ended or diverged to the outcome of its row.

        Raises:
            ValueError: If a file is damaged, or of another version.
        """
        state, key = files.state, self.key
        if state not in ("ended", "diverged"):
            return outcome
        parameters, result = files.read_config()["parameters"], files.read_result()
        if result is None:
            return outcome.with_failure(self.row, key.seed, parameters, key.point)
        outcome = outcome.with_run(self.row, key.seed, parameters, result, key.point)
        scores = files.read_status().get("scores")
        return replace(outcome, scores=(*outcome.scores, scores)) if scores else outcome


def runs_of(
    recipe: Recipe, row: Row, seeds: Sequence[int] | None = None, *, quick: bool = False
) -> Iterator[Run]:
    """Yield the runs of a row; none if this version has no such layer."""
    if seeds is None:
        seeds = (row.seeds or recipe.seeds)[: 1 if quick else None]
    for point, chosen in _points(row, quick=quick):
        for seed in seeds:
            yield _run(recipe, chosen, point, seed, quick=quick)


def runs_in(folder: Path, recipe: Recipe, row: Row, *, quick: bool = False) -> Iterator[Run]:
    """Yield the runs of a row that have been started in the folder of its recipe.

    Raises:
        ValueError: If a `config.json` is damaged.
    """
    for point, chosen in _points(row, quick=quick):
        configs = (folder / run_path(row.label, point, 0)).parent.glob("seed-*/config.json")
        for seed in sorted(int(file.parent.name.removeprefix("seed-")) for file in configs):
            run = _run(recipe, chosen, point, seed, quick=quick)
            config = RunFolder(folder / run.path).read_config(any_version=True)
            entry = config.get("config") or {}
            if kind_of_runs(entry) == (recipe.name, quick, recipe.reduced_epochs):
                yield run


def kind_of_runs(entry: Mapping[str, Any]) -> tuple[Any, bool, int | None]:
    """Return the recipe of a run, whether it is quick, and the epochs of a reduced run.

    Args:
        entry: The entry of `config.json` that names the run.
    """
    return entry.get("recipe"), bool(entry.get("quick")), entry.get("reduced_epochs")


def _run(recipe: Recipe, row: Row, point: str, seed: int, *, quick: bool) -> Run:
    key = RunKey(recipe.name, row.label, point, seed, quick, recipe.reduced_epochs)
    return Run(recipe, row.with_seed(seed), key)


def _points(row: Row, *, quick: bool) -> Iterator[tuple[str, Row]]:
    if row.layer is not None:
        yield from (row.quick() if quick else row).points().items()


def run_path(label: str, point: str, seed: int) -> Path:
    """Return the folder of a run, relative to that of its recipe."""
    return Path(_slug(label), _slug(point), f"seed-{seed}")


def folder_name(recipe: Recipe, *, quick: bool) -> str:
    """Return the default name of the folder of a recipe."""
    reduced = recipe.reduced_epochs
    kind = "-quick" if quick else "" if reduced is None else f"-epochs-{reduced}"
    return recipe.name.replace("/", "-") + kind


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
