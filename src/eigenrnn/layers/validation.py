"""Checks of the options and inputs of recurrent layers."""

import warnings
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import at_least_float32
from eigenrnn.tracing import are_plain, autocasts, check_dense, jit_traces

__all__ = [
    "check_h0",
    "check_input",
    "check_options",
    "check_pair",
    "check_step",
]


def check_options(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
) -> None:
    """Check the sizes and the dropout of a layer; warn if the dropout has no effect.

    Raises:
        ValueError: If a size is not a positive integer, or `dropout` is not a probability.
    """
    # before any weight is allocated
    sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
    for name, size in sizes.items():
        check_positive_integer(name, size)
    if not 0 <= dropout <= 1:
        raise ValueError(f"expected dropout to be a probability from 0 to 1, got {dropout!r}")
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            f"dropout={dropout} has no effect with one layer: it is applied between layers",
            stacklevel=4,  # the line that constructs the layer
        )


def check_input(x: object, input_size: int, weight: Tensor) -> None:
    """Check the rank, the size, the dtype and the device of an input.

    Args:
        x: The input.
        input_size: The number M of input features.
        weight: A weight, whose dtype and device the input must have.
    Raises:
        ValueError: If the rank, the size or the device is wrong, or it has no memory, or
            `torch.jit.trace` records the call.
        TypeError: If it is not a dense tensor, or its dtype is not that of the weights.
    """
    compiling = torch.compiler.is_compiling()
    if not compiling and jit_traces():
        raise ValueError(
            "expected torch.export.export or torch.onnx.export(..., dynamo=True), got "
            "torch.jit.trace: TorchScript cannot record the recurrences of eigenrnn"
        )
    if not isinstance(x, Tensor):
        raise TypeError(f"expected input to be a tensor, got {type(x).__name__}")
    if compiling or not are_plain((x,)):  # a tensor of a transform has no address
        check_dense({"input": x})
    if x.dim() not in (2, 3):
        raise ValueError(f"expected input of 2 or 3 dimensions, got shape {tuple(x.shape)}")
    if x.shape[-1] != input_size:
        raise ValueError(
            f"expected inputs of size {input_size}, got {x.shape[-1]} in shape {tuple(x.shape)}"
        )
    if x.device != weight.device:
        raise ValueError(
            f"expected input on {weight.device}, where the weights are, got {x.device}"
        )
    dtype = weight.dtype
    if dtype.is_complex:
        raise TypeError(f"expected weights of a real type, also of complex layers, got {dtype}")
    if x.dtype != dtype and not _is_cast(x, dtype):
        raise TypeError(f"expected input of {dtype}, the dtype of the weights, got {x.dtype}")


def _is_cast(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Whether autocast is on and casts a tensor to a dtype, as it does up to 32 bits."""
    same = at_least_float32(tensor.dtype) == at_least_float32(dtype)
    return same and autocasts(tensor.device.type)


def check_step(x_t: object) -> None:
    """Check the rank of one time step of a sequence or of a batch of sequences.

    Raises:
        ValueError: If the rank is wrong, or it has no memory.
        TypeError: If it is not a dense tensor.
    """
    if not isinstance(x_t, Tensor):
        raise TypeError(f"expected x_t to be a tensor, got {type(x_t).__name__}")
    check_dense({"x_t": x_t})
    if x_t.dim() not in (1, 2):
        raise ValueError(f"expected x_t of shape (B, M) or (M,), got {tuple(x_t.shape)}")


def check_pair(
    states: object, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Check the initial states (h0, c0) of an LSTM, one shape for each, and return them.

    Raises:
        ValueError: If a shape is wrong.
        TypeError: If they are not a pair of tensors, or their dtype is not that of the weights.
    """
    # torch takes a list too
    if not isinstance(states, tuple | list) or len(cast("Sequence[object]", states)) != 2:
        raise TypeError(f"expected the pair (h0, c0) of states, got {type(states).__name__}")
    h0, c0 = cast("Sequence[Tensor]", states)
    for state, shape in zip((h0, c0), shapes, strict=True):
        check_h0(state, shape, dtype)
    return h0, c0


def check_h0(h0: object, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Check the shape and the dtype of initial states.

    Raises:
        ValueError: If the shape is wrong, or they have no memory.
        TypeError: If they are not a dense tensor, or their dtype is not that of the weights.
    """
    if not isinstance(h0, Tensor):
        raise TypeError(f"expected the initial states to be a tensor, got {type(h0).__name__}")
    check_dense({"the initial states": h0})
    if h0.shape != shape:
        raise ValueError(f"expected initial states of shape {shape}, got {tuple(h0.shape)}")
    if h0.dtype != dtype and not _is_cast(h0, dtype):
        raise TypeError(
            f"expected initial states of {dtype}, the dtype of the weights, got {h0.dtype}"
        )
