"""What a recurrent layer can read."""

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

__all__ = ["check_read", "check_sequences", "given_numbers"]


def given_numbers(x: Tensor | ArrayLike, name: str = "x") -> Tensor:
    """Return real numbers in double precision, on the CPU.

    Raises:
        ValueError: If they are none.
    """
    if isinstance(x, Tensor) and (x.is_meta or x.layout != torch.strided):
        raise ValueError(f"expected {name} to be a dense tensor with values, got {x!r}")
    try:
        given = torch.as_tensor(x).detach().to("cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"expected {name} to be a tensor or an array of numbers, got {type(x).__name__}: "
            f"{error}"
        ) from error
    if given.is_complex():
        raise ValueError(
            f"expected real numbers in {name}, got complex ones; give real and imaginary parts "
            "beside each other"
        )
    return given.to(torch.float64)


def check_sequences(x: Tensor, input_size: int, *, batch_first: bool) -> None:
    """Refuse what is no sequence, or no batch of some.

    Raises:
        ValueError: If a shape is wrong, or there is nothing to read.
    """
    if x.dim() not in (2, 3) or x.shape[-1] != input_size or not x.numel():
        shape = "(B, T, M)" if batch_first else "(T, B, M)"
        raise ValueError(
            f"expected x of shape {shape} or (T, M) with M = {input_size} and at least one step, "
            f"got {tuple(x.shape)}"
        )


def check_read(layer: nn.Module, x: Any) -> None:
    """Refuse what a layer in double precision cannot read.

    Raises:
        ValueError: If it is no tensor of fitting shape and type.
    """
    if not isinstance(x, Tensor):
        raise ValueError(f"expected x to be a tensor, got {type(x).__name__}")
    if not x.is_floating_point():
        kind = str(x.dtype).removeprefix("torch.")
        raise ValueError(f"expected floating-point numbers in x, got {kind}; give x.double()")
    given: Any = layer
    check_sequences(x, given.input_size, batch_first=given.batch_first)
