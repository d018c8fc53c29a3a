"""Copies the weights of torch's own recurrent layer into ours."""

import copy
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from eigenrnn.layers.rnn import RNN

__all__ = ["load_torch"]

_SHARED = ("input_size", "hidden_size", "num_layers", "bidirectional", "nonlinearity")


@torch.no_grad()
def load_torch(layer: "RNN", torch_rnn: nn.RNNBase) -> None:
    """Copy all weights; nothing is changed if one of them does not fit.

    Raises:
        TypeError: If the layer is of another kind.
        ValueError: If sizes, layers, directions, nonlinearity or biases differ.
    """
    if not isinstance(torch_rnn, nn.RNN):
        raise TypeError(f"expected a torch.nn.RNN, got a {type(torch_rnn).__name__}")
    for name in _SHARED:
        expected, got = getattr(layer, name), getattr(torch_rnn, name)
        if expected != got:
            raise ValueError(f"expected a torch.nn.RNN with {name}={expected!r}, got {got!r}")
    has_bias = layer.all_directions()[0].input_bias is not None
    if has_bias != torch_rnn.bias:
        raise ValueError(f"expected a torch.nn.RNN with bias={has_bias}, got {torch_rnn.bias}")
    suffixes = ["", "_reverse"] if torch_rnn.bidirectional else [""]
    names = [f"l{i}{suffix}" for i in range(torch_rnn.num_layers) for suffix in suffixes]
    weights = torch_rnn.state_dict()
    for direction, name in zip(layer.all_directions(), names, strict=True):
        copy.deepcopy(direction.constraint).assign(weights[f"weight_hh_{name}"])
    for direction, name in zip(layer.all_directions(), names, strict=True):
        direction.frozen = None
        direction.constraint.assign(weights[f"weight_hh_{name}"])
        direction.weight_ih.copy_(weights[f"weight_ih_{name}"])
        if direction.input_bias is not None:
            direction.input_bias.copy_(weights[f"bias_ih_{name}"] + weights[f"bias_hh_{name}"])
