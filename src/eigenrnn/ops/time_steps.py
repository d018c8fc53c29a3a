"""Time steps of a batch of sequences of different lengths, sorted as in `PackedSequence`.

Batch sizes are the numbers of sequences that run at each step; None stands for the whole batch.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "batch_sizes_of",
    "begins_of_steps",
    "first_steps",
    "last_of_each",
    "last_steps",
    "outer",
    "packed_rows",
    "previous_rows",
    "previous_state",
    "running",
    "sizes_of_steps",
    "split_steps",
    "states_and_last",
    "states_before",
    "steps_in_order",
    "weight_gradient",
    "without_padding",
    "zero_padding",
]


def batch_sizes_of(
    lengths: Tensor,  # (B,)
    T: int,
) -> list[int]:
    """Return the batch sizes of sequences with these lengths."""
    return _runs(lengths, T, len(lengths), lengths.device).sum(1).tolist()


def sizes_of_steps(batch_sizes: Sequence[int] | None, T: int, B: int) -> Sequence[int]:
    """Return the batch sizes, those of the whole batch included."""
    if batch_sizes is None:
        return [B] * T
    return batch_sizes


def steps_in_order(T: int, reverse: bool) -> range:
    """Return the time steps in the order of the recurrence.

    Its backward pass takes them in the opposite order, ``reversed(steps_in_order(T, reverse))``.
    """
    if reverse:
        return range(T - 1, -1, -1)
    return range(T)


def split_steps(
    tensor: Tensor,  # (T, B, N)
    sizes: Sequence[int],
) -> list[Tensor]:  # T of (sizes[t], N)
    """Return one view per step of the sequences that are still running.

    Indexing the tensor inside a loop would cost as much as a tanh.
    """
    views = tensor.unbind(0)
    full = tensor.shape[1]
    return [v if n == full else v[:n] for v, n in zip(views, sizes, strict=True)]


def begins_of_steps(
    resets: Tensor | None,  # (T, B)
    sizes: Sequence[int],
) -> list[Tensor]:  # T of (sizes[t], 1)
    """Return whether each running sequence begins anew at each step; nothing without resets."""
    if resets is None:
        return []
    return split_steps(resets.unsqueeze(2), sizes)


def previous_state(
    t: int,
    hs: Sequence[Tensor],  # T of (sizes[t], N)
    h0: Tensor,  # (B, N)
    sizes: Sequence[int],
    reverse: bool,
) -> Tensor:  # (sizes[t], N)
    """Return the states before step t."""
    n = sizes[t]
    last = t + 1 if reverse else t - 1
    if not 0 <= last < len(hs):
        return h0[:n]
    if sizes[last] < n:  # only in reverse: some sequences begin here, with h0
        return torch.cat([hs[last], h0[sizes[last] : n]])
    if sizes[last] == n:  # the usual case; a slice takes as long as the tanh of a small batch
        return hs[last]
    return hs[last][:n]


def previous_rows(
    steps: Sequence[Tensor],  # T of (sizes[t], N)
    first: Tensor,  # (B, N)
    sizes: Sequence[int],
    reverse: bool,
) -> list[list[tuple[Tensor, slice | None]]]:  # T of one or two parts
    """Return the states before each step in parts, as `previous_state` joins them.

    Each part comes with its rows of the step, or None for all.
    """
    if sizes[-1] == len(first):  # all sequences run at all steps
        if reverse:
            before = [*steps[1:], first]
        else:
            before = [first, *steps[:-1]]
        return [[(state, None)] for state in before]

    def parts(t: int) -> list[tuple[Tensor, slice | None]]:
        n = sizes[t]
        last = t + 1 if reverse else t - 1
        m = 0  # of the n sequences, those that ran in the step before
        if 0 <= last < len(steps):
            m = min(n, sizes[last])
        found: list[tuple[Tensor, slice | None]] = []
        if m:
            found.append((steps[last][:m], slice(m)))
        found.append((first[m:n], slice(m, n)))
        return found

    return [parts(t) for t in range(len(steps))]


def select_rows(tensor: Tensor, rows: slice | None) -> Tensor:
    """Return the rows of a part of `previous_rows`."""
    if rows is None:
        return tensor
    return tensor[rows]


def running(
    sizes: Sequence[int] | Tensor,
    steps: Tensor,  # (T, B, N)
) -> Tensor:  # (T, B, 1)
    """Return whether each sequence runs at each step; exported calls pass a tensor of lengths."""
    T, B = steps.shape[:2]
    return _runs(sizes, T, B, steps.device).unsqueeze(2)


def last_of_each(
    sizes: Sequence[int],
    steps: Tensor,  # (T, B, N)
) -> Tensor:  # (T, B, 1)
    """Return whether a step is the last time step of a sequence."""
    now = running(sizes, steps)
    return now & ~torch.cat([now[1:], torch.zeros_like(now[:1])])


def states_before(
    h: Tensor,  # (T, B, N)
    h0: Tensor,  # (B, N)
    sizes: Sequence[int] | None,
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Return the states before all steps, without those of resets."""
    first = h0.unsqueeze(0)
    if not reverse:
        return torch.cat([first, h[:-1]])
    if sizes is None:
        return torch.cat([h[1:], first])
    # a shorter sequence begins earlier in time; past its end zero times h0 may be NaN
    before = torch.cat([h[1:], torch.zeros_like(first)])
    return torch.where(last_of_each(sizes, h), first, before)


def _runs(sizes: Sequence[int] | Tensor, T: int, B: int, device: torch.device) -> Tensor:  # (T, B)
    """Return whether each sequence runs at each step, from batch sizes or a tensor of lengths."""
    if isinstance(sizes, Tensor):
        return torch.arange(T, device=device).unsqueeze(1) < sizes
    # sequence b of the batch, which is sorted by length, runs while more than b of them run
    return torch.tensor(sizes, device=device).unsqueeze(1) > torch.arange(B, device=device)


def packed_rows(
    batch_sizes: Sequence[int], B: int, reverse: bool, device: torch.device
) -> Tensor:  # (sum of batch sizes,)
    """Return the rows t B + b of all running sequences, in the order in which they are read."""
    # on the processor, whose sizes are known without waiting for a device
    runs = _runs(batch_sizes, len(batch_sizes), B, torch.device("cpu"))
    t, b = runs.nonzero(as_tuple=True)
    if reverse:  # each sequence from its own end
        t = runs.sum(0)[b] - 1 - t
    return (t * B + b).to(device, non_blocking=True)


def without_padding(
    steps: Tensor,  # (T, B, N)
    sizes: Sequence[int] | Tensor | None,
    value: float = 0.0,
) -> Tensor:  # (T, B, N)
    """Return the steps with a value past the end of each sequence.

    The padding is the user's and may be infinite or NaN, which times a gradient of zero is NaN.
    """
    if sizes is None:
        return steps
    return torch.where(running(sizes, steps), steps, value)


def zero_padding(
    steps: Tensor,  # (T, B, N)
    sizes: Sequence[int],
) -> None:
    """Set the steps past the end of each sequence to zero."""
    for step, n in zip(steps.unbind(0), sizes, strict=True):
        step[n:].zero_()


def first_steps(
    delta: Tensor,  # (T, B, N)
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> Tensor:  # (B, N)
    """Gather each sequence's first step of the recurrence, the one that reads h0."""
    if reverse:  # in reverse each sequence begins at its own end
        return last_steps(delta, batch_sizes)
    return delta[0]


def last_steps(
    h: Tensor,  # (T, B, N)
    sizes: Sequence[int] | Tensor | None,
) -> Tensor:  # (B, N)
    """Gather the last time step of each sequence, from batch sizes or a tensor of lengths."""
    if sizes is None:
        return h[-1]
    T, B = h.shape[:2]
    if isinstance(sizes, Tensor):
        lengths = sizes.to(h.device)
    else:
        lengths = _runs(sizes, T, B, h.device).sum(0)  # (B,)
    return h[lengths - 1, torch.arange(B, device=h.device)]


def states_and_last(
    h: Tensor,  # (T, B, N)
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Return all states, and for each sequence the state that the recurrence reaches last."""
    if reverse:
        return h, h[0]
    return h, last_steps(h, batch_sizes)


def weight_gradient(
    delta: Tensor,  # (T, B, K)
    h: Tensor,  # (T, B, N)
    operands: Any,
    options: Any,
) -> Tensor:  # (K, N)
    """Return the gradient of W in one product over all steps; h is copied only with resets.

    Args:
        delta: The gradients of the products with W.
        h: The states of all steps.
        operands: The operands of the call, with h0 and the resets.
        options: Its options, with the batch sizes and the direction.
    """
    h0 = operands.h0
    first = first_steps(delta, options.batch_sizes, options.reverse)
    # each step's delta, beside the state before it
    if options.reverse:
        now = slice(0, -1)
        earlier = h[1:]
    else:
        now = slice(1, None)
        earlier = h[:-1]
    later = delta[now]
    if operands.resets is not None:  # the state before is zero, whatever it was
        begins = operands.resets.unsqueeze(2)
        h0 = h0.masked_fill(first_steps(begins, options.batch_sizes, options.reverse), 0)
        earlier = earlier.masked_fill(begins[now], 0)
    # padding is zero in delta or in h, so it adds nothing
    grad = first.T @ h0.conj_physical()
    rows = later.shape[0] * later.shape[1]
    K, N = grad.shape
    return torch.addmm(grad, later.reshape(rows, K).T, earlier.reshape(rows, N).conj_physical())


def outer(
    a: Tensor,  # (T, B, K)
    b: Tensor,  # (T, B, M)
) -> Tensor:  # (K, M)
    """Return the sum of the outer products of all steps and sequences."""
    return a.flatten(0, 1).T @ b.flatten(0, 1)
