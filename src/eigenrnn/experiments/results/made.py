"""A row of a recipe with the runs of it that are archived."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from eigenrnn.experiments.recipes import Computed, Entry, Outcome, Recipe, Row
from eigenrnn.experiments.results.archive import Archived
from eigenrnn.experiments.results.outcomes import outcome_of
from eigenrnn.experiments.results.written import Estimate

__all__ = ["Made", "rows_of"]


@dataclass(frozen=True)
class Made:
    """A row, what it asks for and what there is of it.

    Args:
        recipe: Its recipe.
        row: The row.
        runs: Those that are archived.
        cost: About how long one run takes; None if that is not known.
    """

    recipe: Recipe
    row: Entry
    runs: Sequence[Archived]
    cost: Estimate | None

    @cached_property
    def outcome(self) -> Outcome:
        """What the runs come to beside the paper's number."""
        return outcome_of(self.row, self.runs)

    @property
    def can_run(self) -> bool:
        """Whether there is something to run: it is not quoted, and has a layer."""
        return isinstance(self.row, Computed) or (
            isinstance(self.row, Row) and self.row.layer is not None
        )

    @property
    def wanted(self) -> int:
        """The number of runs that the row asks for."""
        if not isinstance(self.row, Row):
            return int(self.can_run)
        seeds = self.row.seeds or self.recipe.seeds
        return len(self.row.points()) * len(seeds) if self.row.layer else 0

    @property
    def has_own(self) -> bool:
        """Whether a run of it is no other row's, which counts for both but is judged there."""
        return any(run.trained_for is None for run in self.runs)

    @property
    def begun(self) -> list[Archived]:
        """The runs that have not ended."""
        return [run for run in self.runs if run.state == "unfinished"]

    @property
    def left(self) -> int:
        """The number of runs that have not ended or not begun; others of other seeds count."""
        return max(0, self.wanted - (len(self.runs) - len(self.begun)))


def rows_of(
    recipes: Mapping[str, Recipe],
    of_rows: Mapping[tuple[str, str], Sequence[Archived]],
    costs: Mapping[str, Mapping[str, Estimate]],
) -> dict[str, list[Made]]:
    """Put the rows of all recipes together with their runs and costs."""
    return {
        recipe.name: [
            Made(
                recipe,
                row,
                of_rows.get((recipe.name, row.label), ()),
                costs.get(recipe.name, {}).get(row.label),
            )
            for row in recipe.rows
        ]
        for recipe in recipes.values()
    }
