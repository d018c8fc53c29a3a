"""A program whose warps meet once a step and do nothing else, in Triton."""

import triton
import triton.language as tl

__all__ = ["meetings"]


@triton.jit(do_not_specialize=["T"])
def meetings(out, T):  # noqa: ANN001, ANN201, Triton's language
    """Sum over all warps T times, each time what the last sum gave."""
    at = tl.arange(0, 256)
    value = at.to(tl.float32)
    for _ in range(T):
        value = value * 0.5 + tl.sum(value, 0) / 512
    tl.store(out + at, value)
