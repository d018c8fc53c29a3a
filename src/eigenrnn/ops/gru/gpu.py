"""The gated recurrence by Triton's kernels, as torch operators.

The design, and what a multiprocessor can hold, stands in the README beside this file.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.backend import REAL, Backend
from eigenrnn.ops.gpu import ABOUT, launch, lengths_of, missing, refuses, reluctant
from eigenrnn.ops.gru.backward import OPTIONS
from eigenrnn.ops.gru.from_gates import differentiate
from eigenrnn.ops.inputs import mapped
from eigenrnn.ops.steps import with_last

__all__ = ["BACKEND", "LIMITS", "gru_gpu"]

LIMITS = {torch.float32: 128, torch.float64: 64}
"""Of how many numbers a state may consist, by the type in which it is kept."""


@torch.library.custom_op(
    "eigenrnn::gru_gpu",
    mutates_args=(),
    schema="(Tensor x, Tensor W, Tensor h0, Tensor? bias, Tensor? recurrent_bias, "
    f"{OPTIONS}, bool keep) -> (Tensor, Tensor)",
)
def gru_gpu(  # noqa: PLR0913, every backend's
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
    """Evaluate the states in one launch, and r, u, q and c where they will be asked for."""
    from eigenrnn.ops.gru.triton_kernels import gru_forward

    h, gates = made = _results(x, h0, keep)
    T, B, N = h.shape
    if not h.numel():
        return made
    Wt = W.reshape(3, N, N).transpose(1, 2).contiguous()
    lengths = lengths_of(batch_sizes, B, x.device)
    vectors = (Wt if v is None else v.contiguous() for v in (bias, recurrent_bias, lengths))
    arguments = x, Wt, h0.contiguous(), *vectors, h, gates, T, B, N, *x.stride()
    launch(
        gru_forward,
        *(B, N, arguments, nonlinearity, bias, lengths is not None, reverse),
        SHIFTED=recurrent_bias is not None,
        RESET_AFTER=reset_after,
        UPDATE_KEEPS=update_keeps,
        KEEP=keep,
    )
    return made


@torch.library.custom_op(
    "eigenrnn::gru_gpu_backward",
    mutates_args=(),
    schema="(Tensor g, Tensor h, Tensor gates, Tensor W, Tensor h0, Tensor? bias, "
    f"{OPTIONS}) -> (Tensor, Tensor, Tensor)",
)
def _gru_gpu_backward(  # noqa: PLR0913, every backend's
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
    """Return the gradients of x, of q (none if the reset is before W) and of h0."""
    from eigenrnn.ops.gru.triton_kernels import gru_backward

    made = _gradients(h, reset_after)
    T, B, N = h.shape
    if not h.numel():
        return made
    rows = W.contiguous()
    lengths = lengths_of(batch_sizes, B, g.device)
    vectors = (rows if v is None else v.contiguous() for v in (bias, lengths))
    tensors = g, rows, h0.contiguous(), *vectors, h.contiguous(), gates.contiguous(), *made
    launch(
        gru_backward,
        B,
        N,
        (*tensors, T, B, N, *g.stride()),
        *(nonlinearity, bias, lengths is not None, reverse),
        RESET_AFTER=reset_after,
        UPDATE_KEEPS=update_keeps,
    )
    return made


def _results(x: Tensor, h0: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    T, (B, N) = x.shape[0], h0.shape
    return x.new_empty(T, B, N), x.new_empty(T if keep else 0, B, 4 * N)


def _gradients(h: Tensor, reset_after: bool) -> tuple[Tensor, Tensor, Tensor]:
    T, B, N = h.shape
    dq = h.new_empty(T if reset_after else 0, B, N)
    return h.new_empty(T, B, 3 * N), dq, h.new_empty(B, N)


@gru_gpu.register_fake
def _(x: Tensor, W: Tensor, h0: Tensor, *options: Any) -> tuple[Tensor, Tensor]:  # noqa: ARG001, the operator's signature
    return _results(x, h0, options[-1])


@_gru_gpu_backward.register_fake
def _(g: Tensor, h: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG001, the operator's signature
    return _gradients(h, others[5])


differentiate(gru_gpu, _gru_gpu_backward)


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
    h, _ = gru_gpu(*tensors, *form, keep)
    *_, batch_sizes, reverse = form
    return with_last(h, batch_sizes, reverse)


BACKEND = Backend(
    name="gpu",
    run=_run,
    about=ABOUT,
    dtypes=REAL,
    missing=missing,
    refuses=refuses(LIMITS),
    reluctant=reluctant,
)
