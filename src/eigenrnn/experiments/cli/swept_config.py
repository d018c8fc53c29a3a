"""A training config as the trials of a sweep."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import yaml
from jsonargparse import Namespace

from eigenrnn.experiments.cli.make import make, options_and_record
from eigenrnn.experiments.cli.names import in_yaml
from eigenrnn.experiments.sweep import Prepared, Source, Trial
from eigenrnn.experiments.sweep.source import shown
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Settings

__all__ = ["SweptConfig"]

_SETTINGS = tuple(field.name for field in fields(Settings))
_LONGEST = 80  # characters of the name of a folder


@dataclass(frozen=True)
class SweptConfig(Source):
    """The options of `eigenrnn train`, of which some are varied.

    Args:
        options: Those that all runs share, as a file has them.
        seeds: The seeds of each point.
        data_root: The folder of the data files.
    """

    options: Mapping[str, Any]
    seeds: tuple[int, ...] = (0,)
    data_root: str | None = None

    def trials(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        said = " ".join(f"{name}={shown(value)}" for name, value in parameters.items())
        slug = re.sub(r"[^a-z0-9]+", "-", f"{number:03d} {said}".lower())[:_LONGEST].strip("-")
        return [
            Trial(number, parameters, seed, f"{slug}/seed-{seed}", said) for seed in self.seeds
        ]

    def check(self, trials: Sequence[Trial]) -> None:
        built: set[str] = set()
        for trial in trials:
            options, _ = self._options(trial)
            settings = Settings(**{name: options[name] for name in _SETTINGS})
            if settings.devices != 1 or settings.num_nodes != 1:
                raise ValueError("expected devices=1 and num_nodes=1 in a sweep, got more")
            settings.total_steps(options.task)
            # that which no setting of training changes need be built only once
            shape = {n: v for n, v in trial.parameters.items() if n not in _SETTINGS}
            if repr(shape) not in built:
                made = make(options, self.data_root)
                if made.task.missing_data() is not None:
                    next(made.task.batches("train", 1))  # downloads it, or says what to do
                built.add(repr(shape))

    def task(self, trial: Trial) -> Task:
        return self._options(trial)[0].task

    def prepare(self, trial: Trial, folder: Path) -> Prepared:
        del folder
        options, given = self._options(trial)
        made = make(options, self.data_root)
        config = {"command": "train", "options": given}
        return Prepared(made.model, made.task, made.settings, f"{made.name}, {trial.name}", config)

    def _options(self, trial: Trial) -> tuple[Namespace, dict[str, Any]]:
        """Make the task and the layer of a trial; return too what is recorded of its options."""
        content = copy.deepcopy(dict(self.options))
        for name, value in trial.parameters.items():
            _set(content, name.split("."), value)
        content["seed"] = trial.seed
        return options_and_record(in_yaml(yaml.safe_dump(content)))


def _set(content: dict[str, Any], path: list[str], value: Any) -> None:
    """Set an option, however it is written: `task: copying` is `task: {name: copying}`.

    Raises:
        ValueError: If what should have the option is none.
    """
    first, *rest = path
    if not rest:
        content[first] = value
        return
    owner: Any = content.get(first)
    if isinstance(owner, str):
        content[first] = owner = {"name": owner}
    if not isinstance(owner, dict):
        raise ValueError(
            f"expected {first} in the file, as {'.'.join(path)} is its option, got none"
        )
    options = cast("dict[str, Any]", owner)
    _set(options.setdefault("init_args", {}) if "class_path" in options else options, rest, value)
