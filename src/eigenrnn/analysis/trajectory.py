"""The states that a recurrent layer visits under an input, and the Jacobian of each step."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from eigenrnn.analysis.arguments import as_real_tensor, check_sequence_shape
from eigenrnn.analysis.recurrence import (
    Recurrence,
    recurrences,
    select_recurrence,
    single_layer,
)

__all__ = ["Trajectory", "trajectory"]

_MAX_JACOBIAN_ENTRIES = 2**21  # held at once


@dataclass(frozen=True)
class Trajectory:
    """The states of one layer and direction, in processing order.

    Args:
        recurrence: The layer and direction.
        x: Its input.
        states: The initial state and the state after each step.
    Shape:
        x: :math:`(T, B, M)`; states: :math:`(T + 1, B, S)`.
    """

    recurrence: Recurrence
    x: Tensor
    states: Tensor

    def jacobians(self) -> Iterator[tuple[Tensor, Tensor]]:  # (B, S, S), (B, S, M), T times
        """Yield the derivatives of each step with respect to the previous state and the input.

        Raises:
            ValueError: If a derivative is not finite.
        """
        T, B, S = self.x.shape[0], self.x.shape[1], self.states.shape[2]
        chunk = max(1, _MAX_JACOBIAN_ENTRIES // (B * S * S))
        for begin in range(0, T, chunk):
            steps = slice(begin, min(begin + chunk, T))
            x, before = self.x[steps].flatten(0, 1), self.states[:-1][steps].flatten(0, 1)
            by_state, by_input = self.recurrence.jacobians(x, before)
            if not bool(by_state.isfinite().all() and by_input.isfinite().all()):
                raise ValueError(
                    f"expected derivatives that stay finite, got NaN or infinity in steps "
                    f"{begin + 1} to {begin + len(x) // B}; the states grow too large"
                )
            yield from zip(
                by_state.unflatten(0, (-1, B)), by_input.unflatten(0, (-1, B)), strict=True
            )


def trajectory(layer: nn.Module, x: Tensor | ArrayLike, which: str) -> Trajectory:
    """Run a recurrent layer over a batch of sequences, up to one of its layers and directions.

    Args:
        layer: A recurrent layer, or a model with one.
        x: The input of its first layer, in the layout that the layer takes.
        which: The layer and direction, such as ``"l0"`` or ``"l1_reverse"``.
    Raises:
        ValueError: If the layer or direction does not exist, or the input does not fit.
    """
    available = {recurrence.name: recurrence for recurrence in recurrences(layer)}
    selected = select_recurrence(available, which)
    batch_first = single_layer(layer).batch_first
    inputs = _time_first(x, available["l0"].input_size, batch_first)
    for depth in range(int(which[1:].split("_")[0])):
        names = (f"l{depth}", f"l{depth}_reverse")
        directions = [available[name] for name in names if name in available]
        outputs = [each.output(each.states(inputs)[1:]) for each in directions]
        in_time_order = [
            y.flip(0) if each.reverse else y for each, y in zip(directions, outputs, strict=True)
        ]
        inputs = torch.cat(in_time_order, dim=2)
    states = selected.states(inputs)
    return Trajectory(selected, inputs.flip(0) if selected.reverse else inputs, states)


def _time_first(x: Tensor | ArrayLike, input_size: int, batch_first: bool) -> Tensor:  # (T, B, M)
    """Return the input with time first, in double precision.

    Raises:
        ValueError: If its shape is wrong, or a number is not finite.
    """
    x = as_real_tensor(x)
    check_sequence_shape(x, input_size, batch_first=batch_first)
    not_finite = int(x.numel() - x.isfinite().sum())
    if not_finite:
        raise ValueError(f"expected finite numbers in x, got {not_finite} that are not")
    if x.dim() == 2:
        return x.unsqueeze(1)
    return x.transpose(0, 1) if batch_first else x
