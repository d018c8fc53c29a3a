"""A trial of a sweep, what builds it, and the metric that ranks it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training import Result, Settings
from eigenrnn.experiments.training.run_folder import RunFolder

__all__ = ["Criterion", "Trial", "TrialSource", "format_value"]


@dataclass(frozen=True)
class Trial:
    """One run of a sweep; its state is in its folder.

    Args:
        number: The number of its point in the sweep; all seeds of a point share it.
        parameters: The values of the varied parameters, by name.
        seed: The seed of the run.
        path: The folder of the run, relative to that of the sweep.
        point: The label of the point.
    """

    number: int
    parameters: Mapping[str, Any]
    seed: int
    path: str
    point: str = ""

    @property
    def name(self) -> str:
        """The name of the trial on the console."""
        parameters = [f"{name}={format_value(value)}" for name, value in self.parameters.items()]
        return ", ".join([*parameters, f"seed {self.seed}"])

    def files(self, out: Path) -> RunFolder:
        """Return the folder of the run in the folder of the sweep."""
        return RunFolder(out / self.path)

    def status(self, out: Path) -> dict[str, Any]:
        """Read the `state`, the `message` of an error, and any further `scores` of the run.

        The state is `waiting`, `unfinished`, `ended`, `diverged` (a loss was not finite) or
        `failed` (with an error).
        """
        files = self.files(out)
        status = files.read_status()
        if status["state"] == "waiting" and files.config_file.exists():
            status["state"] = "unfinished"
        return status

    def is_final(self, out: Path) -> bool:
        """Whether training again would give the same outcome."""
        return self.status(out)["state"] in ("ended", "diverged")


@dataclass(frozen=True)
class Criterion:
    """A metric by which trials are compared.

    Args:
        metric: A split and the name of a metric, such as `test loss`.
        mode: `min` if lower is better, `max` if higher is.
    """

    metric: str
    mode: Literal["min", "max"]

    @property
    def worst(self) -> float:
        """A value worse than any score, which counts for a trial that has none."""
        return math.inf if self.mode == "min" else -math.inf

    def score(self, files: RunFolder) -> float | None:
        """Return the best value at an evaluation; None for a run without any or without an end.

        Raises:
            ValueError: If the files of the run are damaged, or lack the metric.
        """
        if files.read_result() is None:
            return None
        name = self.metric.replace(" ", "_", 1)
        columns = files.read_metrics()
        if name not in columns:
            raise ValueError(f"expected a column {name} in {files.metrics_file}, got none")
        values = columns[name]
        if np.isnan(values).all():  # also at steps without an evaluation
            return None
        return float(np.nanmin(values) if self.mode == "min" else np.nanmax(values))


class TrialSource(ABC):
    """Builds the trials of a sweep; it is sent to the machines that train them."""

    @abstractmethod
    def trials(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        """Return the trials of a point, one per seed."""

    @abstractmethod
    def task_and_settings(self, trial: Trial) -> tuple[Task, Settings]:
        """Return the task and the settings of a trial, or raise an error if they are invalid."""

    @abstractmethod
    def build(self, trial: Trial) -> tuple[nn.Module, Task, Settings]:
        """Build the network of a trial; the task knows where its data are."""

    @abstractmethod
    def train(self, trial: Trial, files: RunFolder, **options: Any) -> Result:
        """Train a trial in a folder, with further arguments of `fit`."""

    def states_rate(self, trial: Trial) -> bool:
        """Whether the user states a learning rate of the constrained matrices of a trial."""
        del trial
        return True

    def summarise(self, out: Path, trials: Sequence[Trial], *, is_over: bool) -> None:
        """Write a summary of the finished trials beside the table of the sweep.

        Args:
            out: The folder of the sweep.
            trials: All trials.
            is_over: Whether all of them are finished.
        """
        del out, trials, is_over


def format_value(value: Any) -> str:
    """Format the value of a parameter for the console."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
