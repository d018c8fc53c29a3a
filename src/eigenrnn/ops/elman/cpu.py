"""The Elman recurrence in the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, pairs_to_complex, real_matrix_of_complex
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
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend
from eigenrnn.ops.elman.backward import gradients
from eigenrnn.ops.inplace_nonlinearities import moduli_like
from eigenrnn.tracing import is_batched, under_transform

__all__ = ["BACKEND", "elman_cpu", "forward_arguments"]

_OPTIONS = "str nonlinearity, SymInt[]? batch_sizes, bool reverse"
_INPUTS = 8  # x, W, h0, bias, U, c, V, d: the differentiable inputs, in this order


@torch.library.custom_op(
    "eigenrnn::elman_cpu",
    mutates_args=(),
    schema="(Tensor x, Tensor W, Tensor h0, Tensor? bias, Tensor? U, Tensor? c, Tensor? V, "
    f"Tensor? d, {_OPTIONS}, bool last_only) -> (Tensor, Tensor, Tensor, Tensor)",
)
def elman_cpu(  # noqa: PLR0913, the tensors and the options
    x: Tensor,  # (T, B, N) or (T, B, M)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
    V: Tensor | None,  # (K, N)
    d: Tensor | None,  # (K,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    last_only: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (T, B, K), (T, B, N / 2)
    """Return all states, the last states, the outputs and the moduli of the pre-activations.

    Complex states are pairs of real numbers, and N counts the real numbers. With `last_only`,
    which excludes gradients, no other states are stored. Unused results have no elements: the
    outputs without V, and the moduli without modReLU of pairs.
    """
    x, h0, bias, c, d = contiguous_rows(x, h0, bias, c, d)
    h, last, y, moduli = results = _results(x, W, h0, bias, V, nonlinearity, last_only)
    arguments = x, W, h0, bias, U, c, V, d, nonlinearity, batch_sizes, reverse
    used_moduli = moduli if len(moduli) else None
    buffers = None if last_only else h, last, None if V is None else y, used_moduli
    kernels.elman_forward(*forward_arguments(*arguments, *buffers))
    return results


@torch.library.custom_op(
    "eigenrnn::elman_cpu_backward",
    mutates_args=(),
    schema="(Tensor? g, Tensor? g_last, Tensor? g_y, Tensor? x, Tensor W, Tensor h0, "
    "Tensor? bias, Tensor? U, Tensor? V, Tensor h, Tensor moduli, bool[] needed, "
    f"{_OPTIONS}) -> Tensor[]",
)
def _elman_cpu_backward(  # noqa: PLR0913, the tensors and the options
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    g_y: Tensor | None,  # (T, B, K), with V
    x: Tensor | None,  # (T, B, M), with U
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    V: Tensor | None,  # (K, N)
    h: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    needed: Sequence[bool],
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> list[Tensor]:
    """Return the requested gradients, among those of x, W, h0, bias, U, c, V and d."""
    x, h0, bias = contiguous_rows(x, h0, bias)
    gradients_or_none = _gradients(x, W, h0, U, V, h, needed)
    dx, dW, dh0, dbias, dU, dc, dV, dd = gradients_or_none
    g, g_last = rows(g), rows(g_last)
    if g_y is not None and dd is not None:
        torch.sum(g_y, (0, 1), out=dd)
    end = (0, 0, 0) if g_last is None else (g_last.data_ptr(), 0, g_last.stride(0))
    start = (0, 0, 0) if dh0 is None else (dh0.data_ptr(), 0, dh0.stride(0))
    dUt, dWt = (pointer(None if d is None else d.T) for d in (dU, dW))
    null, used_moduli = pointer(None), moduli if len(moduli) else None
    number = number_type(g, g_last, g_y, x, W, h0, bias, U, V, h, moduli)
    kernels.elman_backward(
        *_kernel_options(number, h.shape, x, U, bias, V, g_y, nonlinearity, batch_sizes, reverse),
        [*_kernel_views(x, W, h0, bias, U, None, h, used_moduli), null, pointer(V), null, null],
        [
            *(pointer(g), end, pointer(dx), dUt, pointer(dc), dWt, start, pointer(dbias)),
            *(pointer(g_y), pointer(dV)),
        ],
    )
    return [gradient for gradient in gradients_or_none if gradient is not None]


def _results(
    x: Tensor,
    W: Tensor,
    h0: Tensor,
    bias: Tensor | None,
    V: Tensor | None,
    nonlinearity: str,
    last_only: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (T, B, K), (T, B, N / 2)
    """Allocate the results with the layout of the inputs; unused ones have no elements."""
    (T, B, _), N = x.shape, len(W)
    h = W.new_empty(0, B, N) if last_only else _like(x, T, B, N, W)
    y = W.new_empty(0, B, 0) if V is None else _like(x, T, B, len(V), W)
    return h, W.new_empty(h0.shape), y, moduli_like(h, nonlinearity, bias)


def _gradients(
    x: Tensor | None,
    W: Tensor,
    h0: Tensor,
    U: Tensor | None,
    V: Tensor | None,
    h: Tensor,
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """Allocate the requested gradients; the others are None."""
    (T, B, N), M, K = h.shape, 0 if U is None else U.shape[1], 0 if V is None else len(V)
    return [
        (_like(x, T, B, M) if U is not None and x is not None else _like(h, T, B, N))
        if needed[0]
        else None,
        W.new_empty(N, N).T if needed[1] else None,
        h0.new_empty(B, N) if needed[2] else None,
        W.new_empty(N) if needed[3] else None,
        W.new_empty(M, N).T if needed[4] else None,
        W.new_empty(N) if needed[5] else None,
        W.new_empty(K, N) if needed[6] else None,
        W.new_empty(K) if needed[7] else None,
    ]


def _like(
    tensor: Tensor, T: int, B: int, K: int, typed: Tensor | None = None
) -> Tensor:  # (T, B, K)
    typed = tensor if typed is None else typed
    if tensor.stride(0) < tensor.stride(1):
        return empty_buffer(typed, B, T, K).transpose(0, 1)
    return empty_buffer(typed, T, B, K)


@elman_cpu.register_fake
def _(
    x: Tensor,
    W: Tensor,
    h0: Tensor,
    bias: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    _, _, V, _, nonlinearity, _, _, last_only = rest  # U, c, V, d and the options
    return _results(x, W, h0, bias, V, nonlinearity, last_only)


@_elman_cpu_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    x, W, h0, _, U, V, h, _, needed, *_ = arguments[3:]
    return [d for d in _gradients(x, W, h0, U, V, h, needed) if d is not None]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, W, h0, bias, U, _, V, _, *ctx.options, _ = inputs
    h, _, _, moduli = output
    ctx.set_materialize_grads(False)  # usually the loss uses only one of the results
    ctx.save_for_backward(None if U is None else x, W, h0, bias, U, V, h, moduli)


def _backward(
    ctx: Any,
    g: Tensor | None,
    g_last: Tensor | None,
    g_y: Tensor | None,
    g_moduli: Tensor | None,
) -> tuple[Tensor | None, ...]:
    x, W, h0, bias, U, V, h, moduli = ctx.saved_tensors
    g_y = None if V is None else g_y  # without V the outputs are an empty tensor
    g_moduli = g_moduli if len(moduli) else None
    if g is None and g_last is None and g_y is None and g_moduli is None:
        return (None,) * (_INPUTS + 4)
    needed = list(ctx.needs_input_grad[:_INPUTS])
    V_used = None if g_y is None else V
    needed[6:] = [is_needed and V_used is not None for is_needed in needed[6:]]
    saved = x, W, h0, bias, U, V_used, h, moduli
    recorded = torch.is_grad_enabled() or under_transform() or is_batched(g, g_last, g_y)
    if recorded or g_moduli is not None:  # only in second derivatives
        computed = gradients(g, g_last, g_y, *saved, g_moduli, needed, *ctx.options)
    else:
        computed = _elman_cpu_backward(g, g_last, g_y, *saved, needed, *ctx.options)
    remaining = iter(computed)
    return *(next(remaining) if is_needed else None for is_needed in needed), *(None,) * 4


elman_cpu.register_autograd(_backward, setup_context=_setup_context)


def _run(  # noqa: PLR0913, the signature of all backends
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
    V: Tensor | None = None,  # (K, N)
    d: Tensor | None = None,  # (K,)
) -> tuple[Tensor, Tensor]:  # (T, B, N) or (T, B, K), (B, N)
    """Convert dtypes to those that the kernels support, and the results back."""
    options = nonlinearity, batch_sizes, reverse
    if W.dtype == torch.bfloat16:
        exact = [None if v is None else v.float() for v in (x, W, h0, bias, U, c)]
        head = {n: None if v is None else v.float() for n, v in {"V": V, "d": d}.items()}
        h, last = _run(*exact, *options, last_only=last_only, **head)  # type: ignore[arg-type]
        return h.bfloat16(), last.bfloat16()
    if U is not None and U.shape[1] == 0:  # the kernels take M = 0 for no input map
        padded = F.pad(x, (0, 1)), W, h0, bias, F.pad(U, (0, 1)), c
        return _run(*padded, *options, last_only=last_only, V=V, d=d)
    if not W.is_complex():
        h, last, y, _ = elman_cpu(x, W, h0, bias, U, c, V, d, *options, last_only)
        return h if V is None else y, last
    if nonlinearity == "modrelu" and bias is not None:
        options = "modrelu_paired", batch_sizes, reverse
    h, last, *_ = elman_cpu(
        complex_to_pairs(x) if x.is_complex() else x,
        real_matrix_of_complex(W),
        complex_to_pairs(h0),
        None if bias is None else bias.repeat_interleave(2),
        _map_of_pairs(U, x),
        None if c is None else complex_to_pairs(c),
        None,
        None,
        *options,
        last_only,
    )
    return pairs_to_complex(h), pairs_to_complex(last)


def _map_of_pairs(U: Tensor | None, x: Tensor) -> Tensor | None:  # (2N, M) or (2N, 2M)
    """Return a complex map of real or complex inputs as a real matrix."""
    if U is None:
        return None
    return real_matrix_of_complex(U) if x.is_complex() else complex_to_pairs(U.T).T


def _fuses_head(V: Tensor) -> bool:
    """Whether the kernel computes the outputs; more outputs than units get a separate product."""
    return V.device.type == "cpu" and not V.is_complex() and V.shape[0] <= V.shape[1]


def forward_arguments(  # noqa: PLR0913, all arguments of a kernel
    x: Tensor,  # (T, B, N) or (T, B, M)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
    V: Tensor | None,  # (K, N)
    d: Tensor | None,  # (K,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    h: Tensor | None,  # (T, B, N)
    last: Tensor,  # (B, N)
    y: Tensor | None,  # (T, B, K)
    moduli: Tensor | None = None,  # (T, B, N / 2), of modReLU of pairs
) -> tuple[Any, ...]:
    """Return the arguments of `elman_forward`.

    They hold addresses, so the tensors must outlive the call.
    """
    shape = *x.shape[:2], len(W)
    number = number_type(x, W, h0, bias, U, c, V, d)
    call = _kernel_options(number, shape, x, U, bias, V, None, nonlinearity, batch_sizes, reverse)
    views = _kernel_views(x, W, h0, bias, U, c, h, moduli)
    end = last.data_ptr(), 0, last.shape[1]
    return *call, [*views, end, pointer(V), pointer(d), pointer(y)]


def _kernel_options(  # noqa: PLR0913, the options of a kernel
    number: str,
    shape: Sequence[int],
    x: Tensor | None,
    U: Tensor | None,
    bias: Tensor | None,
    V: Tensor | None,
    g_y: Tensor | None,
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Any, ...]:
    """Return the arguments of either kernel before the addresses."""
    T, B, N = shape
    M = 0 if U is None or x is None else x.shape[2]
    outputs = 0 if V is None else len(V), 1 if g_y is None else g_y.stride(2)
    f, slope = activation(nonlinearity, bias)
    sizes = None if batch_sizes is None else list(batch_sizes)
    return number, torch.get_num_threads(), (T, B, N, M), outputs, sizes, reverse, f, slope


def _kernel_views(  # noqa: PLR0913, the tensors
    x: Tensor | None,
    W: Tensor,
    h0: Tensor,
    bias: Tensor | None,
    U: Tensor | None,
    c: Tensor | None,
    h: Tensor | None,
    moduli: Tensor | None,
) -> list[tuple[int, int, int]]:
    """Return the addresses and strides that both kernels share."""
    start = h0.data_ptr(), 0, h0.stride(0)
    maps = pointer(x), pointer(U), pointer(c), pointer(W)
    return [*maps, start, pointer(bias), pointer(h), pointer(moduli)]


BACKEND = Backend(
    name="cpu",
    run=_run,
    description=DESCRIPTION,
    dtypes=(REAL | COMPLEX) - {torch.float16},
    unavailable=unavailable,
    unsupported=unsupported,
    supports_last_only=True,
    fuses_head=_fuses_head,
)
