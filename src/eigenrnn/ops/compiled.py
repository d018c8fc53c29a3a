"""The compiled kernels, if there are any, and how tensors are handed to them."""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.nonlinearities import LEAKY_SLOPES
from eigenrnn.ops.backend import Call

try:
    # `from eigenrnn.ops import _cpu` would take a missing module for a circular import
    import eigenrnn.ops._cpu as _cpu  # pyright: ignore[reportMissingModuleSource]
except ImportError as error:
    kernels: Any = None
    _absence = (
        "the compiled kernels were not built: there was no GCC or Clang when eigenrnn was "
        "installed, or they failed to build it (pip install --verbose tells)"
        if isinstance(error, ModuleNotFoundError)
        else str(error)
    )
else:
    kernels = _cpu
    _absence = None

__all__ = [
    "ABOUT",
    "activation",
    "fresh",
    "kernels",
    "missing",
    "number_type",
    "pointer",
    "readable",
    "refuses",
    "rows",
]

ABOUT = "compiled C++ on the processor" + (f", {kernels.isa}" if kernels else "")
"""What the backends made of the kernels say of themselves."""

_ACTIVATIONS = ("identity", "tanh", "relu", "elu", "leaky_relu", "modrelu", "modrelu_paired")
_NUMBERS = {torch.float32: "float32", torch.float64: "float64"}
_LARGE = 1 << 22  # bytes; smaller buffers are kept by the allocator, so their pages are not fresh


def missing() -> str | None:
    """Say why there are no compiled kernels, or None."""
    return _absence


def refuses(call: Call) -> str | None:
    """Say why the compiled kernels cannot serve a call, or None."""
    if call.device != "cpu":
        return f"the tensors are on {call.device}"
    if call.transformed:
        return "torch.func transforms and forward mode need differentiable operations"
    return None


def activation(
    name: str, bias: Tensor | None
) -> tuple[int, float]:  # its number in csrc, its slope
    """Return how csrc calls a nonlinearity; modReLU without a bias is the identity."""
    if name.startswith("modrelu"):
        name = "identity" if bias is None else name
    slope = LEAKY_SLOPES.get(name, 0.0)
    return _ACTIVATIONS.index("leaky_relu" if name in LEAKY_SLOPES else name), slope


def number_type(*tensors: Tensor | None) -> str:
    """Return what the kernels call the type of all tensors.

    Raises:
        TypeError: If there are several types, or kernels for none of them.
    """
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    if len(dtypes) > 1:
        names = ", ".join(sorted(map(str, dtypes)))
        raise TypeError(f"expected tensors of one type, got {names}")
    (dtype,) = dtypes
    if dtype not in _NUMBERS:
        raise TypeError(f"expected float32 or float64, got {dtype}")
    return _NUMBERS[dtype]


def fresh(like: Tensor, *shape: int) -> Tensor:
    """Make an unwritten buffer, on large pages if it is large."""
    buffer = like.new_empty(shape)
    if type(buffer) is not Tensor:  # what a compiler traces has a shape, but no memory
        return buffer
    size = buffer.numel() * buffer.element_size()
    if size >= _LARGE:
        kernels.prefer_large_pages(buffer.data_ptr(), size)
    return buffer


def rows(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor whose last axis lies in one piece, as kernels read it."""
    if tensor is None or tensor.shape[-1] == 1 or tensor.stride(-1) == 1 or not tensor.numel():
        return tensor
    outer = tensor.stride()[:-1]
    # the gradient of a sum: one number, everywhere; a graph would see all steps as the first
    if tensor.dim() == 3 and outer == (0, 0) and not tensor.requires_grad:
        return tensor[0, 0].contiguous().expand(tensor.shape)
    return tensor.contiguous()


def readable(*tensors: Any) -> tuple[Any, ...]:
    """Do so with several tensors, or what is there in place of one."""
    return tuple(map(rows, tensors))


def pointer(tensor: Tensor | None) -> tuple[int, int, int]:
    """Return the address and the first two strides, of the last two axes of a vector or matrix."""
    if tensor is None:
        return 0, 0, 0
    strides = tensor.stride()
    if tensor.dim() == 1:
        return tensor.data_ptr(), 0, 0
    return tensor.data_ptr(), strides[0], strides[1]
