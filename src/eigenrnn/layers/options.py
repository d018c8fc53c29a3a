"""The options that a layer of a paper passes on to `RNN`, `GRU` or `DeltaNet`.

They are typed dictionaries (PEP 692), so an editor completes them and the command line knows
their types. What they mean, and their defaults, is said by the layer that they are passed on to.
"""

from typing import Literal, TypedDict

import torch
from torch import Generator

from eigenrnn.init import Initializer
from eigenrnn.layers.leak import LeakValues

__all__ = ["DeltaNetOptions", "GRUOptions", "RNNOptions"]


class _LayerOptions(TypedDict, total=False):
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    device: torch.device | str | None
    dtype: torch.dtype | None
    trainable_h0: bool
    locked_dropout: bool
    backend: str | None
    generator: Generator | None


class _RegularisedOptions(_LayerOptions, total=False):
    nonlinearity: str
    input_init: Initializer | None
    bias_init: Initializer | None
    h0_init: Initializer | None
    layer_norm: bool
    zoneout: float


class RNNOptions(_RegularisedOptions, total=False):
    """Options of `RNN`."""

    input_bias: bool | None
    input_bias_init: Initializer | None
    output: Literal["real_imag", "real"]
    leak: LeakValues
    trainable_leak: bool
    noise: float
    noise_in_eval: bool
    state: Literal["rate", "current"]


class GRUOptions(_RegularisedOptions, total=False):
    """Options of `GRU`."""

    reset_after: bool
    update_keeps: bool
    candidate_init: Initializer | None
    reset_bias_init: Initializer | None
    update_bias_init: Initializer | None


class DeltaNetOptions(_LayerOptions, total=False):
    """Options of `DeltaNet`."""

    gated: bool
    convolution: int
    silu: bool
    output_gate: bool
