"""Batches of sequences: different lengths, packed sequences and initial states."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from eigenrnn.layers.direction import AbstractDirection
from eigenrnn.layers.validation import check_h0
from eigenrnn.linalg import as_numpy
from eigenrnn.ops.time_steps import batch_sizes_of

__all__ = [
    "Lengths",
    "as_lengths",
    "initial_states",
    "pad_packed",
    "reordered",
    "sorted_lengths",
    "with_data",
]


Lengths: TypeAlias = Tensor | Sequence[int] | NDArray[np.integer[Any]] | None


def as_lengths(lengths: Lengths) -> Tensor | None:  # (B,)
    """Return lengths as a tensor of 64-bit integers; torch indexes with no others.

    Raises:
        TypeError: If they are not integers, or a mask hides one.
    """
    if lengths is None:
        return None
    if isinstance(lengths, np.ndarray):
        lengths = as_numpy(lengths, "lengths")
    if not isinstance(lengths, Tensor):
        lengths = torch.as_tensor(lengths, device="cpu")  # whatever torch's default device is
    if not lengths.numel():  # an empty list is one of floats to torch
        return lengths.long()
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"expected lengths to be integers, got {lengths.dtype}")
    return lengths.long()


def sorted_lengths(
    lengths: Tensor | None,  # (B,)
    T: int,
    B: int,
) -> tuple[Tensor | None, list[int] | None]:
    """Return the order of descending length, and the batch size at each time step.

    Both are None if all sequences have T steps.

    Raises:
        ValueError: If T is 0, or a length is below 1 or above T.
    """
    if T < 1:
        raise ValueError("expected at least one step, got T = 0")
    # an empty batch has no shortest length
    if lengths is None or B == 0:
        return None, None
    if lengths.shape != (B,):
        raise ValueError(f"expected lengths of shape ({B},), got {tuple(lengths.shape)}")
    shortest = int(lengths.min())
    longest = int(lengths.max())
    if shortest < 1 or longest > T:
        raise ValueError(f"expected 1 <= lengths <= T = {T}, got {shortest} to {longest}")
    if shortest == T:
        return None, None
    lengths, order = lengths.sort(descending=True, stable=True)
    return order, batch_sizes_of(lengths, T)


def pad_packed(
    packed: PackedSequence,
) -> tuple[Tensor, Tensor]:  # (T, B, M), (B,)
    """Return the padded sequences, longest first, and their lengths.

    Raises:
        ValueError: If the batch sizes do not fall, or are not those of the data.
    """
    sizes = packed.batch_sizes.tolist()
    if sizes != sorted(sizes, reverse=True) or sum(sizes) != len(packed.data):
        raise ValueError(
            f"expected a PackedSequence whose batch sizes fall and sum to its {len(packed.data)} "
            f"steps, got {sizes}: make it with torch.nn.utils.rnn.pack_padded_sequence"
        )
    # without its order, so that torch leaves the longest first
    return pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes))


def with_data(packed: PackedSequence, data: Tensor) -> PackedSequence:
    """Return a packed batch with other data of the same lengths and order."""
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


def reordered(
    states: Tensor,  # (L D, B, S)
    order: Tensor | None,  # (B,)
) -> Tensor:  # (L D, B, S)
    """Return the states of sequences in another order, such as that of a packed batch."""
    return states if order is None else states.index_select(1, order)


def initial_states(
    directions: Sequence[AbstractDirection],
    h0: Tensor | None,  # (L D, B, S); (L D, S) for a single unbatched sequence
    batch_size: int,
    unbatched: bool = False,
) -> Tensor:  # (L D, B, S)
    """Return the initial states: the user's, or else the default ones of each direction.

    Raises the errors of `check_h0`.
    """
    if h0 is None:
        states = [direction.initial_state(batch_size) for direction in directions]
        return states[0].unsqueeze(0) if len(states) == 1 else torch.stack(states)
    first = directions[0]
    shape: tuple[int, ...] = (len(directions), batch_size, first.state_size)
    if unbatched:
        shape = (len(directions), first.state_size)
    check_h0(h0, shape, first.weight_ih.dtype)
    if unbatched:
        return h0.unsqueeze(1)
    return h0
