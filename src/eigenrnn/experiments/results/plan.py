"""What is left to run of all recipes, what it would take, and how to go on with it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from eigenrnn.errors import MissingDataError
from eigenrnn.experiments.recipes import Computed, Entry, Outcome, Recipe, Row, reproduce
from eigenrnn.experiments.recipes.cost import ONE_GPU, TWO_CORES, estimated_seconds
from eigenrnn.experiments.recipes.runs import download_data
from eigenrnn.experiments.report.files import read_json
from eigenrnn.experiments.results.archive import Archive, run_file
from eigenrnn.experiments.results.order import Part, in_order
from eigenrnn.experiments.results.same_runs import Job, SameRuns
from eigenrnn.experiments.results.stored import RecipeFolder
from eigenrnn.experiments.results.written import read_estimates

__all__ = ["Left", "Plan"]


@dataclass(frozen=True)
class Left:
    """A row with runs that are left.

    Args:
        group: Which group of the order it is in.
        recipe: Its recipe.
        row: The row.
        jobs: The runs that are left; none of a number that takes no training.
        elsewhere: Where in the recipe's folder its runs would go that are known from elsewhere, or
            that are not their turn yet.
        seconds: About how long one run takes on two cores; None if that depends on data that is
            not on this machine.
        gpu_seconds: The same on one GPU.
        missing: The data that is not.
        minutes: How long each run trains at this turn; None if to its end.
    """

    group: int
    recipe: Recipe
    row: Row | Computed
    jobs: tuple[Job, ...]
    elsewhere: frozenset[Path]
    seconds: float | None
    gpu_seconds: float | None
    missing: str | None
    minutes: float | None = None

    @property
    def total_seconds(self) -> float:
        """About how long all its runs take; those without an estimate count as none."""
        return len(self.jobs) * (self.seconds or 0.0)

    @property
    def total_gpu_seconds(self) -> float:
        """The same on one GPU."""
        return len(self.jobs) * (self.gpu_seconds or 0.0)


@dataclass(frozen=True)
class Plan:
    """What is left, in the order in which it is run.

    Args:
        rows: The rows with runs that are left.
        folder: Where the folders of the recipes are.
        seeds: The seeds in place of the recipes'.
        quick: Whether the runs are quick ones.
    """

    rows: tuple[Left, ...]
    folder: Path
    seeds: tuple[int, ...] | None = None
    quick: bool = False

    @classmethod
    def of(
        cls,
        recipes: Mapping[str, Recipe],
        folder: str | Path,
        archive: str | Path,
        *,
        seeds: Sequence[int] | None = None,
        quick: bool = False,
    ) -> "Plan":
        """Find out what is left.

        A run is done if it has ended or diverged in the folder of its recipe, or is archived, or
        if the run of another row is the same and is done or comes first.

        Args:
            recipes: All of them, by name.
            folder: Where the folders of the recipes are.
            archive: The archive of runs; it does not count for quick ones.
            seeds: In place of the recipes'.
            quick: Whether the runs are quick ones.
        Raises:
            ValueError: If a file of the archive or of a folder is damaged or of another version.
        """
        known = _Known(recipes, Path(folder), Path(archive), seeds, quick)
        rows = tuple(
            left
            for group, recipe, row, part in in_order(recipes)
            if (left := known.left(group, recipe, row, part)) is not None
        )
        chosen = None if seeds is None else tuple(seeds)
        return cls(rows, Path(folder), chosen, quick)

    @property
    def total_seconds(self) -> float:
        """About how long it takes on two cores; rows without an estimate count as none."""
        return sum(left.total_seconds for left in self.rows if left.missing is None)

    @property
    def total_gpu_seconds(self) -> float:
        """The same on one GPU."""
        return sum(left.total_gpu_seconds for left in self.rows if left.missing is None)

    def go_on(
        self,
        *,
        say: Callable[[str], None],
        after: Callable[[Recipe, Sequence[Outcome]], None],
        console: Console | None = None,
        dynamics_every: int | None = None,
    ) -> int | None:
        """Run what is left, one recipe after another.

        Args:
            say: Told which rows are left out as their data cannot be had.
            after: Told what a recipe has come to.
            console: Where to show progress.
            dynamics_every: The number of steps between two looks at each run; None takes none.
        Returns:
            The number of the signal that ended it, after which the same again goes on; None if all
            of it has come to its end.
        Raises:
            ValueError: If `dynamics_every` is not positive.
        """
        for _, same in groupby(
            self.rows, lambda left: (left.group, left.recipe.name, left.minutes)
        ):
            rows = [left for left in same if self._has_data(left, say)]
            if not rows:
                continue
            recipe = rows[0].recipe
            outcomes = reproduce(
                recipe,
                folder_of(recipe, self.folder, quick=self.quick),
                rows=[left.row.label for left in rows],
                seeds=self.seeds,
                quick=self.quick,
                resume=True,
                console=console,
                dynamics_every=dynamics_every,
                skip=frozenset[Path]().union(*(left.elsewhere for left in rows)),
                max_minutes=rows[0].minutes,
            )
            after(recipe, outcomes)
            signals = [outcome.signal for outcome in outcomes if outcome.signal is not None]
            if signals:
                return signals[0]
        return None

    def _has_data(self, left: Left, say: Callable[[str], None]) -> bool:
        if not isinstance(left.row, Row):
            return True
        try:
            download_data([left.row.quick() if self.quick else left.row])
        except MissingDataError as error:
            say(f"{left.recipe.name}: {left.row.label} is skipped: {error}")
            return False
        return True


def folder_of(recipe: Recipe, root: Path, *, quick: bool) -> Path:
    """Return where the runs of a recipe go, among those of all."""
    return root / (recipe.name.replace("/", "-") + ("-quick" if quick else ""))


class _Known:
    """Which runs are done, and which are planned already."""

    def __init__(
        self,
        recipes: Mapping[str, Recipe],
        root: Path,
        archive: Path,
        seeds: Sequence[int] | None,
        quick: bool,
    ) -> None:
        self._quick, self._root = quick, root
        self._same = SameRuns(recipes, seeds=seeds, quick=quick)
        archived = [] if quick else Archive(archive).runs()
        self._archived = {run.place for run in archived if run.state != "unfinished"}
        self._begun = {run.place: run.seconds for run in archived if run.state == "unfinished"}
        self._stored = {recipe.name: self._open(recipe) for recipe in recipes.values()}
        self._estimates = {} if quick else read_estimates(archive)
        self._planned: set[Path] = set()

    def left(self, group: int, recipe: Recipe, row: Entry, part: Part) -> Left | None:
        """Plan the runs of a row that are left; None if there are none."""
        if isinstance(row, Computed):
            return self._computed(group, recipe, row)
        if not isinstance(row, Row):
            return None
        jobs = self._same.of_row(recipe, row.label)
        chosen = [job for job in jobs if part.takes(job.point, job.seed)]
        left = tuple(job for job in chosen if self._is_left(job))
        limit = math.inf if part.minutes is None else 60 * part.minutes
        if limit < math.inf:
            # a quick run is shorter than that; what is over the limit waits for the rest
            left = () if self._quick else tuple(j for j in left if self._trained(j) < limit)
        else:
            self._planned.update(job.file for job in left)
        if not left:
            return None
        run_here = {job.place for job in (*left, *filter(self._is_stored, jobs))}
        whole = row.quick() if self._quick else row
        two_cores, one_gpu = self._seconds(recipe, whole)
        return Left(
            group=group,
            recipe=recipe,
            row=row,
            jobs=left,
            elsewhere=frozenset(job.place for job in jobs) - run_here,
            seconds=None if two_cores is None else min(two_cores, limit),
            gpu_seconds=None if one_gpu is None else min(one_gpu, limit),
            missing=whole.task.missing_data(),
            minutes=part.minutes,
        )

    def _computed(self, group: int, recipe: Recipe, row: Computed) -> Left | None:
        file, stored = run_file(recipe.name, row.label, "", None), self._stored[recipe.name]
        there = stored is not None and stored.outcome(row.label).get("values")
        if there or file in self._archived | self._planned:
            return None
        self._planned.add(file)
        return Left(group, recipe, row, (), frozenset(), 0.0, 0.0, None)

    def _seconds(self, recipe: Recipe, row: Row) -> tuple[float | None, float | None]:
        # as it was written beside the archive, for to find it out may take reading all data
        known = self._estimates.get(recipe.name, {}).get(row.label)
        return known or (estimated_seconds(row, TWO_CORES), estimated_seconds(row, ONE_GPU))

    def _is_left(self, job: Job) -> bool:
        return not any(map(self._is_done, self._and_same(job)))

    def _and_same(self, job: Job) -> Iterator[Job]:
        yield job
        yield from self._same.that_give(job)

    def _is_done(self, job: Job) -> bool:
        known = job.file in self._archived or job.file in self._planned
        return known or self._is_stored(job)

    def _trained(self, job: Job) -> float:
        """Say for how many seconds a run has trained that has not ended."""
        stored = self._stored[job.recipe.name]
        here = 0.0 if stored is None else stored.trained_seconds(job)
        return max(here, self._begun.get(job.file, 0.0))

    def _is_stored(self, job: Job) -> bool:
        stored = self._stored[job.recipe.name]
        return stored is not None and (stored.has_ended(job) or stored.has_diverged(job))

    def _open(self, recipe: Recipe) -> RecipeFolder | None:
        """Read what there is of a recipe.

        Raises:
            ValueError: If it is damaged, or the folder is another recipe's.
        """
        folder = folder_of(recipe, self._root, quick=self._quick)
        if not (folder / "results.json").is_file():
            return RecipeFolder(folder, recipe, {"rows": []}) if folder.is_dir() else None
        content: dict[str, Any] = read_json(folder / "results.json", ("recipe", "quick", "rows"))
        if (content["recipe"], content["quick"]) != (recipe.name, self._quick):
            kind = "quick runs" if content["quick"] else "runs"
            raise ValueError(
                f"expected {recipe.name} in {folder}, got {kind} of {content['recipe']}: choose "
                "another folder with --out"
            )
        return RecipeFolder(folder, recipe, content)
