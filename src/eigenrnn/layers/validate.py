"""What a recurrent layer refuses, and in which words."""

import warnings
from numbers import Real
from typing import cast

import torch
from torch import Tensor

from eigenrnn.errors import check_positive_integer
from eigenrnn.memory import check_memory
from eigenrnn.tracing import autocasts

__all__ = [
    "check_dtype",
    "check_h0",
    "check_input",
    "check_options",
    "check_sizes",
    "check_step",
]

_MODULE = 10_000  # bytes of Python around the weights of a layer, at the least
_SMALL = 2**28  # to ask how much is free would cost more than so much memory


def check_options(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    locked_dropout: bool = False,
) -> None:
    """Refuse sizes and shares that make no layer; warn of a dropout that does nothing.

    Raises:
        ValueError: If a size is not a positive integer, the weights do not fit into memory or
            `dropout` is no share.
    """
    check_sizes(input_size, hidden_size, num_layers)
    share = cast("object", dropout)
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= dropout <= 1:
        raise ValueError(f"expected dropout to be a share from 0 to 1, got {dropout!r}")
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            f"dropout={dropout} does nothing with one layer: it acts between layers",
            stacklevel=4,  # where the layer is made
        )
    if locked_dropout and dropout == 0:
        warnings.warn("locked_dropout=True does nothing with dropout=0.0", stacklevel=4)


def check_sizes(input_size: int, hidden_size: int, num_layers: int, matrices: int = 1) -> None:
    """Refuse sizes of which no layer can be made, before anything is allocated.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        matrices: The number of recurrent matrices of a layer, one for each gate.
    Raises:
        ValueError: If one is not a positive integer, or the weights do not fit into memory.
    """
    sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
    for name, size in sizes.items():
        check_positive_integer(name, size)
    if torch.get_default_device().type != "cpu":
        return
    between = 2 * (num_layers - 1) * hidden_size**2
    numbers = matrices * (hidden_size * (input_size + hidden_size) + between)
    needed = torch.get_default_dtype().itemsize * numbers + _MODULE * (num_layers - 1)
    if needed > _SMALL:
        layers = "1 layer" if num_layers == 1 else f"{num_layers} layers"
        what = f"the weights of {layers} of {hidden_size} units"
        check_memory(needed, what, "take fewer units or layers")


def check_dtype(dtype: torch.dtype | None) -> None:
    """Refuse what weights cannot be made of.

    Raises:
        ValueError: If it is not a real floating-point type.
    """
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(
            f"expected a real floating-point dtype for the weights, got {dtype}; "
            "complex sets are chosen by their own dtype="
        )


def check_input(x: object, input_size: int, dtype: torch.dtype) -> None:
    """Refuse inputs of another rank, size or type.

    Raises:
        ValueError: If the rank or the size is wrong.
        TypeError: If it is no tensor, or the type is not that of the weights.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"expected input to be a tensor, got {type(x).__name__}")
    if x.dim() not in (2, 3):
        raise ValueError(f"expected input of 2 or 3 dimensions, got shape {tuple(x.shape)}")
    if x.shape[-1] != input_size:
        raise ValueError(
            f"expected inputs of size {input_size}, got {x.shape[-1]} in shape {tuple(x.shape)}"
        )
    if x.dtype != dtype and not autocasts(x.device.type):
        or_layer = f" or layer.to({x.dtype})" if x.dtype.is_floating_point else ""
        raise TypeError(
            f"expected input of {dtype}, as the weights are, got {x.dtype}: "
            f"convert with input.to({dtype}){or_layer}"
        )


def check_step(x_t: object) -> None:
    """Refuse what is no step of a sequence or of a batch of sequences.

    Raises:
        ValueError: If the rank is wrong.
        TypeError: If it is no tensor.
    """
    if not isinstance(x_t, Tensor):
        raise TypeError(f"expected x_t to be a tensor, got {type(x_t).__name__}")
    if x_t.dim() not in (1, 2):
        raise ValueError(f"expected x_t of shape (B, M) or (M,), got {tuple(x_t.shape)}")


def check_h0(h0: object, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Refuse first states of another shape or type.

    Raises:
        ValueError: If the shape is wrong.
        TypeError: If it is no tensor, or the type is not that of the weights.
    """
    if not isinstance(h0, Tensor):
        kind = type(h0).__name__
        hint = ": only an LSTM has a pair of states" if isinstance(h0, tuple) else ""
        raise TypeError(f"expected the first states to be a tensor, got {kind}{hint}")
    if h0.shape != shape:
        raise ValueError(f"expected first states of shape {shape}, got {tuple(h0.shape)}")
    if h0.dtype != dtype and not autocasts(h0.device.type):
        raise TypeError(f"expected first states of {dtype}, as the weights are, got {h0.dtype}")
