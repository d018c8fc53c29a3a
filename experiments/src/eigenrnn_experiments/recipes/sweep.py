"""A recipe as the trials of a sweep, whose results have the form of `reproduce`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from eigenrnn_experiments.recipes.outcome import not_run
from eigenrnn_experiments.recipes.panels import draw_panels
from eigenrnn_experiments.recipes.recipe import Recipe, grid_points, point_name
from eigenrnn_experiments.recipes.results_files import write_results
from eigenrnn_experiments.recipes.runs import Run, row_of
from eigenrnn_experiments.sweep import Plan, Sweep, Trial
from eigenrnn_experiments.sweep.run import point_folder, point_label
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.training import Result, Settings
from eigenrnn_experiments.training.run_folder import RunFolder
from eigenrnn_experiments.training.run_key import RunKey, run_path

__all__ = ["RecipePlan", "RecipeSweep"]

_ROW = "row"


class RecipePlan(Plan, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sweep over rows of a recipe tries.

    Args:
        recipe: The name of the recipe.
        rows: Parts of the labels of the rows; empty for all.
        quick: Whether to run smoke tests, too short for the reported numbers.
    """

    recipe: str
    rows: tuple[str, ...] = ()
    quick: bool = False

    def points(self, recipe: Recipe) -> list[Mapping[str, Any]]:
        """Return the points of the rows: of this grid, or of their own ones without any.

        Raises:
            ValueError: If none of the rows trains a network.
        """
        found: list[Mapping[str, Any]] = []
        labels = [row.label for row in recipe.select([*self.rows])]
        for row in recipe.trained:
            if row.label in labels:
                grid = self.grid_points
                if not self.is_varied:
                    grid = grid_points(row.quick().grid if self.quick else row.grid)
                found += [{_ROW: row.label, **point} for point in grid]
        if not found:
            raise ValueError(f"expected rows of {self.recipe} that train networks, got none")
        return found


@dataclass(frozen=True, kw_only=True)
class RecipeSweep(Sweep):
    """A sweep over rows of a recipe, their grids and their seeds."""

    plan: RecipePlan
    recipe: Recipe

    def trials_of(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        row = self.recipe.row(parameters[_ROW])
        hyperparameters = {name: value for name, value in parameters.items() if name != _ROW}
        point = point_name(hyperparameters)
        folder = point
        if self.plan.is_varied:
            point = point_label(hyperparameters)
            folder = point_folder(number, point)
        return [
            Trial(parameters, seed, run_path(row.label, folder, seed).as_posix(), point)
            for seed in self.plan.seeds or self.recipe.seeds_of(row, quick=self.plan.quick)
        ]

    def build(self, trial: Trial) -> tuple[nn.Module, Task, Settings]:
        row = self.run_of(trial).row
        return row.build(trial.seed), row.task, row.settings

    def train(self, trial: Trial, files: RunFolder, **options: Any) -> Result:
        return self.run_of(trial, files).train(**options)

    def summarise(self, out: Path, trials: Sequence[Trial]) -> None:
        entries = self.recipe.select([*self.plan.rows])
        outcomes = {row.label: not_run(row) for row in entries}
        for label, text in self.changes(trials).items():
            outcomes[label] = [replace(each, unjudged=text) for each in outcomes[label]]
        for trial in trials:
            label = trial.parameters[_ROW]
            if trial.is_final(out):
                outcomes[label] = self.run_of(trial, trial.files(out)).add_to(outcomes[label])
        drawn = None
        is_over = all(trial.is_final(out) for trial in trials)
        if is_over and not self.plan.is_varied and self.recipe.panels:
            write_results(out, self.recipe, outcomes, quick=self.plan.quick)
            drawn = draw_panels(self.recipe, out, quick=self.plan.quick)
        write_results(out, self.recipe, outcomes, quick=self.plan.quick, drawn=drawn)

    def changes(self, trials: Sequence[Trial]) -> dict[str, str]:
        """Return what the sweep changes of the rows that it changes, by their labels."""
        found: dict[str, dict[str, None]] = {}  # with sets that keep the order
        for trial in trials:
            label = trial.parameters[_ROW]
            row = self.recipe.row(label).with_changes({})
            for name, value in self._varied(trial).items():
                if row.with_changes({name: value}) != row:
                    found.setdefault(label, {})[f"{name}={value}"] = None
        return {
            label: f"changed by the sweep: {', '.join(names)}" for label, names in found.items()
        }

    def _varied(self, trial: Trial) -> dict[str, Any]:
        if not self.plan.is_varied:
            return {}
        return {name: value for name, value in trial.parameters.items() if name != _ROW}

    def run_of(self, trial: Trial, files: RunFolder | None = None) -> Run:
        """Return the run of a trial, in a folder."""
        label = trial.parameters[_ROW]
        varied = self._varied(trial)
        key = RunKey(
            self.recipe.name, label, trial.point, trial.seed, self.plan.quick, varied=varied
        )
        return Run(self.recipe, row_of(key, self.recipe), key, files or RunFolder(key.path))
