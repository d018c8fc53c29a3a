"""Copies the weights of torch's own recurrent layer into ours."""

import copy

import torch
from torch import nn

from eigenrnn.layers.direction import Direction

__all__ = ["check_same_shape", "copy_weights"]

_SHARED = ("input_size", "hidden_size", "num_layers", "bidirectional", "nonlinearity")


def check_same_shape(layer: nn.Module, torch_rnn: nn.RNNBase) -> None:
    """Refuse a layer of torch's that is built otherwise.

    Raises:
        TypeError: If the layer is of another kind.
        ValueError: If sizes, layers, directions or the nonlinearity differ.
    """
    if not isinstance(torch_rnn, nn.RNN):
        raise TypeError(f"expected a torch.nn.RNN, got a {type(torch_rnn).__name__}")
    for name in _SHARED:
        expected, got = getattr(layer, name), getattr(torch_rnn, name)
        if expected != got:
            raise ValueError(f"expected a torch.nn.RNN with {name}={expected!r}, got {got!r}")


@torch.no_grad()
def copy_weights(directions: list[Direction], torch_rnn: nn.RNN) -> None:
    """Copy all weights; nothing is changed if one of them does not fit.

    Raises:
        ValueError: If one has biases and the other has none.
    """
    has_bias = directions[0].input_bias is not None
    if has_bias != torch_rnn.bias:
        raise ValueError(f"expected a torch.nn.RNN with bias={has_bias}, got {torch_rnn.bias}")
    suffixes = ["", "_reverse"] if torch_rnn.bidirectional else [""]
    names = [f"l{i}{suffix}" for i in range(torch_rnn.num_layers) for suffix in suffixes]
    weights = torch_rnn.state_dict()
    for direction, name in zip(directions, names, strict=True):
        # a dry run: `check` cannot foresee every refusal of `assign`
        copy.deepcopy(direction.constraint).assign(weights[f"weight_hh_{name}"])
    for direction, name in zip(directions, names, strict=True):
        direction.frozen = None
        direction.constraint.assign(weights[f"weight_hh_{name}"])
        direction.weight_ih.copy_(weights[f"weight_ih_{name}"])
        if direction.input_bias is not None:
            direction.input_bias.copy_(weights[f"bias_ih_{name}"] + weights[f"bias_hh_{name}"])
