"""Resets inside a sequence: single steps, and the pieces between resets as a batch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from eigenrnn.layers.sequences import pack_like
from eigenrnn.layers.step_values import step_values
from eigenrnn.ops.arguments import check_resets
from eigenrnn.ops.time_steps import batch_sizes_of, running

__all__ = ["Pieces", "reset_states", "run_torch_layer"]


def reset_states(
    states: Any,  # (L, B, S), or (L, S) without a batch; a pair of them for LSTMs
    initial: Any,
    resets: Tensor,  # (B,), or () without a batch
) -> Any:
    """Return the states before a step: the initial ones where a sequence begins anew.

    Raises the errors of `check_resets`.
    """
    if isinstance(states, tuple):
        pairs = zip(states, initial, strict=True)
        return tuple(reset_states(state, first, resets) for state, first in pairs)
    check_resets(resets, initial.shape[1:-1], initial.device)
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


def run_torch_layer(
    layer: nn.RNNBase,
    x: Tensor | PackedSequence,  # (T, B, M)
    states: Any,  # (L, B, S), or a pair of them; None for zero
    resets: Any,  # (T, B), packed if x is
    lengths: Tensor | None = None,  # (B,)
) -> tuple[Any, Any]:  # (T, B, N), and the last states
    """Run a layer of torch, time first, with resets to zero.

    Raises the errors of `step_values`.

    Raises:
        ValueError: If the layer is bidirectional.
    """
    if layer.bidirectional:
        raise ValueError("expected one direction with resets, got a bidirectional layer")
    if isinstance(x, PackedSequence):
        padded, lengths = pad_packed_sequence(x)
        order: Any = slice(None) if x.sorted_indices is None else x.sorted_indices
        mask = torch.zeros(padded.shape[:2], dtype=torch.bool, device=padded.device)
        mask[:, order] = step_values(x, resets)["resets"]
        output, last = run_torch_layer(layer, padded, states, mask, lengths)
        return pack_like(x, output[:, order], lengths[order]), last
    if x.dim() == 2:
        output, last = run_torch_layer(layer, x.unsqueeze(1), states, resets.unsqueeze(1))
        return output.squeeze(1), last
    check_resets(resets, x.shape[:2], x.device)
    if x.shape[1] == 0:  # an empty batch has no pieces
        return layer(x, states)
    pieces = Pieces(resets, lengths)

    def first(part: Tensor) -> Tensor:
        return pieces.first_states(part, part.new_zeros(()))

    if isinstance(states, tuple):
        states = tuple(map(first, states))
    elif states is not None:
        states = first(states)
    packed, last = layer(pack_padded_sequence(pieces.cut(x), pieces.lengths.cpu()), states)
    output, _ = pad_packed_sequence(packed)
    if isinstance(last, tuple):
        return pieces.join(output), tuple(map(pieces.last_states, last))
    return pieces.join(output), pieces.last_states(last)
