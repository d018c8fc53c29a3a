"""The trials of a sweep over the options of `eigenrnn train`."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from jsonargparse import Namespace

from eigenrnn.experiments.cli.name_lookup import resolve_names
from eigenrnn.experiments.cli.train_options import build_training, default_name, parse_options
from eigenrnn.experiments.sweep import Trial, TrialSource
from eigenrnn.experiments.sweep.trial import format_value
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Result, RunFolder, Settings, fit
from eigenrnn.experiments.training.optimisers import check_recurrent_rate

__all__ = ["ConfigSweep"]

_SETTINGS = tuple(field.name for field in fields(Settings))
_MAX_NAME = 80  # characters of the name of a folder


@dataclass(frozen=True)
class ConfigSweep(TrialSource):
    """A sweep over some options of `eigenrnn train`.

    Args:
        options: The options that all trials share, as in a YAML file.
        seeds: The seeds of each point.
        data_root: The folder with the data files.
    """

    options: Mapping[str, Any]
    seeds: tuple[int, ...] = (0,)
    data_root: str | None = None

    def trials(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        label = " ".join(f"{name}={format_value(value)}" for name, value in parameters.items())
        slug = re.sub(r"[^a-z0-9]+", "-", f"{number:03d} {label}".lower())[:_MAX_NAME].strip("-")
        return [
            Trial(number, parameters, seed, f"{slug}/seed-{seed}", label) for seed in self.seeds
        ]

    def check(self, trials: Sequence[Trial]) -> None:
        built: set[str] = set()
        refusals: list[ValueError] = []
        for trial in trials:
            options, _ = self._options(trial)
            settings = Settings(**{name: options[name] for name in _SETTINGS})
            settings.total_steps(options.task)
            # trials that differ in training settings only share a model: build it once
            shape = {n: v for n, v in trial.parameters.items() if n not in _SETTINGS}
            # by its text, because values may be lists, which have no hash
            if repr(shape) not in built:
                model, task, settings = build_training(options, self.data_root)
                try:
                    check_recurrent_rate(model, settings)
                except ValueError as error:
                    refusals.append(error)
                if task.missing_data() is not None:
                    next(task.batches("train", 1))  # downloads the data, or raises
                built.add(repr(shape))
        if built and len(refusals) == len(built):  # one of several layers may need the rate
            raise refusals[0]

    def task(self, trial: Trial) -> Task:
        return self._options(trial)[0].task

    def best_by(self, trial: Trial) -> str | None:
        return self._options(trial)[0].best_by

    def train(self, trial: Trial, files: RunFolder, **options: Any) -> Result:
        chosen, entry = self._options(trial)
        model, task, settings = build_training(chosen, self.data_root)
        name = ", ".join(part for part in (default_name(model, task), trial.point) if part)
        config = {"command": "train", "options": entry}
        return fit(model, task, settings, files.path, name=name, config=config, **options)

    def _options(self, trial: Trial) -> tuple[Namespace, dict[str, Any]]:
        """Return the instantiated options of a trial, and their entry in config.json."""
        # `_set` also changes the options of the task and of the layer
        content = copy.deepcopy(dict(self.options))
        for name, value in trial.parameters.items():
            _set(content, name.split("."), value)
        content["seed"] = trial.seed
        return parse_options(resolve_names(content))


def _set(content: dict[str, Any], path: list[str], value: Any) -> None:
    """Set an option by its path; `task: copying` is read as `task: {name: copying}`.

    Raises:
        ValueError: If the owner of the option is missing.
    """
    first, *rest = path
    if not rest:
        content[first] = value
        return
    owner: Any = content.get(first)
    if isinstance(owner, str):  # a name alone, as in `layer: scornn`
        owner = {"name": owner}
        content[first] = owner
    if not isinstance(owner, dict):
        raise ValueError(
            f"expected {first} in the file because it varies {'.'.join(path)}, got none"
        )
    options = cast("dict[str, Any]", owner)
    if "class_path" in options:
        options = options.setdefault("init_args", {})
    _set(options, rest, value)
