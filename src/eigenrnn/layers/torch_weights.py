"""The weights of `RNN`, `GRU`, `LSTM` and their cells under torch's names, in torch's layout."""

import copy
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from eigenrnn.layers.direction import AbstractDirection
from eigenrnn.layers.regularisation import non_default_options
from eigenrnn.torch_internals import check_own_weights, weight_names

__all__ = [
    "CELL_NAMES",
    "check_same_options",
    "convert",
    "copy_torch_weights",
    "direction_names",
    "is_torch_name",
    "load_weights",
    "names_by_direction",
    "read",
    "translate",
    "translate_cell",
]

_NAME = re.compile(r"(weight|bias)_(ih|hh)_l(\d+)(_reverse)?")


def is_torch_name(name: str) -> bool:
    """Whether torch's recurrent layers have weights of such a name."""
    return _NAME.fullmatch(name) is not None


CELL_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""The names of the weights of torch's cells, which are those of its layers without an end."""


def names_by_direction(layer: Any) -> list[list[str]]:
    """Return torch's names of the weights of each layer and direction, in torch's order.

    Raises:
        AttributeError: If torch has no layer with this recurrence.
    """
    if layer.torch_kind is None:
        raise AttributeError(f"torch has no layer like {type(layer).__name__}")
    kinds = ["weight_ih", "weight_hh"]
    if layer.all_directions()[0].torch_biases() is not None:
        kinds += ["bias_ih", "bias_hh"]
    return [[f"{kind}_{suffix}" for kind in kinds] for suffix in direction_names(layer)]


def _all_names(layer: Any) -> list[str]:
    """Return torch's names of all weights of a layer, in torch's order."""
    return list(itertools.chain.from_iterable(names_by_direction(layer)))


def direction_names(layer: Any) -> list[str]:
    """Return the ends of the names, such as `l0_reverse`, in torch's order."""
    ends = ["", "_reverse"] if layer.bidirectional else [""]
    return [f"l{i}{end}" for i in range(layer.num_layers) for end in ends]


def read(layer: Any, name: str) -> Tensor:
    """Return a weight by its name in torch.

    Raises:
        AttributeError: If the layer has no weight of this name.
    """
    for direction, names in zip(layer.all_directions(), names_by_direction(layer), strict=True):
        if name not in names:
            continue
        if name.startswith("weight_ih"):
            return direction.weight_ih
        if name.startswith("weight_hh"):
            return torch.cat(direction.matrices())
        bias_ih, bias_hh = cast("tuple[Tensor, Tensor]", direction.torch_biases())
        return bias_ih if name.startswith("bias_ih") else bias_hh
    known = ", ".join(_all_names(layer))
    raise AttributeError(f"{type(layer).__name__} has no {name!r}; it has {known}")


# also in inference mode: `assign=True` keeps the tensors, and those of that mode cannot be trained
@torch.inference_mode(False)
def translate(layer: Any, state: dict[str, Any], prefix: str, *_arguments: object) -> None:
    """Replace the weights of a torch layer in a state by those of ours, if it holds any.

    `load_state_dict` calls it for each layer before it reads the state.

    Raises:
        ValueError: If names or shapes differ from those of a torch layer of this size, or a weight
            of ours is computed from others, as by pruning.
        NotInSetError: If a recurrent matrix is not in the set of its constraint.
    """
    found: dict[str, Any] = {}
    for name, value in state.items():
        own = name.removeprefix(prefix)
        if name.startswith(prefix) and is_torch_name(own):
            found[own] = value
    if layer.torch_kind is None or not found:
        return
    expected = {name: tuple(getattr(layer, name).shape) for name in _all_names(layer)}
    got = {name: tuple(value.shape) for name, value in found.items()}
    if got != expected:
        raise ValueError(f"expected weights of the shapes {expected}, got {got}")
    check_own_weights(layer)
    # into a copy: the layer itself changes only when torch loads the state
    loaded = copy.deepcopy(layer)
    if loaded.all_directions()[0].weight_ih.is_meta:  # a matrix cannot be assigned there
        with torch.random.fork_rng(devices=()):
            loaded.to_empty(device=found[next(iter(found))].device).reset()
    load_weights(loaded.all_directions(), direction_names(layer), found)
    for name in found:
        del state[prefix + name]
    for name, value in loaded.state_dict().items():
        state[prefix + name] = value  # what a torch layer lacks, such as a leak, stays as it is


def translate_cell(_cell: Any, state: dict[str, Any], prefix: str, *_arguments: object) -> None:
    """Give the weights of a torch cell in a state the names of a layer, which translates them."""
    for name in CELL_NAMES:
        if prefix + name in state:
            state[f"{prefix}layer.{name}_l0"] = state.pop(prefix + name)


_SHARED_OPTIONS = ("input_size", "hidden_size", "num_layers", "bidirectional", "proj_size")


def check_same_options(layer: Any, torch_rnn: nn.RNNBase) -> None:
    """Check that a torch layer computes the same function as our layer.

    Raises:
        TypeError: If `torch_rnn` is of another kind.
        ValueError: If sizes, layers, directions or one of the options differ, or if ours has
            LayerNorm or zoneout, which torch's layers lack.
    """
    kind = layer.torch_kind
    expected_kind = f"torch.nn.{kind.__name__}"
    if not isinstance(torch_rnn, kind):
        raise TypeError(f"expected a {expected_kind}, got a {type(torch_rnn).__name__}")
    for name in (*_SHARED_OPTIONS, *layer.torch_options):
        expected = getattr(layer, name)
        got = getattr(torch_rnn, name)
        if expected != got:
            raise ValueError(f"expected a {expected_kind} with {name}={expected!r}, got {got!r}")
    for name in non_default_options(layer):
        value = getattr(layer, name)
        raise ValueError(f"expected a layer without {name}, as {expected_kind}, got {value!r}")


@torch.no_grad()
def copy_torch_weights(
    directions: Sequence[AbstractDirection], torch_rnn: nn.RNNBase | nn.RNNCellBase
) -> None:
    """Copy all weights of a torch layer or cell; change nothing if one of them does not fit.

    Raises:
        ValueError: If only one of the two has biases.
        NotInSetError: If a recurrent matrix is not in the set of its constraint.
    """
    has_bias = directions[0].input_bias is not None
    if has_bias != torch_rnn.bias:
        raise ValueError(f"expected a layer of torch with bias={has_bias}, got {torch_rnn.bias}")
    # by their attributes: a constrained weight is no parameter
    if isinstance(torch_rnn, nn.RNNBase):
        weights = {name: getattr(torch_rnn, name) for name in weight_names(torch_rnn)}
        load_weights(directions, direction_names(torch_rnn), weights)
    else:
        names = CELL_NAMES if torch_rnn.bias else CELL_NAMES[:2]
        weights = {f"{name}_l0": getattr(torch_rnn, name) for name in names}
        load_weights(directions, ["l0"], weights)


@torch.no_grad()
def load_weights(
    directions: Sequence[AbstractDirection], suffixes: Sequence[str], weights: Mapping[str, Tensor]
) -> None:
    """Load weights by torch's names; change nothing if a matrix is not in its set.

    Raises:
        NotInSetError: If a recurrent matrix is not in the set of its constraint.
    """
    size = directions[0].hidden_size
    matrices = [weights[f"weight_hh_{suffix}"].split(size) for suffix in suffixes]
    for direction, gate_matrices in zip(directions, matrices, strict=True):
        # a dry run on a copy: `assign` rejects some matrices that `check` accepts
        for constraint, matrix in zip(direction.constraints(), gate_matrices, strict=True):
            copy.deepcopy(constraint).assign(matrix)
    for direction, suffix, gate_matrices in zip(directions, suffixes, matrices, strict=True):
        direction.frozen = None  # the frozen matrices belong to the weights before the load
        for constraint, matrix in zip(direction.constraints(), gate_matrices, strict=True):
            constraint.assign(matrix)
        direction.weight_ih.copy_(weights[f"weight_ih_{suffix}"])
        if f"bias_ih_{suffix}" in weights:
            direction.load_biases(weights[f"bias_ih_{suffix}"], weights[f"bias_hh_{suffix}"])


@torch.no_grad()
def convert(layer: Any) -> Any:
    """Return a torch layer with the evaluated weights of ours, in the same mode.

    Args:
        layer: An `RNN`, `GRU` or `LSTM` whose options torch's layer has.
    Raises:
        ValueError: If the layer has an option that torch's layer lacks, or a hook computes a
            weight.
    """
    check_own_weights(layer, written=False)
    kind = layer.torch_kind
    name = f"torch.nn.{kind.__name__}"
    missing = [*non_default_options(layer)]
    if layer.locked_dropout:
        missing.append("locked_dropout")
    first = layer.all_directions()[0]
    if first.h0 is not None:
        missing.append("trainable_h0")
    if first.weight_drop:
        missing.append("dropout of recurrent weights")
    if any(constraint.is_complex for constraint in first.constraints()):
        missing.append("complex states")
    if missing:
        raise ValueError(f"expected a layer that {name} can compute, got {', '.join(missing)}")
    has_bias = first.torch_biases() is not None
    made = cast("type[Any]", kind)(
        layer.input_size,
        layer.hidden_size,
        layer.num_layers,
        bias=has_bias,
        batch_first=layer.batch_first,
        dropout=layer.dropout,
        bidirectional=layer.bidirectional,
        device=first.weight_ih.device,
        dtype=first.weight_ih.dtype,
        **{name: getattr(layer, name) for name in layer.torch_options},
    )
    for names in names_by_direction(layer):
        for weight in names:
            getattr(made, weight).copy_(getattr(layer, weight))
    return made.train(layer.training)
