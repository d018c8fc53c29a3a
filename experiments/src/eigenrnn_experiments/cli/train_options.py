"""What the options of `eigenrnn train` describe."""

import inspect
from dataclasses import fields
from functools import partial
from pkgutil import resolve_name
from typing import Any, cast

from jsonargparse import Namespace

from eigenrnn.layers import GRU, LRU, NCGRU, NnRNN, ScoRNN
from eigenrnn_experiments import tasks
from eigenrnn_experiments.baselines import TanhRNN
from eigenrnn_experiments.recipes import Row
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.training import Settings

__all__ = [
    "DEFAULT_LAYERS",
    "row_to_train",
]

# the layer of a task without --layer, as the page on choosing says; GRU for all other tasks
DEFAULT_LAYERS: dict[type[Task], Any] = {
    tasks.Copying: ScoRNN,
    tasks.Denoise: NnRNN,
    tasks.Adding: NCGRU,
    tasks.PixelMNIST: LRU,
    tasks.CharPTB: TanhRNN,
    tasks.Enwik8: TanhRNN,
    tasks.Text: TanhRNN,
    tasks.WordPTB: TanhRNN,
}


def row_to_train(options: Namespace, task: Task, data_root: str | None = None) -> Row:
    """Return what the options of `train` describe; its label names its folder.

    Args:
        options: The parsed options.
        task: The task, which the parser has instantiated.
        data_root: The folder with the data files.
    """
    settings = Settings(**{f.name: options[f.name] for f in fields(Settings)})
    make_layer: Any = DEFAULT_LAYERS.get(type(task), GRU)
    if isinstance(options.layer, Namespace):
        make_layer = _call(options.layer.as_dict())
    elif options.layer is not None:  # a function of the user's own
        make_layer = options.layer
    kind: Any = getattr(make_layer, "func", make_layer)
    return Row(
        label=f"{type(task).__name__}-{kind.__name__}-{options.hidden_size}".lower(),
        task=task.with_data_root(data_root),
        layer=make_layer,
        hidden_size=options.hidden_size,
        settings=settings,
        reported=(),
        embedding_size=options.embedding_size,
    )


def _call(value: Any) -> Any:
    """Return a parsed class, with the options that differ from its defaults as a partial."""
    if not isinstance(value, dict) or "class_path" not in value:
        return value
    entries = cast("dict[str, Any]", value)
    kind = resolve_name(entries["class_path"])
    options: dict[str, Any] = {}
    parameters = inspect.signature(kind).parameters
    for name, stated in entries.get("init_args", {}).items():
        option = _call(stated)
        if name not in parameters or option != parameters[name].default:
            options[name] = option
    if not options:
        return kind
    return partial(kind, **options)
