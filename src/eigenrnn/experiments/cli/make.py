"""What a command trains: the model, the task and the settings that its options ask for."""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
import yaml
from jsonargparse import Namespace
from torch import nn

from eigenrnn.experiments.cli.parser import commands
from eigenrnn.experiments.recipes import Entry, Recipe, Row
from eigenrnn.experiments.registry import task_name
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.tasks.base import model_for
from eigenrnn.experiments.training import Settings
from eigenrnn.layers.stacked import Stacked

__all__ = [
    "ARGUMENTS_OF_THE_CALL",
    "Made",
    "make",
    "options_and_record",
    "recipe_with_data_root",
    "recorded",
]

ARGUMENTS_OF_THE_CALL = ("config", "data_root", "out", "resume", "overwrite")


@dataclass(frozen=True)
class Made:
    """What `eigenrnn train` trains.

    Args:
        model: The network, its start drawn from the seed.
        task: What it is trained on.
        settings: How.
        name: What the run is called, after all of them.
    """

    model: nn.Module
    task: Task
    settings: Settings
    name: str


def make(options: Namespace, data_root: str | None = None) -> Made:
    """Build what the options of `train` ask for."""
    settings = Settings(**{f.name: options[f.name] for f in fields(Settings)})
    task = _with_data_root(options.task, data_root)
    model = model_for(
        task,
        options.layer,
        options.hidden_size,
        embedding_size=options.embedding_size,
        generator=torch.Generator().manual_seed(settings.seed),
    )
    layer = next(module for module in model.modules() if isinstance(module, Stacked | nn.RNNBase))
    name = f"{task_name(type(task))}-{type(layer).__name__.lower()}-{options.hidden_size}"
    return Made(model, task, settings, name)


def recorded(options: Namespace) -> dict[str, Any]:
    """Write the options of `train` as names and numbers.

    What says where the run is, and what to do with what is there, is left out.

    Args:
        options: Those of the command, nothing made of them yet.
    """
    content: dict[str, Any] = yaml.safe_load(_parser().dump(options))
    return {name: value for name, value in content.items() if name not in ARGUMENTS_OF_THE_CALL}


def options_and_record(content: dict[str, Any]) -> tuple[Namespace, dict[str, Any]]:
    """Make the task and the layer of options; return too what `recorded` writes of them.

    Args:
        content: Options of this machine: a class in them is imported, wherever it is.

    Raises the errors of the command line.
    """
    parser = _parser()
    options = parser.parse_object(content)
    return parser.instantiate(options), recorded(options)


def recipe_with_data_root(recipe: Recipe, data_root: str | None) -> Recipe:
    """Tell the rows whose tasks read files where those are."""
    if data_root is None:
        return recipe

    def moved(row: Entry) -> Entry:
        if not isinstance(row, Row) or not _reads_files(row.task):
            return row
        quick = None if row.quick_task is None else _with_data_root(row.quick_task, data_root)
        return replace(row, task=_with_data_root(row.task, data_root), quick_task=quick)

    return replace(recipe, rows=tuple(map(moved, recipe.rows)))


def _parser() -> Any:
    return commands()["train"][0]


def _with_data_root(task: Task, data_root: str | None) -> Task:
    """Tell a task that reads files where they are.

    Raises:
        ValueError: If the task reads none.
    """
    if data_root is None:
        return task
    if not _reads_files(task):
        raise ValueError(f"expected no --data_root: {type(task).__name__} reads no files")
    return replace(task, data_root=data_root)  # type: ignore[call-arg]


def _reads_files(task: Task) -> bool:
    return any(f.name == "data_root" for f in fields(task))  # type: ignore[arg-type]
