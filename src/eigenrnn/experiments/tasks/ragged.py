"""Sequences of unequal length, kept one after the other and padded batch by batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

__all__ = ["Ragged"]


@dataclass(frozen=True)
class Ragged:
    """Sequences of the same channels.

    Args:
        table: The steps of all sequences, one after the other, and two rows behind them: what
            stands after the end of a sequence, and NaN. A batch is then a choice of rows, which
            takes a sixth of the time of choosing and then masking.
        lengths: The number of steps of each sequence.

    Shape:
        table: :math:`(S + 2, M)`.
        lengths: :math:`(count)`.
    """

    table: Tensor
    lengths: Tensor

    @classmethod
    def joined(cls, steps: Sequence[Tensor], lengths: Tensor, fill: float = 0.0) -> Self:
        """Keep the steps of sequences, in as many pieces as there are.

        Args:
            steps: Pieces of the shape (any number of steps, channels), in order.
            lengths: The number of steps of each sequence.
            fill: What stands after the end of a sequence.
        """
        first = steps[0]
        fillers = [first.new_full((1, first.shape[1]), value) for value in (fill, math.nan)]
        return cls(torch.cat([*steps, *fillers]), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def steps(self) -> Tensor:  # (S, M)
        """The steps of all sequences."""
        return self.table[:-2]

    @cached_property
    def starts(self) -> Tensor:  # (count,)
        """Where each sequence begins."""
        return self.lengths.cumsum(0) - self.lengths

    def padded(
        self,
        rows: Tensor,  # (B,)
        steps: int | None = None,
        *,
        ahead: int = 0,
        due: Tensor | None = None,  # (B,)
    ) -> Tensor:  # (T, B, M)
        """Lay sequences side by side.

        Args:
            rows: The numbers of the sequences.
            steps: The number T of steps; that of the longest of them by default.
            ahead: The step of each sequence to begin with.
            due: The number of steps after which NaN stands for what follows the end.
        """
        lengths, end = self.lengths[rows], len(self.table) - 2
        step = torch.arange(int(lengths.max()) if steps is None else steps).unsqueeze(1)
        after = torch.tensor(end) if due is None else torch.where(step < due, end, end + 1)
        at = torch.where(step + ahead < lengths, self.starts[rows] + ahead + step, after)
        return self.table.index_select(0, at.flatten()).view(*at.shape, -1)

    def of(self, rows: Tensor) -> Self:
        """Take some of the sequences."""
        pieces = self.table.split([*self.lengths.tolist(), 2])
        chosen = [*(pieces[row] for row in rows.tolist()), pieces[-1]]
        return type(self)(torch.cat(chosen), self.lengths[rows])
