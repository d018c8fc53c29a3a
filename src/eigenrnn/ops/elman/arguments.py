"""What the compiled kernels of the Elman recurrence are called with."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.compiled import activation, number_type, pointer

__all__ = ["call_of", "forward_arguments", "views_of"]


def forward_arguments(  # noqa: PLR0913, all that a kernel is told
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
    """Return what `elman_forward` is called with: addresses, so keep the tensors until then."""
    shape = *x.shape[:2], len(W)
    number = number_type(x, W, h0, bias, U, c, V, d)
    call = call_of(number, shape, x, U, bias, V, None, nonlinearity, batch_sizes, reverse)
    views = views_of(x, W, h0, bias, U, c, h, moduli)
    end = last.data_ptr(), 0, last.shape[1]
    return *call, [*views, end, pointer(V), pointer(d), pointer(y)]


def call_of(  # noqa: PLR0913, what kernels are told beside the tensors
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
    """Return what either kernel is told beside the addresses."""
    T, B, N = shape
    M = 0 if U is None or x is None else x.shape[2]
    outputs = 0 if V is None else len(V), 1 if g_y is None else g_y.stride(2)
    f, slope = activation(nonlinearity, bias)
    sizes = None if batch_sizes is None else list(batch_sizes)
    return number, torch.get_num_threads(), (T, B, N, M), outputs, sizes, reverse, f, slope


def views_of(  # noqa: PLR0913, the tensors
    x: Tensor | None,
    W: Tensor,
    h0: Tensor,
    bias: Tensor | None,
    U: Tensor | None,
    c: Tensor | None,
    h: Tensor | None,
    moduli: Tensor | None,
) -> list[tuple[int, int, int]]:
    """Return the addresses and strides that both kernels begin with."""
    start = h0.data_ptr(), 0, h0.stride(0)
    maps = pointer(x), pointer(U), pointer(c), pointer(W)
    return [*maps, start, pointer(bias), pointer(h), pointer(moduli)]
