"""Sequences of different lengths in one batch."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = ["Lengths", "run_longest_first"]

Lengths: TypeAlias = Tensor | Sequence[int] | None


def run_longest_first(
    run: Callable[[Tensor, Tensor, list[int] | None], tuple[Tensor | None, Tensor]],
    x: Tensor,  # (T, B, M)
    h0: Tensor,  # (L D, B, S)
    lengths: Lengths,
) -> tuple[Tensor | None, Tensor]:  # (T, B, D N), (L D, B, S)
    """Run a layer over the sequences in the order of falling length, and bring them back.

    Raises the errors of wrong lengths.
    """
    order, sizes = _sorted_lengths(lengths, *x.shape[:2])
    if order is None:
        return run(x, h0, sizes)
    order = order.to(x.device)
    back = order.argsort()
    output, h_n = run(x.index_select(1, order), h0.index_select(1, order), sizes)
    output = None if output is None else output.index_select(1, back)
    return output, h_n.index_select(1, back)


def _sorted_lengths(lengths: Lengths, T: int, B: int) -> tuple[Tensor | None, list[int] | None]:
    """Return the order of falling length and the number of running sequences at each step.

    Both are None where all sequences have T steps.

    Raises:
        ValueError: If there is no step, or a length is below 1 or above T.
        TypeError: If the lengths are not integers.
    """
    if T < 1:
        raise ValueError("expected at least one step, got T = 0")
    if lengths is None or B == 0:
        return None, None
    lengths = torch.as_tensor(lengths)
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise TypeError(f"expected lengths to be integers, got {lengths.dtype}")
    if lengths.shape != (B,):
        raise ValueError(f"expected lengths of shape ({B},), got {tuple(lengths.shape)}")
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < 1 or longest > T:
        raise ValueError(f"expected 1 <= lengths <= T = {T}, got {shortest} to {longest}")
    if shortest == T:
        return None, None
    lengths, order = lengths.sort(descending=True, stable=True)
    running = lengths > torch.arange(T, device=lengths.device).unsqueeze(1)  # (T, B)
    return order, running.sum(1).tolist()
