"""Queries whether torch is tracing, transforming or autocasting the current call."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

__all__ = ["autocasts", "is_batched", "is_dual", "is_eager", "is_traced", "under_transform"]

# torch has no public query for this; vmap, grad and jvp all set it
_is_batched: Callable[[Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
_active: Callable[[], bool] = torch._C._are_functorch_transforms_active  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
_jit_trace: Callable[[], object] = torch._C._get_tracing_state  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def is_batched(*tensors: Tensor | None) -> bool:
    """Whether a vectorised Jacobian of `torch.autograd` batches any of the tensors.

    It uses an older `vmap` than `torch.func`.
    """
    if torch.compiler.is_compiling():
        return False
    return any(tensor is not None and _is_batched(tensor) for tensor in tensors)


def is_dual(*tensors: Tensor | None) -> bool:
    """Whether any of the tensors carries a tangent of `torch.autograd.forward_ad`."""
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return False
    return any(v is not None and forward_ad.unpack_dual(v).tangent is not None for v in tensors)


def autocasts(device_type: str) -> bool:
    """Whether autocast is enabled for a device type; meta tensors have no autocast."""
    return device_type != "meta" and torch.is_autocast_enabled(device_type)


def under_transform() -> bool:
    """Whether a `torch.func` transform is active."""
    return not torch.compiler.is_compiling() and _active()


def is_traced() -> bool:
    """Whether Python must not branch on the values of tensors."""
    return torch.compiler.is_compiling() or _active()


def is_eager() -> bool:
    """Whether nothing traces, transforms, differentiates forward or autocasts CPU tensors."""
    return not (
        torch.compiler.is_compiling()
        or _active()
        or torch.is_autocast_enabled("cpu")
        or _jit_trace() is not None
        or forward_ad._current_level >= 0  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    )
