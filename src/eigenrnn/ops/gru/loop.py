"""The gated recurrence as a loop of in-place products, with an explicit backward pass.

README.md in this folder has the derivation and the reasons for each choice.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.gru.backward import OPTIONS, gru_loop_backward, register_gradients
from eigenrnn.ops.inplace_nonlinearities import apply_in_place
from eigenrnn.ops.time_steps import previous_state, split_steps, states_and_last

__all__ = ["BACKEND", "gru_loop"]


@torch.library.custom_op(
    "eigenrnn::gru_loop",
    mutates_args=(),
    schema="(Tensor x, Tensor W, Tensor h0, Tensor? bias, Tensor? recurrent_bias, "
    f"{OPTIONS}, bool save) -> (Tensor, Tensor)",
)
def gru_loop(  # noqa: PLR0913, the signature of all backends
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
    save: bool,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, 4 N)
    """Evaluate the states; with `save` also save r, u, q and c for a backward pass."""
    T, B, N = x.shape[0], *h0.shape
    sizes = batch_sizes or [B] * T
    make = x.new_zeros if sizes[-1] < B else x.new_empty  # later products also read the padding
    h, gates = make(T, B, N), make(T if save else 1, B, 4 * N)
    f_ = apply_in_place(nonlinearity, bias, h0)
    W_ru, W_c = W[: 2 * N].T.contiguous(), W[2 * N :].T.contiguous()
    b = W.new_zeros(N) if recurrent_bias is None else recurrent_bias
    all_gates = gates.expand(T, B, 4 * N)
    rus = split_steps(all_gates[..., : 2 * N], sizes)
    rs, us, qs, cs = (split_steps(part, sizes) for part in all_gates.split(N, dim=2))
    x_rus, x_cs = split_steps(x[..., : 2 * N], sizes), split_steps(x[..., 2 * N :], sizes)
    hs = split_steps(h, sizes)
    for t in reversed(range(T)) if reverse else range(T):
        h_before = previous_state(t, hs, h0, sizes, reverse)
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


register_gradients(gru_loop, gru_loop_backward)


def _run(
    x: Tensor,  # (T, B, 3 N) or (T, B, M)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (3 N, M)
    c: Tensor | None,  # (3 N,)
    *options: Any,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    tensors = (map_inputs(x, U, c), W, h0, bias, recurrent_bias)
    save = torch.is_grad_enabled() and any(v is not None and v.requires_grad for v in tensors)
    h, _ = gru_loop(*tensors, *options, save)
    *_, batch_sizes, reverse = options
    return states_and_last(h, batch_sizes, reverse)


BACKEND = Backend(
    name="loop",
    run=_run,
    description="in-place torch operations, any device",
    dtypes=REAL,
    unavailable=lambda: None,
    unsupported=lambda call: (
        "torch.func transforms and forward mode need differentiable operations"
        if call.transformed
        else None
    ),
)
