"""The archived runs of each row, and the remaining ones with their estimated cost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from eigenrnn.experiments.recipes import Computed, Entry, Outcome, Recipe, Row
from eigenrnn.experiments.results.annotations import Estimate
from eigenrnn.experiments.results.archive import ArchivedRun
from eigenrnn.experiments.results.jobs import SharedRuns, rows_by_priority
from eigenrnn.experiments.results.outcomes import outcome_of

__all__ = ["RemainingRuns", "RowStatus", "estimate_ratios", "remaining_runs", "row_statuses"]


@dataclass(frozen=True)
class RowStatus:
    """A row of a recipe with its archived runs.

    Args:
        recipe: The recipe of the row.
        row: The row.
        runs: Its archived runs.
        cost: The estimated time of one run; None if unknown.
    """

    recipe: Recipe
    row: Entry
    runs: Sequence[ArchivedRun]
    cost: Estimate | None

    @cached_property
    def outcome(self) -> Outcome:
        """The outcome of the runs, with the paper's number."""
        return outcome_of(self.row, self.runs)

    @property
    def can_run(self) -> bool:
        """Whether the row can be run: it is not quoted, and its layer is implemented."""
        return isinstance(self.row, Computed) or (
            isinstance(self.row, Row) and self.row.layer is not None
        )

    @property
    def requested(self) -> int:
        """The number of runs of the full row."""
        if not isinstance(self.row, Row):
            return int(self.can_run)
        seeds = self.row.seeds or self.recipe.seeds
        return len(self.row.points()) * len(seeds) if self.row.layer else 0

    @property
    def has_own_runs(self) -> bool:
        """Whether a run was trained for this row; a shared run is compared at its own row only."""
        return any(run.trained_for is None for run in self.runs)

    @property
    def unfinished_runs(self) -> list[ArchivedRun]:
        """The archived runs that have not ended."""
        return [run for run in self.runs if run.state == "unfinished"]

    @property
    def remaining(self) -> int:
        """The number of runs still to finish; runs with other seeds count as done."""
        return max(0, self.requested - (len(self.runs) - len(self.unfinished_runs)))


def row_statuses(
    recipes: Mapping[str, Recipe],
    runs: Mapping[tuple[str, str], Sequence[ArchivedRun]],
    costs: Mapping[str, Mapping[str, Estimate]],
) -> dict[str, list[RowStatus]]:
    """Return the status of every row, by recipe."""
    return {
        recipe.name: [
            RowStatus(
                recipe,
                row,
                runs.get((recipe.name, row.label), ()),
                costs.get(recipe.name, {}).get(row.label),
            )
            for row in recipe.rows
        ]
        for recipe in recipes.values()
    }


@dataclass(frozen=True)
class RemainingRuns:
    """The remaining trainings of a row.

    Args:
        row: The row.
        runs: Their number, without runs shared with an earlier row.
    """

    row: RowStatus
    runs: int

    @property
    def seconds(self) -> float:
        """Their estimated time on two cores; 0 without an estimate."""
        return self.runs * self.row.cost.two_cores if self.row.cost else 0.0

    @property
    def gpu_seconds(self) -> float:
        """Their estimated time on one GPU; 0 without an estimate."""
        return self.runs * self.row.cost.one_gpu if self.row.cost else 0.0


def remaining_runs(
    recipes: Mapping[str, Recipe],
    rows: Mapping[str, Sequence[RowStatus]],
    runs: Sequence[ArchivedRun],
) -> list[RemainingRuns]:
    """Count the remaining runs in the order of `reproduce --all`; no run counts twice.

    A run that is first trained for some minutes counts where it is finished.
    """
    shared = SharedRuns(recipes)
    statuses = {(row.recipe.name, row.row.label): row for rs in rows.values() for row in rs}
    done: set[Path] = {run.relative_path for run in runs if run.state != "unfinished"}
    found: list[RemainingRuns] = []
    for _, recipe, row, part in rows_by_priority(recipes):
        if part.minutes is not None:
            continue
        jobs = [j for j in shared.of_row(recipe, row.label) if part.includes(j.point, j.seed)]
        remaining = [
            job
            for job in jobs
            if done.isdisjoint(j.archive_path for j in (job, *shared.jobs_serving(job)))
        ]
        done.update(job.archive_path for job in remaining)
        if remaining:
            found.append(RemainingRuns(statuses[recipe.name, row.label], len(remaining)))
    return found


def estimate_ratios(rows: Iterable[RowStatus]) -> list[float]:
    """Divide the time of each training by the estimate for the same number of steps."""
    return [
        run.seconds / (row.cost.two_cores * run.steps / run.all_steps)
        for row in rows
        for run in row.runs
        if row.cost
        and row.cost.two_cores
        and run.trained_for is None
        and run.steps
        and run.all_steps
    ]
