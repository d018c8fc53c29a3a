"""What looks on while a model is trained."""

from typing import Protocol

from torch import Tensor, nn

from eigenrnn.train.result import Metrics

__all__ = ["Callback"]


class Callback(Protocol):
    """Is called as a run goes on; a subclass overrides what it needs.

    A callback that leaves model and gradients alone leaves the run as it is. What it remembers is
    in no checkpoint. With several processes it is called in each of them.
    """

    def after_step(self, step: int, loss: Tensor, model: nn.Module) -> None:
        """Look at a step that has been taken, its gradients still in place.

        Args:
            step: The number of steps taken, from one.
            loss: The loss before the step, on the device: reading it waits for the device.
            model: The model that is trained.
        """

    def after_evaluation(self, step: int, metrics: Metrics, model: nn.Module) -> None:
        """Look at an evaluation: loss and metric of each split."""
