"""The gated recurrence in Triton kernels, as torch operators.

README.md in this folder explains the design and the limits on N.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.gpu import (
    DESCRIPTION,
    experimental,
    launch,
    sequence_lengths,
    unavailable,
    unsupported,
)
from eigenrnn.ops.gru.backward import OPTIONS, register_gradients
from eigenrnn.ops.time_steps import states_and_last

__all__ = ["BACKEND", "LIMITS", "gru_gpu"]

LIMITS = {torch.float32: 128, torch.float64: 64}
"""The largest number of real numbers in a state, by the dtype that holds it."""


@torch.library.custom_op(
    "eigenrnn::gru_gpu",
    mutates_args=(),
    schema="(Tensor x, Tensor W, Tensor h0, Tensor? bias, Tensor? recurrent_bias, "
    f"{OPTIONS}, bool save) -> (Tensor, Tensor)",
)
def gru_gpu(  # noqa: PLR0913, the signature of all backends
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
    """Evaluate the states in one launch; with `save` also return r, u, q and c."""
    from eigenrnn.ops.gru.triton_kernels import gru_forward

    h, gates = results = _results(x, h0, save)
    T, B, N = h.shape
    if not h.numel():
        return results
    Wt = W.reshape(3, N, N).transpose(1, 2).contiguous()
    lengths = sequence_lengths(batch_sizes, B, x.device)
    vectors = (Wt if v is None else v.contiguous() for v in (bias, recurrent_bias, lengths))
    arguments = x, Wt, h0.contiguous(), *vectors, h, gates, T, B, N, *x.stride()
    launch(
        gru_forward,
        *(B, N, arguments, nonlinearity, bias, lengths is not None, reverse),
        SHIFTED=recurrent_bias is not None,
        RESET_AFTER=reset_after,
        UPDATE_KEEPS=update_keeps,
        SAVE=save,
    )
    return results


@torch.library.custom_op(
    "eigenrnn::gru_gpu_backward",
    mutates_args=(),
    schema="(Tensor g, Tensor h, Tensor gates, Tensor W, Tensor h0, Tensor? bias, "
    f"{OPTIONS}) -> (Tensor, Tensor, Tensor)",
)
def _gru_gpu_backward(  # noqa: PLR0913, the signature of all backends
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
    """Return the gradients of x, of q (empty if the reset is before W) and of h0."""
    from eigenrnn.ops.gru.triton_kernels import gru_backward

    gradients = _gradients(h, reset_after)
    T, B, N = h.shape
    if not h.numel():
        return gradients
    rows = W.contiguous()
    lengths = sequence_lengths(batch_sizes, B, g.device)
    vectors = (rows if v is None else v.contiguous() for v in (bias, lengths))
    tensors = g, rows, h0.contiguous(), *vectors, h.contiguous(), gates.contiguous(), *gradients
    launch(
        gru_backward,
        B,
        N,
        (*tensors, T, B, N, *g.stride()),
        *(nonlinearity, bias, lengths is not None, reverse),
        RESET_AFTER=reset_after,
        UPDATE_KEEPS=update_keeps,
    )
    return gradients


def _results(x: Tensor, h0: Tensor, save: bool) -> tuple[Tensor, Tensor]:
    T, (B, N) = x.shape[0], h0.shape
    return x.new_empty(T, B, N), x.new_empty(T if save else 0, B, 4 * N)


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


register_gradients(gru_gpu, _gru_gpu_backward)


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
    h, _ = gru_gpu(*tensors, *options, save)
    *_, batch_sizes, reverse = options
    return states_and_last(h, batch_sizes, reverse)


BACKEND = Backend(
    name="gpu",
    run=_run,
    description=DESCRIPTION,
    dtypes=REAL,
    unavailable=unavailable,
    unsupported=unsupported(LIMITS),
    experimental=experimental,
)
