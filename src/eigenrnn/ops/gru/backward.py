"""The backward passes of the gated recurrence: in place, and in differentiable operations."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.inplace_nonlinearities import backward_in_place
from eigenrnn.ops.time_steps import first_steps, previous_state, split_steps, weight_gradient
from eigenrnn.tracing import is_batched, under_transform

__all__ = [
    "OPTIONS",
    "backward_reference",
    "gradients",
    "gru_loop_backward",
    "previous_states",
    "register_gradients",
]

OPTIONS = (
    "str nonlinearity, bool reset_after, bool update_keeps, SymInt[]? batch_sizes, bool reverse"
)
"""The arguments that all operators of this recurrence weight, as a schema."""

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


@torch.library.custom_op(
    "eigenrnn::gru_loop_backward",
    mutates_args=(),
    schema="(Tensor g, Tensor h, Tensor gates, Tensor W, Tensor h0, Tensor? bias, "
    f"{OPTIONS}) -> (Tensor, Tensor, Tensor)",
)
def gru_loop_backward(  # noqa: PLR0913, the signature of all backends
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
    """Return the gradients of x, q and h0; with the reset before W that of q has one step."""
    T, B, N = h.shape
    sizes = batch_sizes or [B] * T
    make = h.new_zeros if sizes[-1] < B else h.new_empty
    dx, dq_steps = make(T, B, 3 * N), make(T if reset_after else 1, B, N)
    dh0 = h.new_zeros(B, N)  # of the state between two steps; in the end that of h0
    backward_ = backward_in_place(nonlinearity, bias, h0)
    W_ru, W_c = W[: 2 * N].contiguous(), W[2 * N :].contiguous()
    rus = split_steps(gates[..., : 2 * N], sizes)
    rs, us, qs, cs = (split_steps(part, sizes) for part in gates.split(N, dim=2))
    drus = split_steps(dx[..., : 2 * N], sizes)
    drs, dus, dcs = (split_steps(part, sizes) for part in dx.split(N, dim=2))
    hs, gs = split_steps(h, sizes), split_steps(g, sizes)
    dqs, dhs = (
        split_steps(dq_steps.expand(T, B, N), sizes),
        split_steps(dh0.expand(T, B, N), sizes),
    )
    for t in range(T) if reverse else reversed(range(T)):
        h_before, u, c = previous_state(t, hs, h0, sizes, reverse), us[t], cs[t]
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
        backward_(dc, c, None)
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
    return dx, dq_steps, dh0


@gru_loop_backward.register_fake
def _(g: Tensor, h: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG001, the operator's signature
    T, B, N = h.shape
    reset_after = others[5]
    return (
        h.new_empty(T, B, 3 * N),
        h.new_empty(T if reset_after else 1, B, N),
        h.new_empty(B, N),
    )


def backward_reference(  # noqa: PLR0913, the signature of all backends
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
    """Compute the same in operations that autograd and `vmap` support; accepts gradients of gates.

    States and gates are connected to the inputs in the autograd graph.
    """
    f_backward = NONLINEARITIES[nonlinearity].backward
    T, B, N = h.shape
    W_ru, W_c = W[: 2 * N], W[2 * N :]
    sizes = batch_sizes or [B] * T
    h_before = previous_states(h, h0, sizes, reverse)
    g_gates = torch.zeros_like(gates) if g_gates is None else g_gates
    dxs: list[Tensor] = []
    dqs: list[Tensor] = []
    dh = torch.zeros_like(h0)
    for t in range(T) if reverse else reversed(range(T)):
        (r, u, q, c), (g_r, g_u, g_q, g_c) = (each[t].chunk(4, dim=1) for each in (gates, g_gates))
        total = dh + g[t]
        change, weight = (h_before[t] - c, 1 - u) if update_keeps else (c - h_before[t], u)
        dc = f_backward(total * weight + g_c, c, bias, None)
        if reset_after:
            dq = dc * r + g_q
            dr = dc * q + g_r
            dh_before = dq @ W_c
        else:
            dq = dc @ W_c + g_q
            dr = dq * h_before[t] + g_r
            dh_before = dq * r
        du = total * change + g_u
        dru = torch.cat([dr * r * (1 - r), du * u * (1 - u)], dim=1)
        dh_before = dh_before + total * (1 - weight) + dru @ W_ru
        running = (torch.arange(B, device=h.device) < sizes[t]).unsqueeze(1)
        dh = torch.where(running, dh_before, dh)
        dxs.append(torch.where(running, torch.cat([dru, dc], dim=1), 0))
        dqs.append(torch.where(running, dq, 0))
    order = slice(None) if reverse else slice(None, None, -1)
    return torch.stack(dxs[order]), torch.stack(dqs[order]), dh


def previous_states(
    h: Tensor,  # (T, B, N)
    h0: Tensor,  # (B, N)
    sizes: Sequence[int],
    reverse: bool,
) -> list[Tensor]:  # T of (B, N)
    """Return the states before each step, for all sequences."""
    if not reverse:
        return [h0, *h[:-1].unbind()]
    rows = torch.arange(h0.shape[0], device=h.device).unsqueeze(1)
    later = zip(h[1:].unbind(), sizes[1:], strict=True)
    return [*(torch.where(rows < n, each, h0) for each, n in later), h0]


def gradients(  # noqa: PLR0913, the signature of all backends
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    g_saved: Tensor | None,  # (T, B, vectors, parts, lanes)
    x: Tensor | None,  # (T, B, M), with U
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (3 N, M)
    h: Tensor,  # (T, B, N)
    saved: Tensor,  # (T, B, vectors, parts, lanes)
    needed: Sequence[bool],
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> list[Tensor]:
    """Return the requested gradients, among those of x, W, h0, both biases, U and c.

    States and saved gates are connected to the inputs in the autograd graph.
    """
    T, B, N = h.shape
    sizes = batch_sizes or [B] * T
    running = torch.stack([torch.arange(B, device=h.device) < n for n in sizes])  # (T, B)
    # past the end of a sequence the saved gates are uninitialised
    saved = torch.where(running[..., None, None, None], saved, 0)
    h_before = None if reset_after else torch.stack(previous_states(h, h0, sizes, reverse))
    gates = _gates(saved, N, h_before)
    g_gates = None if g_saved is None else _gates(g_saved, N, None)
    total = _with_last_gradient(g, g_last, h, running, reverse)
    options = nonlinearity, reset_after, update_keeps, batch_sizes, reverse
    dx, dq, dh0 = backward_reference(total, g_gates, h, gates, W, h0, bias, *options)
    dru, dc = dx[..., : 2 * N], dx[..., 2 * N :]
    q, c = gates[..., 2 * N : 3 * N], gates[..., 3 * N :]

    def gradient_from(delta: Tensor) -> Tensor:
        first = first_steps(delta, batch_sizes, reverse)
        return weight_gradient(delta, first, h, h0, reverse)

    gradients_of = (
        lambda: dx if U is None else dx @ U,
        lambda: torch.cat(
            [gradient_from(dru), gradient_from(dq) if reset_after else _outer(dc, q)]
        ),
        lambda: dh0,
        lambda: (dc * c.sgn()).sum((0, 1)),
        lambda: dq.sum((0, 1)),
        lambda: _outer(dx, _required(x)),
        lambda: dx.sum((0, 1)),
    )
    return [make() for make, is_needed in zip(gradients_of, needed, strict=True) if is_needed]


def _gates(
    saved: Tensor,  # (T, B, vectors, parts, lanes)
    N: int,
    h_before: Tensor | None,  # (T, B, N), the states that the reset multiplies
) -> Tensor:  # (T, B, 4 N)
    """Concatenate r, u, q and c; q is zero if neither it nor the previous states are given."""
    parts = [part.reshape(*part.shape[:2], -1)[..., :N] for part in saved.unbind(3)]
    r, u, c = parts[:3]
    q = parts[3] if len(parts) == 4 else torch.zeros_like(r) if h_before is None else r * h_before
    return torch.cat([r, u, q, c], dim=2)


def _with_last_gradient(
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N)
    running: Tensor,  # (T, B)
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Add the gradient of the last states to the gradient of all states."""
    total = torch.zeros_like(h) if g is None else g
    if g_last is None:
        return total
    ends = running.cumsum(0) == (1 if reverse else running.sum(0))
    return total + torch.where((ends & running).unsqueeze(2), g_last, 0)


def _outer(
    a: Tensor,  # (T, B, K)
    b: Tensor,  # (T, B, M)
) -> Tensor:  # (K, M)
    # the older vmap of `torch.autograd` does not support `flatten`
    rows = a.shape[0] * a.shape[1]
    return a.reshape(rows, a.shape[-1]).T @ b.reshape(rows, b.shape[-1])


def _required(x: Tensor | None) -> Tensor:
    assert x is not None  # noqa: S101, x exists with U
    return x


def register_gradients(
    forward: Any,
    backward: Callable[..., tuple[Tensor, Tensor, Tensor]],
) -> None:
    """Register the gradients of an operator whose backward pass returns those of the gates.

    Args:
        forward: The operator. It takes x, W, h0, both biases, the options and whether to save the
            gates. It returns all states and, if saved, r, u, q and c of all steps.
        backward: The backward operator. It takes the gradient of the states, both results, W, h0,
            the bias and the options. It returns the gradients of x, of q if the reset is after W,
            and of h0.
    """

    def backward_pass(
        ctx: Any, g: Tensor | None, g_gates: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        W, h0, bias, h, gates = ctx.saved_tensors
        _, needs_W, _, needs_bias, needs_recurrent_bias, *_ = ctx.needs_input_grad
        g = torch.zeros_like(h) if g is None else g
        recorded = torch.is_grad_enabled() or under_transform() or is_batched(g, g_gates)
        if g_gates is None and not recorded:
            dx, dq, dh0 = backward(g, h, gates, W, h0, bias, *ctx.options)
        else:
            dx, dq, dh0 = backward_reference(g, g_gates, h, gates, W, h0, bias, *ctx.options)
        N = h0.shape[1]
        dc, c = dx[..., 2 * N :], gates[..., 3 * N :]
        dW = _matrix_gradient(dx, dq, h, gates, h0, *ctx.options[1:]) if needs_W else None
        db = (dc * c.sgn()).sum((0, 1)) if needs_bias else None
        db_recurrent = dq.sum((0, 1)) if needs_recurrent_bias else None
        return dx, dW, dh0, db, db_recurrent, *(None,) * 6

    forward.register_autograd(backward_pass, setup_context=_setup_context)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, W, h0, bias, _, *ctx.options, _ = inputs
    ctx.save_for_backward(W, h0, bias, *output)
    ctx.set_materialize_grads(False)  # the gates have a gradient only in second derivatives


def _matrix_gradient(  # noqa: PLR0913, all tensors of the backward pass
    dx: Tensor,  # (T, B, 3 N)
    dq: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    gates: Tensor,  # (T, B, 4 N)
    h0: Tensor,  # (B, N)
    reset_after: bool,
    _update_keeps: bool,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> Tensor:  # (3 N, N)
    N = h0.shape[1]

    def gradient_from(delta: Tensor) -> Tensor:
        first = first_steps(delta, batch_sizes, reverse)
        return weight_gradient(delta, first, h, h0, reverse)

    if reset_after:
        dW_c = gradient_from(dq)
    else:
        rows = dx.shape[0] * dx.shape[1]
        dx_c, q = dx[..., 2 * N :], gates[..., 2 * N : 3 * N]
        dW_c = dx_c.reshape(rows, N).T @ q.reshape(rows, N)
    return torch.cat([gradient_from(dx[..., : 2 * N]), dW_c])
