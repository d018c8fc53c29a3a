"""The compiled CPU kernels, if they were built, and the conversion of tensors for them."""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.nonlinearities import LEAKY_SLOPES
from eigenrnn.ops.dispatch import Call

try:
    # `from eigenrnn.ops import _cpu` would report a missing module as a circular import
    import eigenrnn.ops._cpu as _cpu  # pyright: ignore[reportMissingModuleSource]
except ImportError as error:
    kernels: Any = None
    _unavailable_reason = (
        "the compiled kernels were not built: there was no GCC or Clang when eigenrnn was "
        "installed, or the build failed (pip install --verbose shows the compiler's output)"
        if isinstance(error, ModuleNotFoundError)
        else str(error)
    )
else:
    kernels = _cpu
    _unavailable_reason = None

__all__ = [
    "DESCRIPTION",
    "activation",
    "contiguous_rows",
    "empty_buffer",
    "kernels",
    "number_type",
    "pointer",
    "rows",
    "unavailable",
    "unsupported",
]

DESCRIPTION = "compiled C++ on the CPU" + (f", {kernels.isa}" if kernels else "")
"""The description of the backends that use these kernels."""

_ACTIVATIONS = ("identity", "tanh", "relu", "elu", "leaky_relu", "modrelu", "modrelu_paired")
_NUMBERS = {torch.float32: "float32", torch.float64: "float64"}
_LARGE = 1 << 22  # bytes; the allocator reuses smaller buffers, so large pages do not help them


def unavailable() -> str | None:
    """Return why there are no compiled kernels, or None."""
    return _unavailable_reason


def unsupported(call: Call) -> str | None:
    """Return why the compiled kernels cannot compute a call, or None."""
    if call.device != "cpu":
        return f"the tensors are on {call.device}"
    if call.transformed:
        return "torch.func transforms and forward mode need differentiable operations"
    return None


def activation(name: str, bias: Tensor | None) -> tuple[int, float]:  # index in csrc, slope
    """Return the index of a nonlinearity in csrc; modReLU without a bias is the identity."""
    if name.startswith("modrelu"):
        name = "identity" if bias is None else name
    slope = LEAKY_SLOPES.get(name, 0.0)
    return _ACTIVATIONS.index("leaky_relu" if name in LEAKY_SLOPES else name), slope


def number_type(*tensors: Tensor | None) -> str:
    """Return the name that the kernels use for the dtype of all tensors.

    Raises:
        TypeError: If the dtypes differ, or the kernels do not support them.
    """
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    if len(dtypes) > 1:
        names = ", ".join(sorted(map(str, dtypes)))
        raise TypeError(f"expected tensors of one type, got {names}")
    (dtype,) = dtypes
    if dtype not in _NUMBERS:
        raise TypeError(f"expected float32 or float64, got {dtype}")
    return _NUMBERS[dtype]


def empty_buffer(like: Tensor, *shape: int) -> Tensor:
    """Return an uninitialised buffer; a large one gets large memory pages."""
    buffer = like.new_empty(shape)
    if type(buffer) is not Tensor:  # a traced tensor has no memory
        return buffer
    size = buffer.numel() * buffer.element_size()
    if size >= _LARGE:
        kernels.prefer_large_pages(buffer.data_ptr(), size)
    return buffer


def rows(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor whose last axis is contiguous, as the kernels require."""
    if tensor is None or tensor.shape[-1] == 1 or tensor.stride(-1) == 1 or not tensor.numel():
        return tensor
    outer = tensor.stride()[:-1]
    # the gradient of a sum is one expanded number; copy it once. Not if autograd records it
    if tensor.dim() == 3 and outer == (0, 0) and not tensor.requires_grad:
        return tensor[0, 0].contiguous().expand(tensor.shape)
    return tensor.contiguous()


def contiguous_rows(*tensors: Any) -> tuple[Any, ...]:
    """Apply `rows` to several tensors; None stays None."""
    return tuple(map(rows, tensors))


def pointer(tensor: Tensor | None) -> tuple[int, int, int]:
    """Return the address and the first two strides; a missing tensor has address 0."""
    if tensor is None:
        return 0, 0, 0
    strides = tensor.stride()
    if tensor.dim() == 1:
        return tensor.data_ptr(), 0, 0
    return tensor.data_ptr(), strides[0], strides[1]
