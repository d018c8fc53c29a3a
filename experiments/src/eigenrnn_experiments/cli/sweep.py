"""The command `eigenrnn sweep`, and the YAML file of a sweep, which it reads."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from jsonargparse import Namespace, get_loader
from rich.console import Console
from torch import nn

from eigenrnn_experiments.cli.parser import trial_parser
from eigenrnn_experiments.cli.train_options import (
    Training,
    build_training,
)
from eigenrnn_experiments.errors import unknown_name
from eigenrnn_experiments.recipes.sweep import RecipePlan, RecipeSweep
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.sweep import Plan, Sweep, Trial
from eigenrnn_experiments.sweep.run import point_folder, point_label
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.training import Result, RunFolder, Settings, fit
from eigenrnn_experiments.training.run_key import run_path

__all__ = ["ConfigSweep", "read_sweep", "sweep"]


def sweep(options: Namespace, console: Console) -> int:
    """Train the trials of a file; print the best ones and the output folder.

    Returns:
        The exit status: 0, or 1 if a trial should be retried.
    """
    file = Path(options.file)
    chosen = read_sweep(file)
    out = Path(options.out or f"runs/{file.stem}")
    trials = chosen.run(
        out,
        address=options.address,
        resume=options.resume,
        trials_at_once=options.trials_at_once,
    )
    lines = [f"the best of {len(trials)} trials:"]
    ranked = sorted(trials, key=lambda trial: chosen.score(trial, out), reverse=True)
    for trial in ranked[:10]:
        result = trial.files(out).result
        if result is not None and result.best_by is not None:
            split, _, name = result.best_by.partition(" ")
            lines.append(f"{result.best_by} {result.best[split][name]:.6g} in {out / trial.path}")
    states = Counter(trial.status(out).state for trial in trials)
    counts = ", ".join(f"{number} {state}" for state, number in states.items())
    lines.append(f"in {out}: results.csv of {len(trials)} trials, {counts}")
    retry = states.total() > states["ended"] + states["diverged"]
    if retry:
        lines.append("--resume retries those that have neither ended nor diverged")
    console.print("\n".join(lines), soft_wrap=True, highlight=False)
    return int(retry)


def read_sweep(path: str | Path) -> Sweep:
    """Read a sweep from its YAML file.

    Raises:
        ValueError: If the file is not YAML, or has an invalid key or value.
    """
    try:
        content: Any = get_loader("yaml")(Path(path).read_text(encoding="utf-8"))
        plan = msgspec.convert(content, Plan)
        if "recipe" in content:
            plan = msgspec.convert(content, RecipePlan)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ValueError(f"expected a sweep in {path}: {error}") from None
    if not isinstance(plan, RecipePlan):
        return ConfigSweep(plan=plan, points=plan.grid_points, description=content)
    if plan.recipe not in RECIPES:
        raise ValueError(unknown_name("recipe", plan.recipe, RECIPES))
    recipe = RECIPES[plan.recipe].with_data_root(plan.data_root)
    points = plan.points(recipe)
    if plan.search and len(points) > 1:
        raise ValueError(f"expected one row for a search, got {len(points)}: choose one")
    return RecipeSweep(plan=plan, points=points, description=content, recipe=recipe)


class ConfigSweep(Sweep):
    """A sweep over some options of `eigenrnn train`, which the file holds."""

    def trials_of(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        point = point_label(parameters)
        folder = point_folder(number, point)
        return [
            Trial(parameters, seed, run_path(folder, "", seed).as_posix(), point)
            for seed in self.plan.seeds or [0]
        ]

    def build(self, trial: Trial) -> tuple[nn.Module, Task, Settings]:
        training = self._training(trial)
        return training.model, training.task, training.settings

    def train(self, trial: Trial, files: RunFolder, **options: Any) -> Result:
        training = self._training(trial)
        return fit(
            training.model,
            training.task,
            training.settings,
            files.path,
            name=f"{training.name} {trial.point}".strip(),
            network=training.network,
            **options,
        )

    def _training(self, trial: Trial) -> Training:
        """Build what a trial trains: its parameters are options on the command line."""
        shared = {n: v for n, v in self.description.items() if n not in Plan.__struct_fields__}
        arguments = ["--config", json.dumps(shared)]
        for name, value in trial.parameters.items():
            text = value
            if not isinstance(value, str):
                text = json.dumps(value)
            arguments.append(f"--{name}={text}")
        parser = trial_parser()
        options = parser.parse_args(arguments)
        options.seed = trial.seed
        return build_training(options, parser.instantiate(options).task, self.plan.data_root)
