"""The map of the inputs that a recurrence may be given along with them."""

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["check_types", "mapped"]


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


def check_types(x: Tensor, W: Tensor, **others: Tensor | None) -> None:
    """Refuse tensors of types or on devices that do not go together.

    Raises:
        TypeError: If there are any; a bias is real, and x may be if U maps it to complex numbers.
        ValueError: If they are on several devices.
    """
    for name, tensor in {"W": W, **others}.items():
        if tensor is not None and tensor.device != x.device:
            raise ValueError(f"expected {name} on {x.device}, where x is, got {tensor.device}")
    mapped_from_real = others["U"] is not None and W.real.dtype == x.dtype
    expected = W.dtype if mapped_from_real else x.dtype
    for name, tensor in {"W": W, **others}.items():
        wanted = x.real.dtype if name == "bias" else expected
        if tensor is not None and tensor.dtype != wanted:
            raise TypeError(f"expected {name} of {wanted} to go with x, got {tensor.dtype}")
