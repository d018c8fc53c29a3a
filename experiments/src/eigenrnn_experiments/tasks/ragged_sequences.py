"""Sequences of unequal length, padded batch by batch, and the error that ignores the padding."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

__all__ = ["RaggedSequences", "squared_errors"]


@dataclass(frozen=True)
class RaggedSequences:
    """Sequences of unequal length with the same channels.

    Args:
        table: The steps of all sequences, one after the other, and two last rows: the padding
            after the end of a sequence, and NaN. A batch is then one selection of rows, which
            takes a sixth of the time of selecting and then masking.
        lengths: The number of steps of each sequence.

    Shape:
        table: :math:`(S + 2, M)`.
        lengths: :math:`(count)`.
    """

    table: Tensor
    lengths: Tensor

    @classmethod
    def concatenate(cls, steps: Sequence[Tensor], lengths: Tensor, fill: float = 0.0) -> Self:
        """Concatenate the steps of sequences.

        Args:
            steps: Tensors of the shape (any number of steps, channels), in order. Their
                boundaries need not be those of the sequences.
            lengths: The number of steps of each sequence.
            fill: The padding after the end of a sequence.
        """
        first = steps[0]
        width = first.shape[1]
        filler = first.new_full((1, width), fill)
        no_target = first.new_full((1, width), math.nan)
        return cls(torch.cat([*steps, filler, no_target]), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> Tensor:  # (count,)
        """The first row of each sequence in the table."""
        return self.lengths.cumsum(0) - self.lengths

    def padded(
        self,
        rows: Tensor,  # (B,)
        steps: int | None = None,
        *,
        offset: int = 0,
        valid_steps: Tensor | None = None,  # (B,)
    ) -> Tensor:  # (T, B, M)
        """Return sequences as one padded batch.

        Args:
            rows: The indices of the sequences.
            steps: The number T of steps; by default that of the longest sequence.
            offset: The first step of each sequence to take.
            valid_steps: The number of steps after which the padding is NaN.
        """
        lengths = self.lengths[rows]
        if steps is None:
            steps = int(lengths.max())
        step = torch.arange(steps).unsqueeze(1)
        filler = len(self.table) - 2
        no_target = filler + 1
        padding = torch.tensor(filler)
        if valid_steps is not None:
            padding = torch.where(step < valid_steps, filler, no_target)
        at = torch.where(step + offset < lengths, self.starts[rows] + offset + step, padding)
        return self.table.index_select(0, at.flatten()).view(*at.shape, -1)


def squared_errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the squared errors; a NaN target has zero error and zero gradient."""
    # mask before squaring: zero times NaN is NaN in the gradient
    return (outputs - targets).masked_fill(targets.isnan(), 0.0).square()
