"""A recipe as the trials of a sweep, and their results as `reproduce` writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from eigenrnn.experiments.recipes.base import Recipe, Row
from eigenrnn.experiments.recipes.drawing import draw_panels, run_place
from eigenrnn.experiments.recipes.origin import Origin
from eigenrnn.experiments.recipes.outcome import Outcome
from eigenrnn.experiments.recipes.written import write_results
from eigenrnn.experiments.report.files import read_json
from eigenrnn.experiments.sweep import Prepared, Source, Status, Trial
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training.run_directory import RunDirectory
from eigenrnn.models import count_parameters

__all__ = ["SweptRecipe"]

_ROW = "row"
_LONGEST = 80  # characters of the name of a folder


@dataclass(frozen=True)
class SweptRecipe(Source):
    """The rows of a recipe, each with its grid and its seeds.

    Args:
        recipe: The published comparison.
        labels: The labels of the rows that are run.
        seeds: The seeds to run; None takes the recipe's, the first of them if `quick`.
        quick: Whether to run at a size that shows that it works, not what it reaches.
        varied: Whether the parameters are other values than those of the grids of the rows.
    """

    recipe: Recipe
    labels: tuple[str, ...]
    seeds: tuple[int, ...] | None = None
    quick: bool = False
    varied: bool = False

    @property
    def rows(self) -> dict[str, Row]:
        """The rows that are run, by label."""
        found = (row for row in self.recipe.rows if isinstance(row, Row))
        return {row.label: row for row in found if row.label in self.labels and row.layer}

    def points(self) -> list[Mapping[str, Any]]:
        """List the points of the grids of the rows."""
        listed: list[Mapping[str, Any]] = []
        for row in self.rows.values():
            grid = row.quick().grid if self.quick else row.grid
            names = [_ROW, *(axis.name for axis in grid)]
            tried = product((row.label,), *(axis.values for axis in grid))
            listed += [dict(zip(names, values, strict=True)) for values in tried]
        return listed

    def trials(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        row = self.rows[parameters[_ROW]]
        seeds = self.seeds or (row.seeds or self.recipe.seeds)[: 1 if self.quick else None]
        others = {name: value for name, value in parameters.items() if name != _ROW}
        if self.varied:
            point = " ".join(f"{name}={value}" for name, value in others.items())
            place = partial(run_place, row.label, f"{number:03d} {point}"[:_LONGEST])
        else:
            point = " ".join(f"{name}={value:g}" for name, value in others.items())
            place = partial(run_place, row.label, point)
        return [Trial(number, parameters, seed, place(seed).as_posix(), point) for seed in seeds]

    def check(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            row = self._row(trial)
            if row.settings.devices != 1 or row.settings.num_nodes != 1:
                raise ValueError("expected devices=1 and num_nodes=1 in a sweep, got more")
            if {"hidden_size"} & set(trial.parameters) or "layer." in " ".join(trial.parameters):
                row.build(trial.seed)

    def task(self, trial: Trial) -> Task:
        return self._row(trial).task

    def prepare(self, trial: Trial, folder: Path) -> Prepared:
        row = self._row(trial)
        score = row.score
        return Prepared(
            row.build(trial.seed),
            row.task,
            row.settings,
            f"{row.label}, {trial.point} seed {trial.seed}".replace(",  ", ", "),
            self._origin(trial).facts(),
            () if row.watch is None else (row.watch(folder),),
            None if score is None else lambda model, place: score(model, row.task, place),
        )

    def summarise(
        self, folder: Path, statuses: Sequence[Status], *, is_over: bool = False
    ) -> None:
        entries = (row for row in self.recipe.rows if row.label in self.labels)
        outcomes = {row.label: Outcome.before(row) for row in entries}
        for status in statuses:
            label = status.trial.parameters[_ROW]
            outcomes[label] = self._with(outcomes[label], status, folder)
        write_results(folder, self.recipe, outcomes, quick=self.quick)
        if is_over and not self.varied and self.recipe.panels:
            drawn = draw_panels(self.recipe, folder, quick=self.quick)
            write_results(folder, self.recipe, outcomes, quick=self.quick, drawn=drawn)

    def _with(self, outcome: Outcome, status: Status, folder: Path) -> Outcome:
        """Add what a trial came to, if it has come to anything."""
        trial = status.trial
        if not status.is_final:
            return outcome
        row, point = self._row(trial), trial.point
        count = _parameters(folder / trial.place) or count_parameters(row.build(trial.seed))
        if status.result is None:
            return outcome.with_failure(row, trial.seed, count, point)
        outcome = outcome.with_run(row, trial.seed, count, status.result, point)
        if status.scores is None:
            return outcome
        return replace(outcome, scores=(*outcome.scores, dict(status.scores)))

    def _row(self, trial: Trial) -> Row:
        return self._origin(trial).find(self.recipe)

    def _origin(self, trial: Trial) -> Origin:
        label = trial.parameters[_ROW]
        changes = {name: value for name, value in trial.parameters.items() if name != _ROW}
        varied = changes if self.varied else {}
        return Origin(self.recipe.name, label, trial.point, trial.seed, self.quick, varied)


def _parameters(folder: Path) -> int | None:
    file = RunDirectory(folder).config
    return read_json(file, ("parameters",))["parameters"] if file.exists() else None
