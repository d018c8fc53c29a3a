"""The plan of `reproduce --all`: the remaining runs of all recipes, in order of priority."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from rich.console import Console

from eigenrnn.experiments.claims import Runs
from eigenrnn.experiments.errors import MissingDataError
from eigenrnn.experiments.recipes import Computed, Entry, Outcome, Recipe, Row, reproduce
from eigenrnn.experiments.recipes.cost import estimated_seconds
from eigenrnn.experiments.recipes.results_files import read_computed, recipe_of_folder
from eigenrnn.experiments.recipes.runs import Run, download_data, folder_name, runs_of
from eigenrnn.experiments.results.archive import Archive, current_runs
from eigenrnn.experiments.training.archived_run import ArchivedRun, archive_path
from eigenrnn.experiments.training.run_folder import RunFolder

__all__ = ["Plan", "PlannedRow", "SharedRuns", "rows_in_order"]


def rows_in_order(
    recipes: Mapping[str, Recipe], first: Sequence[Runs] = ()
) -> Iterator[tuple[int, Recipe, Entry, Runs | None]]:
    """Yield the rows of all recipes, each with its group, its recipe and the runs to make.

    The first group has the runs that are named first, the second one all runs of every row.
    """
    for runs in (runs for runs in first if runs.recipe in recipes and runs.reduced is None):
        recipe = recipes[runs.recipe]
        for row in recipe.select([runs.row]):
            yield 1, recipe, row, runs
    for recipe in recipes.values():
        for row in recipe.rows:
            yield 2, recipe, row, None


class SharedRuns:
    """Finds the rows of all recipes that share a run.

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
        self._rows: dict[tuple[str, str], list[Run]] = {}
        self._same: dict[str, list[Run]] = {}
        for recipe in recipes.values():
            for row in (row for row in recipe.rows if isinstance(row, Row)):
                runs = list(runs_of(recipe, row, seeds, quick=quick))
                self._rows[recipe.name, row.label] = runs
                for run in runs:
                    self._same.setdefault(_text(run), []).append(run)

    def of_row(self, recipe: Recipe, label: str) -> list[Run]:
        """Return the runs of a row; empty for a row without training."""
        return self._rows.get((recipe.name, label), [])

    def runs_served_by(self, run: Run) -> list[Run]:
        """Return the runs of other rows that this run can be used for."""
        return [other for other in self._others(run) if other.accepts(run)]

    def runs_serving(self, run: Run) -> list[Run]:
        """Return the runs of other rows that can be used for this run."""
        return [other for other in self._others(run) if run.accepts(other)]

    def _others(self, run: Run) -> list[Run]:
        return [other for other in self._same.get(_text(run), []) if other.key != run.key]


def _text(run: Run) -> str:
    return json.dumps([run.description, run.key.seed], sort_keys=True)


@dataclass(frozen=True)
class PlannedRow:
    """A row with remaining runs.

    Args:
        group: 1 for runs that come first, 2 for all others.
        recipe: Its recipe.
        row: The row, as it is trained.
        runs: The remaining runs; empty for a number without training.
        skip: Run folders, relative to the recipe's folder, that are not trained now: another row
            or the archive has the run, or it comes later.
    """

    group: int
    recipe: Recipe
    row: Row | Computed
    runs: tuple[Run, ...] = ()
    skip: frozenset[Path] = frozenset()

    @property
    def missing_data(self) -> str | None:
        """The data that is not on this machine."""
        return self.row.task.missing_data() if isinstance(self.row, Row) else None

    @cached_property
    def seconds(self) -> float | None:
        """A rough estimate of the time of one run on one core; None if it needs missing data."""
        return estimated_seconds(self.row) if isinstance(self.row, Row) else 0.0

    @property
    def total_seconds(self) -> float:
        """The estimated time of all its runs; 0 without an estimate."""
        return len(self.runs) * (self.seconds or 0.0)


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
        first: Sequence[Runs] = (),
        seeds: Sequence[int] | None = None,
        quick: bool = False,
    ) -> "Plan":
        """Plan all runs that are not done.

        A run is done if it has ended or diverged in the folder of its recipe, or is archived and
        its row has not changed since. It is also done if another row shares the run and that one
        is done or planned earlier.

        Args:
            recipes: All recipes, by name.
            folder: The folder that contains the folders of the recipes.
            archive: The archive of runs; ignored for quick runs.
            first: The runs that come first, such as those that decide a claim.
            seeds: Replace the seeds of the recipes.
            quick: Whether the runs are quick ones.
        Raises:
            ValueError: If a file of the archive or of a folder is damaged or of another version.
        """
        archived = [] if quick else current_runs(recipes, Archive(archive).runs())[0]
        root = Path(folder)
        rows = remaining_rows(recipes, archived, root, first=first, seeds=seeds, quick=quick)
        return cls(tuple(rows), Path(folder), None if seeds is None else tuple(seeds), quick)

    @property
    def total_seconds(self) -> float:
        """The estimated time on one core; rows without an estimate count as 0."""
        return sum(planned.total_seconds for planned in self.rows if planned.missing_data is None)

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
        for _, same in groupby(self.rows, lambda planned: (planned.group, planned.recipe.name)):
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
            download_data([planned.row])
        except MissingDataError as error:
            say(f"{planned.recipe.name}: {planned.row.label} is skipped: {error}")
            return False
        return True


def remaining_rows(
    recipes: Mapping[str, Recipe],
    archived: Sequence[ArchivedRun],
    folder: Path | None = None,
    *,
    first: Sequence[Runs] = (),
    seeds: Sequence[int] | None = None,
    quick: bool = False,
) -> Iterator[PlannedRow]:
    """Yield the rows with remaining runs in the order of `reproduce --all`; no run comes twice.

    Args:
        recipes: All recipes, by name.
        archived: The archived runs that count.
        folder: The folder of the folders of the recipes; None to consider the archive alone.
        first: The runs that come first.
        seeds: Replace the seeds of the recipes.
        quick: Whether the runs are quick ones.
    Raises:
        ValueError: If a file of a folder is damaged, or holds another recipe.
    """
    planner = _Planner(recipes, archived, folder, seeds, quick)
    for group, recipe, row, chosen in rows_in_order(recipes, first):
        if isinstance(row, Computed):
            yield from planner.computed(group, recipe, row)
        elif isinstance(row, Row):
            yield from planner.trained(group, recipe, row, chosen)


class _Planner:
    """Knows which runs are done, and which are planned already."""

    def __init__(
        self,
        recipes: Mapping[str, Recipe],
        archived: Sequence[ArchivedRun],
        root: Path | None,
        seeds: Sequence[int] | None,
        quick: bool,
    ) -> None:
        self._quick = quick
        self._shared = SharedRuns(recipes, seeds=seeds, quick=quick)
        self._done = {run.relative_path for run in archived if run.state != "unfinished"}
        self._folders = {
            recipe.name: folder
            for recipe in recipes.values()
            if root is not None and (folder := _existing_folder(recipe, root, quick=quick))
        }

    def trained(
        self, group: int, recipe: Recipe, row: Row, chosen: Runs | None
    ) -> Iterator[PlannedRow]:
        """Yield the row with its remaining runs, if there are any."""
        runs = self._shared.of_row(recipe, row.label)
        remaining = [
            run
            for run in runs
            if (chosen is None or chosen.includes(run.key.point, run.key.seed))
            and not self._is_covered(run)
        ]
        self._done.update(map(_archive_path, remaining))
        if remaining:
            run_here = {run.key.path for run in (*remaining, *filter(self._is_done_here, runs))}
            skip = frozenset(run.key.path for run in runs) - run_here
            whole = row.quick() if self._quick else row
            yield PlannedRow(group, recipe, whole, tuple(remaining), skip)

    def computed(self, group: int, recipe: Recipe, row: Computed) -> Iterator[PlannedRow]:
        """Yield the row unless its number is known."""
        file, folder = archive_path(recipe.name, row.label, "", None), self._folder(recipe)
        if file in self._done or (folder is not None and read_computed(folder, row.label)):
            return
        self._done.add(file)
        yield PlannedRow(group, recipe, row)

    def _is_covered(self, run: Run) -> bool:
        """Whether the run, or another one that can be used for it, is done or planned."""
        return any(
            _archive_path(each) in self._done or self._is_done_here(each)
            for each in (run, *self._shared.runs_serving(run))
        )

    def _is_done_here(self, run: Run) -> bool:
        files = self._files(run)
        return files is not None and files.state in ("ended", "diverged")

    def _files(self, run: Run) -> RunFolder | None:
        folder = self._folder(run.recipe)
        return None if folder is None else RunFolder(folder / run.key.path)

    def _folder(self, recipe: Recipe) -> Path | None:
        return self._folders.get(recipe.name)


def _archive_path(run: Run) -> Path:
    key = run.key
    return archive_path(key.recipe, key.row, key.point, key.seed, key.reduced)


def recipe_folder_path(recipe: Recipe, root: Path, *, quick: bool) -> Path:
    """Return the folder of a recipe below the folder of all recipes."""
    return root / folder_name(recipe, quick=quick)


def _existing_folder(recipe: Recipe, root: Path, *, quick: bool) -> Path | None:
    """Return the folder of a recipe if it exists.

    Raises:
        ValueError: If it holds another recipe.
    """
    folder = recipe_folder_path(recipe, root, quick=quick)
    found = recipe_of_folder(folder)
    if found not in (None, (recipe.name, quick, recipe.reduced_to)):
        kind = "quick runs" if found[1] else "runs" if found[2] is None else "reduced runs"
        raise ValueError(
            f"expected {recipe.name} in {folder}, got {kind} of {found[0]}: choose "
            "another folder with --out"
        )
    return folder if folder.is_dir() else None
