"""The backward pass of the gated recurrence by hand: in place, and once more differentiably."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.inplace import pull_in_place
from eigenrnn.ops.steps import before, cut

__all__ = ["OPTIONS", "backward_reference", "gru_loop_backward", "starts"]

OPTIONS = (
    "str nonlinearity, bool reset_after, bool update_keeps, SymInt[]? batch_sizes, bool reverse"
)
"""What both operators take, in the language of schemas."""

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


@torch.library.custom_op(
    "eigenrnn::gru_loop_backward",
    mutates_args=(),
    schema="(Tensor g, Tensor h, Tensor gates, Tensor W, Tensor h0, Tensor? bias, "
    f"{OPTIONS}) -> (Tensor, Tensor, Tensor)",
)
def gru_loop_backward(  # noqa: PLR0913, every backend's
    g: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    gates: Tensor,  # (T, B, 4 N)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, 3 N), (T, B, N), (B, N)
    """Return the gradients of x, of q (only of its last step if the reset is before) and of h0."""
    T, B, N = h.shape
    sizes = batch_sizes or [B] * T
    make = h.new_zeros if sizes[-1] < B else h.new_empty
    dx, dq_kept = make(T, B, 3 * N), make(T if reset_after else 1, B, N)
    dh0 = h.new_zeros(B, N)  # of the state between two steps; ends as that of the first
    pull_ = pull_in_place(nonlinearity, bias, h0)
    W_ru, W_c = W[: 2 * N].contiguous(), W[2 * N :].contiguous()
    rus = cut(gates[..., : 2 * N], sizes)
    rs, us, qs, cs = (cut(part, sizes) for part in gates.split(N, dim=2))
    drus = cut(dx[..., : 2 * N], sizes)
    drs, dus, dcs = (cut(part, sizes) for part in dx.split(N, dim=2))
    hs, gs = cut(h, sizes), cut(g, sizes)
    dqs, dhs = cut(dq_kept.expand(T, B, N), sizes), cut(dh0.expand(T, B, N), sizes)
    for t in range(T) if reverse else reversed(range(T)):
        h_before, u, c = before(t, hs, h0, sizes, reverse), us[t], cs[t]
        dh, dr, du, dq, dc = dhs[t], drs[t], dus[t], dqs[t], dcs[t]
        dh.add_(gs[t])
        if update_keeps:
            torch.sub(h_before, c, out=du).mul_(dh)
            torch.addcmul(dh, dh, u, value=-1, out=dc)
            dh.mul_(u)
        else:
            torch.sub(c, h_before, out=du).mul_(dh)
            torch.mul(dh, u, out=dc)
            dh.sub_(dc)
        pull_(dc, c, None)
        if reset_after:
            torch.mul(dc, qs[t], out=dr)
            torch.mul(dc, rs[t], out=dq)
            dh.addmm_(dq, W_c)
        else:
            torch.mm(dc, W_c, out=dq)
            torch.mul(dq, h_before, out=dr)
            dh.addcmul_(dq, rs[t])
        _sigmoid_backward(drus[t], rus[t], grad_input=drus[t])
        dh.addmm_(drus[t], W_ru)
    return dx, dq_kept, dh0


@gru_loop_backward.register_fake
def _(g: Tensor, h: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG001, the operator's signature
    T, B, N = h.shape
    reset_after = others[5]
    return (
        h.new_empty(T, B, 3 * N),
        h.new_empty(T if reset_after else 1, B, N),
        h.new_empty(B, N),
    )


def backward_reference(  # noqa: PLR0913, the same
    g: Tensor,  # (T, B, N)
    g_gates: Tensor | None,  # (T, B, 4 N)
    h: Tensor,  # (T, B, N)
    gates: Tensor,  # (T, B, 4 N)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, 3 N), (T, B, N), (B, N)
    """Do the same in operations that autograd and `vmap` follow; also from the gates' gradients.

    States and gates lead back to the inputs.
    """
    pull = NONLINEARITIES[nonlinearity].pull
    T, B, N = h.shape
    W_ru, W_c = W[: 2 * N], W[2 * N :]
    sizes = batch_sizes or [B] * T
    began = starts(h, h0, sizes, reverse)
    g_gates = torch.zeros_like(gates) if g_gates is None else g_gates
    dxs: list[Tensor] = []
    dqs: list[Tensor] = []
    dh = torch.zeros_like(h0)
    for t in range(T) if reverse else reversed(range(T)):
        (r, u, q, c), (g_r, g_u, g_q, g_c) = (each[t].chunk(4, dim=1) for each in (gates, g_gates))
        total = dh + g[t]
        change, share = (began[t] - c, 1 - u) if update_keeps else (c - began[t], u)
        dc = pull(total * share + g_c, c, bias, None)
        if reset_after:
            dq = dc * r + g_q
            dr = dc * q + g_r
            passed = dq @ W_c
        else:
            dq = dc @ W_c + g_q
            dr = dq * began[t] + g_r
            passed = dq * r
        du = total * change + g_u
        dru = torch.cat([dr * r * (1 - r), du * u * (1 - u)], dim=1)
        passed = passed + total * (1 - share) + dru @ W_ru
        running = (torch.arange(B, device=h.device) < sizes[t]).unsqueeze(1)
        dh = torch.where(running, passed, dh)
        dxs.append(torch.where(running, torch.cat([dru, dc], dim=1), 0))
        dqs.append(torch.where(running, dq, 0))
    order = slice(None) if reverse else slice(None, None, -1)
    return torch.stack(dxs[order]), torch.stack(dqs[order]), dh


def starts(
    h: Tensor,  # (T, B, N)
    h0: Tensor,  # (B, N)
    sizes: Sequence[int],
    reverse: bool,
) -> list[Tensor]:  # T of (B, N)
    """Return the states from which each step starts, for all sequences."""
    if not reverse:
        return [h0, *h[:-1].unbind()]
    rows = torch.arange(h0.shape[0], device=h.device).unsqueeze(1)
    later = zip(h[1:].unbind(), sizes[1:], strict=True)
    return [*(torch.where(rows < n, each, h0) for each, n in later), h0]
