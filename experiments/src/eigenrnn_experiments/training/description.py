"""Descriptions: a task, a network or a setting as data that JSON can hold."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from inspect import Parameter
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "build",
    "describe",
    "describe_call",
    "describe_defaults",
    "describe_option_defaults",
    "describe_options",
    "differences",
]

_PACKAGES = ("eigenrnn", "eigenrnn_experiments")

_LEVELS = ("options",)  # left out of the path of a difference
_ABSENT = object()
_SETS = ("constraint", "reset", "update", "candidate")  # the options that are sets of matrices


def describe(value: Any) -> Any:
    """Return a value as data that JSON can hold; equal values have equal descriptions.

    A dataclass becomes its class and options, without the fields with ``compare=False``. A class
    or function becomes its name, and a `functools.partial` its function, arguments and options.

    Raises:
        TypeError: If it holds a value without a description, such as a lambda.

    Example:
        >>> from eigenrnn.constraints import ScaledCayley
        >>> describe({"layer": partial(ScaledCayley, negative=4)})
        {'layer': {'function': 'ScaledCayley', 'options': {'negative': 4}}}
    """
    if value is None or isinstance(value, bool | int | float | str):
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)  # strict JSON has no infinity
        return value
    if isinstance(value, Mapping):
        return _describe_mapping(cast("Mapping[Any, Any]", value))
    if isinstance(value, tuple | list):
        return [describe(item) for item in cast("list[Any]", value)]
    if isinstance(value, partial):
        described: dict[str, Any] = {"function": _name(value.func)}
        if value.args:
            described["arguments"] = describe(value.args)
        if value.keywords:
            described["options"] = _describe_mapping(value.keywords)
        return described
    if isinstance(value, MethodType):
        return {"function": _name(value.__func__), "arguments": [describe(value.__self__)]}
    if is_dataclass(value) and not isinstance(value, type):
        return {"class": _name(type(value)), "options": describe_options(value)}
    return _describe_leaf(value)


def describe_options(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as data, without those with ``compare=False``."""
    return {f.name: describe(getattr(value, f.name)) for f in fields(value) if f.compare}


def describe_defaults(dataclass_type: Any) -> dict[str, Any]:
    """Return the default values of the fields of a dataclass as data."""
    return {
        f.name: describe(f.default)
        for f in fields(dataclass_type)
        if f.compare and f.default is not MISSING
    }


def build(content: Any, names: Mapping[str, Any]) -> Any:
    """Return the value that `describe` has described; lists become tuples.

    Nothing is imported: a class or function is one of `names`. A dataclass is made again, and a
    `functools.partial` stays one.

    Args:
        content: The description, which may be someone else's.
        names: The classes, functions and other values that may occur, by their names.
    Raises:
        ValueError: If it calls a class or function that is not among the names.
    """
    if isinstance(content, str):
        return names.get(content, content)
    if isinstance(content, list):
        return tuple(build(item, names) for item in cast("list[Any]", content))
    if not isinstance(content, Mapping):
        return content
    entries = cast("Mapping[str, Any]", content)
    name = entries.get("function", entries.get("class"))
    if name is None:
        return {name: build(value, names) for name, value in entries.items()}
    if name not in names:
        raise ValueError(f"{name} is no class or function of eigenrnn")
    arguments = build(entries.get("arguments", []), names)
    options = build(entries.get("options", {}), names)
    call = partial(names[name], *arguments, **options)
    return call() if "class" in entries else call


def describe_call(**parts: Any) -> dict[str, Any]:
    """Return the call that makes a network as data, with the defaults of all that it leaves out.

    The defaults are stored because one that changes in a later version must be seen.

    Args:
        parts: What the network is made from: the `layer`, its `hidden_size`, and so on.
    Raises:
        TypeError: If a part has no description, such as a lambda.
    """
    described = describe({name: part for name, part in parts.items() if part is not None})
    return {**described, "defaults": describe_option_defaults(parts)}


def describe_option_defaults(parts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the default values of the options that a network leaves out, as data.

    They are those of our classes and functions in the parts, of their base classes, and of the
    classes and functions among the defaults themselves.

    Args:
        parts: The parts of a network: its layer, and what it is built from.
    """
    found: dict[str, dict[str, Any]] = {}
    waiting: list[tuple[Any, Mapping[str, Any]]] = []  # values, and the options passed to them
    for name, value in parts.items():
        passed: Mapping[str, Any] = {}
        if name == "layer":
            passed = parts.get("options") or {}
        waiting.append((value, passed))
        # the sets that a layer of a paper makes itself
        waiting += [(kind, {}) for kind in getattr(getattr(value, "func", value), "sets", ())]
    while waiting:
        value, passed = waiting.pop()
        if isinstance(value, partial):
            passed = {**passed, **value.keywords}
            value = value.func
            waiting += [(option, {}) for option in passed.values()]
        elif isinstance(value, Mapping):
            waiting += [(option, {}) for option in cast("Mapping[str, Any]", value).values()]
        elif isinstance(value, list | tuple):
            waiting += [(option, {}) for option in cast("list[Any]", value)]
        sets = getattr(value, "sets", ())
        for owner in _owners(value):
            if _name(owner) in found:
                continue
            described: dict[str, Any] = {}
            for option, default in _signature_defaults(owner).items():
                # a layer of a paper has sets of its own, not those of its base class
                if option not in passed and not (sets and option in _SETS):
                    described[option] = _describe_any(default)
                    waiting.append((default, {}))
            found[_name(owner)] = described
    return {name: defaults for name, defaults in sorted(found.items()) if defaults}


def _owners(value: Any) -> list[Any]:
    """Return a function of ours, or a class of ours and its bases."""
    owners: tuple[Any, ...] = (value,)
    if isinstance(value, type):  # the options of a base class may be passed through
        owners = inspect.getmro(value)
    known = [each for each in owners if isinstance(each, type | FunctionType)]
    return [each for each in known if each.__module__.partition(".")[0] in _PACKAGES]


@cache
def _signature_defaults(owner: Any) -> dict[str, Any]:
    function = owner
    if isinstance(owner, type):
        function = vars(owner).get("__init__")
    if not isinstance(function, FunctionType):
        return {}
    parameters = inspect.signature(function).parameters
    stated = {n: p.default for n, p in parameters.items() if p.default is not Parameter.empty}
    # what a layer passes on to its set has the default of the set, which is described itself
    left_out = {"generator", "device", *getattr(owner, "set_options", ())}
    return {name: value for name, value in stated.items() if name not in left_out}


def differences(then: Any, now: Any, path: str = "") -> list[str]:
    """List where two descriptions differ, each by its path: "task.delay was 4, now 5"."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        old = cast("Mapping[str, Any]", then)
        new = cast("Mapping[str, Any]", now)
        # the names of both, each once and in order
        names = list(dict.fromkeys([*old, *new]))
        if old.get("class") != new.get("class"):  # the options of another class say nothing more
            names = ["class"]
        found: list[str] = []
        for name in names:
            inner_path = path
            if name not in _LEVELS:
                inner_path = f"{path}.{name}".removeprefix(".")
            found += differences(old.get(name, _ABSENT), new.get(name, _ABSENT), inner_path)
        return found
    # JSON makes lists of tuples
    if isinstance(then, list | tuple) and isinstance(now, list | tuple):
        then = list(cast("list[Any]", then))
        now = list(cast("list[Any]", now))
    if then == now:
        return []
    return [f"{path} was {_show(then)}, now {_show(now)}"]


def _describe_leaf(value: Any) -> Any:
    if isinstance(value, np.generic) or (isinstance(value, Tensor) and value.ndim == 0):
        return describe(value.item())
    if isinstance(value, torch.dtype | PurePath):
        return str(value)
    return _name(value)


def _describe_mapping(options: Mapping[Any, Any]) -> dict[str, Any]:
    """Describe the values of a mapping.

    Raises:
        TypeError: If a key is not a string.
    """
    wrong = [key for key in options if not isinstance(key, str)]
    if wrong:
        raise TypeError(f"expected names as the keys of a description, got {wrong[0]!r}")
    return {name: describe(value) for name, value in options.items()}


def _name(value: Any) -> str:
    """Return the name of a class or function; that of another package begins with its module.

    Names in both of our packages are unique and omit the module, which may move.

    Raises:
        TypeError: If the value has no name that identifies it.
    """
    name = getattr(value, "__qualname__", None)
    is_closure = isinstance(value, FunctionType) and "<" in str(name)  # or a lambda
    if not isinstance(value, type | FunctionType | BuiltinFunctionType) or is_closure:
        raise TypeError(
            "expected numbers, strings, dataclasses, classes, or functions at the top level of a "
            f"module, which can be stored by name, got {value!r}; a field with compare=False is "
            "left out"
        )
    if isinstance(value, BuiltinFunctionType):
        name = value.__name__
    module = value.__module__ or "torch"
    package = module.partition(".")[0]
    if package in (*_PACKAGES, "builtins"):
        return str(name)
    if package == "torch":  # whose names are unique too
        return f"{package}.{name}"
    return f"{module}.{name}"


def _describe_any(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    try:
        return describe(value)
    except TypeError:
        return {"type": _name(type(value))}


def _show(value: Any) -> str:
    return "absent" if value is _ABSENT else str(value)
