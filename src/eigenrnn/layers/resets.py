"""Resets inside a sequence: single steps, and the pieces between resets as a batch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.layers.validation import check_h0
from eigenrnn.ops.arguments import check_resets
from eigenrnn.ops.time_steps import batch_sizes_of, running

__all__ = ["Pieces", "reset_states"]


def reset_states(
    states: Any,  # (L, B, S), or (L, S) without a batch; a pair of them for LSTMs
    initial: Any,
    resets: Tensor,  # (B,), or () without a batch
) -> Any:
    """Return the states before a step: the initial ones where a sequence begins anew.

    Raises the errors of `check_resets` and `check_h0`.
    """
    if isinstance(initial, tuple):
        if not isinstance(states, tuple | list) or len(states) != len(initial):
            return states  # the step refuses it
        pairs = zip(states, initial, strict=True)
        return tuple(reset_states(state, first, resets) for state, first in pairs)
    check_resets(resets, initial.shape[1:-1], initial.device)
    check_h0(states, tuple(initial.shape), initial.dtype)
    return torch.where(resets.unsqueeze(-1), initial, states)


class Pieces:
    """The pieces of sequences between resets, as a batch that is sorted by length.

    Args:
        resets: Before which steps the state becomes the initial one.
        sizes: The batch sizes of sequences sorted by length, or the lengths of sequences in any
            order; None if all have T steps.
    Shape:
        resets: :math:`(T, B)`, bool.
    """

    def __init__(self, resets: Tensor, sizes: Sequence[int] | Tensor | None) -> None:
        T, B = resets.shape
        device = resets.device
        runs = torch.ones_like(resets)
        if sizes is not None:
            runs = running(sizes, resets.unsqueeze(2)).squeeze(2)
        begins = resets.clone()
        begins[0] = True
        # the steps of one sequence after the other, and where the pieces begin among them
        b, t = runs.T.nonzero(as_tuple=True)
        first = begins[t, b].nonzero().squeeze(1)
        lengths = first.diff(append=first.new_tensor([len(t)]))
        lengths, order = lengths.sort(descending=True, stable=True)
        # the last piece of each sequence, by its place in the sorted batch
        last = b[first].bincount(minlength=B).cumsum(0) - 1
        self._last = order.argsort()[last]
        first = first[order]
        steps = torch.arange(int(lengths[0]), device=device).unsqueeze(1)
        in_piece = steps < lengths  # (steps, P)
        # the row t B + b of each step of a piece; in the padding that of any step
        self._rows = (t * B + b)[torch.where(in_piece, first + steps, 0)]
        # the row of each step of a sequence among those of the pieces; past its end one more
        places = torch.arange(in_piece.numel(), device=device).view_as(in_piece)
        self._places = torch.full((T * B,), in_piece.numel(), device=device)
        self._places[self._rows[in_piece]] = places[in_piece]
        self._places = self._places.view(T, B)
        self._sequence = b[first]
        self._goes_on = (t[first] == 0) & ~resets[0, self._sequence]
        self.lengths = lengths
        self.batch_sizes = batch_sizes_of(lengths, len(steps))

    def cut(
        self,
        steps: Tensor,  # (T, B, M)
    ) -> Tensor:  # (steps, P, M)
        """Return the steps of all pieces, with steps of others in the padding."""
        return steps.flatten(0, 1)[self._rows]

    def join(
        self,
        steps: Tensor,  # (steps, P, N)
    ) -> Tensor:  # (T, B, N)
        """Return the steps of all sequences, zero past their ends."""
        rows = steps.flatten(0, 1)
        return torch.cat([rows, rows.new_zeros(1, rows.shape[1])])[self._places]

    def first_states(
        self,
        states: Tensor,  # (L, B, S)
        initial: Tensor,  # (L, P, S)
    ) -> Tensor:  # (L, P, S)
        """Return the states before the pieces: given ones where a sequence goes on from them."""
        return torch.where(self._goes_on.unsqueeze(1), states[:, self._sequence], initial)

    def last_states(
        self,
        states: Tensor,  # (L, P, S)
    ) -> Tensor:  # (L, B, S)
        """Return the states after the sequences, from those after the pieces."""
        return states[:, self._last]
