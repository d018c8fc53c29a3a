"""Initialisers of weights and of whole layers, in place, in the style of `torch.nn.init`."""

from eigenrnn.init.layers import Kind, recurrent_
from eigenrnn.init.matrices import (
    ChainDirection,
    Initializer,
    chain_,
    constant_,
    fan_normal_,
    fan_uniform_,
    feedback_chain_,
    glorot_normal_,
    glorot_uniform_,
    haar_,
    identity_,
    kaiming_normal_,
    orthogonal_,
    ramp_,
    source_,
    uniform_,
    zeros_,
)

__all__ = [  # noqa: RUF022, in the order of the reference
    "recurrent_",
    "orthogonal_",
    "haar_",
    "identity_",
    "chain_",
    "constant_",
    "fan_normal_",
    "fan_uniform_",
    "feedback_chain_",
    "glorot_normal_",
    "glorot_uniform_",
    "kaiming_normal_",
    "ramp_",
    "source_",
    "uniform_",
    "zeros_",
    "ChainDirection",
    "Kind",
    "Initializer",
]
