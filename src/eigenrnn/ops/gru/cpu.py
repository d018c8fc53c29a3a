"""The gated recurrence by the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.backend import REAL, Backend
from eigenrnn.ops.compiled import (
    ABOUT,
    activation,
    fresh,
    kernels,
    missing,
    number_type,
    pointer,
    readable,
    refuses,
    rows,
)
from eigenrnn.ops.gru.backward import OPTIONS
from eigenrnn.ops.gru.differentiable import gradients
from eigenrnn.tracing import is_batched, under_transform

__all__ = ["BACKEND", "gru_cpu"]

_WANTED = 7  # x, W, h0, bias, recurrent_bias, U, c: what gradients are asked for, in this order


@torch.library.custom_op(
    "eigenrnn::gru_cpu",
    mutates_args=(),
    schema="(Tensor x, Tensor W, Tensor h0, Tensor? bias, Tensor? recurrent_bias, Tensor? U, "
    f"Tensor? c, {OPTIONS}, bool keep, bool last_only) -> (Tensor, Tensor, Tensor)",
)
def gru_cpu(  # noqa: PLR0913, the tensors and how to run over them
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
    keep: bool,
    last_only: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (T, B, vectors, parts, lanes)
    """Evaluate all states and the last ones, and keep what a backward pass will ask for.

    If the last ones alone are wanted, which leaves no gradients, no others are kept.
    """
    x, h0, bias, recurrent_bias, c = readable(x, h0, bias, recurrent_bias, c)
    h, last, kept = _outputs(x, W, h0, reset_after, keep, last_only)
    form = nonlinearity, reset_after, update_keeps, batch_sizes, reverse
    number = number_type(x, W, h0, bias, recurrent_bias, U, c)
    kernels.gru_forward(
        *_call(number, W, x, x if U is not None else None, bias, *form),
        [
            *_views(x, W, h0, bias, recurrent_bias, U, c, None if last_only else h),
            (last.data_ptr(), 0, last.shape[1]),
            (kept.data_ptr() if keep else 0, 0, 0),
        ],
    )
    return h, last, kept


@torch.library.custom_op(
    "eigenrnn::gru_cpu_backward",
    mutates_args=(),
    schema="(Tensor? g, Tensor? g_last, Tensor? x, Tensor W, Tensor h0, Tensor? bias, Tensor? U, "
    f"Tensor h, Tensor kept, bool[] wanted, {OPTIONS}) -> Tensor[]",
)
def _gru_cpu_backward(  # noqa: PLR0913, the tensors and how to run over them
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
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
    """Return the wanted ones of the gradients of x, W, h0, bias, recurrent_bias, U and c."""
    x, h0, bias = readable(x, h0, bias)
    made = _gradients(x, W, h0, U, h, wanted)
    dx, dW, dh0, dbias, drecurrent_bias, dU, dc = made
    g, g_last = rows(g), rows(g_last)
    end = (0, 0, 0) if g_last is None else (g_last.data_ptr(), 0, g_last.stride(0))
    start = (0, 0, 0) if dh0 is None else (dh0.data_ptr(), 0, dh0.stride(0))
    dUt, dWt = (pointer(None if d is None else d.T) for d in (dU, dW))
    biases = pointer(dbias), pointer(drecurrent_bias)
    form = nonlinearity, reset_after, update_keeps, batch_sizes, reverse
    number = number_type(g, g_last, x, W, h0, bias, U, h, kept)
    kernels.gru_backward(
        *_call(number, W, h, x, bias, *form),
        [*_views(x, W, h0, bias, None, U, None, h), (0, 0, 0), (kept.data_ptr(), 0, 0)],
        [pointer(g), end, pointer(dx), dUt, pointer(dc), dWt, start, *biases],
    )
    return [gradient for gradient in made if gradient is not None]


def _outputs(
    x: Tensor, W: Tensor, h0: Tensor, reset_after: bool, keep: bool, last_only: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Make the buffers of all states, laid out as the inputs are, of the last, and of the gates.

    The gates of a vector of units lie side by side, and each fills a whole vector: r, u and c,
    and, if the reset comes after the matrix, what it resets.
    """
    (T, B, _), N = x.shape, W.shape[1]
    lanes = kernels.vector_bytes // W.dtype.itemsize
    parts = (4 if reset_after else 3) if keep else 0
    kept = fresh(W, T, B, (N + lanes - 1) // lanes, parts, lanes)
    h = W.new_empty(0, B, N) if last_only else _like(x, T, B, N)
    return h, W.new_empty(h0.shape), kept


def _gradients(
    x: Tensor | None,
    W: Tensor,
    h0: Tensor,
    U: Tensor | None,
    h: Tensor,
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """Make the buffers of those that are wanted."""
    (T, B, N), M = h.shape, 0 if U is None else U.shape[1]
    like, width = (h, 3 * N) if x is None else (x, M)
    return [
        _like(like, T, B, width) if wanted[0] else None,
        W.new_empty(N, 3 * N).T if wanted[1] else None,
        h0.new_empty(B, N) if wanted[2] else None,
        W.new_empty(N) if wanted[3] else None,
        W.new_empty(N) if wanted[4] else None,
        W.new_empty(M, 3 * N).T if wanted[5] else None,
        W.new_empty(3 * N) if wanted[6] else None,
    ]


def _like(tensor: Tensor, T: int, B: int, K: int) -> Tensor:  # (T, B, K)
    if tensor.stride(0) < tensor.stride(1):
        return fresh(tensor, B, T, K).transpose(0, 1)
    return fresh(tensor, T, B, K)


def _call(  # noqa: PLR0913, what kernels are told beside the tensors
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


def _views(  # noqa: PLR0913, the tensors
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
    *_, reset_after, _, _, _, keep, last_only = options
    return _outputs(x, W, h0, reset_after, keep, last_only)


@_gru_cpu_backward.register_fake
def _(g: Any, g_last: Any, x: Any, W: Tensor, h0: Tensor, *rest: Any) -> list[Tensor]:  # noqa: ARG001
    _, U, h, _, wanted, *_ = rest
    return [d for d in _gradients(x, W, h0, U, h, wanted) if d is not None]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, W, h0, bias, _, U, _, *ctx.options, _, _ = inputs
    h, _, kept = output
    ctx.set_materialize_grads(False)  # of the states and the last ones, mostly one is used
    ctx.save_for_backward(None if U is None else x, W, h0, bias, U, h, kept)


def _pull_back(
    ctx: Any, g: Tensor | None, g_last: Tensor | None, g_kept: Tensor | None
) -> tuple[Tensor | None, ...]:
    x, W, h0, bias, U, h, kept = ctx.saved_tensors
    wanted, form = list(ctx.needs_input_grad[:_WANTED]), ctx.options
    if g is None and g_last is None and g_kept is None:
        return (None,) * (_WANTED + len(form) + 2)
    recorded = torch.is_grad_enabled() or under_transform() or is_batched(g, g_last)
    if recorded or g_kept is not None:  # which comes from second derivatives alone
        made = gradients(g, g_last, g_kept, x, W, h0, bias, U, h, kept, wanted, *form)
    else:
        made = _gru_cpu_backward(g, g_last, x, W, h0, bias, U, h, kept, wanted, *form)
    found = iter(made)
    return *(next(found) if wants else None for wants in wanted), *(None,) * (len(form) + 2)


gru_cpu.register_autograd(_pull_back, setup_context=_remember)


def _run(  # noqa: PLR0913, every backend's
    x: Tensor,  # (T, B, 3 N) or (T, B, M)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (3 N, M)
    c: Tensor | None,  # (3 N,)
    *form: Any,
    last_only: bool = False,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Bring the types to those that kernels know, and back."""
    given = x, W, h0, bias, recurrent_bias, U, c
    if W.dtype == torch.bfloat16:
        exact = (None if v is None else v.float() for v in given)
        h, last = _run(*exact, *form, last_only=last_only)  # type: ignore[arg-type]
        return h.bfloat16(), last.bfloat16()
    if U is not None and U.shape[1] == 0:  # to kernels, no channels mean no map
        padded = F.pad(x, (0, 1)), *given[1:5], F.pad(U, (0, 1)), c
        return _run(*padded, *form, last_only=last_only)
    keep = torch.is_grad_enabled() and any(v is not None and v.requires_grad for v in given)
    h, last, _ = gru_cpu(*given, *form, keep, last_only)
    return h, last


BACKEND = Backend(
    name="cpu",
    run=_run,
    about=ABOUT,
    dtypes=REAL - {torch.float16},
    missing=missing,
    refuses=refuses,
    forgets=True,
)
