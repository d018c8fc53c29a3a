"""Copies the weights of torch's own recurrent layers into ours."""

import copy
from collections.abc import Sequence

import torch
from torch import nn

from eigenrnn.layers.abstract_direction import AbstractDirection
from eigenrnn.layers.norm_zoneout import PLAIN, asked_of

__all__ = ["check_same_shape", "copy_weights"]

_SHARED = ("input_size", "hidden_size", "num_layers", "bidirectional")


def check_same_shape(
    layer: nn.Module, torch_rnn: nn.RNNBase, kind: type[nn.RNNBase], options: Sequence[str] = ()
) -> None:
    """Refuse a layer of torch's that is built otherwise.

    Raises:
        TypeError: If the layer is of another kind.
        ValueError: If sizes, layers, directions or one of the options differ, or ours has
            LayerNorm or zoneout, with which it is another function in evaluation too.
    """
    expected_kind = f"torch.nn.{kind.__name__}"
    if not isinstance(torch_rnn, kind):
        raise TypeError(f"expected a {expected_kind}, got a {type(torch_rnn).__name__}")
    for name in (*_SHARED, *options):
        expected, got = getattr(layer, name), getattr(torch_rnn, name)
        if expected != got:
            raise ValueError(f"expected a {expected_kind} with {name}={expected!r}, got {got!r}")
    for name in asked_of(layer):
        raise ValueError(
            f"expected a layer with {name}={PLAIN[name]!r}, as {expected_kind} is, got "
            f"{getattr(layer, name)!r}: load into a plain one, whose state_dict this one takes "
            "with strict=False"
        )


@torch.no_grad()
def copy_weights(directions: Sequence[AbstractDirection], torch_rnn: nn.RNNBase) -> None:
    """Copy all weights; nothing is changed if one of them does not fit.

    Raises:
        ValueError: If one has biases and the other has none.
    """
    has_bias = directions[0].input_bias is not None
    if has_bias != torch_rnn.bias:
        kind = next(each.__name__ for each in (nn.RNN, nn.GRU) if isinstance(torch_rnn, each))
        raise ValueError(f"expected a torch.nn.{kind} with bias={has_bias}, got {torch_rnn.bias}")
    suffixes = ["", "_reverse"] if torch_rnn.bidirectional else [""]
    names = [f"l{i}{suffix}" for i in range(torch_rnn.num_layers) for suffix in suffixes]
    weights = torch_rnn.state_dict()
    matrices = [weights[f"weight_hh_{name}"].split(torch_rnn.hidden_size) for name in names]
    for direction, given in zip(directions, matrices, strict=True):
        # a dry run: `check` cannot foresee every refusal of `assign`
        for constraint, matrix in zip(direction.constraints(), given, strict=True):
            copy.deepcopy(constraint).assign(matrix)
    for direction, name, given in zip(directions, names, matrices, strict=True):
        direction.frozen = None
        for constraint, matrix in zip(direction.constraints(), given, strict=True):
            constraint.assign(matrix)
        direction.weight_ih.copy_(weights[f"weight_ih_{name}"])
        if torch_rnn.bias:
            direction.load_biases(weights[f"bias_ih_{name}"], weights[f"bias_hh_{name}"])
