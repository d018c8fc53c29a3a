"""The options of layers, which their constructors take as further keyword arguments.

They are typed dictionaries (PEP 692), so an editor completes them and the command line knows
their types. What they mean, and their defaults, is said by the layer that they are passed on to.
"""

from collections.abc import Callable
from typing import Any, Literal, TypedDict

import torch
from torch import Generator

__all__ = ["DeltaNetOptions", "GRUOptions", "LayerOptions", "RNNOptions"]


class LayerOptions(TypedDict, total=False):
    """Options of all layers, see `Stacked`."""

    trainable_h0: bool
    locked_dropout: bool
    backend: str | None
    generator: Generator | None


class _PaperOptions(LayerOptions, total=False):
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    device: torch.device | str | None
    dtype: torch.dtype | None


class _RegularisedOptions(_PaperOptions, total=False):
    nonlinearity: str
    init: Callable[..., Any] | None
    layer_norm: bool
    zoneout: float


class RNNOptions(_RegularisedOptions, total=False):
    """Options of `RNN`."""

    input_bias: bool | None
    output: Literal["real_imag", "real"]


class GRUOptions(_RegularisedOptions, total=False):
    """Options of `GRU`."""

    reset_after: bool
    update_keeps: bool


class DeltaNetOptions(_PaperOptions, total=False):
    """Options of `DeltaNet`."""

    gated: bool
    convolution: int
    output_gate: bool
