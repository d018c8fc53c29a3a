"""The interface of callbacks, which observe a run while it trains."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn_experiments.tasks.base import Task
from eigenrnn_experiments.training.run import Metrics

__all__ = ["Callback", "Measurements"]

Measurements = Mapping[str, float | NDArray[np.float64]]
"""Numbers by name; TensorBoard shows an array as a histogram."""


class Callback(Protocol):
    """Observes a run; a subclass overrides the methods that it needs.

    A callback that changes neither the model nor its gradients does not affect the run. Its own
    state is not part of any checkpoint.

    Attributes:
        columns: The names of the numbers that it adds to `metrics.csv`, set by the end of `begin`.
            TensorBoard shows a name such as `radius_l0` as `radius/l0`.
    """

    columns: Sequence[str] = ()

    def begin(self, step: int, model: nn.Module, task: Task, folder: Path) -> None:
        """Prepare for training, before the first step of this call of `fit`.

        Args:
            step: The number of steps already taken. A callback that writes a file should discard
                its entries of later steps, so that a resumed run leaves the same file as an
                uninterrupted one.
            model: The model that is trained.
            task: The task that it is trained on.
            folder: The folder of the run.
        """

    def after_step(self, step: int, loss: Tensor, model: nn.Module) -> None:
        """Observe an optimiser step; the gradients are still in place.

        Args:
            step: The number of the step, from one.
            loss: The loss before the step, on the device; `loss.item()` waits for the device.
            model: The model that is trained.
        """

    def measure(self, step: int, model: nn.Module) -> Measurements:  # noqa: ARG002
        """Return numbers to write in the line of this step in `metrics.csv`.

        Args:
            step: The number of steps taken, from one.
            model: The model that is trained.
        """
        return {}

    def after_evaluation(
        self, step: int, metrics: Metrics, model: nn.Module
    ) -> Measurements | None:
        """Observe an evaluation; may return numbers to write in its line of `metrics.csv`.

        Args:
            step: The number of steps taken.
            metrics: The loss and the metrics of each split.
            model: The model that is trained.
        """
