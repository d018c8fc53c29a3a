"""Packed sequences: their order stays inside, and nothing is moved but by pad and pack."""

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

__all__ = ["in_order", "out_of_order", "pack_like", "unpack"]


def unpack(
    packed: PackedSequence,
) -> tuple[Tensor, Tensor]:  # (T, B, M), (B,)
    """Return the sequences, padded and longest first, and their lengths."""
    return pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes))


def pack_like(
    packed: PackedSequence,
    output: Tensor,  # (T, B, N)
    lengths: Tensor,  # (B,)
) -> PackedSequence:
    """Pack what has the lengths and the order of another packed batch."""
    data = pack_padded_sequence(output, lengths).data
    indices = (packed.sorted_indices, packed.unsorted_indices)
    return PackedSequence(data, packed.batch_sizes, *indices)


def in_order(
    packed: PackedSequence,
    states: Tensor,  # (L D, B, S)
) -> Tensor:  # (L D, B, S)
    """Bring states from the user's order into the packed one."""
    order = packed.sorted_indices
    return states if order is None else states.index_select(1, order)


def out_of_order(
    packed: PackedSequence,
    states: Tensor,  # (L D, B, S)
) -> Tensor:  # (L D, B, S)
    """Bring states back into the user's order."""
    order = packed.unsorted_indices
    return states if order is None else states.index_select(1, order)
