"""What a run minimises and what it measures: a model together with its task."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from eigenrnn.models import penalty
from eigenrnn.tasks.base import Batch, Task

__all__ = ["Objective"]

_TRUE_DTYPES = {
    "64-true": torch.float64,
    "16-true": torch.float16,
    "bf16-true": torch.bfloat16,
}


class Objective(nn.Module):
    """The loss of a model on a batch.

    The loss is taken in single precision or better, whatever the model computes in.

    Args:
        model: Called as `model(inputs)`, and as `model(inputs, lengths)` for a batch with lengths.
        task: Gives the loss and the metric.
        precision: That of the run; the `-true` ones are the dtype of the inputs.
    """

    def __init__(self, model: nn.Module, task: Task, precision: str) -> None:
        super().__init__()
        self.model = model
        self.task = task
        self.dtype = _TRUE_DTYPES.get(precision)

    def forward(self, batch: Callable[[], Batch]) -> tuple[Tensor, Tensor]:
        """Return the loss and the penalty of the constraints, which is no part of it.

        Args:
            batch: Gives the batch. Handed over as a function because Fabric rounds all tensors
                among the arguments to the precision of the run, targets included.
        """
        outputs, targets = self._answer(batch())
        return self.task.loss(outputs, targets), penalty(self.model)

    def measure(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the loss and the metric."""
        outputs, targets = self._answer(batch)
        return self.task.loss(outputs, targets), self.task.metric(outputs, targets)

    def _answer(self, batch: Batch) -> tuple[Tensor, Tensor]:
        inputs = batch.inputs
        if inputs.is_floating_point():
            inputs = inputs.to(self.dtype)
        outputs: Tensor = (
            self.model(inputs) if batch.lengths is None else self.model(inputs, batch.lengths)
        )
        outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        targets = batch.targets
        return outputs, targets.to(outputs.dtype) if targets.is_floating_point() else targets
