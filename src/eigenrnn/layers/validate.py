"""What a recurrent layer refuses, and in which words."""

import torch
from torch import Tensor

from eigenrnn.errors import check_positive_integer

__all__ = ["check_h0", "check_input", "check_options"]


def check_options(input_size: int, hidden_size: int, num_layers: int, dropout: float) -> None:
    """Refuse sizes and shares that make no layer.

    Raises:
        ValueError: If a size is not a positive integer or `dropout` is no share.
    """
    sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
    for name, size in sizes.items():
        check_positive_integer(name, size)
    if not 0 <= dropout <= 1:
        raise ValueError(f"expected 0 <= dropout <= 1, got {dropout}")


def check_input(x: Tensor, input_size: int, dtype: torch.dtype) -> None:
    """Refuse inputs of another rank, size or type.

    Raises:
        ValueError: If the rank or the size is wrong.
        TypeError: If the type is not that of the weights.
    """
    if x.dim() not in (2, 3):
        raise ValueError(f"expected input of 2 or 3 dimensions, got shape {tuple(x.shape)}")
    if x.shape[-1] != input_size:
        raise ValueError(
            f"expected inputs of size {input_size}, got {x.shape[-1]} in shape {tuple(x.shape)}"
        )
    if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"expected input of {dtype}, as the weights are, got {x.dtype}: "
            f"convert with input.to({dtype}) or layer.to({x.dtype})"
        )


def check_h0(h0: Tensor, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Refuse first states of another shape or type.

    Raises:
        ValueError: If the shape is wrong.
        TypeError: If the type is not that of the weights.
    """
    if h0.shape != shape:
        raise ValueError(f"expected h0 of shape {shape}, got {tuple(h0.shape)}")
    if h0.dtype != dtype and not torch.is_autocast_enabled(h0.device.type):
        raise TypeError(f"expected h0 of {dtype}, as the weights are, got {h0.dtype}")
