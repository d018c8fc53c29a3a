"""The loss of a run, with its penalties and its carried states."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from eigenrnn.models import SequenceModel, penalty
from eigenrnn_experiments.tasks.base import Batch, Task

__all__ = ["HiddenState", "Objective", "changed"]

HiddenState: TypeAlias = "Tensor | tuple[HiddenState, ...] | None"
"""A tensor whose dimension 1 is the batch, a tuple of such tensors, or None."""

_TRUE_DTYPES = {
    "64-true": torch.float64,
    "16-true": torch.float16,
    "bf16-true": torch.bfloat16,
}


class Objective(nn.Module):
    """The loss of a model on a batch of its task.

    The loss is computed in at least single precision, whatever the precision of the model.

    Args:
        model: Called as `model(inputs)`, or as `model(inputs, lengths)` for a batch with lengths.
            For a task that carries the hidden state from batch to batch, `model.advance(inputs,
            state)` is called instead; it returns the outputs and the final state.
        task: Defines the loss and the metrics.
        precision: The precision of the run; a `-true` precision is also the dtype of the inputs.
        rate_penalty: The factor of the mean square of the states.
        weight_penalty: The factor of the mean squares of the weights.

    Raises:
        ValueError: If a penalty is set for a model without one recurrent layer of ours and a
            linear head, or that of the rates for one without outputs at all steps.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        precision: str,
        *,
        rate_penalty: float = 0.0,
        weight_penalty: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.task = task
        self.rate_penalty = rate_penalty
        self.weight_penalty = weight_penalty
        if rate_penalty or weight_penalty:
            is_ours = hasattr(getattr(model, "layer", None), "all_directions")
            if not isinstance(model, SequenceModel) or not is_ours:
                raise ValueError(
                    "expected a SequenceModel around a layer of eigenrnn with rate_penalty or "
                    f"weight_penalty, got {type(model).__name__}"
                )
        if rate_penalty and isinstance(model, SequenceModel) and model.readout != "all":
            raise ValueError(
                "expected a model with outputs at all steps with rate_penalty, got "
                f"readout={model.readout!r}, which does not compute all states"
            )
        self.dtype = _TRUE_DTYPES.get(precision)
        # the initial state of the next batch, None for a zero or learned one
        self.hidden_state: HiddenState = None

    def forward(self, batch: Callable[[], Batch]) -> tuple[Tensor, Tensor]:
        """Return the loss and, separately, the penalty of the constraints.

        Args:
            batch: Returns the batch. It is a function because Fabric casts all tensor arguments
                to the precision of the run, targets included.
        """
        rows = batch()
        states: list[Tensor] = []

        def keep(_head: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            states.append(inputs[0])

        keeping: AbstractContextManager[Any] = nullcontext()
        if self.rate_penalty:
            # its inputs are the states; a head with a hook is not fused into the recurrence
            head: Any = self.model.head
            keeping = head.register_forward_pre_hook(keep)
        with keeping:
            outputs, targets = self._outputs_and_targets(rows)
        penalties = penalty(self.model)
        if self.rate_penalty:
            penalties = penalties + self.rate_penalty * _mean_square_rate(states[0], rows)
        if self.weight_penalty:
            penalties = penalties + self.weight_penalty * _mean_square_weights(self.model)
        return self.task.loss(outputs, targets), penalties

    def evaluate(self, batch: Batch) -> Tensor:  # (S,)
        """Return the `metric_sums` of a batch, see `Task`."""
        outputs, targets = self._outputs_and_targets(batch)
        return self.task.metric_sums(outputs, targets)

    def _outputs_and_targets(self, batch: Batch) -> tuple[Tensor, Tensor]:
        inputs = batch.inputs
        if inputs.is_floating_point():
            inputs = inputs.to(self.dtype)
        outputs = self._outputs(inputs, batch)
        outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        targets = batch.targets
        if targets.is_floating_point():
            targets = targets.to(outputs.dtype)
        return outputs, targets

    def _outputs(self, inputs: Tensor, batch: Batch) -> Tensor:
        if not self.task.carries and batch.lengths is None:
            return self.model(inputs)
        if not self.task.carries:
            return self.model(inputs, batch.lengths)
        state: HiddenState = None
        if batch.carry:
            state = self.hidden_state
        model: Any = self.model
        outputs, last_state = model.advance(inputs, state)
        self.hidden_state = changed(last_state, torch.Tensor.detach)
        return outputs


def _mean_square_rate(states: Tensor, batch: Batch) -> Tensor:
    """Return the mean square of the states up to the end of each sequence."""
    total = states.square().sum()  # zero past the end of a sequence
    if batch.lengths is None:
        return total / states.numel()
    return total / (batch.lengths.sum() * states.shape[-1])


def _mean_square_weights(model: Any) -> Tensor:
    """Return the sum of the mean square entries of input maps, recurrent matrices and head."""
    layer = model.layer
    weights = [model.head.weight, *layer.recurrent_matrices()]
    weights += [direction.weight_ih for direction in layer.all_directions()]
    return torch.stack([weight.abs().square().mean() for weight in weights]).sum()


def changed(state: HiddenState, change: Callable[[Tensor], Tensor]) -> HiddenState:
    """Return a state with a function applied to each of its tensors."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return change(state)
    return tuple(changed(part, change) for part in state)
