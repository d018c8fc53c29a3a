"""Builds the model, the task and the settings from the options of a command."""

from dataclasses import fields, replace
from typing import Any, cast

import torch
import yaml
from jsonargparse import Namespace
from torch import nn

from eigenrnn.experiments.cli.parser import PARSERS, default_layer
from eigenrnn.experiments.recipes import Entry, Recipe, Row
from eigenrnn.experiments.registry import task_name
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.tasks.base import model_for
from eigenrnn.experiments.tasks.preprocessing import Preprocessing
from eigenrnn.experiments.training import Settings
from eigenrnn.layers.stacked import Stacked

__all__ = [
    "RUN_ARGUMENTS",
    "build_training",
    "config_entry",
    "default_name",
    "parse_options",
    "recipe_with_data_root",
]

RUN_ARGUMENTS = ("config", "data_root", "out", "resume", "overwrite")


def build_training(
    options: Namespace, data_root: str | None = None, preprocessing: Preprocessing | None = None
) -> tuple[nn.Module, Task, Settings]:
    """Build the model, the task and the settings from the options of `train`.

    Args:
        options: The parsed options, with instantiated classes.
        data_root: The folder with the data files.
        preprocessing: States the sizes of the model without the training data.
    """
    settings = Settings(**{f.name: options[f.name] for f in fields(Settings)})
    task = _with_data_root(options.task, data_root)
    model = model_for(
        preprocessing or task,
        options.layer,
        options.hidden_size,
        embedding_size=options.embedding_size,
        generator=torch.Generator().manual_seed(settings.seed),
    )
    return model, task, settings


def default_name(model: nn.Module, task: Task) -> str:
    """Return the default name of a run, from the task, the layer and its size."""
    layer = next(module for module in model.modules() if isinstance(module, Stacked | nn.RNNBase))
    return f"{task_name(type(task))}-{type(layer).__name__.lower()}-{layer.hidden_size}"


def config_entry(options: Namespace) -> dict[str, Any]:
    """Return the options of `train` as they are stored in config.json.

    Options that only concern the call, such as the output folder, are omitted.

    Args:
        options: The parsed options, before classes are instantiated.
    """
    content: dict[str, Any] = yaml.safe_load(_parser().dump(options))
    return {name: value for name, value in content.items() if name not in RUN_ARGUMENTS}


def parse_options(content: dict[str, Any]) -> tuple[Namespace, dict[str, Any]]:
    """Instantiate the task and the layer of some options; return them with their `config_entry`.

    Args:
        content: Trusted options: any class that they name is imported.

    Raises the errors of the command line.
    """
    parser = _parser()
    task = content.get("task")
    if isinstance(task, dict):
        task = cast("dict[str, Any]", task).get("class_path")
    if "layer" not in content:
        parser.set_defaults(layer=default_layer(task))
    options = parser.parse_object(content)
    return parser.instantiate(options), config_entry(options)


def recipe_with_data_root(recipe: Recipe, data_root: str | None) -> Recipe:
    """Set the data folder of the tasks of a recipe that read files."""
    if data_root is None:
        return recipe

    def with_root(row: Entry) -> Entry:
        if not isinstance(row, Row) or not _reads_files(row.task):
            return row
        quick = row.quick_task
        if quick is not None:
            quick = _with_data_root(quick, data_root)
        return replace(row, task=_with_data_root(row.task, data_root), quick_task=quick)

    return replace(recipe, rows=tuple(map(with_root, recipe.rows)))


def _parser() -> Any:
    return PARSERS["train"]()


def _with_data_root(task: Task, data_root: str | None) -> Task:
    """Set the data folder of a task.

    Raises:
        ValueError: If the task reads no files.
    """
    if data_root is None:
        return task
    if not _reads_files(task):
        raise ValueError(f"expected no --data_root: {type(task).__name__} reads no files")
    return replace(task, data_root=data_root)  # type: ignore[call-arg]


def _reads_files(task: Task) -> bool:
    return any(f.name == "data_root" for f in fields(task))  # type: ignore[arg-type]
