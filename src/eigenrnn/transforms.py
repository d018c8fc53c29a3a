"""Tells whether what runs now is traced or transformed by torch."""

from collections.abc import Callable

import torch

__all__ = ["is_traced", "under_transform"]

# torch offers no public question for this; vmap, grad and jvp all answer it
_active: Callable[[], bool] = torch._C._are_functorch_transforms_active  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def under_transform() -> bool:
    """Whether a `torch.func` transform is at work."""
    return not torch.compiler.is_compiling() and _active()


def is_traced() -> bool:
    """Whether Python must not branch on the values of tensors."""
    return torch.compiler.is_compiling() or _active()
