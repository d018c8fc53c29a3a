"""Checks of the arguments of a recurrence, and its input map."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["check_batch_sizes", "check_flags", "check_tensors", "check_types", "map_inputs"]


def map_inputs(
    x: Tensor,  # (T, B, N) or (T, B, M)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
) -> Tensor:  # (T, B, N)
    r"""Return :math:`x U^\top + c`, or x itself without a map."""
    if U is None:
        return x
    if not U.is_complex() or x.is_complex():
        return F.linear(x, U, c)
    real, imaginary = (None, None) if c is None else (c.real, c.imag)
    return torch.complex(F.linear(x, U.real, real), F.linear(x, U.imag, imaginary))


def check_tensors(x: object, W: object, **others: object) -> None:
    """Check that all arguments are dense tensors; all but x and W may be None.

    Raises:
        TypeError: If one is not.
    """
    for name, value in {"x": x, "W": W, **others}.items():
        if value is None and name not in ("x", "W"):
            continue
        if not isinstance(value, Tensor):
            raise TypeError(f"expected {name} to be a tensor, got {type(value).__name__}")
        if value.layout != torch.strided:
            raise TypeError(f"expected {name} to be a dense tensor, got one of {value.layout}")


def check_flags(**flags: object) -> None:
    """Check that all arguments are booleans.

    Raises:
        TypeError: If one is not.
    """
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"expected {name} to be True or False, got {type(flag).__name__}")


def check_types(
    supported: Iterable[torch.dtype], x: Tensor, W: Tensor, **others: Tensor | None
) -> None:
    """Check the dtypes and devices of all tensors.

    The bias is real. If U is complex, x may be real.

    Raises:
        TypeError: If no backend supports a dtype, or the dtypes differ.
        ValueError: If the tensors are on several devices.
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


def check_batch_sizes(batch_sizes: object, T: int, B: int) -> None:
    """Check the batch sizes of T steps and B sequences.

    Raises:
        ValueError: If they are not T sizes in descending order, the first of them B.
        TypeError: If they are not a list of integers.
    """
    if isinstance(batch_sizes, str) or not isinstance(batch_sizes, Sequence):
        raise TypeError(
            f"expected batch_sizes to be a list of integers, got {type(batch_sizes).__name__}"
        )
    if any(isinstance(n, bool) or not isinstance(n, Integral | torch.SymInt) for n in batch_sizes):
        raise TypeError(f"expected batch sizes to be integers, got {list(batch_sizes)}")
    falling = all(a >= b for a, b in pairwise(batch_sizes))
    if len(batch_sizes) != T or batch_sizes[0] != B or not falling or batch_sizes[-1] < 0:
        raise ValueError(f"expected {T} batch sizes that fall from {B}, got {list(batch_sizes)}")
