"""Forward passes of a whole model in double precision: layer inputs, and states with gradients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from eigenrnn.analysis.arguments import check_layer_input
from eigenrnn.analysis.state_map import (
    Network,
    StateMap,
    bare_state_map,
    double_copy,
    recurrent_layers,
    state_maps,
)
from eigenrnn.analysis.trajectory import InitialState, initial_states
from eigenrnn.layers.cells import AbstractCell
from eigenrnn.layers.sequences import Lengths, as_lengths, sorted_lengths
from eigenrnn.layers.stacked import Stacked
from eigenrnn.linalg import as_numpy, default_dtype, on_cpu
from eigenrnn.ops.time_steps import running
from eigenrnn.residual_stack import ResidualStack

__all__ = [
    "UnrolledModel",
    "bare_initial_states",
    "is_bare",
    "is_cell",
    "layer_inputs",
    "model_inputs",
    "unroll",
]


@on_cpu
def layer_inputs(model: Network, inputs: Any, lengths: Lengths = None) -> dict[str, Tensor | str]:
    """Run a model, and return the input of each of its recurrent layers and cells.

    Args:
        model: A recurrent layer or cell, a model with at least one, or a `StateMap`. It is not
            changed.
        inputs: A batch, in the form that the model takes; sequences for a cell or state map.
        lengths: The time steps of each sequence; passed to the model, unless None.
    Returns:
        By the name of the layer, its input in double precision, or the reason why it has none.
        The inputs of the calls of a cell are joined to one sequence.
    Raises:
        ValueError: If the model has no recurrent layer.
    Example:
        >>> layer_inputs(eigenrnn.RNN(2, 3), torch.ones(5, 1, 2))[""].shape
        torch.Size([5, 1, 2])
    """
    inputs = model_inputs(inputs)
    bare = bare_state_map(model)
    if bare is not None:
        check_layer_input(_Looped(bare), inputs)
        if inputs.dim() == 2:
            inputs = inputs.unsqueeze(1)
        return {"": inputs}
    layers = recurrent_layers(model)
    double = double_copy(cast("nn.Module", model))
    recorded: dict[str, Tensor | str] = {}
    calls: dict[str, _CellCalls] = {}

    def record_cell(
        path: str,
        cell: Any,
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        output: Any,
    ) -> None:
        calls.setdefault(path, _CellCalls()).add(cell, arguments, keywords, output)

    def record(
        path: str, layer: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> None:
        if path in recorded:
            recorded[path] = (
                "the model calls it several times: pass its own inputs, analyse(layer, x)"
            )
        else:
            recorded[path] = _input_of_call(layer, arguments, keywords, lengths)

    for path in layers:
        layer = double.get_submodule(path)
        if is_cell(layer):
            layer.register_forward_hook(partial(record_cell, path), with_kwargs=True)
        else:
            layer.register_forward_pre_hook(partial(record, path), with_kwargs=True)
    options = {}
    # torch's layers take no lengths, and get the inputs as they are
    if lengths is not None and not isinstance(model, nn.RNNBase):
        options["lengths"] = lengths
    with torch.no_grad(), default_dtype(torch.float64):
        double(inputs, **options)
    for path, those in calls.items():
        recorded[path] = those.reason or torch.stack(those.inputs)
    return recorded


def _input_of_call(
    layer: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any], lengths: Lengths
) -> Tensor | str:
    """Return the input of a call of a layer, or the reason why no analysis follows the call.

    Args:
        layer: The layer.
        arguments: What it is called with.
        keywords: What it is called with by name.
        lengths: The time steps of each sequence of the model.
    Raises:
        ValueError: If the layer does not take such an input.
    """
    x = arguments[0] if arguments else keywords.get("input")
    hx = arguments[1] if len(arguments) > 1 else keywords.get("hx")
    if not _is_usual_state(layer, hx):
        return (
            "the model gives it an initial state: pass its own inputs and h0, "
            "analyse(layer, x, h0=h0)"
        )
    for option in ("resets", "dt"):
        if keywords.get(option) is not None:
            return f"it gets {option}=, which no analysis follows"
    own_lengths = keywords.get("lengths", lengths)
    if len(arguments) > 2:  # those of a layer of ours are input, hx and lengths
        own_lengths = arguments[2]
    if isinstance(x, PackedSequence) and lengths is not None:
        x, own_lengths = pad_packed_sequence(x, batch_first=layer.batch_first)
    if not _are_equal(own_lengths, lengths):
        return (
            "it gets sequences of other lengths than the model: pass its own inputs and "
            "lengths, analyse(layer, x, lengths=lengths)"
        )
    if x is None or isinstance(x, PackedSequence):
        return (
            "its input is not a batch of padded sequences: analyse(model, padded, lengths=lengths)"
        )
    check_layer_input(layer, x)
    x = x.detach()
    if x.dim() == 2:
        x = x.unsqueeze(0 if layer.batch_first else 1)
    return x


class _CellCalls:
    """The inputs of the calls of a cell, and why they are no sequence, if they are none."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.reason = ""
        self.last: tuple[Tensor, ...] = ()

    def add(
        self,
        cell: nn.Module,
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        output: Any,
    ) -> None:
        x: Tensor = arguments[0] if arguments else keywords["input"]
        hx = arguments[1] if len(arguments) > 1 else keywords.get("hx")
        if x.dim() == 1:
            x = x.unsqueeze(0)
        state = _parts(hx)
        if not self.inputs:
            goes_on = _is_usual_state(cell, hx)
        else:
            goes_on = len(state) == len(self.last) and all(map(torch.equal, state, self.last))
        if self.inputs and x.shape != self.inputs[0].shape:
            self.reason = "its calls get batches of several sizes"
        elif not goes_on or keywords.get("resets") is not None:
            self.reason = (
                "the model gives it other states than its own: pass the whole step, "
                "StateMap.from_step"
            )
        self.inputs.append(x.detach())
        self.last = _parts(output)


def _parts(state: Any) -> tuple[Tensor, ...]:
    """Return the tensors of a state: (h, c) of an LSTM, h of others, none of None."""
    if state is None:
        return ()
    return tuple(state) if isinstance(state, tuple | list) else (state,)


def _is_usual_state(layer: nn.Module, hx: Any) -> bool:
    """Whether an initial state is None, or that with which the layer begins without one."""
    parts = _parts(hx)
    usual: tuple[Any, ...] = (0,) * len(parts)
    if isinstance(layer, Stacked) and parts:
        usual = _parts(layer.initial_state(1))  # (L D, 1, S) each
        parts = tuple(each.unsqueeze(1) if each.dim() == 2 else each for each in parts)
    return all(bool((each == own).all()) for each, own in zip(parts, usual, strict=True))


def is_bare(model: Network) -> bool:
    """Whether a network is a layer, a cell or a state map itself, and no model around one."""
    if not isinstance(model, nn.Module) or isinstance(model, ResidualStack):
        return True
    return bare_state_map(model) is not None or "" in recurrent_layers(model)


def _are_equal(lengths: Lengths, others: Lengths) -> bool:
    """Whether lengths are equal; None may be any."""
    if lengths is None or others is None:
        return True
    return torch.as_tensor(lengths).tolist() == torch.as_tensor(others).tolist()


def is_cell(module: object) -> bool:
    """Whether a module is a cell, ours or torch's, which takes one time step."""
    return isinstance(module, AbstractCell | nn.RNNCellBase)


def model_inputs(inputs: Any) -> Any:
    """Return inputs on the CPU, arrays as tensors and real numbers in double precision.

    Raises:
        ValueError: If a number is not finite.
    """
    if isinstance(inputs, PackedSequence):
        packed = inputs.cpu()
        return packed._replace(data=model_inputs(packed.data))
    if isinstance(inputs, np.ndarray):
        inputs = torch.as_tensor(as_numpy(inputs, "inputs"))
    if isinstance(inputs, dict):
        return {name: model_inputs(each) for name, each in inputs.items()}
    if isinstance(inputs, tuple | list):
        return type(inputs)(map(model_inputs, inputs))
    if not isinstance(inputs, Tensor):
        return inputs
    inputs = inputs.detach().to("cpu")
    if not inputs.is_floating_point():
        return inputs
    if not bool(inputs.isfinite().all()):
        raise ValueError("expected finite numbers in inputs, got NaN or infinity")
    if inputs.is_inference():  # these have no gradients
        inputs = inputs.clone()
    return inputs.to(torch.float64)


def bare_initial_states(model: Network, inputs: Any, h0: InitialState) -> Tensor:  # (D, B, S)
    """Return the initial states of a layer, cell or state map on its own.

    Raises:
        ValueError: If the model contains a layer, or the states or inputs do not fit.
    """
    bare = bare_state_map(model)
    if bare is None and "" not in recurrent_layers(model):
        raise ValueError(f"expected h0 with a layer or a cell only, got {type(model).__name__}")
    directions = [bare] if bare else state_maps(model)
    batch = 1
    if inputs.dim() == 3:
        batch = inputs.shape[0 if getattr(model, "batch_first", False) else 1]
    return torch.stack(initial_states(directions, h0, batch))


@dataclass(frozen=True)
class UnrolledModel:
    """A model in double precision, with the states of its last call.

    Args:
        model: The model, or the layer itself.
        states: By layer and direction, the state after each step, in processing order. Those of
            steps of padding are not used, so they have no gradient.
    Shape:
        states: :math:`(B, S)` each.
    """

    model: nn.Module
    states: dict[str, list[Tensor]] = field(default_factory=dict[str, list[Tensor]])


def unroll(model: Network) -> UnrolledModel:
    """Copy a model whose recurrent layers run step by step, so every state keeps its gradient.

    The copy is in double precision, on the CPU and in evaluation mode. Its recurrent layers use
    the current weights, which get no gradient, and keep their arguments and results. A cell or a
    state map on its own becomes a layer that runs over a sequence.

    Raises:
        ValueError: If the model has no recurrent layer, or a layer projects its states.
    """
    bare = bare_state_map(model)
    double: Any
    layers: dict[str, Any]
    if bare:
        double = _Looped(bare)
        layers = {"": double}
    else:
        double = double_copy(cast("nn.Module", model))
        layers = recurrent_layers(double)
    copied = UnrolledModel(double)
    for name, layer in layers.items():
        prefix = f"{name}." if len(layers) > 1 else ""
        directions = [bare] if bare else state_maps(layer)
        loop = _StepLoop(layer, directions, prefix, copied.states)
        # The attribute of the object hides the method of its class. The layer keeps its place in
        # the model, and every hook on it still runs.
        vars(layer)["forward"] = loop.forward_cell if is_cell(layer) else loop.forward
    return copied


class _Looped(nn.Module):
    """A state map in the place of a layer, whose `forward` `unroll` sets."""

    def __init__(self, state_map: StateMap) -> None:
        super().__init__()
        self.input_size = state_map.input_size
        self.batch_first = self.bidirectional = False


class _StepLoop:
    """A replacement for the `forward` of a layer that runs one step at a time."""

    def __init__(
        self,
        layer: Any,
        directions: list[StateMap],
        prefix: str,
        states: dict[str, list[Tensor]],
    ) -> None:
        self.layer = layer
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
        resets: Tensor | None = None,
        dt: Tensor | None = None,
    ) -> tuple[Any, Any]:
        """Run over a batch of sequences; arguments and results are those of the layer.

        Raises:
            ValueError: If there are resets or gaps.
        """
        if resets is not None or dt is not None:
            raise ValueError("expected a model without resets and gaps, which no analysis follows")
        if isinstance(input, PackedSequence):
            x, lengths = pad_packed_sequence(input)
        else:
            check_layer_input(self.layer, input)
            x = input
            if input.dim() == 2:
                x = input.unsqueeze(1)
            elif self.layer.batch_first:
                x = input.transpose(0, 1)
        lengths = as_lengths(lengths)
        sorted_lengths(lengths, *x.shape[:2])  # checks them
        y: Any
        y, last = self._run(x, self._initial_states(hx, x.shape[1]), lengths)
        if head is not None:
            y = head(y)
        if isinstance(input, PackedSequence):
            # sorted_indices is None exactly if the caller had sorted the sequences by length
            is_sorted = input.sorted_indices is None
            y = pack_padded_sequence(y, cast("Tensor", lengths), enforce_sorted=is_sorted)
        elif input.dim() == 2:
            y = y.squeeze(1)
            last = last.squeeze(1)
        elif self.layer.batch_first:
            y = y.transpose(0, 1)
        return None if last_only else y, self._final_states(last)

    def forward_cell(self, input: Tensor, hx: Any = None) -> Any:
        """Run one step; arguments and result are those of the cell."""
        unbatched = input.dim() == 1
        x = input.unsqueeze(0) if unbatched else input
        (first,) = self._initial_states(hx, len(x))
        (direction,) = self.directions
        state = _with_gradient(direction.step(x, first))
        self.states.setdefault(self.prefix + direction.name, []).append(state)
        if unbatched:
            state = state.squeeze(0)
        return self._final_states(state)

    def _run(
        self,
        x: Tensor,  # (T, B, M)
        first: list[Tensor],  # (B, S) each
        lengths: Tensor | None,  # (B,)
    ) -> tuple[Tensor, Tensor]:  # (T, B, D N), (L D, B, S)
        T, B = x.shape[:2]
        if lengths is None:
            ends = torch.full((B,), T)
        else:
            ends = lengths.cpu()
        now = running(ends, x)  # (T, B, 1)
        last: list[Tensor] = []
        num_directions = 2 if self.layer.bidirectional else 1
        # in torch's order: both directions of a layer, then those of the next
        for depth in range(0, len(self.directions), num_directions):
            outputs: list[Tensor] = []
            for i in range(depth, depth + num_directions):
                direction = self.directions[i]
                state = first[i]
                # a model may call the layer again, as for each step
                of_calls = self.states.setdefault(self.prefix + direction.name, [])
                ys: list[Tensor] = []
                order = range(T)
                for t in reversed(order) if direction.reverse else order:
                    # in reverse, a sequence that is not yet running keeps its initial state
                    after = _with_gradient(direction.step(x[t], state))
                    # steps of padding change nothing, so they have no gradient
                    of_calls.append(after)
                    state = torch.where(now[t], after, state)
                    ys.append(torch.where(now[t], direction.output(x[t], state), 0))
                if direction.reverse:
                    ys.reverse()  # outputs are in the order of time
                outputs.append(torch.stack(ys))
                last.append(state)
            x = torch.cat(outputs, dim=2)
        return x, torch.stack(last)

    def _initial_states(self, hx: Any, batch: int) -> list[Tensor]:  # (B, S) each
        if hx is None:
            return [direction.begin(batch) for direction in self.directions]
        if isinstance(hx, tuple | list):  # (h, c) of an LSTM
            hx = torch.cat(tuple(hx), dim=-1)
        hx = hx.to(torch.float64)
        if is_cell(self.layer):
            return [hx if hx.dim() == 2 else hx.unsqueeze(0)]
        if hx.dim() == 2:
            hx = hx.unsqueeze(1)
        return list(hx)

    def _final_states(self, last: Tensor) -> Any:
        if "cell" in self.directions[0].blocks:  # (h, c) of an LSTM
            return tuple(last.chunk(2, dim=-1))
        return last


def _with_gradient(state: Tensor) -> Tensor:
    """Return a state that keeps its gradient."""
    if not state.requires_grad:  # a leaf: nothing before it needs a gradient
        state = state.requires_grad_()
    state.retain_grad()
    return state
