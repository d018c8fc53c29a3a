"""Queries whether torch is tracing, transforming or autocasting the current call."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from eigenrnn.torch_internals import (
    forward_mode_is_active,
    has_dispatch_mode,
    is_legacy_batched,
    original_of,
    transform_is_active,
)

__all__ = [
    "autocasts",
    "check_memory_of",
    "has_memory",
    "is_batched",
    "is_dual",
    "is_eager",
    "is_exporting",
    "is_exporting_to_onnx",
    "is_jit_tracing",
    "is_traced",
    "needs_no_dispatcher",
    "real_tensors",
    "under_transform",
]


def is_batched(*tensors: Tensor | None) -> bool:
    """Whether a vectorised Jacobian of `torch.autograd` batches any of the tensors.

    It uses an older `vmap` than `torch.func`.
    """
    if torch.compiler.is_compiling():
        return False
    return any(tensor is not None and is_legacy_batched(tensor) for tensor in tensors)


def is_dual(*tensors: Tensor | None) -> bool:
    """Whether any of the tensors carries a tangent of `torch.autograd.forward_ad`."""
    if torch.compiler.is_compiling() or not forward_mode_is_active():
        return False
    return any(v is not None and forward_ad.unpack_dual(v).tangent is not None for v in tensors)


# documented, but not exported in the sense of the type checker
_jit_traces: Callable[[], bool] = torch.jit.is_tracing  # pyright: ignore[reportPrivateImportUsage]


def autocasts(device_type: str) -> bool:
    """Whether autocast is enabled for a device type; meta tensors have no autocast."""
    return device_type != "meta" and torch.is_autocast_enabled(device_type)


def under_transform() -> bool:
    """Whether a `torch.func` transform is active."""
    return not torch.compiler.is_compiling() and transform_is_active()


def is_traced() -> bool:
    """Whether Python must not branch on the values of tensors."""
    return torch.compiler.is_compiling() or transform_is_active()


def is_eager() -> bool:
    """Whether nothing traces, transforms, differentiates forward or autocasts CPU tensors."""
    return not (
        torch.compiler.is_compiling()
        or transform_is_active()
        or torch.is_autocast_enabled("cpu")
        or _jit_traces()
        or forward_mode_is_active()
    )


def is_jit_tracing() -> bool:
    """Whether `torch.jit.trace` records the current call."""
    return not torch.compiler.is_compiling() and _jit_traces()


def needs_no_dispatcher(tensors: Iterable[Tensor | None]) -> bool:
    """Whether kernels may be called on tensors directly: no part of torch watches operators.

    Autograd is not asked here.
    """
    if not is_eager() or has_dispatch_mode():
        return False
    for tensor in tensors:
        if tensor is None:
            continue
        # the dispatcher writes out views that only stand for negative or conjugate numbers
        if type(tensor) not in _PLAIN or tensor.is_neg() or tensor.is_conj():
            return False
    return True


# An address from here on is no offset into freed storage: none is as large as a terabyte.
_HIGH_ADDRESS = 1 << 40
_PLAIN = frozenset({Tensor, Parameter})  # other classes may have no address at all


def has_memory(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor are in memory.

    They are not if its storage was freed, as sharded training does between two steps, or if the
    tensor stands for another one, as those of `torch.func.functionalize` do.
    """
    place = tensor.data_ptr()
    if place >= _HIGH_ADDRESS or not tensor.numel():
        return True
    # the address of a tensor without memory is its offset
    return place != tensor.storage_offset() * tensor.itemsize


def check_memory_of(tensors: Iterable[Tensor | None]) -> None:
    """Check that plain tensors are in memory: some functions of torch read freed storage.

    Raises:
        ValueError: If one is not.
    """
    if is_traced():  # then torch has tensors without memory of its own
        return
    for tensor in tensors:
        if tensor is None or type(tensor) not in _PLAIN:
            continue
        try:
            place = tensor.data_ptr()
        except RuntimeError as error:
            raise ValueError(
                f"expected a tensor with memory, got one of shape {tuple(tensor.shape)} that "
                f"stands for another one: {error}"
            ) from error
        if place >= _HIGH_ADDRESS:  # nearly always, so nothing else is asked
            continue
        if not (tensor.is_meta or has_memory(tensor)):
            raise ValueError(
                f"expected a tensor with memory, got one of shape {tuple(tensor.shape)} whose "
                "storage was freed (untyped_storage().resize_(0)): restore it first; sharded "
                "training (FSDP) does so inside the forward pass of the module that it wraps"
            )


def is_exporting() -> bool:
    """Whether `torch.export` or `torch.onnx.export` traces the current call."""
    return torch.compiler.is_exporting()


def is_exporting_to_onnx() -> bool:
    """Whether `torch.onnx.export` traces the current call."""
    return is_exporting() and torch.onnx.is_in_onnx_export()


def real_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Return the tensors with values that `torch.export` replaced by fake ones.

    None if it did not replace them itself, as with ``strict=True``.
    """
    real: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        original = original_of(tensor)
        if original is None:
            return None
        real[name] = original
    return real
