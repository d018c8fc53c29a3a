"""The gated recurrence as a loop of in-place products, with a backward pass written by hand.

The derivation, and why each piece is as it is, stands in the README beside this file.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.backend import REAL, Backend
from eigenrnn.ops.gru.backward import OPTIONS, gru_loop_backward
from eigenrnn.ops.gru.from_gates import differentiate
from eigenrnn.ops.inplace import apply_in_place
from eigenrnn.ops.inputs import mapped
from eigenrnn.ops.steps import before, cut, with_last

__all__ = ["BACKEND", "gru_loop"]


@torch.library.custom_op(
    "eigenrnn::gru_loop",
    mutates_args=(),
    schema="(Tensor x, Tensor W, Tensor h0, Tensor? bias, Tensor? recurrent_bias, "
    f"{OPTIONS}, bool keep) -> (Tensor, Tensor)",
)
def gru_loop(  # noqa: PLR0913, every backend's
    x: Tensor,  # (T, B, 3 N)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    keep: bool,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, 4 N)
    """Evaluate the states, and keep r, u, q and c where a backward pass will ask for them."""
    T, B, N = x.shape[0], *h0.shape
    sizes = batch_sizes or [B] * T
    make = x.new_zeros if sizes[-1] < B else x.new_empty  # later products go over padding too
    h, gates = make(T, B, N), make(T if keep else 1, B, 4 * N)
    f_ = apply_in_place(nonlinearity, bias, h0)
    W_ru, W_c = W[: 2 * N].T.contiguous(), W[2 * N :].T.contiguous()
    b = W.new_zeros(N) if recurrent_bias is None else recurrent_bias
    every = gates.expand(T, B, 4 * N)
    rus = cut(every[..., : 2 * N], sizes)
    rs, us, qs, cs = (cut(part, sizes) for part in every.split(N, dim=2))
    x_rus, x_cs = cut(x[..., : 2 * N], sizes), cut(x[..., 2 * N :], sizes)
    hs = cut(h, sizes)
    for t in reversed(range(T)) if reverse else range(T):
        h_before = before(t, hs, h0, sizes, reverse)
        q, c = qs[t], cs[t]
        torch.addmm(x_rus[t], h_before, W_ru, out=rus[t]).sigmoid_()
        if reset_after:
            torch.addmm(b, h_before, W_c, out=q)
            torch.addcmul(x_cs[t], rs[t], q, out=c)
        else:
            torch.mul(rs[t], h_before, out=q)
            torch.addmm(x_cs[t], q, W_c, out=c)
        f_(c, None)
        start, end = (c, h_before) if update_keeps else (h_before, c)
        torch.lerp(start, end, us[t], out=hs[t])
    return h, gates


@gru_loop.register_fake
def _(x: Tensor, W: Tensor, h0: Tensor, *options: Any) -> tuple[Tensor, Tensor]:  # noqa: ARG001, the operator's signature
    T, B, N = x.shape[0], *h0.shape
    return x.new_empty(T, B, N), x.new_empty(T if options[-1] else 1, B, 4 * N)


differentiate(gru_loop, gru_loop_backward)


def _run(
    x: Tensor,  # (T, B, 3 N) or (T, B, M)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (3 N, M)
    c: Tensor | None,  # (3 N,)
    *form: Any,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    tensors = (mapped(x, U, c), W, h0, bias, recurrent_bias)
    keep = torch.is_grad_enabled() and any(v is not None and v.requires_grad for v in tensors)
    h, _ = gru_loop(*tensors, *form, keep)
    *_, batch_sizes, reverse = form
    return with_last(h, batch_sizes, reverse)


BACKEND = Backend(
    name="loop",
    run=_run,
    about="in-place torch operations, any device",
    dtypes=REAL,
    missing=lambda: None,
    refuses=lambda call: (
        "torch.func transforms and forward mode need differentiable operations"
        if call.transformed
        else None
    ),
)
