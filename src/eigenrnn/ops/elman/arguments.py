"""What the compiled kernels of the Elman recurrence are called with."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.compiled import activation, pointer

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
) -> tuple[Any, ...]:
    """Return what `elman_forward` is called with: addresses, so keep the tensors until then."""
    shape = *x.shape[:2], len(W)
    call = call_of(W.dtype, shape, x, U, bias, V, None, nonlinearity, batch_sizes, reverse)
    views = views_of(x, W, h0, bias, U, c, h)
    end = last.data_ptr(), 0, last.shape[1]
    return *call, [*views, end, pointer(V), pointer(d), pointer(y)]


def call_of(  # noqa: PLR0913, what kernels are told beside the tensors
    dtype: torch.dtype,
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
    number, slope = activation(nonlinearity, bias)
    sizes = None if batch_sizes is None else list(batch_sizes)
    twice, threads = dtype == torch.float64, torch.get_num_threads()
    return twice, threads, (T, B, N, M), outputs, sizes, reverse, number, slope


def views_of(
    x: Tensor | None,
    W: Tensor,
    h0: Tensor,
    bias: Tensor | None,
    U: Tensor | None,
    c: Tensor | None,
    h: Tensor | None,
) -> list[tuple[int, int, int]]:
    """Return the addresses and strides that both kernels begin with."""
    start = h0.data_ptr(), 0, h0.stride(0)
    return [pointer(x), pointer(U), pointer(c), pointer(W), start, pointer(bias), pointer(h)]
