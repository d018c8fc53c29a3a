"""What a run minimises and what it measures: a model together with its task."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.training.carried import State, detached
from eigenrnn.models import penalty

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
            For a task that carries states from batch to batch it is `model.advance(inputs, state)`
            that is called, which returns the outputs and the state after them.
        task: Gives the loss and the figures.
        precision: That of the run; the `-true` ones are the dtype of the inputs.
    """

    def __init__(self, model: nn.Module, task: Task, precision: str) -> None:
        super().__init__()
        self.model = model
        self.task = task
        self.dtype = _TRUE_DTYPES.get(precision)
        self._carried: dict[bool, State] = {True: None, False: None}

    @property
    def carried(self) -> State:
        """The state from which the next training batch goes on; None where none does."""
        return self._carried[True]

    @carried.setter
    def carried(self, state: State) -> None:
        self._carried[True] = state

    def forward(self, batch: Callable[[], Batch]) -> tuple[Tensor, Tensor]:
        """Return the loss and the penalty of the constraints, which is no part of it.

        Args:
            batch: Gives the batch. Handed over as a function because Fabric rounds all tensors
                among the arguments to the precision of the run, targets included.
        """
        outputs, targets = self._answer(batch())
        return self.task.loss(outputs, targets), penalty(self.model)

    def tally(self, batch: Batch) -> Tensor:
        """Count a batch towards an evaluation."""
        return self.task.tally(*self._answer(batch))

    def _answer(self, batch: Batch) -> tuple[Tensor, Tensor]:
        inputs = batch.inputs
        if inputs.is_floating_point():
            inputs = inputs.to(self.dtype)
        outputs = self._outputs(inputs, batch)
        outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        targets = batch.targets
        return outputs, targets.to(outputs.dtype) if targets.is_floating_point() else targets

    def _outputs(self, inputs: Tensor, batch: Batch) -> Tensor:
        if not self.task.carries:
            return (
                self.model(inputs) if batch.lengths is None else self.model(inputs, batch.lengths)
            )
        # An evaluation goes through its own sequences, and must not lose the place in the others.
        before = self._carried[self.training] if batch.carry else None
        model: Any = self.model
        outputs, after = model.advance(inputs, before)
        self._carried[self.training] = detached(after)
        return outputs
