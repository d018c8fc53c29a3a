"""Time steps of a batch of sequences of different lengths, sorted as in `PackedSequence`."""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = [
    "first_steps",
    "last_steps",
    "outer",
    "previous_rows",
    "previous_state",
    "running",
    "split_steps",
    "states_and_last",
    "weight_gradient",
    "without_padding",
    "zero_padding",
]


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
    return hs[last] if sizes[last] == n else hs[last][:n]


def previous_rows(
    steps: Sequence[Tensor],  # T of (sizes[t], N)
    first: Tensor,  # (B, N)
    sizes: Sequence[int],
    reverse: bool,
) -> list[list[tuple[Tensor, slice | None]]]:  # T of one or two parts
    """Return the states before each step in parts, as `previous_state` joins them.

    Each part comes with its rows of the step, or None for all.
    """
    if sizes[-1] == len(first):
        return [[(v, None)] for v in ([*steps[1:], first] if reverse else [first, *steps[:-1]])]

    def parts(t: int) -> list[tuple[Tensor, slice | None]]:
        n, last = sizes[t], t + 1 if reverse else t - 1
        m = min(n, sizes[last]) if 0 <= last < len(steps) else 0
        joined = [(steps[last][:m], slice(m))] if m else []
        return [*joined, (first[m:n], slice(m, n))]

    return [parts(t) for t in range(len(steps))]


def running(
    sizes: Sequence[int] | Tensor,
    steps: Tensor,  # (T, B, N)
) -> Tensor:  # (T, B, 1)
    """Return whether each sequence runs at each step; exported calls pass a tensor of lengths."""
    T, B = steps.shape[:2]
    if isinstance(sizes, Tensor):
        return (torch.arange(T, device=steps.device).unsqueeze(1) < sizes).unsqueeze(2)
    counts = torch.tensor(sizes, device=steps.device).unsqueeze(1)
    return (counts > torch.arange(B, device=steps.device)).unsqueeze(2)


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
    return last_steps(delta, batch_sizes) if reverse else delta[0]


def last_steps(
    h: Tensor,  # (T, B, N)
    batch_sizes: Sequence[int] | None,
) -> Tensor:  # (B, N)
    """Gather the last time step of each sequence."""
    if batch_sizes is None:
        return h[-1]
    sizes = torch.tensor(batch_sizes, device=h.device)
    rows = torch.arange(h.shape[1], device=h.device)
    last = (sizes.unsqueeze(1) > rows).sum(0) - 1  # (B,)
    return h[last, rows]


def states_and_last(
    h: Tensor,  # (T, B, N)
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Return all states, and for each sequence the state that the recurrence reaches last."""
    return h, h[0] if reverse else last_steps(h, batch_sizes)


def weight_gradient(
    delta: Tensor,  # (T, B, K)
    first: Tensor,  # (B, K)
    h: Tensor,  # (T, B, N)
    h0: Tensor,  # (B, N)
    reverse: bool,
) -> Tensor:  # (K, N)
    """Return the gradient of W in one product over all steps, without a copy of h."""
    later, earlier = (delta[:-1], h[1:]) if reverse else (delta[1:], h[:-1])
    # padding is zero in delta or in h, so it adds nothing
    grad = first.T @ h0.conj_physical()
    rows, (K, N) = later.shape[0] * later.shape[1], grad.shape
    return torch.addmm(grad, later.reshape(rows, K).T, earlier.reshape(rows, N).conj_physical())


def outer(
    a: Tensor,  # (T, B, K)
    b: Tensor,  # (T, B, M)
) -> Tensor:  # (K, M)
    """Return the sum of the outer products of all steps and sequences."""
    return a.flatten(0, 1).T @ b.flatten(0, 1)
