"""A trial of a sweep: its setup, its state and its score."""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training.files import Columns, check_types
from eigenrnn.experiments.training.result import Result
from eigenrnn.experiments.training.run_folder import RunFolder

__all__ = ["Criterion", "Score", "Trial", "TrialSource", "format_value"]

State = Literal["waiting", "running", "stopped", "ended", "diverged", "failed", "lost"]

_STATUS: Mapping[str, Any] = {
    "state": str,
    "message": str,
    "attempts": int,
    "node": str,
    "owner": str,
    "scores": dict[str, float],
}
# "stopped" and "lost" are conclusions of the process that runs the sweep
_STATES_IN_FILE = ("waiting", "running", "ended", "diverged", "failed")


@dataclass(frozen=True)
class Trial:
    """One run of a sweep, and its state, which the `status.json` of the run stores.

    Args:
        number: The number of its point in the sweep; all seeds of a point share it.
        parameters: The values of the varied parameters, by name.
        seed: The seed of the run.
        path: The folder of the run, relative to that of the sweep.
        point: The label of the point, as in the recipe.
        state: `waiting`, `running`, `stopped` (with the sweep, while running), `ended`,
            `diverged` (a loss was not finite), `failed` (with an error) or `lost` (its worker or
            machine died too often).
        message: The error that ended it, or the reason why it must be trained again.
        attempts: The number of times a worker started or resumed it.
        node: The machine of the last attempt.
        owner: The attempt that may write to its folder.
        scores: Further numbers of its best model.
        result: The result of a trial that has ended.
    """

    number: int
    parameters: Mapping[str, Any]
    seed: int
    path: str
    point: str = ""
    state: State = "waiting"
    message: str = ""
    attempts: int = 0
    node: str = ""
    owner: str = ""
    scores: Mapping[str, float] | None = None
    result: Result | None = None

    @property
    def name(self) -> str:
        """The name of the trial on the console."""
        parameters = [f"{name}={format_value(value)}" for name, value in self.parameters.items()]
        return ", ".join([*parameters, f"seed {self.seed}"])

    def read(self, out: Path) -> Self:
        """Read the state from the folder of the trial; if a file is damaged it is `waiting`."""
        folder = RunFolder(out / self.path)
        trial = type(self)(self.number, self.parameters, self.seed, self.path, self.point)
        try:
            trial = replace(trial, **_read_status(folder))
            if trial.state != "ended":
                return trial
            result = folder.read_result()
        except ValueError as error:
            message = f"{error}; the trial is trained again from its checkpoint"
            return replace(trial, state="waiting", message=message)
        if result is None:
            return replace(trial, state="waiting")
        return replace(trial, result=result)

    def write(self, out: Path) -> None:
        """Write the state into the folder of the trial."""
        content: dict[str, Any] = {name: getattr(self, name) for name in _STATUS}
        if self.scores is None:
            del content["scores"]
        content |= {"parameters": dict(self.parameters), "seed": self.seed}
        RunFolder(out / self.path).write_status(**content)

    @property
    def is_final(self) -> bool:
        """Whether training again would give the same outcome."""
        return self.state in ("ended", "diverged")

    @cached_property
    def metrics(self) -> Columns:
        """The columns of the `metrics.csv` of a trial that has ended.

        Raises:
            ValueError: If the file is missing or damaged.
        """
        if self.result is None:
            return {}
        folder = RunFolder(self.result.directory)
        last = self.result.last
        names: set[str] = set()
        for split, numbers in last.items():
            names.update(f"{split}_{name}" for name in numbers)
        columns: Columns = {}
        with suppress(OSError, ValueError):
            columns = folder.read_metrics()
        if not names <= set(columns) or self.result.steps not in columns["step"]:
            raise ValueError(
                f"expected the evaluations of a run that has ended in {folder.metrics_file}, "
                f"which is missing or damaged: delete {folder.path}, and --resume trains it again"
            )
        return columns


def _read_status(folder: RunFolder) -> dict[str, Any]:
    """Read the fields of a status.

    Raises:
        ValueError: If the file is damaged.
    """
    content = folder.read_status()
    check_types(folder.status_file, content, _STATUS)
    if content["state"] not in _STATES_IN_FILE or content.get("attempts", 0) < 0:
        raise ValueError(f"{folder.status_file} is damaged: a value is out of range")
    return {name: content[name] for name in _STATUS if name in content}


class Score(NamedTuple):
    """The score of a trial.

    Args:
        value: The value of the metric.
        step: The step of the evaluation.
    """

    value: float
    step: int | None


@dataclass(frozen=True)
class Criterion:
    """A metric by which trials are compared.

    Args:
        metric: A split and the name of a metric, such as `test loss`.
        mode: `min` if lower is better, `max` if higher is.
        explicit: Whether a search names this metric. The score of a run is then its best value at
            any evaluation, otherwise its value at the evaluation that the task selects.
    """

    metric: str
    mode: str
    explicit: bool = False

    def score(self, trial: Trial) -> Score | None:
        """Return the score of a trial; None if it has not ended or lacks the metric.

        Raises:
            ValueError: If `metrics.csv`, which holds an explicit metric, is damaged.
        """
        if trial.result is None:
            return None
        split, _, name = self.metric.partition(" ")
        if not self.explicit:
            value = trial.result.best.get(split, {}).get(name)
            if value is None:
                return None
            return Score(value, trial.result.best_step)
        values = trial.metrics.get(f"{split}_{name}", np.empty(0))
        if np.isnan(values).all():  # at steps without an evaluation too
            return None
        if self.mode == "max":
            best = int(np.nanargmax(values))
        else:
            best = int(np.nanargmin(values))
        return Score(float(values[best]), int(trial.metrics["step"][best]))

    def best_first(self, trials: Sequence[Trial]) -> list[tuple[Score, Trial]]:
        """Sort the trials that have a score, the best first."""
        scored = [(score, each) for each in trials if (score := self.score(each)) is not None]
        return sorted(scored, key=lambda pair: pair[0].value, reverse=self.mode == "max")

    def objective(self, trials: Sequence[Trial]) -> float | None:
        """Return the mean score of the trials of a point; None unless all have a score."""
        values: list[float] = []
        for trial in trials:
            score = self.score(trial)
            if score is None:
                return None
            values.append(score.value)
        if not values:
            return None
        return statistics.fmean(values)


class TrialSource(ABC):
    """Builds the trials of a sweep; it is sent to the machines that train them."""

    @abstractmethod
    def trials(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        """Return the trials of a point, one per seed."""

    @abstractmethod
    def check(self, trials: Sequence[Trial]) -> None:
        """Raise an error if a trial is invalid; nothing is trained or written."""

    @abstractmethod
    def train(self, trial: Trial, files: RunFolder, **options: Any) -> Result:
        """Train a trial in a folder, and store further scores of its model in its status.

        Args:
            trial: The trial.
            files: The folder.
            options: Arguments of `fit`.
        """

    @abstractmethod
    def task(self, trial: Trial) -> Task:
        """Return the task of a trial."""

    def best_by(self, trial: Trial) -> str | None:
        """Return the setting of the metric that selects the best model of a trial."""
        del trial

    def summarise(self, folder: Path, trials: Sequence[Trial], *, is_over: bool = False) -> None:
        """Write a summary of the finished trials beside the table of the sweep.

        Args:
            folder: The folder of the sweep.
            trials: All trials, with their current states.
            is_over: Whether the sweep is finished.
        """
        del folder, trials, is_over


def format_value(value: Any) -> str:
    """Format the value of a parameter for the console."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
