"""What is still to be paid, and how the estimates of it did so far."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigenrnn.experiments.recipes import Recipe
from eigenrnn.experiments.results.archive import Archived
from eigenrnn.experiments.results.made import Made
from eigenrnn.experiments.results.order import in_order
from eigenrnn.experiments.results.same_runs import SameRuns

__all__ = ["Unpaid", "ratios", "unpaid"]


@dataclass(frozen=True)
class Unpaid:
    """The trainings that are left of a row.

    Args:
        row: The row.
        runs: How many there are, less those that a row before it asks for as well.
    """

    row: Made
    runs: int

    @property
    def seconds(self) -> float:
        """About how long they take on two cores; those without an estimate count as none."""
        return self.runs * self.row.cost.two_cores if self.row.cost else 0.0

    @property
    def gpu_seconds(self) -> float:
        """About how long they take on one GPU."""
        return self.runs * self.row.cost.one_gpu if self.row.cost else 0.0


def unpaid(
    recipes: Mapping[str, Recipe], rows: Mapping[str, Sequence[Made]], runs: Sequence[Archived]
) -> list[Unpaid]:
    """Count what is left, in the order in which `reproduce --all` goes on; no run counts twice.

    A run of which some minutes come first counts where the rest of it comes.
    """
    same = SameRuns(recipes)
    known = {(made.recipe.name, made.row.label): made for rs in rows.values() for made in rs}
    done: set[Path] = {run.place for run in runs if run.state != "unfinished"}
    found: list[Unpaid] = []
    for _, recipe, row, part in in_order(recipes):
        if part.minutes is not None:
            continue
        jobs = [j for j in same.of_row(recipe, row.label) if part.takes(j.point, j.seed)]
        left = [
            job for job in jobs if done.isdisjoint(j.file for j in (job, *same.that_give(job)))
        ]
        done.update(job.file for job in left)
        if left:
            found.append(Unpaid(known[recipe.name, row.label], len(left)))
    return found


def ratios(rows: Iterable[Made]) -> list[float]:
    """Set the seconds of each training beside the estimate of as many steps."""
    return [
        run.seconds / (made.cost.two_cores * run.steps / run.all_steps)
        for made in rows
        for run in made.runs
        if made.cost
        and made.cost.two_cores
        and run.trained_for is None
        and run.steps
        and run.all_steps
    ]
