"""The plan of `reproduce --all`: the remaining runs of all recipes, with their estimated time."""

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
from eigenrnn.experiments.results.annotations import read_estimates
from eigenrnn.experiments.results.archive import Archive, archive_path
from eigenrnn.experiments.results.jobs import Job, Part, SharedRuns, rows_by_priority
from eigenrnn.experiments.results.recipe_folder import RecipeFolder
from eigenrnn.experiments.training.files import read_json

__all__ = ["Plan", "PlannedRow"]


@dataclass(frozen=True)
class PlannedRow:
    """A row with remaining runs.

    Args:
        group: The number of its priority group.
        recipe: Its recipe.
        row: The row.
        jobs: The remaining runs; empty for a number without training.
        skip: Run folders, relative to the recipe's folder, that are not trained now: another row
            or the archive has the run, or it comes later.
        seconds: The estimated time of one run on two cores; None if it depends on missing data.
        gpu_seconds: The same on one GPU.
        missing_data: The data that is not on this machine.
        minutes: The training time of each run at this point of the plan; None to finish it.
    """

    group: int
    recipe: Recipe
    row: Row | Computed
    jobs: tuple[Job, ...]
    skip: frozenset[Path]
    seconds: float | None
    gpu_seconds: float | None
    missing_data: str | None
    minutes: float | None = None

    @property
    def total_seconds(self) -> float:
        """The estimated time of all its runs; 0 without an estimate."""
        return len(self.jobs) * (self.seconds or 0.0)

    @property
    def total_gpu_seconds(self) -> float:
        """The same on one GPU."""
        return len(self.jobs) * (self.gpu_seconds or 0.0)


@dataclass(frozen=True)
class Plan:
    """The remaining runs, in the order in which they are trained.

    Args:
        rows: The rows with remaining runs.
        folder: The folder that contains the folders of the recipes.
        seeds: Replace the seeds of the recipes.
        quick: Whether the runs are quick ones.
    """

    rows: tuple[PlannedRow, ...]
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
        """Plan all runs that are not done.

        A run is done if it has ended or diverged in the folder of its recipe, or is archived. It
        is also done if another row shares the run and that one is done or planned earlier.

        Args:
            recipes: All recipes, by name.
            folder: The folder that contains the folders of the recipes.
            archive: The archive of runs; ignored for quick runs.
            seeds: Replace the seeds of the recipes.
            quick: Whether the runs are quick ones.
        Raises:
            ValueError: If a file of the archive or of a folder is damaged or of another version.
        """
        planner = _Planner(recipes, Path(folder), Path(archive), seeds, quick)
        rows = tuple(
            planned
            for group, recipe, row, part in rows_by_priority(recipes)
            if (planned := planner.plan_row(group, recipe, row, part)) is not None
        )
        chosen = None if seeds is None else tuple(seeds)
        return cls(rows, Path(folder), chosen, quick)

    @property
    def total_seconds(self) -> float:
        """The estimated time on two cores; rows without an estimate count as 0."""
        return sum(planned.total_seconds for planned in self.rows if planned.missing_data is None)

    @property
    def total_gpu_seconds(self) -> float:
        """The same on one GPU."""
        return sum(
            planned.total_gpu_seconds for planned in self.rows if planned.missing_data is None
        )

    def run_remaining(
        self,
        *,
        say: Callable[[str], None],
        after: Callable[[Recipe, Sequence[Outcome]], None],
        console: Console | None = None,
        dynamics_every: int | None = None,
    ) -> int | None:
        """Train the remaining runs, one recipe after another.

        Args:
            say: Called with a message for each row whose data is not available.
            after: Called with the outcomes of each recipe.
            console: Where to show progress.
            dynamics_every: Record the training dynamics every so many steps; None for never.
        Returns:
            The number of the signal that stopped the training; the same call resumes it. None if
            all runs have ended.
        Raises:
            ValueError: If `dynamics_every` is not positive.
        """
        for _, same in groupby(
            self.rows, lambda planned: (planned.group, planned.recipe.name, planned.minutes)
        ):
            rows = [planned for planned in same if self._has_data(planned, say)]
            if not rows:
                continue
            recipe = rows[0].recipe
            outcomes = reproduce(
                recipe,
                recipe_folder_path(recipe, self.folder, quick=self.quick),
                rows=[planned.row.label for planned in rows],
                seeds=self.seeds,
                quick=self.quick,
                resume=True,
                console=console,
                dynamics_every=dynamics_every,
                skip=frozenset[Path]().union(*(planned.skip for planned in rows)),
                max_minutes=rows[0].minutes,
            )
            after(recipe, outcomes)
            signals = [outcome.signal for outcome in outcomes if outcome.signal is not None]
            if signals:
                return signals[0]
        return None

    def _has_data(self, planned: PlannedRow, say: Callable[[str], None]) -> bool:
        if not isinstance(planned.row, Row):
            return True
        try:
            download_data([planned.row.quick() if self.quick else planned.row])
        except MissingDataError as error:
            say(f"{planned.recipe.name}: {planned.row.label} is skipped: {error}")
            return False
        return True


def recipe_folder_path(recipe: Recipe, root: Path, *, quick: bool) -> Path:
    """Return the folder of a recipe below the folder of all recipes."""
    return root / (recipe.name.replace("/", "-") + ("-quick" if quick else ""))


class _Planner:
    """Knows which runs are done, and which are planned already."""

    def __init__(
        self,
        recipes: Mapping[str, Recipe],
        root: Path,
        archive: Path,
        seeds: Sequence[int] | None,
        quick: bool,
    ) -> None:
        self._quick, self._root = quick, root
        self._shared = SharedRuns(recipes, seeds=seeds, quick=quick)
        archived_runs = [] if quick else Archive(archive).runs()
        self._archived = {run.relative_path for run in archived_runs if run.state != "unfinished"}
        self._unfinished_seconds = {
            run.relative_path: run.seconds for run in archived_runs if run.state == "unfinished"
        }
        self._folders = {recipe.name: self._open(recipe) for recipe in recipes.values()}
        self._estimates = {} if quick else read_estimates(archive)
        self._planned: set[Path] = set()

    def plan_row(self, group: int, recipe: Recipe, row: Entry, part: Part) -> PlannedRow | None:
        """Plan the remaining runs of a row; None if there are none."""
        if isinstance(row, Computed):
            return self._computed(group, recipe, row)
        if not isinstance(row, Row):
            return None
        jobs = self._shared.of_row(recipe, row.label)
        chosen = [job for job in jobs if part.includes(job.point, job.seed)]
        remaining = tuple(job for job in chosen if not self._is_covered(job))
        limit = math.inf if part.minutes is None else 60 * part.minutes
        if limit < math.inf:
            # quick runs are shorter than the limit; runs past the limit are finished later
            under_limit = (j for j in remaining if self._trained_seconds(j) < limit)
            remaining = () if self._quick else tuple(under_limit)
        else:
            self._planned.update(job.archive_path for job in remaining)
        if not remaining:
            return None
        run_here = {job.run_folder for job in (*remaining, *filter(self._is_done_here, jobs))}
        whole = row.quick() if self._quick else row
        two_cores, one_gpu = self._seconds(recipe, whole)
        return PlannedRow(
            group=group,
            recipe=recipe,
            row=row,
            jobs=remaining,
            skip=frozenset(job.run_folder for job in jobs) - run_here,
            seconds=None if two_cores is None else min(two_cores, limit),
            gpu_seconds=None if one_gpu is None else min(one_gpu, limit),
            missing_data=whole.task.missing_data(),
            minutes=part.minutes,
        )

    def _computed(self, group: int, recipe: Recipe, row: Computed) -> PlannedRow | None:
        file, folder = archive_path(recipe.name, row.label, "", None), self._folders[recipe.name]
        computed = folder is not None and folder.outcome(row.label).get("values")
        if computed or file in self._archived | self._planned:
            return None
        self._planned.add(file)
        return PlannedRow(group, recipe, row, (), frozenset(), 0.0, 0.0, None)

    def _seconds(self, recipe: Recipe, row: Row) -> tuple[float | None, float | None]:
        # prefer the stored estimate: computing it may require reading all data
        estimate = self._estimates.get(recipe.name, {}).get(row.label)
        return estimate or (estimated_seconds(row, TWO_CORES), estimated_seconds(row, ONE_GPU))

    def _is_covered(self, job: Job) -> bool:
        """Whether the run, or another one that can be used for it, is done or planned."""
        return any(map(self._is_done, self._with_shared(job)))

    def _with_shared(self, job: Job) -> Iterator[Job]:
        yield job
        yield from self._shared.jobs_serving(job)

    def _is_done(self, job: Job) -> bool:
        path = job.archive_path
        return path in self._archived or path in self._planned or self._is_done_here(job)

    def _trained_seconds(self, job: Job) -> float:
        """Return the seconds that an unfinished run has trained."""
        folder = self._folders[job.recipe.name]
        here = 0.0 if folder is None else folder.trained_seconds(job)
        return max(here, self._unfinished_seconds.get(job.archive_path, 0.0))

    def _is_done_here(self, job: Job) -> bool:
        folder = self._folders[job.recipe.name]
        return folder is not None and (folder.has_ended(job) or folder.has_diverged(job))

    def _open(self, recipe: Recipe) -> RecipeFolder | None:
        """Open the folder of a recipe, if it exists.

        Raises:
            ValueError: If it is damaged, or holds another recipe.
        """
        folder = recipe_folder_path(recipe, self._root, quick=self._quick)
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
