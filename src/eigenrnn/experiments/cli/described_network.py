"""Rebuilds a network and a task that were made in Python from their description in a run.

The description may be someone else's. Only classes of this library and torch's recurrent layers
are built, with numbers and names as options. The result must have the same description, so a
network that is more than that is refused rather than built wrongly.
"""

import inspect
import math
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from inspect import Parameter
from typing import Any, cast

import torch
from torch import nn

from eigenrnn import AsRNN, ResidualStack, SequenceModel, init
from eigenrnn.constraints import BlockTriangular, Constraint, Schur
from eigenrnn.experiments.data.sequences import Sequences
from eigenrnn.experiments.data.tables import Columns
from eigenrnn.experiments.registry import CONSTRAINTS, LAYERS, TASKS
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training.description import describe, describe_network, differences

__all__ = ["build_network", "build_task"]

_LAYERS: dict[str, Any] = {kind.__name__: kind for kind in LAYERS.values()}
_TORCH_LAYERS: dict[str, Any] = {
    f"torch.{kind.__name__}": kind for kind in (nn.RNN, nn.GRU, nn.LSTM)
}
_OF_TORCH = ("input_size", "hidden_size", "num_layers", "dropout", "bidirectional")
_TORCH_OPTIONS = ("num_layers", "bias", "batch_first", "dropout", "bidirectional")
_CONSTRAINTS = {kind.__name__: kind for kind in CONSTRAINTS.values()}
_TASKS = {kind.__name__: kind for kind in TASKS.values()}
# as `describe` writes them
_NAMED_VALUES: dict[str, Any] = {"inf": math.inf} | {
    name: getattr(init, name) for name in init.__all__ if name.endswith("_")
}
_MAX_SHOWN = 3


def build_network(content: Mapping[str, Any], dtype: torch.dtype | None = None) -> nn.Module:
    """Build a `SequenceModel` around a registered layer, a layer of torch or a `ResidualStack`.

    Args:
        content: The description of the network in `config.json`.
        dtype: The dtype of the network; that of torch by default.

    Raises:
        ValueError: If the network is another one.
        Exception: Anything that a constructor raises on edited options.
    """
    if content.get("class") != "SequenceModel":
        raise ValueError(f"expected a SequenceModel, got {content.get('class')}")
    modules = content["modules"]
    # the stored weights replace those drawn here, which must not use up the user's random numbers
    with torch.random.fork_rng(devices=()):
        layer = _layer(modules["layer"])
        head = modules["head"]["options"]["out_features"]
        model = SequenceModel(layer, head, content["options"]["readout"]).to(dtype)
    found = differences(content, describe(describe_network(model)))
    if found:
        raise ValueError(f"it differs from what its classes make: {'; '.join(found[:_MAX_SHOWN])}")
    return model


def build_task(content: Mapping[str, Any], data: Mapping[str, Sequences]) -> Task:
    """Build a registered task with numbers and names as options.

    Args:
        content: The description of the task in `config.json`.
        data: The data that the task was given in memory, by the name of its option.

    Raises:
        ValueError: If the task is not registered, or has other options.
        Exception: Anything that a constructor raises on edited options.
    """
    kind = _TASKS.get(content["class"])
    if kind is None:
        raise ValueError(f"there is no task {content['class']}")
    options: dict[str, Any] = dict(content.get("options", {}))
    names = {field.name for field in fields(cast("Any", kind))}
    for name, value in options.items():
        if name == "columns":
            options[name] = Columns(**value.get("options", {}))
        elif name not in names or not _is_plain(value):
            raise ValueError(f"{kind.__name__} takes no option {name!r} such as {value!r}")
        elif isinstance(value, list):
            options[name] = tuple(cast("list[Any]", value))
    if "train" in names and options.get("dataset") is None:
        # a task that read a file does not say where it is
        options["train"] = data.get("train", "the training file of the run")
        options["test"] = data.get("test")
    return kind(**options)


def _is_plain(value: Any) -> bool:
    items = [value]
    if isinstance(value, list):
        items = cast("list[Any]", value)
    return all(isinstance(item, str | int | float | bool | None) for item in items)


def _layer(content: Mapping[str, Any]) -> Any:
    """Build a layer.

    Raises:
        ValueError: If it is not registered.
    """
    name = content["class"]
    options = content.get("options", {})
    if name == "ResidualStack":
        return _stack(content, options)
    if name in _TORCH_LAYERS:
        arguments = {option: options[option] for option in _TORCH_OPTIONS}
        if name == "torch.RNN":
            arguments["nonlinearity"] = {"RNN_TANH": "tanh"}.get(options["mode"], "relu")
        return _TORCH_LAYERS[name](options["input_size"], options["hidden_size"], **arguments)
    kind = _LAYERS.get(name)
    if kind is None:
        raise ValueError(f"{name} is neither a layer of eigenrnn nor one of torch")
    known = _parameters(kind)
    arguments = _plain(options, known)
    if issubclass(kind, nn.RNNBase):
        return kind(**{n: v for n, v in arguments.items() if n in _OF_TORCH})
    first = content["modules"]["directions"]["modules"]["0"]
    of_direction = first.get("options", {})
    # options that the layers do not keep under their own names
    if kind is AsRNN:
        arguments["epsilon"] = of_direction["epsilon"]
        arguments["scale"] = of_direction["initializers"]["s"][0]["options"]["bounds"]
    if "h0" in first.get("parameters", {}) and "trainable_h0" in known:
        arguments["trainable_h0"] = True
    if "leak" in first.get("modules", {}):
        of_leak = first["modules"]["leak"]["options"]["options"]["options"]
        arguments |= _plain(of_leak, known) | {"trainable_leak": of_leak["trainable"]}
    for name in of_direction.get("matrix_names", ()):
        argument = name.removesuffix("_gate")
        described = first["modules"][name]
        if argument in inspect.signature(kind).parameters:
            arguments[argument] = _set(described)
        else:  # a layer of a paper, which takes the options of its set
            of_set = _with_options_of_parts(_set(described).keywords)
            taken = {name: value for name, value in of_set.items() if name in known}
            arguments = taken | arguments
    return kind(**arguments)


def _parameters(kind: type) -> set[str]:
    """Return the names of the options of a class, with those that it passes to its bases."""
    known: set[str] = set()
    for base in kind.__mro__:
        parameters = inspect.signature(base).parameters
        known |= {n for n, p in parameters.items() if p.kind is not Parameter.VAR_KEYWORD}
        # a class that takes no ** passes no further options to its bases
        if not any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values()):
            break
    return known - {"size", "generator", "device", "dtype"}


def _plain(options: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """Return the options that a class takes and that are numbers, names or initialisers."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name in known and _is_plain(value):
            found[name] = _NAMED_VALUES.get(value, value) if isinstance(value, str) else value
    return found


def _set(content: Mapping[str, Any]) -> "partial[Constraint]":
    """Return what makes a set of matrices.

    Raises:
        ValueError: If it is not registered.
    """
    kind = _CONSTRAINTS.get(content["class"])
    if kind is None:
        raise ValueError(f"{content['class']} is no set of eigenrnn")
    known = _parameters(kind)
    options = content.get("options", {})
    parts = content.get("modules", {})
    arguments: dict[str, Any] = {}
    for name, part in parts.items():
        of_part = _set(part)
        argument = "orthogonal" if name == "P" else name
        if argument in known:
            arguments[argument] = of_part
        else:  # a part that the set makes itself, with some of its own options
            taken = {n: v for n, v in of_part.keywords.items() if n in known}
            arguments |= taken
    arguments |= _plain(options, known)
    # options that the sets do not keep under their own names
    if kind is BlockTriangular:
        arguments["short_size"] = parts["short"]["options"]["size"]
        arguments["coupling"] = "coupling" in content.get("parameters", {})
    if kind is Schur:
        arguments["gamma"] = "trained" if options["trained"] else "clamped"
        if options["is_complex"]:  # a complex Schur form is triangular, and has no blocks
            del arguments["in_block"]
    if options.get("is_complex") and "dtype" in inspect.signature(kind).parameters:
        arguments["dtype"] = torch.complex64
    return partial(kind, **arguments)


def _with_options_of_parts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a set and those of the sets of its blocks."""
    found: dict[str, Any] = {}
    for value in arguments.values():
        if isinstance(value, partial):
            found |= _with_options_of_parts(cast("partial[Any]", value).keywords)
    return found | dict(arguments)


def _stack(content: Mapping[str, Any], options: Mapping[str, Any]) -> ResidualStack:
    """Build a stack of residual blocks."""
    modules = content["modules"]
    block = modules["blocks"]["modules"]["0"]["modules"]
    norms = {"torch.LayerNorm": "layer", "torch.RMSNorm": "rms"}
    mixer = None
    if "gate" in block:
        mixer = "glu"
    elif "mlp" in block:
        mixer = "mlp"
    return ResidualStack(
        lambda _: _layer(block["layer"]),
        options["width"],
        options["depth"],
        norm=cast("Any", norms.get(block["norm"]["class"])),
        mixer=mixer,
        dropout=block["dropout"]["options"]["p"],
        input_size=options["input_size"],
        batch_first=options["batch_first"],
    )
