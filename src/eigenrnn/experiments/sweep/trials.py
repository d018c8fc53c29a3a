"""The trials of a sweep, and the source that builds the model of each."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training import Callback, Settings

if TYPE_CHECKING:
    from eigenrnn.experiments.sweep.status import Status

__all__ = ["Trial", "TrialSetup", "TrialSource", "format_value"]


@dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Args:
        number: The number of its point in the sweep; all seeds of a point share it.
        parameters: The values of the varied parameters, by name.
        seed: The seed of the run.
        path: The folder of the run, relative to that of the sweep.
        point: The label of the point, as in the recipe.
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


@dataclass(frozen=True)
class TrialSetup:
    """The model, task and settings of a trial.

    Args:
        model: The model, initialised with the seed of the trial.
        task: The task.
        settings: The training settings.
        name: The name of the run.
        config: Additional content of `config.json`.
        callbacks: Called after steps and evaluations.
        score: Computes further numbers of the best model; it may write to the given folder.
    """

    model: nn.Module
    task: Task
    settings: Settings
    name: str
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    callbacks: Sequence[Callback] = ()
    score: Callable[[nn.Module, Path], Mapping[str, float]] | None = None


class TrialSource(ABC):
    """Builds the trials of a sweep; it is sent to the machines that train them."""

    @abstractmethod
    def trials(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        """Return the trials of a point, one per seed."""

    @abstractmethod
    def check(self, trials: Sequence[Trial]) -> None:
        """Raise an error if a trial is invalid; nothing is trained or written."""

    @abstractmethod
    def prepare(self, trial: Trial, folder: Path) -> TrialSetup:
        """Build the model, task and settings of a trial that is trained in a folder."""

    @abstractmethod
    def task(self, trial: Trial) -> Task:
        """Return the task of a trial."""

    def summarise(
        self, folder: Path, statuses: "Sequence[Status]", *, is_over: bool = False
    ) -> None:
        """Write a summary of the finished trials beside the table of the sweep.

        Args:
            folder: The folder of the sweep.
            statuses: The current status of each trial.
            is_over: Whether the sweep is finished.
        """
        del folder, statuses, is_over


def format_value(value: Any) -> str:
    """Format the value of a parameter for the console."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
