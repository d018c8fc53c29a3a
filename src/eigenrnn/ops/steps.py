"""Steps at which not all sequences of a batch run, longest first as in a `PackedSequence`."""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral

import torch
from torch import Tensor

__all__ = [
    "before",
    "check_batch_sizes",
    "cut",
    "first_steps",
    "last_steps",
    "weight_gradient",
    "with_last",
]


def cut(
    tensor: Tensor,  # (T, B, N)
    sizes: Sequence[int],
) -> list[Tensor]:  # T of (sizes[t], N)
    """Cut views of the running sequences once: indexing inside a loop costs as much as tanh."""
    views = tensor.unbind(0)
    full = tensor.shape[1]
    return [v if n == full else v[:n] for v, n in zip(views, sizes, strict=True)]


def before(
    t: int,
    hs: Sequence[Tensor],  # T of (sizes[t], N)
    h0: Tensor,  # (B, N)
    sizes: Sequence[int],
    reverse: bool,
) -> Tensor:  # (sizes[t], N)
    """Return the states from which step t starts."""
    n = sizes[t]
    last = t + 1 if reverse else t - 1
    if not 0 <= last < len(hs):
        return h0[:n]
    if sizes[last] < n:  # only in reverse: sequences whose last step this is
        return torch.cat([hs[last], h0[sizes[last] : n]])
    return hs[last] if sizes[last] == n else hs[last][:n]


def first_steps(
    delta: Tensor,  # (T, B, N)
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> Tensor:  # (B, N)
    """Gather the step at which each sequence meets h0."""
    return last_steps(delta, batch_sizes) if reverse else delta[0]


def last_steps(
    h: Tensor,  # (T, B, N)
    batch_sizes: Sequence[int] | None,
) -> Tensor:  # (B, N)
    """Gather each sequence's own last step."""
    if batch_sizes is None:
        return h[-1]
    sizes = torch.tensor(batch_sizes, device=h.device)
    rows = torch.arange(h.shape[1], device=h.device)
    last = (sizes.unsqueeze(1) > rows).sum(0) - 1  # (B,)
    return h[last, rows]


def with_last(
    h: Tensor,  # (T, B, N)
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Give all states, and of each sequence the one that the recurrence reaches last."""
    return h, h[0] if reverse else last_steps(h, batch_sizes)


def weight_gradient(
    delta: Tensor,  # (T, B, K)
    first: Tensor,  # (B, K)
    h: Tensor,  # (T, B, N)
    h0: Tensor,  # (B, N)
    reverse: bool,
) -> Tensor:  # (K, N)
    """Sum the gradient of W over all steps in one product, on views, without a copy of h."""
    later, earlier = (delta[:-1], h[1:]) if reverse else (delta[1:], h[:-1])
    # padding of delta or of h is zero in every product, so it adds nothing
    grad = first.T @ h0.conj()
    rows, (K, N) = later.shape[0] * later.shape[1], grad.shape
    return torch.addmm(grad, later.reshape(rows, K).T, earlier.reshape(rows, N).conj())


def check_batch_sizes(batch_sizes: object, T: int, B: int) -> None:
    """Refuse what no batch of T steps and B sequences has.

    Raises:
        ValueError: If there are not T sizes, falling from B.
        TypeError: If they are not a list of integers.
    """
    if isinstance(batch_sizes, str) or not isinstance(batch_sizes, Sequence):
        raise TypeError(
            f"expected batch_sizes to be a list of integers, got {type(batch_sizes).__name__}"
        )
    if any(isinstance(n, bool) or not isinstance(n, Integral | torch.SymInt) for n in batch_sizes):
        raise TypeError(f"expected batch sizes to be integers, got {list(batch_sizes)}")
    falling = all(a >= b for a, b in pairwise(batch_sizes))
    if len(batch_sizes) != T or batch_sizes[0] != B or not falling or batch_sizes[-1] < 0:
        raise ValueError(f"expected {T} batch sizes that fall from {B}, got {list(batch_sizes)}")
