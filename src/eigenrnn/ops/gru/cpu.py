"""The gated recurrence in the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.compiled import (
    DESCRIPTION,
    activation,
    contiguous_rows,
    empty_buffer,
    kernels,
    number_type,
    pointer,
    rows,
    unavailable,
    unsupported,
)
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.gru.backward import OPTIONS, gradients
from eigenrnn.tracing import is_batched, under_transform

__all__ = ["BACKEND", "gru_cpu"]

_INPUTS = 7  # x, W, h0, bias, recurrent_bias, U, c: the differentiable inputs, in this order


@torch.library.custom_op(
    "eigenrnn::gru_cpu",
    mutates_args=(),
    schema="(Tensor x, Tensor W, Tensor h0, Tensor? bias, Tensor? recurrent_bias, Tensor? U, "
    f"Tensor? c, {OPTIONS}, bool save, bool last_only) -> (Tensor, Tensor, Tensor)",
)
def gru_cpu(  # noqa: PLR0913, the tensors and the options
    x: Tensor,  # (T, B, 3 N) or (T, B, M)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (3 N, M)
    c: Tensor | None,  # (3 N,)
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    save: bool,
    last_only: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (T, B, vectors, parts, lanes)
    """Return all states, the last states and, with `save`, the gates for a backward pass.

    With `last_only`, which excludes gradients, no other states are stored.
    """
    x, h0, bias, recurrent_bias, c = contiguous_rows(x, h0, bias, recurrent_bias, c)
    h, last, saved = _results(x, W, h0, reset_after, save, last_only)
    options = nonlinearity, reset_after, update_keeps, batch_sizes, reverse
    number = number_type(x, W, h0, bias, recurrent_bias, U, c)
    kernels.gru_forward(
        *_kernel_options(number, W, x, x if U is not None else None, bias, *options),
        [
            *_kernel_views(x, W, h0, bias, recurrent_bias, U, c, None if last_only else h),
            (last.data_ptr(), 0, last.shape[1]),
            (saved.data_ptr() if save else 0, 0, 0),
        ],
    )
    return h, last, saved


@torch.library.custom_op(
    "eigenrnn::gru_cpu_backward",
    mutates_args=(),
    schema="(Tensor? g, Tensor? g_last, Tensor? x, Tensor W, Tensor h0, Tensor? bias, Tensor? U, "
    f"Tensor h, Tensor saved, bool[] needed, {OPTIONS}) -> Tensor[]",
)
def _gru_cpu_backward(  # noqa: PLR0913, the tensors and the options
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
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
    """Return the requested gradients, among those of x, W, h0, both biases, U and c."""
    x, h0, bias = contiguous_rows(x, h0, bias)
    gradients_or_none = _gradients(x, W, h0, U, h, needed)
    dx, dW, dh0, dbias, drecurrent_bias, dU, dc = gradients_or_none
    g, g_last = rows(g), rows(g_last)
    end = (0, 0, 0) if g_last is None else (g_last.data_ptr(), 0, g_last.stride(0))
    start = (0, 0, 0) if dh0 is None else (dh0.data_ptr(), 0, dh0.stride(0))
    dUt, dWt = (pointer(None if d is None else d.T) for d in (dU, dW))
    biases = pointer(dbias), pointer(drecurrent_bias)
    options = nonlinearity, reset_after, update_keeps, batch_sizes, reverse
    number = number_type(g, g_last, x, W, h0, bias, U, h, saved)
    kernels.gru_backward(
        *_kernel_options(number, W, h, x, bias, *options),
        [*_kernel_views(x, W, h0, bias, None, U, None, h), (0, 0, 0), (saved.data_ptr(), 0, 0)],
        [pointer(g), end, pointer(dx), dUt, pointer(dc), dWt, start, *biases],
    )
    return [gradient for gradient in gradients_or_none if gradient is not None]


def _results(
    x: Tensor, W: Tensor, h0: Tensor, reset_after: bool, save: bool, last_only: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Allocate all states, with the layout of the inputs, the last states and the gates.

    The gates of one vector of units are stored side by side, each padded to a whole vector: r, u
    and c and, if the reset is after the matrix, the product that it multiplies.
    """
    (T, B, _), N = x.shape, W.shape[1]
    lanes = kernels.vector_bytes // W.dtype.itemsize
    parts = (4 if reset_after else 3) if save else 0
    saved = empty_buffer(W, T, B, (N + lanes - 1) // lanes, parts, lanes)
    h = W.new_empty(0, B, N) if last_only else _like(x, T, B, N)
    return h, W.new_empty(h0.shape), saved


def _gradients(
    x: Tensor | None,
    W: Tensor,
    h0: Tensor,
    U: Tensor | None,
    h: Tensor,
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """Allocate the requested gradients; the others are None."""
    (T, B, N), M = h.shape, 0 if U is None else U.shape[1]
    like, width = (h, 3 * N) if x is None else (x, M)
    return [
        _like(like, T, B, width) if needed[0] else None,
        W.new_empty(N, 3 * N).T if needed[1] else None,
        h0.new_empty(B, N) if needed[2] else None,
        W.new_empty(N) if needed[3] else None,
        W.new_empty(N) if needed[4] else None,
        W.new_empty(M, 3 * N).T if needed[5] else None,
        W.new_empty(3 * N) if needed[6] else None,
    ]


def _like(tensor: Tensor, T: int, B: int, K: int) -> Tensor:  # (T, B, K)
    if tensor.stride(0) < tensor.stride(1):
        return empty_buffer(tensor, B, T, K).transpose(0, 1)
    return empty_buffer(tensor, T, B, K)


def _kernel_options(  # noqa: PLR0913, the options of a kernel
    number: str,
    W: Tensor,
    steps: Tensor,  # (T, B, any)
    mapped: Tensor | None,  # (T, B, M), the inputs if U maps them
    bias: Tensor | None,
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Any, ...]:
    shape = *steps.shape[:2], W.shape[1], 0 if mapped is None else mapped.shape[2]
    f, slope = activation(nonlinearity, bias)
    sizes = None if batch_sizes is None else list(batch_sizes)
    threads = torch.get_num_threads()
    return number, threads, shape, sizes, reverse, f, slope, reset_after, update_keeps


def _kernel_views(  # noqa: PLR0913, the tensors
    x: Tensor | None,
    W: Tensor,
    h0: Tensor,
    bias: Tensor | None,
    recurrent_bias: Tensor | None,
    U: Tensor | None,
    c: Tensor | None,
    h: Tensor | None,
) -> list[tuple[int, int, int]]:
    start = h0.data_ptr(), 0, h0.stride(0)
    biases = pointer(bias), pointer(recurrent_bias)
    return [pointer(x), pointer(U), pointer(c), pointer(W), start, *biases, pointer(h)]


@gru_cpu.register_fake
def _(x: Tensor, W: Tensor, h0: Tensor, *options: Any) -> tuple[Tensor, Tensor, Tensor]:
    *_, reset_after, _, _, _, save, last_only = options
    return _results(x, W, h0, reset_after, save, last_only)


@_gru_cpu_backward.register_fake
def _(g: Any, g_last: Any, x: Any, W: Tensor, h0: Tensor, *rest: Any) -> list[Tensor]:  # noqa: ARG001
    _, U, h, _, needed, *_ = rest
    return [d for d in _gradients(x, W, h0, U, h, needed) if d is not None]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, W, h0, bias, _, U, _, *ctx.options, _, _ = inputs
    h, _, saved = output
    ctx.set_materialize_grads(False)  # usually the loss uses only one of the results
    ctx.save_for_backward(None if U is None else x, W, h0, bias, U, h, saved)


def _backward(
    ctx: Any, g: Tensor | None, g_last: Tensor | None, g_saved: Tensor | None
) -> tuple[Tensor | None, ...]:
    x, W, h0, bias, U, h, saved = ctx.saved_tensors
    needed, options = list(ctx.needs_input_grad[:_INPUTS]), ctx.options
    if g is None and g_last is None and g_saved is None:
        return (None,) * (_INPUTS + len(options) + 2)
    recorded = torch.is_grad_enabled() or under_transform() or is_batched(g, g_last)
    if recorded or g_saved is not None:  # only in second derivatives
        computed = gradients(g, g_last, g_saved, x, W, h0, bias, U, h, saved, needed, *options)
    else:
        computed = _gru_cpu_backward(g, g_last, x, W, h0, bias, U, h, saved, needed, *options)
    remaining = iter(computed)
    found = (next(remaining) if is_needed else None for is_needed in needed)
    return *found, *(None,) * (len(options) + 2)


gru_cpu.register_autograd(_backward, setup_context=_setup_context)


def _run(  # noqa: PLR0913, the signature of all backends
    x: Tensor,  # (T, B, 3 N) or (T, B, M)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (3 N, M)
    c: Tensor | None,  # (3 N,)
    *options: Any,
    last_only: bool = False,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Convert dtypes to those that the kernels support, and the results back."""
    tensors = x, W, h0, bias, recurrent_bias, U, c
    if W.dtype == torch.bfloat16:
        exact = (None if v is None else v.float() for v in tensors)
        h, last = _run(*exact, *options, last_only=last_only)  # type: ignore[arg-type]
        return h.bfloat16(), last.bfloat16()
    if U is not None and U.shape[1] == 0:  # the kernels take M = 0 for no input map
        padded = F.pad(x, (0, 1)), *tensors[1:5], F.pad(U, (0, 1)), c
        return _run(*padded, *options, last_only=last_only)
    save = torch.is_grad_enabled() and any(v is not None and v.requires_grad for v in tensors)
    h, last, _ = gru_cpu(*tensors, *options, save, last_only)
    return h, last


BACKEND = Backend(
    name="cpu",
    run=_run,
    description=DESCRIPTION,
    dtypes=REAL - {torch.float16},
    unavailable=unavailable,
    unsupported=unsupported,
    supports_last_only=True,
)
