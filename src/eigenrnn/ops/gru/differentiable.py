"""The backward pass of the compiled recurrence in operations that autograd and `vmap` follow."""

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenrnn.ops.gru.backward import backward_reference, starts
from eigenrnn.ops.steps import first_steps, weight_gradient

__all__ = ["gradients"]


def gradients(  # noqa: PLR0913, every backend's
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    g_kept: Tensor | None,  # (T, B, vectors, parts, lanes)
    x: Tensor | None,  # (T, B, M), with U
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (3 N, M)
    h: Tensor,  # (T, B, N)
    kept: Tensor,  # (T, B, vectors, parts, lanes)
    wanted: Sequence[bool],
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> list[Tensor]:
    """Return the wanted ones of the gradients of x, W, h0, bias, recurrent bias, U and c.

    States and what the kernels kept lead back to the inputs.
    """
    T, B, N = h.shape
    sizes = batch_sizes or [B] * T
    running = torch.stack([torch.arange(B, device=h.device) < n for n in sizes])  # (T, B)
    # past the end of a sequence nothing was kept, not even zeros
    kept = torch.where(running[..., None, None, None], kept, 0)
    began = None if reset_after else torch.stack(starts(h, h0, sizes, reverse))
    gates = _gates(kept, N, began)
    g_gates = None if g_kept is None else _gates(g_kept, N, None)
    total = _placed(g, g_last, h, running, reverse)
    options = nonlinearity, reset_after, update_keeps, batch_sizes, reverse
    dx, dq, dh0 = backward_reference(total, g_gates, h, gates, W, h0, bias, *options)
    dru, dc = dx[..., : 2 * N], dx[..., 2 * N :]
    q, c = gates[..., 2 * N : 3 * N], gates[..., 3 * N :]

    def met_states(delta: Tensor) -> Tensor:
        first = first_steps(delta, batch_sizes, reverse)
        return weight_gradient(delta, first, h, h0, reverse)

    made = (
        lambda: dx if U is None else dx @ U,
        lambda: torch.cat([met_states(dru), met_states(dq) if reset_after else _outer(dc, q)]),
        lambda: dh0,
        lambda: (dc * c.sgn()).sum((0, 1)),
        lambda: dq.sum((0, 1)),
        lambda: _outer(dx, _given(x)),
        lambda: dx.sum((0, 1)),
    )
    return [make() for make, wants in zip(made, wanted, strict=True) if wants]


def _gates(
    kept: Tensor,  # (T, B, vectors, parts, lanes)
    N: int,
    began: Tensor | None,  # (T, B, N), the states of which the reset makes q
) -> Tensor:  # (T, B, 4 N)
    """Put r, u, q and c side by side, q = 0 where neither it nor its factor is known."""
    parts = [part.reshape(*part.shape[:2], -1)[..., :N] for part in kept.unbind(3)]
    r, u, c = parts[:3]
    q = parts[3] if len(parts) == 4 else torch.zeros_like(r) if began is None else r * began
    return torch.cat([r, u, q, c], dim=2)


def _placed(
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N)
    running: Tensor,  # (T, B)
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Add the gradient of the last states to that of the states they are."""
    total = torch.zeros_like(h) if g is None else g
    if g_last is None:
        return total
    ends = running.cumsum(0) == (1 if reverse else running.sum(0))
    return total + torch.where((ends & running).unsqueeze(2), g_last, 0)


def _outer(
    a: Tensor,  # (T, B, K)
    b: Tensor,  # (T, B, M)
) -> Tensor:  # (K, M)
    # older batching rules know no `flatten`
    rows = a.shape[0] * a.shape[1]
    return a.reshape(rows, a.shape[-1]).T @ b.reshape(rows, b.shape[-1])


def _given(x: Tensor | None) -> Tensor:
    assert x is not None  # noqa: S101, there is U, so there is x
    return x
