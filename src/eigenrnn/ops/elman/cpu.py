"""The Elman recurrence by the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.backend import Backend
from eigenrnn.ops.compiled import (
    ABOUT,
    activation,
    fresh,
    kernels,
    missing,
    pointer,
    refuses,
    rows,
)
from eigenrnn.ops.elman.differentiable import gradients
from eigenrnn.ops.paired import as_complex, as_pairs, matrix_of_pairs
from eigenrnn.transforms import is_batched, under_transform

__all__ = ["BACKEND", "elman_cpu"]

_OPTIONS = "str nonlinearity, SymInt[]? batch_sizes, bool reverse"
_WANTED = 6  # x, W, h0, bias, U, c: what gradients are asked for, in this order


@torch.library.custom_op(
    "eigenrnn::elman_cpu",
    mutates_args=(),
    schema="(Tensor x, Tensor W, Tensor h0, Tensor? bias, Tensor? U, Tensor? c, "
    f"{_OPTIONS}, bool last_only) -> (Tensor, Tensor)",
)
def elman_cpu(  # noqa: PLR0913, the tensors and how to run over them
    x: Tensor,  # (T, B, N) or (T, B, M)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    last_only: bool,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Evaluate the recurrence and return all states and the last ones; pairs count as N.

    If the last ones alone are wanted, which leaves no gradients, no others are kept.
    """
    h, last = _states(x, W, last_only), W.new_empty(h0.shape)
    views = _views(x, W, h0, bias, U, c, None if last_only else h)
    shape = *x.shape[:2], len(W)
    call = _call(W.dtype, shape, x, U, bias, nonlinearity, batch_sizes, reverse)
    kernels.elman_forward(*call, [*views, (last.data_ptr(), 0, last.shape[1])])
    return h, last


@torch.library.custom_op(
    "eigenrnn::elman_cpu_backward",
    mutates_args=(),
    schema="(Tensor? g, Tensor? g_last, Tensor? x, Tensor W, Tensor h0, Tensor? bias, Tensor? U, "
    f"Tensor h, bool[] wanted, {_OPTIONS}) -> Tensor[]",
)
def _elman_cpu_backward(  # noqa: PLR0913, the tensors and how to run over them
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    x: Tensor | None,  # (T, B, M), with U
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    h: Tensor,  # (T, B, N)
    wanted: Sequence[bool],
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> list[Tensor]:
    """Return the wanted ones of the gradients of x, W, h0, bias, U and c."""
    made = _gradients(x, W, h0, U, h, wanted)
    dx, dW, dh0, dbias, dU, dc = made
    g, g_last = rows(g), rows(g_last)
    end = (0, 0, 0) if g_last is None else (g_last.data_ptr(), 0, g_last.stride(0))
    start = (0, 0, 0) if dh0 is None else (dh0.data_ptr(), 0, dh0.stride(0))
    dUt, dWt = (pointer(None if d is None else d.T) for d in (dU, dW))
    kernels.elman_backward(
        *_call(h.dtype, h.shape, x, U, bias, nonlinearity, batch_sizes, reverse),
        [*_views(x, W, h0, bias, U, None, h), (0, 0, 0)],
        [pointer(g), end, pointer(dx), dUt, pointer(dc), dWt, start, pointer(dbias)],
    )
    return [gradient for gradient in made if gradient is not None]


def _states(x: Tensor, W: Tensor, last_only: bool) -> Tensor:  # (T, B, N), or none at all
    """Make the buffer of all states, laid out as the inputs are."""
    T, B, _ = x.shape
    if last_only:
        return W.new_empty(0, B, W.shape[0])
    if x.stride(0) < x.stride(1):
        return fresh(W, B, T, W.shape[0]).transpose(0, 1)
    return fresh(W, T, B, W.shape[0])


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
    return [
        (_like(x, T, B, M) if U is not None and x is not None else _like(h, T, B, N))
        if wanted[0]
        else None,
        W.new_empty(N, N).T if wanted[1] else None,
        h0.new_empty(B, N) if wanted[2] else None,
        W.new_empty(N) if wanted[3] else None,
        W.new_empty(M, N).T if wanted[4] else None,
        W.new_empty(N) if wanted[5] else None,
    ]


def _like(tensor: Tensor, T: int, B: int, K: int) -> Tensor:  # (T, B, K)
    if tensor.stride(0) < tensor.stride(1):
        return fresh(tensor, B, T, K).transpose(0, 1)
    return fresh(tensor, T, B, K)


def _call(  # noqa: PLR0913, what kernels are told beside the tensors
    dtype: torch.dtype,
    shape: Sequence[int],
    x: Tensor | None,
    U: Tensor | None,
    bias: Tensor | None,
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Any, ...]:
    T, B, N = shape
    M = 0 if U is None or x is None else x.shape[2]
    number, slope = activation(nonlinearity, bias)
    sizes = None if batch_sizes is None else list(batch_sizes)
    twice, threads = dtype == torch.float64, torch.get_num_threads()
    return twice, threads, (T, B, N, M), sizes, reverse, number, slope


def _views(
    x: Tensor | None,
    W: Tensor,
    h0: Tensor,
    bias: Tensor | None,
    U: Tensor | None,
    c: Tensor | None,
    h: Tensor | None,
) -> list[tuple[int, int, int]]:
    start = h0.data_ptr(), 0, h0.stride(0)
    return [pointer(x), pointer(U), pointer(c), pointer(W), start, pointer(bias), pointer(h)]


@elman_cpu.register_fake
def _(x: Tensor, W: Tensor, h0: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    return _states(x, W, options[-1]), W.new_empty(h0.shape)


@_elman_cpu_backward.register_fake
def _(g: Any, g_last: Any, x: Any, W: Tensor, h0: Tensor, *rest: Any) -> list[Tensor]:  # noqa: ARG001
    _, U, h, wanted, *_ = rest
    return [d for d in _gradients(x, W, h0, U, h, wanted) if d is not None]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, W, h0, bias, U, _, *ctx.options, _ = inputs
    ctx.set_materialize_grads(False)  # of the states and the last ones, mostly one is used
    ctx.save_for_backward(None if U is None else x, W, h0, bias, U, output[0])


def _pull_back(ctx: Any, g: Tensor | None, g_last: Tensor | None) -> tuple[Tensor | None, ...]:
    x, W, h0, bias, U, h = ctx.saved_tensors
    wanted = list(ctx.needs_input_grad[:_WANTED])
    if g is None and g_last is None:
        return (None,) * (_WANTED + 4)
    differentiable = torch.is_grad_enabled() or under_transform() or is_batched(g, g_last)
    back = gradients if differentiable else _elman_cpu_backward
    found = iter(back(g, g_last, x, W, h0, bias, U, h, wanted, *ctx.options))
    return *(next(found) if wants else None for wants in wanted), *(None,) * 4


elman_cpu.register_autograd(_pull_back, setup_context=_remember)


def _run(  # noqa: PLR0913, every backend's
    x: Tensor,  # (T, B, N) or (T, B, M)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    *,
    last_only: bool = False,
) -> tuple[Tensor, Tensor]:
    """Bring the types to those that kernels know, and back."""
    options = nonlinearity, batch_sizes, reverse
    if W.dtype == torch.bfloat16:
        exact = (None if v is None else v.float() for v in (x, W, h0, bias, U, c))
        h, last = _run(*exact, *options, last_only=last_only)  # type: ignore[arg-type]
        return h.bfloat16(), last.bfloat16()
    if U is not None and U.shape[1] == 0:  # to kernels, no channels mean no map
        padded = F.pad(x, (0, 1)), W, h0, bias, F.pad(U, (0, 1)), c
        return _run(*padded, *options, last_only=last_only)
    if not W.is_complex():
        tensors = rows(x), W, rows(h0), rows(bias), U, rows(c)
        return elman_cpu(*tensors, *options, last_only)
    if nonlinearity == "modrelu" and bias is not None:
        options = "modrelu_paired", batch_sizes, reverse
    h, last = elman_cpu(
        rows(as_pairs(x) if x.is_complex() else x),
        matrix_of_pairs(W),
        rows(as_pairs(h0)),
        None if bias is None else bias.repeat_interleave(2),
        _map_of_pairs(U, x),
        None if c is None else rows(as_pairs(c)),
        *options,
        last_only,
    )
    return as_complex(h), as_complex(last)


def _map_of_pairs(U: Tensor | None, x: Tensor) -> Tensor | None:  # (2N, M) or (2N, 2M)
    """Write a complex map of real or of complex inputs as a real one."""
    if U is None:
        return None
    return matrix_of_pairs(U) if x.is_complex() else as_pairs(U.T).T


BACKEND = Backend(
    name="cpu",
    run=_run,
    about=ABOUT,
    missing=missing,
    refuses=refuses,
    forgets=True,
)
