"""What looks on while a model is trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training.result import Metrics

__all__ = ["Callback", "Measured"]

Measured = Mapping[str, float | NDArray[np.float64]]
"""Numbers by name; several of one name are shown on the board as a histogram."""


class Callback(Protocol):
    """Is called as a run goes on; a subclass overrides what it needs.

    A callback that leaves model and gradients alone leaves the run as it is. What it remembers is
    in no checkpoint. With several processes it is called in each of them.

    Attributes:
        columns: The names of the numbers that it adds to `metrics.csv`, once `begin` has been
            called; a name such as `radius_l0` is shown as `radius/l0` on the board.
    """

    columns: Sequence[str] = ()

    def begin(self, step: int, model: nn.Module, task: Task, folder: Path) -> None:
        """Get ready, before the first step that is to be taken.

        Args:
            step: The number of steps taken before; a file that the callback keeps should forget
                what came after it, so that a resumed run leaves the same as one never stopped.
            model: The model that is trained.
            task: What it is trained on.
            folder: That of the run.
        """

    def after_step(self, step: int, loss: Tensor, model: nn.Module) -> None:
        """Look at a step that has been taken, its gradients still in place.

        Args:
            step: The number of steps taken, from one.
            loss: The loss before the step, on the device: reading it waits for the device.
            model: The model that is trained.
        """

    def measured(self, step: int, model: nn.Module) -> Measured:  # noqa: ARG002
        """Measure a step that has been taken; what is found makes a row of `metrics.csv`.

        Args:
            step: The number of steps taken, from one.
            model: The model that is trained.
        """
        return {}

    def after_evaluation(self, step: int, metrics: Metrics, model: nn.Module) -> None:
        """Look at an evaluation: loss and metric of each split."""
