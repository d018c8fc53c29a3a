"""A model whose recurrent layers run step by step, so that every state has a gradient."""

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from eigenrnn.analysis.recurrence import (
    Recurrence,
    check_model,
    recurrences,
    recurrent_layers,
)
from eigenrnn.analysis.sequences import check_read
from eigenrnn.layers.lengths import Lengths

__all__ = ["Unrolled", "unrolled"]


@dataclass(frozen=True)
class Unrolled:
    """A model in double precision, and what its recurrent layers went through in its last call.

    Args:
        model: The model, or the layer itself.
        states: The states after each step of each layer and direction, in the order in which it
            reads, by name; where a sequence has no step it keeps its state.
    Shape:
        states: :math:`(B, S)` each.
    """

    model: nn.Module
    states: dict[str, list[Tensor]] = field(default_factory=dict[str, list[Tensor]])


def unrolled(model: nn.Module) -> Unrolled:
    """Copy a model so that a backward pass leaves the gradient of every state on that state.

    The copy is in double precision, on the CPU and in evaluation mode. Its recurrent layers have
    the weights of now, which get no gradient; they take and give what they did.

    Args:
        model: One of our layers, `torch.nn.RNN`, `GRU` or `LSTM`, or a model with some of them.
    Raises:
        ValueError: If there is none, or it projects its states.
    """
    check_model(model)
    exact = copy.deepcopy(model).to("cpu", torch.float64).eval()
    made = Unrolled(exact)
    layers = recurrent_layers(exact)
    for name, layer in layers.items():
        prefix = f"{name}." if len(layers) > 1 else ""
        loop = _Loop(layer, recurrences(layer), prefix, made.states)
        vars(layer)["forward"] = loop.forward
    return made


class _Loop:
    """What stands for the `forward` of a layer."""

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
        self.is_lstm = isinstance(layer, nn.LSTM)
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
            y, last = self._run(x, self._first(hx, x.shape[1]), lengths)
            output: Any = pack_padded_sequence(
                y if head is None else head(y),
                lengths,
                enforce_sorted=input.sorted_indices is None,
            )
            return None if last_only else output, self._last(last)
        check_read(self.layer, input)
        unbatched = input.dim() == 2
        x = input.unsqueeze(1) if unbatched else input
        x = x.transpose(0, 1) if self.batch_first and not unbatched else x
        y, last = self._run(x, self._first(hx, x.shape[1]), lengths)
        y = y if head is None else head(y)
        if unbatched:
            y, last = y.squeeze(1), last.squeeze(1)
        elif self.batch_first:
            y = y.transpose(0, 1)
        return None if last_only else y, self._last(last)

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
            both = range(depth, depth + self.num_directions)
            runs = [self._run_one(self.directions[i], x, first[i], running) for i in both]
            x = torch.cat([y for y, _ in runs], dim=2)
            last += [state for _, state in runs]
        return x, torch.stack(last)

    def _run_one(
        self, one: Recurrence, x: Tensor, state: Tensor, running: Tensor
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, S)
        kept = self.states[self.prefix + one.name] = []
        shown: list[Tensor] = []
        order = range(len(x))
        for t in reversed(order) if one.reverse else order:
            state = torch.where(running[t], one.step(x[t], state), state)
            if not state.requires_grad:  # nothing before it is to be differentiated by
                state = state.requires_grad_()
            state.retain_grad()
            kept.append(state)
            shown.append(torch.where(running[t], one.output(state), 0))
        return torch.stack(shown[::-1] if one.reverse else shown), state

    def _first(self, hx: Any, batch: int) -> list[Tensor]:  # (B, S) each
        if hx is None:
            return [one.begin(batch) for one in self.directions]
        hx = torch.cat(tuple(hx), dim=-1) if self.is_lstm else hx
        hx = hx.to(torch.float64)
        return list(hx if hx.dim() == 3 else hx.unsqueeze(1))

    def _last(self, last: Tensor) -> Any:
        return tuple(last.chunk(2, dim=-1)) if self.is_lstm else last
