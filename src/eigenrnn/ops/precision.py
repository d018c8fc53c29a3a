"""Which numbers the compiled kernels multiply."""

from typing import Literal

import torch
from torch import Tensor

from eigenrnn.kernels import kernels
from eigenrnn.torch_internals import constant_while_compiling, fp32_precision
from eigenrnn.tracing import autocasts

__all__ = [
    "Products",
    "products_now",
    "products_of_autocast",
    "products_of_float32",
    "products_of_switches",
]

Products = Literal["float32", "split", "bfloat16"]
"""The numbers that are multiplied, see ``Products`` in ``csrc/arguments.hpp``."""

has_tiles: bool = kernels is not None and kernels.has_tiles
_LEAST_UNITS: int = 0 if kernels is None else kernels.least_units_of_tiles


def products_of_autocast(dtype: torch.dtype) -> Products:
    """Return what the kernels multiply under autocast, and of weights of this dtype.

    Without the tiles of AMX, products of bfloat16 take longer than those of float32.
    """
    if has_tiles and dtype == torch.bfloat16:
        return "bfloat16"
    return "float32"


def products_now(dtype: torch.dtype = torch.float32) -> Products:
    """Return what the compiled kernels multiply by the switches that are set, for enough units.

    They multiply float32, bfloat16 or split numbers, the sum of two of bfloat16. All but float32
    needs a processor with AMX.

    Args:
        dtype: The dtype of the weights.
    Returns:
        ``"float32"``, ``"split"`` or ``"bfloat16"``.
    Example:
        >>> torch.get_float32_matmul_precision()
        'highest'
        >>> products_now()
        'float32'
    """
    if dtype != torch.float32:
        return products_of_autocast(dtype)
    if autocasts("cpu"):
        return products_of_autocast(torch.get_autocast_dtype("cpu"))
    return products_of_switches()


def products_of_float32(W: object) -> Products:
    """Return what the kernels multiply in a call with this matrix, outside autocast.

    ``torch.backends.mkldnn.rnn.fp32_precision`` comes first, then that of
    ``torch.backends.mkldnn.matmul``, which `torch.set_float32_matmul_precision` sets.
    """
    if not has_tiles or not isinstance(W, Tensor) or not W.dim():
        return "float32"
    # small calls do not wait for the switches
    is_multiplied = W.dtype == torch.float32 and W.device.type == "cpu"
    # a nested tensor has no shape, and is refused later
    if not is_multiplied or W.is_nested or W.shape[-1] < _LEAST_UNITS:
        return "float32"
    return products_of_switches()


@constant_while_compiling
def products_of_switches() -> Products:
    """Return what the switches of torch say of products in float32."""
    if not has_tiles:
        return "float32"
    for part in ("rnn", "matmul"):
        precision = fp32_precision("mkldnn", part)
        if precision == "bf16":
            return "bfloat16"
        if precision == "tf32":
            return "split"
        if precision != "none":
            break
    return "float32"
