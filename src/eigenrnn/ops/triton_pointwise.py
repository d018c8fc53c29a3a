"""One Triton kernel for the nonlinearity of a time step, where torch takes several operations."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eigenrnn.ops.triton_functions import apply, apply_backward

__all__ = ["modrelu_", "modrelu_backward_"]

_BLOCK = 1024


@triton.jit
def _addresses(stride, count, N, BLOCK: tl.constexpr):
    """Return the offsets of a block of a matrix, its columns, and which of them are inside."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    return (at // N) * stride + at % N, at % N, at < count


@triton.jit(do_not_specialize=["stride", "count", "N"])
def _modrelu(z, bias, stride, count, N, BLOCK: tl.constexpr):
    at, column, inside = _addresses(stride, count, N, BLOCK)
    value = tl.load(z + at, mask=inside, other=0.0)
    b = tl.load(bias + column, mask=inside, other=0.0)
    (result,) = apply((value,), (b,), "modrelu", 0.0)
    tl.store(z + at, result, mask=inside)


@triton.jit(do_not_specialize=["stride", "h_stride", "count", "N"])
def _modrelu_backward(g, h, stride, h_stride, count, N, BLOCK: tl.constexpr):
    at, _, inside = _addresses(stride, count, N, BLOCK)
    of_h, _, _ = _addresses(h_stride, count, N, BLOCK)
    gradient = tl.load(g + at, mask=inside, other=0.0)
    state = tl.load(h + of_h, mask=inside, other=0.0)
    (result,) = apply_backward((gradient,), (state,), "modrelu", 0.0)
    tl.store(g + at, result, mask=inside)


def modrelu_(
    z: Tensor,  # (B, N), real; contiguous rows
    bias: Tensor,  # (N,)
) -> None:
    """Apply modReLU in place, in one launch."""
    _launch(_modrelu, z, bias.contiguous(), z.stride(0))


def modrelu_backward_(
    g: Tensor,  # (B, N), real; contiguous rows
    h: Tensor,  # (B, N)
) -> None:
    """Make the gradient of the states that of the pre-activations, in place, in one launch."""
    _launch(_modrelu_backward, g, h, g.stride(0), h.stride(0))


def _launch(kernel, first, *arguments):
    count, N = first.numel(), first.shape[1]
    if count:
        with torch.cuda.device_of(first):
            grid = (triton.cdiv(count, _BLOCK),)
            kernel[grid](first, *arguments, count, N, BLOCK=_BLOCK, enable_fp_fusion=True)
