"""What a sweep trains: trials, and how the network of each is made."""

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

__all__ = ["Prepared", "Source", "Trial"]


@dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Args:
        number: That of its point among those of the sweep; its other seeds have the same.
        parameters: What is tried, by name.
        seed: The seed of the run.
        place: The folder of the run in that of the sweep.
        point: The parameters in a word, as the recipe names them.
    """

    number: int
    parameters: Mapping[str, Any]
    seed: int
    place: str
    point: str = ""

    @property
    def name(self) -> str:
        """What the trial is called on the console."""
        said = [f"{name}={shown(value)}" for name, value in self.parameters.items()]
        return ", ".join([*said, f"seed {self.seed}"])


@dataclass(frozen=True)
class Prepared:
    """What a trial trains.

    Args:
        model: The network, its start drawn from the seed.
        task: What it is trained on.
        settings: How.
        name: What the run is called.
        config: Further facts for `config.json`.
        callbacks: Called after steps and evaluations.
        score: Measures the best model by further numbers, given a folder.
    """

    model: nn.Module
    task: Task
    settings: Settings
    name: str
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    callbacks: Sequence[Callback] = ()
    score: Callable[[nn.Module, Path], Mapping[str, float]] | None = None


class Source(ABC):
    """Makes the runs of a sweep; sent to the machines that train them."""

    @abstractmethod
    def trials(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        """List the runs of a point, one a seed."""

    @abstractmethod
    def check(self, trials: Sequence[Trial]) -> None:
        """Refuse runs that cannot be; raises what says why. Nothing is trained or written."""

    @abstractmethod
    def prepare(self, trial: Trial, folder: Path) -> Prepared:
        """Make the network of a run, whose folder is given, and all that trains it."""

    @abstractmethod
    def task(self, trial: Trial) -> Task:
        """Give what a run is trained on."""

    def summarise(
        self, folder: Path, statuses: "Sequence[Status]", *, is_over: bool = False
    ) -> None:
        """Write what the runs that have ended came to, beside the table of the sweep.

        Args:
            folder: That of the sweep.
            statuses: What has become of each run so far.
            is_over: Whether no more will come.
        """
        del folder, statuses, is_over


def shown(value: Any) -> str:
    """Write a value as it is called."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
