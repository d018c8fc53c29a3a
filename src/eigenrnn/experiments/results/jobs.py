"""The trainings of all recipes: their order, and which rows share a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eigenrnn.experiments.recipes import Entry, Recipe, Row
from eigenrnn.experiments.recipes.runs import run_path, runs_of
from eigenrnn.experiments.results.archive import archive_path

__all__ = ["PRIORITY_GROUPS", "Job", "Part", "SharedRuns", "jobs_of", "rows_by_priority"]


@dataclass(frozen=True, eq=False)
class Job:
    """One training of a recipe.

    Args:
        recipe: The recipe.
        row: The row, at one point of its grid and with the seed of the run.
        point: The name of the point; empty without a grid.
        seed: The seed of the run.
    """

    recipe: Recipe
    row: Row
    point: str
    seed: int

    @cached_property
    def run_folder(self) -> Path:
        """The folder of the run, relative to the folder of the recipe."""
        return run_path(self.row.label, self.point, self.seed)

    @cached_property
    def archive_path(self) -> Path:
        """The file of the run, relative to the archive."""
        return archive_path(self.recipe.name, self.row.label, self.point, self.seed)

    @cached_property
    def result_key(self) -> tuple[Any, ...]:
        """Everything that determines the result: runs with equal keys are the same run."""
        row, options = self.row, tuple(sorted(self.row.options.items()))
        model = (
            row.layer,
            row.hidden_size,
            options,
            row.head_init,
            row.head_bias_init,
            row.model_factory,
        )
        return (self.seed, row.task, row.settings, *model)

    def accepts(self, other: "Job") -> bool:
        """Whether the run of another row records everything that this row needs.

        Callbacks, extra scores and panels need a run whose row has the same ones.
        """
        return (
            self.row.callback_factory in (None, other.row.callback_factory)
            and self.row.score in (None, other.row.score)
            and not any(self.row.label in panel.required_rows for panel in self.recipe.panels)
        )


def jobs_of(
    recipe: Recipe, row: Row, seeds: Sequence[int] | None = None, *, quick: bool = False
) -> Iterator[Job]:
    """Yield the trainings of a row in the order of `reproduce`."""
    for run in runs_of(recipe, row, seeds, quick=quick):
        yield Job(recipe, run.row, run.point, run.seed)


class SharedRuns:
    """Finds the jobs of all recipes that share a run.

    Args:
        recipes: All recipes, by name.
        seeds: Replace the seeds of the recipes.
        quick: Whether the runs are quick ones.
    """

    def __init__(
        self,
        recipes: Mapping[str, Recipe],
        *,
        seeds: Sequence[int] | None = None,
        quick: bool = False,
    ) -> None:
        self._rows: dict[tuple[str, str], list[Job]] = {}
        self._same: dict[tuple[Any, ...], list[Job]] = {}
        for recipe in recipes.values():
            for row in (row for row in recipe.rows if isinstance(row, Row)):
                jobs = list(jobs_of(recipe, row, seeds, quick=quick))
                self._rows[recipe.name, row.label] = jobs
                for job in jobs:
                    self._same.setdefault(job.result_key, []).append(job)

    def of_row(self, recipe: Recipe, label: str) -> list[Job]:
        """Return the jobs of a row; empty for a row without training."""
        return self._rows.get((recipe.name, label), [])

    def jobs_served_by(self, job: Job) -> list[Job]:
        """Return the jobs of other rows that can use the run of this job."""
        return [other for other in self._others(job) if other.accepts(job)]

    def jobs_serving(self, job: Job) -> list[Job]:
        """Return the jobs of other rows whose run can be used for this job."""
        return [other for other in self._others(job) if job.accepts(other)]

    def _others(self, job: Job) -> list[Job]:
        same = self._same.get(job.result_key, [])
        return [other for other in same if other.archive_path != job.archive_path]


@dataclass(frozen=True)
class Part:
    """Some rows of a recipe.

    Args:
        recipe: The name of the recipe.
        rows: Labels of rows, or parts of labels; empty for all rows.
        points: Points of their grids; empty for all points.
        seeds: Seeds of the runs; empty for all seeds.
        minutes: Train each run for this long only; it is finished after all groups.
    """

    recipe: str
    rows: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    minutes: float | None = None

    def includes(self, point: str, seed: int) -> bool:
        """Whether a run of its rows belongs to the part."""
        return (not self.points or point in self.points) and (not self.seeds or seed in self.seeds)


PRIORITY_GROUPS: tuple[tuple[Part, ...], ...] = (
    (
        Part("nnrnn/table6"),
        Part("nnrnn/fig2", ("copying",)),
        Part("nnrnn/fig4", ("copying",)),
        Part("scornn/fig1", ("scoRNN 190", "LSTM 68", "expRNN 190")),
        Part("enrnn/fig2", ("ENRNN 192",)),
        Part("enrnn/fig1", ("ENRNN 96/64",)),
    ),
    (
        Part("scornn/table2", ("scoRNN 170",)),
        Part("scornn/table1", ("scoRNN 170",)),
        Part("scornn/fig2", ("scoRNN 170", "LSTM 60")),
        Part("nc_gru/table3"),
    ),
    (
        Part("nc_gru/table1"),
        Part("nc_gru/table2"),
        Part(
            "nc_gru/table4",
            ("NC-GRU(U_c) 96 T=1000", "NC-GRU(U_c,U_r) 96 T=1000", "GORU 100 T=1000"),
        ),
        Part("scornn/fig1", ("full-capacity uRNN 128 T=1000",)),
    ),
    (
        # train each for an hour and a half
        *(
            Part(recipe, (row,), seeds=(0,), minutes=90)
            for recipe, row in (
                ("nnrnn/table1", "nnRNN 1024 T=150"),
                ("nnrnn/table1", "LSTM 475 T=150"),
                ("nc_gru/table5", "NC-GRU(U_c) 435"),
                ("enrnn/table3", "ENRNN 310/720"),
            )
        ),
    ),
    (
        # the middle point of each search
        Part(
            "nonnormal/fig3",
            ("copying",),
            ("lr=5e-05 lambda=1.01", "lr=5e-05 alpha=1.02", "lr=5e-05 beta=0.04"),
        ),
        Part("scornn/fig1", ("restricted-capacity uRNN 470 T=1000",)),
    ),
)
"""The rows that run first, by group; all others follow in the order of the recipes."""


def rows_by_priority(
    recipes: Mapping[str, Recipe],
) -> Iterator[tuple[int, Recipe, Entry, Part]]:
    """Yield each row of all recipes with its group number, recipe and part.

    A row that belongs to several parts is yielded once for each.
    """
    parts = [
        (number, part) for number, group in enumerate(PRIORITY_GROUPS, start=1) for part in group
    ]
    for number, part in parts:
        if part.recipe in recipes:
            recipe = recipes[part.recipe]
            for row in recipe.select(list(part.rows)):
                yield number, recipe, row, part
    for recipe in recipes.values():
        for row in recipe.rows:
            yield len(PRIORITY_GROUPS), recipe, row, Part(recipe.name)
