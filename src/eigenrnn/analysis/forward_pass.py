"""Forward passes of a whole model in double precision: layer inputs, and states with gradients."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from eigenrnn.analysis.arguments import check_layer_input
from eigenrnn.analysis.recurrence import (
    Recurrence,
    check_model,
    recurrences,
    recurrent_layers,
)
from eigenrnn.layers.lstm import LSTM
from eigenrnn.layers.sequences import Lengths

__all__ = ["UnrolledModel", "layer_inputs", "model_inputs", "run_model", "unroll"]


def layer_inputs(model: nn.Module, inputs: Any) -> dict[str, Tensor | str]:
    """Run a model, and return the input of each of its recurrent layers.

    Args:
        model: A recurrent layer, ours or torch's, or a model with at least one. It is not changed.
        inputs: A batch, in the form that the model takes.
    Returns:
        By the name of the layer, its input in double precision, or the reason why it has none.
    Raises:
        ValueError: If the model has no recurrent layer or rejects the inputs.
    Example:
        >>> layer_inputs(eigenrnn.RNN(2, 3), torch.ones(5, 1, 2))[""].shape
        torch.Size([5, 1, 2])
    """
    check_model(model)
    double: nn.Module = copy.deepcopy(model).to("cpu", torch.float64).eval()
    recorded: dict[str, Tensor | str] = {}

    def record(path: str, layer: Any, arguments: tuple[Any, ...]) -> None:
        x = arguments[0] if arguments else None
        if x is None or isinstance(x, PackedSequence):
            recorded[path] = "its input is not a batch of padded sequences"
            return
        check_layer_input(layer, x)
        batch_dim = 0 if layer.batch_first else 1
        recorded[path] = x.detach().unsqueeze(batch_dim) if x.dim() == 2 else x.detach()

    for path, layer in recurrent_layers(double).items():
        layer.register_forward_pre_hook(partial(record, path))
    with torch.no_grad():
        run_model(double, model_inputs(inputs), {})
    return recorded


def model_inputs(inputs: Any) -> Any:
    """Return inputs on the CPU, arrays as tensors and real numbers in double precision.

    Raises:
        ValueError: If a number is not finite.
    """
    if isinstance(inputs, PackedSequence):
        packed = inputs.cpu()
        return packed._replace(data=model_inputs(packed.data))
    if isinstance(inputs, np.ndarray):
        inputs = torch.as_tensor(inputs)
    if not isinstance(inputs, Tensor):
        return inputs
    inputs = inputs.detach().to("cpu")
    if not inputs.is_floating_point():
        return inputs
    if not bool(inputs.isfinite().all()):
        raise ValueError("expected finite numbers in inputs, got NaN or infinity")
    return inputs.to(torch.float64)


def run_model(model: nn.Module, inputs: Any, options: Mapping[str, Any]) -> Any:
    """Return the output of a model.

    Raises:
        ValueError: If the model rejects the inputs.
    """
    try:
        return model(inputs, **options)
    except (TypeError, RuntimeError, LookupError, AttributeError) as error:
        kind = type(inputs).__name__
        if isinstance(inputs, Tensor):
            kind = f"{str(inputs.dtype).removeprefix('torch.')} of shape {tuple(inputs.shape)}"
        raise ValueError(
            f"expected inputs that {type(model).__name__} takes, got {kind}: {error}"
        ) from error


@dataclass(frozen=True)
class UnrolledModel:
    """A model in double precision, with the states of its last call.

    Args:
        model: The model, or the layer itself.
        states: By layer and direction, the state after each step, in processing order. A sequence
            that has ended keeps its last state.
    Shape:
        states: :math:`(B, S)` each.
    """

    model: nn.Module
    states: dict[str, list[Tensor]] = field(default_factory=dict[str, list[Tensor]])


def unroll(model: nn.Module) -> UnrolledModel:
    """Copy a model whose recurrent layers run step by step, so every state keeps its gradient.

    The copy is in double precision, on the CPU and in evaluation mode. Its recurrent layers use
    the current weights, which get no gradient, and keep their arguments and results.

    Args:
        model: One of our layers, `torch.nn.RNN`, `GRU` or `LSTM`, or a model with at least one.
    Raises:
        ValueError: If the model has no recurrent layer, or a layer projects its states.
    """
    check_model(model)
    double = copy.deepcopy(model).to("cpu", torch.float64).eval()
    copied = UnrolledModel(double)
    layers = recurrent_layers(double)
    for name, layer in layers.items():
        prefix = f"{name}." if len(layers) > 1 else ""
        loop = _StepLoop(layer, recurrences(layer), prefix, copied.states)
        vars(layer)["forward"] = loop.forward
    return copied


class _StepLoop:
    """A replacement for the `forward` of a layer that runs one step at a time."""

    def __init__(
        self,
        layer: Any,
        directions: list[Recurrence],
        prefix: str,
        states: dict[str, list[Tensor]],
    ) -> None:
        self.layer = layer
        self.batch_first: bool = layer.batch_first
        self.num_directions = 2 if layer.bidirectional else 1
        self.is_lstm = isinstance(layer, nn.LSTM | LSTM)
        self.directions = directions
        self.prefix = prefix
        self.states = states

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Any = None,
        lengths: Lengths = None,
        last_only: bool = False,
        head: nn.Linear | None = None,
    ) -> tuple[Any, Any]:
        """Run over a batch of sequences; arguments and results are those of the layer."""
        if isinstance(input, PackedSequence):
            x, lengths = pad_packed_sequence(input)
            y, last = self._run(x, self._initial_states(hx, x.shape[1]), lengths)
            output: Any = pack_padded_sequence(
                y if head is None else head(y),
                lengths,
                enforce_sorted=input.sorted_indices is None,
            )
            return None if last_only else output, self._final_states(last)
        check_layer_input(self.layer, input)
        unbatched = input.dim() == 2
        x = input.unsqueeze(1) if unbatched else input
        x = x.transpose(0, 1) if self.batch_first and not unbatched else x
        y, last = self._run(x, self._initial_states(hx, x.shape[1]), lengths)
        y = y if head is None else head(y)
        if unbatched:
            y, last = y.squeeze(1), last.squeeze(1)
        elif self.batch_first:
            y = y.transpose(0, 1)
        return None if last_only else y, self._final_states(last)

    def _run(
        self,
        x: Tensor,  # (T, B, M)
        first: list[Tensor],  # (B, S) each
        lengths: Lengths,
    ) -> tuple[Tensor, Tensor]:  # (T, B, D N), (L D, B, S)
        steps = torch.arange(len(x))[:, None]
        ends = torch.full(x.shape[1:2], len(x)) if lengths is None else torch.as_tensor(lengths)
        running = (steps < ends.cpu()).unsqueeze(2)  # (T, B, 1)
        last: list[Tensor] = []
        for depth in range(0, len(self.directions), self.num_directions):
            indices = range(depth, depth + self.num_directions)
            runs = [self._run_direction(self.directions[i], x, first[i], running) for i in indices]
            x = torch.cat([y for y, _ in runs], dim=2)
            last += [state for _, state in runs]
        return x, torch.stack(last)

    def _run_direction(
        self, direction: Recurrence, x: Tensor, state: Tensor, running: Tensor
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, S)
        states = self.states[self.prefix + direction.name] = []
        outputs: list[Tensor] = []
        order = range(len(x))
        for t in reversed(order) if direction.reverse else order:
            state = torch.where(running[t], direction.step(x[t], state), state)
            if not state.requires_grad:  # nothing before this state needs a gradient
                state = state.requires_grad_()
            state.retain_grad()
            states.append(state)
            outputs.append(torch.where(running[t], direction.output(state), 0))
        return torch.stack(outputs[::-1] if direction.reverse else outputs), state

    def _initial_states(self, hx: Any, batch: int) -> list[Tensor]:  # (B, S) each
        if hx is None:
            return [direction.begin(batch) for direction in self.directions]
        hx = torch.cat(tuple(hx), dim=-1) if self.is_lstm else hx
        hx = hx.to(torch.float64)
        return list(hx if hx.dim() == 3 else hx.unsqueeze(1))

    def _final_states(self, last: Tensor) -> Any:
        return tuple(last.chunk(2, dim=-1)) if self.is_lstm else last
