"""Which rows of all recipes a run counts for: tables and figures may show the same one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eigenrnn.experiments.recipes import Recipe, Row
from eigenrnn.experiments.recipes.runs import run_path, runs_of
from eigenrnn.experiments.results.archive import run_file

__all__ = ["Job", "SameRuns", "jobs_of"]


@dataclass(frozen=True, eq=False)
class Job:
    """One training that a recipe asks for.

    Args:
        recipe: The recipe.
        row: The row, of one point of its grid and of the seed.
        point: That of its grid; empty without one.
        seed: That of the run.
    """

    recipe: Recipe
    row: Row
    point: str
    seed: int

    @cached_property
    def place(self) -> Path:
        """Where in the folder of the recipe its run goes."""
        return run_path(self.row.label, self.point, self.seed)

    @cached_property
    def file(self) -> Path:
        """Where in an archive its run stands."""
        return run_file(self.recipe.name, self.row.label, self.point, self.seed)

    @cached_property
    def numbers_are_decided_by(self) -> tuple[Any, ...]:
        """All that decides the numbers of the run: two runs that share it are the same."""
        row, options = self.row, tuple(sorted(self.row.options.items()))
        start = (
            row.layer,
            row.hidden_size,
            options,
            row.head_init,
            row.head_bias_init,
            row.model_factory,
        )
        return (self.seed, row.task, row.settings, *start)

    def takes(self, other: "Job") -> bool:
        """Whether a run of another row has all that is wanted of this one.

        What is looked at on the way, measured of the best model or drawn from it needs a run whose
        row asks for the same.
        """
        return (
            self.row.callback_factory in (None, other.row.callback_factory)
            and self.row.score in (None, other.row.score)
            and not any(self.row.label in panel.required_rows for panel in self.recipe.panels)
        )


def jobs_of(
    recipe: Recipe, row: Row, seeds: Sequence[int] | None = None, *, quick: bool = False
) -> Iterator[Job]:
    """Yield what is trained for a row, in the order of `reproduce`."""
    for run in runs_of(recipe, row, seeds, quick=quick):
        yield Job(recipe, run.row, run.point, run.seed)


class SameRuns:
    """Finds the jobs of all recipes that come to the same run.

    Args:
        recipes: All of them, by name.
        seeds: In place of the recipes'.
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
                    self._same.setdefault(job.numbers_are_decided_by, []).append(job)

    def of_row(self, recipe: Recipe, label: str) -> list[Job]:
        """Return the jobs of a row; none of one that takes no training."""
        return self._rows.get((recipe.name, label), [])

    def that_take(self, job: Job) -> list[Job]:
        """Return the jobs of other rows that the run of this one counts for."""
        return [other for other in self._others(job) if other.takes(job)]

    def that_give(self, job: Job) -> list[Job]:
        """Return the jobs of other rows whose run counts for this one."""
        return [other for other in self._others(job) if job.takes(other)]

    def _others(self, job: Job) -> list[Job]:
        same = self._same.get(job.numbers_are_decided_by, [])
        return [other for other in same if other.file != job.file]
