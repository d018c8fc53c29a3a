"""The registered constraints, layers, tasks, recipes and backends, by their names."""

import inspect
from typing import Any

from eigenrnn import constraints, layers, ops
from eigenrnn.constraints import Constraint
from eigenrnn.layers import Layer
from eigenrnn.ops import Backend
from eigenrnn_experiments import baselines, recipes, tasks
from eigenrnn_experiments.recipes import Recipe
from eigenrnn_experiments.tasks import Task

__all__ = [
    "BACKENDS",
    "CONSTRAINTS",
    "LAYERS",
    "RECIPES",
    "TASKS",
    "summary",
]


def _exported(package: Any, base: type) -> list[type]:
    found: list[type] = []
    for name in package.__all__:
        entry = getattr(package, name)
        is_kind = inspect.isclass(entry) and issubclass(entry, base) and entry is not base
        if is_kind and not inspect.isabstract(entry):
            found.append(entry)
    return found


CONSTRAINTS: dict[str, type[Constraint]] = {
    kind.__name__: kind for kind in _exported(constraints, Constraint)
}
"""Sets of recurrent matrices."""

LAYERS: dict[str, type[Layer]] = {
    kind.__name__: kind for kind in [*_exported(layers, Layer), *_exported(baselines, Layer)]
}
"""Recurrent layers, with those of torch as baselines."""


TASKS: dict[str, type[Task]] = {kind.__name__: kind for kind in _exported(tasks, Task)}
"""Tasks to train on."""


def _papers(package: Any) -> list[Any]:
    """Return the modules of a package that it exports, one per paper."""
    exported = [getattr(package, name) for name in package.__all__]
    return [module for module in exported if inspect.ismodule(module)]


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for paper in _papers(recipes) for recipe in paper.RECIPES
}
"""Tables and figures of papers."""

BACKENDS: dict[str, Backend] = {
    f"{recurrence}/{name}": backend
    for recurrence, backends in ops.BACKENDS.items()
    for name, backend in backends.items()
}
"""Implementations of the recurrences."""


def summary(entry: Any) -> str:
    """Return the summary of an entry in one sentence."""
    if isinstance(entry, Recipe):
        return entry.summary
    if isinstance(entry, Backend):
        return entry.description
    first = (inspect.getdoc(entry) or "").split("\n\n")[0]
    return " ".join(first.split())
