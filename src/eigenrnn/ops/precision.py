"""Which numbers the compiled kernels multiply."""

from typing import Any, Literal

import torch

from eigenrnn.kernels import kernels
from eigenrnn.tracing import autocasts

__all__ = ["Products", "products_now", "products_of_autocast", "products_of_float32"]

Products = Literal["float32", "split", "bfloat16"]
"""The numbers that are multiplied, see ``Products`` in ``csrc/arguments.hpp``."""

_BACKENDS: Any = torch.backends  # whose attributes have no types
_SWITCH_OF_RNN: Any = _BACKENDS.mkldnn.rnn

has_tiles: bool = kernels is not None and kernels.has_tiles

# What users of torch set, by the names of torch.backends and of set_float32_matmul_precision.
_BY_SWITCH: dict[str, Products] = {
    "bf16": "bfloat16",
    "medium": "bfloat16",
    "tf32": "split",
    "high": "split",
}


def products_of_autocast(dtype: torch.dtype) -> Products:
    """Return what the kernels multiply under autocast.

    Without the tiles of AMX, products of bfloat16 take longer than those of float32.
    """
    if has_tiles and dtype == torch.bfloat16:
        return "bfloat16"
    return "float32"


def products_now() -> Products:
    """Return what the kernels multiply in a call with weights in float32."""
    if autocasts("cpu"):
        return products_of_autocast(torch.get_autocast_dtype("cpu"))
    return products_of_float32()


# torch.compile keeps the value with which it traces
@torch.compiler.assume_constant_result
def products_of_float32() -> Products:
    """Return what the kernels multiply in a call in float32.

    ``torch.backends.mkldnn.rnn.fp32_precision`` comes first, then the precision that
    `torch.set_float32_matmul_precision` sets.
    """
    if not has_tiles:
        return "float32"
    switch: str = _SWITCH_OF_RNN.fp32_precision
    if switch == "none":
        switch = torch.get_float32_matmul_precision()
    return _BY_SWITCH.get(switch, "float32")
