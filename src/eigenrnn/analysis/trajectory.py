"""Where a recurrent layer goes under an input, and how each of its steps moves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from eigenrnn.analysis.recurrence import Recurrence, only_layer, recurrences
from eigenrnn.analysis.sequences import check_sequences, given_numbers

__all__ = ["Trajectory", "chosen", "trajectory"]

_MOST_NUMBERS = 2**21  # of Jacobians at once


@dataclass(frozen=True)
class Trajectory:
    """The states of one layer and direction, in the order in which it reads.

    Args:
        recurrence: The layer and direction.
        x: What it reads.
        states: The state before the first step, and that after each.
    Shape:
        x: :math:`(T, B, M)`; states: :math:`(T + 1, B, S)`.
    """

    recurrence: Recurrence
    x: Tensor
    states: Tensor

    def jacobians(self) -> Iterator[tuple[Tensor, Tensor]]:  # (B, S, S), (B, S, M), T times
        """Yield the derivatives of each step by the state before it and by its input.

        Raises:
            ValueError: If they do not stay finite.
        """
        T, B, S = self.x.shape[0], self.x.shape[1], self.states.shape[2]
        at_once = max(1, _MOST_NUMBERS // (B * S * S))
        for start in range(0, T, at_once):
            steps = slice(start, min(start + at_once, T))
            x, before = self.x[steps].flatten(0, 1), self.states[:-1][steps].flatten(0, 1)
            by_state, by_input = self.recurrence.jacobians(x, before)
            if not bool(by_state.isfinite().all() and by_input.isfinite().all()):
                raise ValueError(
                    f"expected derivatives that stay finite, got others in steps {start + 1} to "
                    f"{start + len(x) // B}; the states grow too large"
                )
            yield from zip(
                by_state.unflatten(0, (-1, B)), by_input.unflatten(0, (-1, B)), strict=True
            )


def trajectory(layer: nn.Module, x: Tensor | ArrayLike, which: str) -> Trajectory:
    """Run a layer over a batch of sequences up to one of its layers and directions.

    Args:
        layer: A recurrent layer, or a model with one.
        x: The input of its first layer, as the layer takes it.
        which: The layer and direction, such as ``"l0"`` or ``"l1_reverse"``.
    Raises:
        ValueError: If there is no such layer or direction, or the input does not fit.
    """
    found = {recurrence.name: recurrence for recurrence in recurrences(layer)}
    wanted = chosen(found, which)
    batch_first = only_layer(layer).batch_first
    given = _checked(x, found["l0"].input_size, batch_first)
    for depth in range(int(which[1:].split("_")[0])):
        both = [found[name] for name in (f"l{depth}", f"l{depth}_reverse") if name in found]
        shown = [each.output(each.states(given)[1:]) for each in both]
        given = torch.cat(
            [y.flip(0) if each.reverse else y for each, y in zip(both, shown, strict=True)], dim=2
        )
    states = wanted.states(given)
    return Trajectory(wanted, given.flip(0) if wanted.reverse else given, states)


def chosen(found: Mapping[str, Recurrence], which: str) -> Recurrence:
    """Return the layer and direction of a name.

    Raises:
        ValueError: If there is none.
    """
    if which not in found:
        raise ValueError(f"expected which to be one of {', '.join(found)}, got {which!r}")
    return found[which]


def _checked(x: Tensor | ArrayLike, input_size: int, batch_first: bool) -> Tensor:  # (T, B, M)
    """Return the input with time first, in double precision.

    Raises:
        ValueError: If it does not fit.
    """
    x = given_numbers(x)
    check_sequences(x, input_size, batch_first=batch_first)
    lost = int(x.numel() - x.isfinite().sum())
    if lost:
        raise ValueError(f"expected finite numbers in x, got {lost} that are not")
    if x.dim() == 2:
        return x.unsqueeze(1)
    return x.transpose(0, 1) if batch_first else x
