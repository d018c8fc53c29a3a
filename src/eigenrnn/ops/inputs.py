"""The map of the inputs that a recurrence may be given along with them."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["check_flags", "check_tensors", "check_types", "mapped"]


def mapped(
    x: Tensor,  # (T, B, N) or (T, B, M)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
) -> Tensor:  # (T, B, N)
    r"""Return :math:`x U^\top + c`, or x itself where there is no map."""
    if U is None:
        return x
    if not U.is_complex() or x.is_complex():
        return F.linear(x, U, c)
    real, imaginary = (None, None) if c is None else (c.real, c.imag)
    return torch.complex(F.linear(x, U.real, real), F.linear(x, U.imag, imaginary))


def check_tensors(x: object, W: object, **others: object) -> None:
    """Refuse what is not a dense tensor; any but x and W may be missing.

    Raises:
        TypeError: If there is something else.
    """
    for name, given in {"x": x, "W": W, **others}.items():
        if given is None and name not in ("x", "W"):
            continue
        if not isinstance(given, Tensor):
            raise TypeError(f"expected {name} to be a tensor, got {type(given).__name__}")
        if given.layout != torch.strided:
            raise TypeError(f"expected {name} to be a dense tensor, got one of {given.layout}")


def check_flags(**flags: object) -> None:
    """Refuse what is neither true nor false.

    Raises:
        TypeError: If there is something else.
    """
    for name, given in flags.items():
        if not isinstance(given, bool):
            raise TypeError(f"expected {name} to be True or False, got {type(given).__name__}")


def check_types(
    supported: Iterable[torch.dtype], x: Tensor, W: Tensor, **others: Tensor | None
) -> None:
    """Refuse tensors of types that no backend supports, or that do not go together.

    Raises:
        TypeError: If there are any; a bias is real, and x may be if U maps it to complex numbers.
        ValueError: If they are on several devices.
    """
    for name, tensor in (("x", x), ("W", W)):
        if tensor.dtype not in supported:
            names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in supported))
            raise TypeError(f"expected {name} of one of the types {names}, got {tensor.dtype}")
    for name, tensor in {"W": W, **others}.items():
        if tensor is not None and tensor.device != x.device:
            raise ValueError(f"expected {name} on {x.device}, where x is, got {tensor.device}")
    mapped_from_real = others["U"] is not None and W.real.dtype == x.dtype
    expected = W.dtype if mapped_from_real else x.dtype
    for name, tensor in {"W": W, **others}.items():
        wanted = x.real.dtype if name == "bias" else expected
        if tensor is not None and tensor.dtype != wanted:
            raise TypeError(f"expected {name} of {wanted} to go with x, got {tensor.dtype}")
