"""A recipe as the trials of a sweep, whose results have the form of `reproduce`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from eigenrnn.experiments.recipes.outcome import Outcome
from eigenrnn.experiments.recipes.panels import draw_panels
from eigenrnn.experiments.recipes.recipe import Recipe, grid_points, point_name
from eigenrnn.experiments.recipes.results_files import write_results
from eigenrnn.experiments.recipes.runs import Run, row_of
from eigenrnn.experiments.sweep import Sweep, Trial
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Result, Settings
from eigenrnn.experiments.training.run_folder import RunFolder
from eigenrnn.experiments.training.run_key import RunKey, run_path

__all__ = ["RecipeSweep", "row_points"]

_ROW = "row"
_MAX_FOLDER_NAME = 80  # characters


def row_points(
    recipe: Recipe,
    labels: Collection[str],
    grid: Sequence[Mapping[str, Any]] | None = None,
    *,
    quick: bool = False,
) -> list[Mapping[str, Any]]:
    """Return the points of rows of a recipe: those of their own grids, or of another grid."""
    points: list[Mapping[str, Any]] = []
    for row in recipe.trained:
        if row.layer and row.label in labels:
            chosen = grid
            if chosen is None and quick:
                chosen = grid_points(row.quick().grid)
            elif chosen is None:
                chosen = grid_points(row.grid)
            points += [{_ROW: row.label, **point} for point in chosen]
    return points


@dataclass(frozen=True, kw_only=True)
class RecipeSweep(Sweep):
    """A sweep over rows of a recipe, their grids and their seeds.

    Args:
        recipe: The published comparison.
        labels: The labels of the rows to run.
        seeds: The seeds to run; None for the recipe's, the first of them if `quick`.
        quick: Whether to run smoke tests, too short for the reported numbers.
        varied: Whether the sweep tries other hyperparameters in place of the grids of the rows.
    """

    recipe: Recipe
    labels: tuple[str, ...]
    seeds: tuple[int, ...] | None = None
    quick: bool = False
    varied: bool = False

    def trials_of(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        row = self.recipe.row(parameters[_ROW])
        hyperparameters = {name: value for name, value in parameters.items() if name != _ROW}
        point = point_name(hyperparameters)
        folder = point
        if self.varied:
            point = _label(hyperparameters)
            folder = f"{number:03d} {point}"[:_MAX_FOLDER_NAME]
        return [
            Trial(number, parameters, seed, run_path(row.label, folder, seed).as_posix(), point)
            for seed in self.seeds or self.recipe.seeds_of(row, quick=self.quick)
        ]

    def task_and_settings(self, trial: Trial) -> tuple[Task, Settings]:
        row = self.run_of(trial).row
        return row.task, row.settings

    def build(self, trial: Trial) -> tuple[nn.Module, Task, Settings]:
        row = self.run_of(trial).row
        return row.build(trial.seed), row.task, row.settings

    def states_rate(self, trial: Trial) -> bool:
        # the rows of a paper may share the settings
        return bool({"lr_recurrent", "optimiser_recurrent"} & set(self._varied(trial)))

    def train(self, trial: Trial, files: RunFolder, **options: Any) -> Result:
        return self.run_of(trial, files).train(**options)

    def summarise(self, out: Path, trials: Sequence[Trial], *, is_over: bool) -> None:
        entries = (row for row in self.recipe.rows if row.label in self.labels)
        outcomes = {row.label: Outcome.not_run(row) for row in entries}
        for label, text in self.changes(trials).items():
            outcomes[label] = replace(outcomes[label], unjudged=text)
        for trial in trials:
            label = trial.parameters[_ROW]
            if trial.is_final(out):
                outcomes[label] = self.run_of(trial, trial.files(out)).add_to(outcomes[label])
        drawn = None
        if is_over and not self.varied and self.recipe.panels:
            write_results(out, self.recipe, outcomes, quick=self.quick)
            drawn = draw_panels(self.recipe, out, quick=self.quick)
        write_results(out, self.recipe, outcomes, quick=self.quick, drawn=drawn)

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
        if not self.varied:
            return {}
        return {name: value for name, value in trial.parameters.items() if name != _ROW}

    def run_of(self, trial: Trial, files: RunFolder | None = None) -> Run:
        """Return the run of a trial, in a folder."""
        label = trial.parameters[_ROW]
        varied = self._varied(trial)
        key = RunKey(self.recipe.name, label, trial.point, trial.seed, self.quick, varied=varied)
        return Run(self.recipe, row_of(key, self.recipe), key, files or RunFolder(key.path))


def _label(hyperparameters: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in hyperparameters.items())
