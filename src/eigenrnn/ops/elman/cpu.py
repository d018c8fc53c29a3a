"""The Elman recurrence by the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.backend import COMPLEX, REAL, Backend
from eigenrnn.ops.compiled import (
    ABOUT,
    fresh,
    kernels,
    missing,
    number_type,
    pointer,
    readable,
    refuses,
    rows,
)
from eigenrnn.ops.elman.arguments import call_of, forward_arguments, views_of
from eigenrnn.ops.elman.differentiable import gradients
from eigenrnn.ops.inplace import moduli_like
from eigenrnn.ops.paired import as_complex, as_pairs, matrix_of_pairs
from eigenrnn.tracing import is_batched, under_transform

__all__ = ["BACKEND", "elman_cpu"]

_OPTIONS = "str nonlinearity, SymInt[]? batch_sizes, bool reverse"
_WANTED = 8  # x, W, h0, bias, U, c, V, d: what gradients are asked for, in this order


@torch.library.custom_op(
    "eigenrnn::elman_cpu",
    mutates_args=(),
    schema="(Tensor x, Tensor W, Tensor h0, Tensor? bias, Tensor? U, Tensor? c, Tensor? V, "
    f"Tensor? d, {_OPTIONS}, bool last_only) -> (Tensor, Tensor, Tensor, Tensor)",
)
def elman_cpu(  # noqa: PLR0913, the tensors and how to run over them
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
    """Evaluate the recurrence and return all states, the last ones, the outputs and the moduli.

    Pairs count as N. If the last ones alone are wanted of the states, which leaves no gradients,
    no others are kept. Without V there are no outputs. Moduli of the pre-activations are there for
    modReLU of pairs alone.
    """
    x, h0, bias, c, d = readable(x, h0, bias, c, d)
    h, last, y, moduli = made = _results(x, W, h0, bias, V, nonlinearity, last_only)
    told = x, W, h0, bias, U, c, V, d, nonlinearity, batch_sizes, reverse
    kept = moduli if len(moduli) else None
    buffers = None if last_only else h, last, None if V is None else y, kept
    kernels.elman_forward(*forward_arguments(*told, *buffers))
    return made


@torch.library.custom_op(
    "eigenrnn::elman_cpu_backward",
    mutates_args=(),
    schema="(Tensor? g, Tensor? g_last, Tensor? g_y, Tensor? x, Tensor W, Tensor h0, "
    "Tensor? bias, Tensor? U, Tensor? V, Tensor h, Tensor moduli, bool[] wanted, "
    f"{_OPTIONS}) -> Tensor[]",
)
def _elman_cpu_backward(  # noqa: PLR0913, the tensors and how to run over them
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
    wanted: Sequence[bool],
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> list[Tensor]:
    """Return the wanted ones of the gradients of x, W, h0, bias, U, c, V and d."""
    x, h0, bias = readable(x, h0, bias)
    made = _gradients(x, W, h0, U, V, h, wanted)
    dx, dW, dh0, dbias, dU, dc, dV, dd = made
    g, g_last = rows(g), rows(g_last)
    if g_y is not None and dd is not None:
        torch.sum(g_y, (0, 1), out=dd)
    end = (0, 0, 0) if g_last is None else (g_last.data_ptr(), 0, g_last.stride(0))
    start = (0, 0, 0) if dh0 is None else (dh0.data_ptr(), 0, dh0.stride(0))
    dUt, dWt = (pointer(None if d is None else d.T) for d in (dU, dW))
    nothing, kept = pointer(None), moduli if len(moduli) else None
    number = number_type(g, g_last, g_y, x, W, h0, bias, U, V, h, moduli)
    kernels.elman_backward(
        *call_of(number, h.shape, x, U, bias, V, g_y, nonlinearity, batch_sizes, reverse),
        [*views_of(x, W, h0, bias, U, None, h, kept), nothing, pointer(V), nothing, nothing],
        [
            *(pointer(g), end, pointer(dx), dUt, pointer(dc), dWt, start, pointer(dbias)),
            *(pointer(g_y), pointer(dV)),
        ],
    )
    return [gradient for gradient in made if gradient is not None]


def _results(
    x: Tensor,
    W: Tensor,
    h0: Tensor,
    bias: Tensor | None,
    V: Tensor | None,
    nonlinearity: str,
    last_only: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (T, B, K), (T, B, N / 2)
    """Make the buffers, laid out as the inputs are; those that are not used have no elements."""
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
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """Make the buffers of those that are wanted."""
    (T, B, N), M, K = h.shape, 0 if U is None else U.shape[1], 0 if V is None else len(V)
    return [
        (_like(x, T, B, M) if U is not None and x is not None else _like(h, T, B, N))
        if wanted[0]
        else None,
        W.new_empty(N, N).T if wanted[1] else None,
        h0.new_empty(B, N) if wanted[2] else None,
        W.new_empty(N) if wanted[3] else None,
        W.new_empty(M, N).T if wanted[4] else None,
        W.new_empty(N) if wanted[5] else None,
        W.new_empty(K, N) if wanted[6] else None,
        W.new_empty(K) if wanted[7] else None,
    ]


def _like(
    tensor: Tensor, T: int, B: int, K: int, typed: Tensor | None = None
) -> Tensor:  # (T, B, K)
    typed = tensor if typed is None else typed
    if tensor.stride(0) < tensor.stride(1):
        return fresh(typed, B, T, K).transpose(0, 1)
    return fresh(typed, T, B, K)


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
    x, W, h0, _, U, V, h, _, wanted, *_ = arguments[3:]
    return [d for d in _gradients(x, W, h0, U, V, h, wanted) if d is not None]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, W, h0, bias, U, _, V, _, *ctx.options, _ = inputs
    h, _, _, moduli = output
    ctx.set_materialize_grads(False)  # of states, last ones and outputs, mostly one is used
    ctx.save_for_backward(None if U is None else x, W, h0, bias, U, V, h, moduli)


def _pull_back(
    ctx: Any,
    g: Tensor | None,
    g_last: Tensor | None,
    g_y: Tensor | None,
    g_moduli: Tensor | None,
) -> tuple[Tensor | None, ...]:
    x, W, h0, bias, U, V, h, moduli = ctx.saved_tensors
    g_y = None if V is None else g_y  # outputs that there are not are an empty tensor
    g_moduli = g_moduli if len(moduli) else None
    if g is None and g_last is None and g_y is None and g_moduli is None:
        return (None,) * (_WANTED + 4)
    wanted = list(ctx.needs_input_grad[:_WANTED])
    outwards = None if g_y is None else V
    wanted[6:] = [wants and outwards is not None for wants in wanted[6:]]
    given = x, W, h0, bias, U, outwards, h, moduli
    recorded = torch.is_grad_enabled() or under_transform() or is_batched(g, g_last, g_y)
    if recorded or g_moduli is not None:  # which comes from second derivatives alone
        made = gradients(g, g_last, g_y, *given, g_moduli, wanted, *ctx.options)
    else:
        made = _elman_cpu_backward(g, g_last, g_y, *given, wanted, *ctx.options)
    found = iter(made)
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
    V: Tensor | None = None,  # (K, N)
    d: Tensor | None = None,  # (K,)
) -> tuple[Tensor, Tensor]:  # (T, B, N) or (T, B, K), (B, N)
    """Bring the types to those that kernels know, and back."""
    options = nonlinearity, batch_sizes, reverse
    if W.dtype == torch.bfloat16:
        exact = [None if v is None else v.float() for v in (x, W, h0, bias, U, c)]
        outwards = {n: None if v is None else v.float() for n, v in {"V": V, "d": d}.items()}
        h, last = _run(*exact, *options, last_only=last_only, **outwards)  # type: ignore[arg-type]
        return h.bfloat16(), last.bfloat16()
    if U is not None and U.shape[1] == 0:  # to kernels, no channels mean no map
        padded = F.pad(x, (0, 1)), W, h0, bias, F.pad(U, (0, 1)), c
        return _run(*padded, *options, last_only=last_only, V=V, d=d)
    if not W.is_complex():
        h, last, y, _ = elman_cpu(x, W, h0, bias, U, c, V, d, *options, last_only)
        return h if V is None else y, last
    if nonlinearity == "modrelu" and bias is not None:
        options = "modrelu_paired", batch_sizes, reverse
    h, last, *_ = elman_cpu(
        as_pairs(x) if x.is_complex() else x,
        matrix_of_pairs(W),
        as_pairs(h0),
        None if bias is None else bias.repeat_interleave(2),
        _map_of_pairs(U, x),
        None if c is None else as_pairs(c),
        None,
        None,
        *options,
        last_only,
    )
    return as_complex(h), as_complex(last)


def _map_of_pairs(U: Tensor | None, x: Tensor) -> Tensor | None:  # (2N, M) or (2N, 2M)
    """Write a complex map of real or of complex inputs as a real one."""
    if U is None:
        return None
    return matrix_of_pairs(U) if x.is_complex() else as_pairs(U.T).T


def _reads(V: Tensor) -> bool:
    """Whether outputs are made inside: more of them than states pay off outside."""
    return V.device.type == "cpu" and not V.is_complex() and V.shape[0] <= V.shape[1]


BACKEND = Backend(
    name="cpu",
    run=_run,
    about=ABOUT,
    dtypes=(REAL | COMPLEX) - {torch.float16},
    missing=missing,
    refuses=refuses,
    forgets=True,
    reads=_reads,
)
