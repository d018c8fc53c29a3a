"""The registered constraints, layers, tasks, recipes and backends, by their names."""

import inspect
import re
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any

from torch import nn

from eigenrnn import constraints, init, layers
from eigenrnn.constraints import Constraint
from eigenrnn.experiments import recipes, tasks
from eigenrnn.experiments.recipes import Recipe
from eigenrnn.experiments.tasks import Task
from eigenrnn.layers.stacked import Stacked
from eigenrnn.ops.delta import BACKENDS as DELTA
from eigenrnn.ops.dispatch import Backend
from eigenrnn.ops.elman import BACKENDS as ELMAN
from eigenrnn.ops.gru import BACKENDS as GRU
from eigenrnn.ops.linear import BACKENDS as LINEAR
from eigenrnn.ops.lstm import BACKENDS as LSTM

__all__ = [
    "BACKENDS",
    "CONSTRAINTS",
    "LAYERS",
    "RECIPES",
    "TASKS",
    "class_path",
    "registered",
    "summary",
    "task_name",
]


def _snake(name: str) -> str:
    """Return a class name in snake case, such as pixel_mnist for PixelMNIST."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _exported(package: Any, base: type | UnionType) -> list[type]:
    exported = [getattr(package, name) for name in package.__all__]
    return [
        entry
        for entry in exported
        if inspect.isclass(entry) and issubclass(entry, base) and not inspect.isabstract(entry)
    ]


CONSTRAINTS: dict[str, type[Constraint]] = {
    _snake(kind.__name__): kind for kind in _exported(constraints, Constraint)
}
"""Sets of recurrent matrices."""

LAYERS: dict[str, type[nn.Module]] = {
    kind.__name__.lower(): kind for kind in _exported(layers, Stacked | nn.RNNBase)
}
"""Recurrent layers."""


def task_name(kind: type[Task]) -> str:
    """Return the name under which a task is registered if it is exported."""
    return _snake(kind.__name__)


TASKS: dict[str, type[Task]] = {task_name(kind): kind for kind in _exported(tasks, Task)}
"""Tasks to train on."""


def _papers(package: Any) -> list[Any]:
    """Return the modules of a package that it exports, one per paper."""
    exported = [getattr(package, name) for name in package.__all__]
    return [module for module in exported if inspect.ismodule(module)]


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for paper in _papers(recipes) for recipe in paper.RECIPES
}
"""Published experiments."""

BACKENDS: dict[str, Backend] = {
    **{f"delta/{name}": backend for name, backend in DELTA.items()},
    **{f"elman/{name}": backend for name, backend in ELMAN.items()},
    **{f"gru/{name}": backend for name, backend in GRU.items()},
    **{f"linear/{name}": backend for name, backend in LINEAR.items()},
    **{f"lstm/{name}": backend for name, backend in LSTM.items()},
}
"""Implementations of the recurrences."""


def class_path(kind: type) -> str:
    """Return the public import path of a registered class."""
    # classes are exported by the package of their room: eigenrnn.layers, experiments.tasks
    depth = 2
    if kind.__module__.startswith("eigenrnn.experiments."):
        depth = 3
    room = ".".join(kind.__module__.split(".")[:depth])
    return f"{room}.{kind.__name__}"


@cache
def registered() -> Mapping[str, Any]:
    """Return the registered tasks, layers, constraints and initialisers by their import paths."""
    kinds = [*TASKS.values(), *LAYERS.values(), *CONSTRAINTS.values()]
    functions = [getattr(init, name) for name in init.__all__]
    initialisers = [function for function in functions if inspect.isfunction(function)]
    by_path: dict[str, Any] = {}
    for entry in (*kinds, *initialisers):
        by_path[f"{entry.__module__}.{entry.__name__}"] = entry
    for kind in kinds:
        by_path[f"eigenrnn.{kind.__name__}"] = kind
    for kind in kinds:
        by_path[class_path(kind)] = kind
    for function in initialisers:
        by_path[f"eigenrnn.init.{function.__name__}"] = function
    return by_path


def summary(entry: Any) -> str:
    """Return the summary of an entry in one sentence."""
    if isinstance(entry, Recipe):
        return entry.summary
    if isinstance(entry, Backend):
        return entry.description
    first = (inspect.getdoc(entry) or "").split("\n\n")[0]
    return " ".join(first.split())
