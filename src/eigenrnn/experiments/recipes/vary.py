"""A row of a recipe with other values than the paper's."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from eigenrnn.experiments.recipes.base import Row
from eigenrnn.experiments.training import Settings

__all__ = ["vary"]


def vary(row: Row, changes: Mapping[str, Any]) -> Row:
    """Return the row with other options; of its grid nothing is left.

    Args:
        row: The row.
        changes: Values by name: those of the settings, such as `lr`, `hidden_size`, and options
            as `layer.NAME` and `task.NAME`.
    Raises:
        ValueError: If there is no such name; the layer refuses its own when it is built.
    """
    settings = {f.name for f in fields(Settings)} - {"seed"}
    tasks = {f"task.{f.name}" for f in fields(row.task)}  # type: ignore[arg-type]
    layers = {name for name in changes if name.startswith("layer.")}
    unknown = set(changes) - settings - tasks - layers - {"hidden_size"}
    if unknown:
        raise ValueError(
            "expected a setting of training, hidden_size, layer.OPTION or "
            f"{', '.join(sorted(tasks))}; got {', '.join(sorted(unknown))}"
        )
    of_settings = {name: value for name, value in changes.items() if name in settings}
    if "epochs" in of_settings:
        of_settings.setdefault("steps", None)
    if "steps" in of_settings:
        of_settings.setdefault("epochs", None)
    of_task = {n.removeprefix("task."): v for n, v in changes.items() if n in tasks}
    of_layer = {n.removeprefix("layer."): v for n, v in changes.items() if n in layers}
    same_size = not of_layer and not of_task and "hidden_size" not in changes
    return replace(
        row,
        settings=replace(row.settings, **of_settings),
        task=replace(row.task, **of_task),  # type: ignore[type-var]
        options={**row.options, **of_layer},
        hidden_size=changes.get("hidden_size", row.hidden_size),
        parameters=row.parameters if same_size else None,
        grid=(),
    )
