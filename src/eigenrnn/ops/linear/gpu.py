"""The linear recurrence in Triton kernels, as a torch operator.

README.md in this folder explains the chunks.
"""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.gpu import TritonBackend, state_dtype
from eigenrnn.ops.linear.operands import DTYPES, LinearOperands, LinearOptions
from eigenrnn.ops.linear.scan import linear_operator
from eigenrnn.ops.time_steps import states_and_last

__all__ = ["LinearGPU", "chunk_length", "linear_gpu"]

_COLUMNS = 256  # of one program
_PROGRAMS = 512  # that keep a large GPU busy: an expectation that was never timed
_SHORTEST = 16  # steps of a chunk, below which the passes over the chunks cost more than they save


def chunk_length(T: int, columns: int) -> int:
    """Return the number of steps of a chunk: all, if the columns alone keep the GPU busy."""
    chunks = max(1, _PROGRAMS // -(-columns // _COLUMNS))
    return max(min(_SHORTEST, T), -(-T // chunks))


def _states(
    x: Tensor,  # (T, B, N)
    decay: Tensor,  # (N,) or (T, B, N)
    h0: Tensor,  # (B, N)
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Compute the states in one launch, or in three if there are several chunks."""
    from triton.language import float32, float64

    from eigenrnn.ops.linear import triton_kernels

    kernels: Any = triton_kernels
    T, B, N = x.shape
    h = x.new_empty(x.shape)
    if not h.numel():
        return h
    length = chunk_length(T, B * N)
    chunks, blocks = -(-T // length), -(-B * N // _COLUMNS)
    wide = state_dtype(x.dtype)
    between = x.new_empty(3, chunks, B, N, dtype=wide.to_complex() if x.is_complex() else wide)
    between[0, 0] = h0
    inputs = [_pairs(each.contiguous()) for each in (x, decay)]
    entering, ends, products = _pairs(between)
    options: dict[str, Any] = {
        "DTYPE": float64 if wide == torch.float64 else float32,
        "PAIRED": x.is_complex(),
        "SIZE": _COLUMNS,
    }

    def scan(kept: bool) -> None:
        kernels.scan_chunks[(blocks, chunks)](
            *(*inputs, entering, _pairs(h), ends, products, T, B * N, N, length),
            GATED=decay.dim() == 3,
            REVERSE=reverse,
            KEPT=kept,
            **options,
        )

    with torch.cuda.device_of(x):
        if chunks > 1:
            scan(kept=False)
            kernels.enter_chunks[(blocks,)](ends, products, entering, chunks, B * N, **options)
        scan(kept=True)
    return h


def _pairs(tensor: Tensor) -> Tensor:
    """Return complex numbers as pairs of real ones."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


linear_gpu = linear_operator("linear_gpu", _states)


class LinearGPU(TritonBackend):
    """Chunks of steps at the same time, in Triton."""

    description = "Triton on NVIDIA GPUs, chunks of steps at the same time"
    dtypes = DTYPES

    def run(self, operands: LinearOperands, options: LinearOptions) -> tuple[Tensor, Tensor]:
        h = linear_gpu(*operands, *options)
        return states_and_last(h, options.batch_sizes, options.reverse)
