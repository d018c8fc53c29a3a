"""The states from which a layer starts, given or not."""

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenrnn.layers.abstract_direction import AbstractDirection
from eigenrnn.layers.validate import check_h0

__all__ = ["first_states"]


def first_states(
    directions: Sequence[AbstractDirection],
    h0: Tensor | None,  # (L D, B, S); (L D, S) for a single sequence without a batch
    batch_size: int,
    unbatched: bool = False,
) -> Tensor:  # (L D, B, S)
    """Return the given states, or where none are given each direction's own.

    Raises the errors of `check_h0`.
    """
    if h0 is None:
        return torch.stack([direction.begin(batch_size) for direction in directions])
    one = directions[0]
    batch = () if unbatched else (batch_size,)
    check_h0(h0, (len(directions), *batch, one.state_size), one.weight_ih.dtype)
    return h0.unsqueeze(1) if unbatched else h0
