"""Queries whether torch is tracing, transforming or autocasting the current call."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Module, Parameter

from eigenrnn.torch_internals import (
    contents,
    forward_mode_is_active,
    is_eager,
    is_exporting,
    is_legacy_batched,
    original_of,
    stands_for_another,
    transform_is_active,
)

__all__ = [
    "are_plain",
    "autocasts",
    "check_dense",
    "check_weights",
    "has_memory",
    "is_batched",
    "is_dual",
    "is_eager",
    "is_exporting",
    "is_exporting_to_onnx",
    "is_traced",
    "jit_traces",
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
jit_traces: Callable[[], bool] = torch.jit.is_tracing  # pyright: ignore[reportPrivateImportUsage]
"""Whether `torch.jit.trace` records the current call; not to be asked while torch compiles."""


def autocasts(device_type: str) -> bool:
    """Whether autocast is enabled for a device type; meta tensors have no autocast."""
    return device_type != "meta" and torch.is_autocast_enabled(device_type)


def under_transform() -> bool:
    """Whether a `torch.func` transform is active."""
    return not torch.compiler.is_compiling() and transform_is_active()


def is_traced() -> bool:
    """Whether Python must not branch on the values of tensors."""
    return torch.compiler.is_compiling() or transform_is_active()


_PLAIN = frozenset({Tensor, Parameter})  # other classes may have no address at all


def needs_no_dispatcher(tensors: Iterable[Tensor | None]) -> bool:
    """Whether kernels may be called on tensors directly: no part of torch watches operators.

    Autograd is not asked here.
    """
    if not is_eager():
        return False
    for tensor in tensors:
        if tensor is None:
            continue
        # the dispatcher writes out views that only stand for negative or conjugate numbers
        if type(tensor) not in _PLAIN or tensor.is_neg() or tensor.is_conj():
            return False
    return True


def has_memory(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor are in memory.

    They are not if its storage was freed, as sharded training does between two steps, or if the
    tensor stands for another one, as those of `torch.func.functionalize` do.
    """
    try:
        if tensor.untyped_storage().data_ptr():
            return True
    except RuntimeError:  # there is no storage
        return False
    return not tensor.numel() and not stands_for_another(tensor)


def are_plain(tensors: Iterable[Tensor | None]) -> bool:
    """Whether all tensors are of torch's own classes, dense and in memory, as nearly all are.

    False says nothing: one may be empty, for instance. While torch compiles there are no addresses
    to ask for, so do not call this then.
    """
    for tensor in tensors:
        if tensor is None:
            continue
        if type(tensor) not in _PLAIN or tensor.is_nested or tensor.is_quantized:
            return False
        try:
            # one of another layout has no address
            # of a view without memory the address is that of its offset, which is mostly zero
            offset = tensor.storage_offset()
            if tensor.data_ptr() == (offset and offset * tensor.itemsize):
                return False
        except RuntimeError:
            return False
    return True


def check_dense(tensors: Mapping[str, Tensor | None]) -> None:
    """Check that tensors are dense and in memory: not nested, sparse, quantised or freed.

    Raises:
        TypeError: If one is not dense.
        ValueError: If one has no memory, which some functions of torch read all the same.
    """
    traced = is_traced()
    for name, tensor in tensors.items():
        if tensor is None or (not traced and are_plain((tensor,))):
            continue
        if tensor.is_nested or tensor.layout != torch.strided or tensor.is_quantized:
            kind = "nested" if tensor.is_nested else f"{tensor.layout}, {tensor.dtype}"
            raise TypeError(f"expected {name} to be a dense tensor, got {kind}")
        if traced or type(tensor) not in _PLAIN or tensor.is_meta:
            continue  # it may have no memory of its own
        if not has_memory(tensor):
            raise ValueError(
                f"expected {name} to be a tensor with memory, got one of shape "
                f"{tuple(tensor.shape)} whose storage was freed, or that stands for another tensor"
            )


def check_weights(module: Module, with_parts: bool = False) -> None:
    """Check the parameters and buffers of a module, and on request those of its parts.

    Raises the errors of `check_dense`.
    """
    parameters, buffers, parts = contents(module)
    compiles = torch.compiler.is_compiling()  # then there are no addresses to ask for
    for tensors in (parameters, buffers):
        if tensors and (compiles or not are_plain(tensors.values())):
            check_dense(tensors)
    if with_parts:
        for part in parts.values():
            if part is not None:
                check_weights(part, with_parts=True)


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
