"""From the folder of a run back to the trained model."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import torch
from jsonargparse import Namespace
from torch import nn

from eigenrnn import __version__
from eigenrnn.errors import CheckpointError, MissingDataError
from eigenrnn.experiments.cli import complaints
from eigenrnn.experiments.cli.make import ARGUMENTS_OF_THE_CALL, make, recipe_with_data_root
from eigenrnn.experiments.cli.names import annotations_of, near
from eigenrnn.experiments.cli.parser import commands
from eigenrnn.experiments.recipes.runs import RunKey
from eigenrnn.experiments.registry import LAYERS, RECIPES, registered
from eigenrnn.experiments.report.files import read_json
from eigenrnn.experiments.tasks import Batch, Task
from eigenrnn.experiments.training import Settings, checkpoint
from eigenrnn.experiments.training.probe import probe
from eigenrnn.experiments.training.run_directory import RunDirectory
from eigenrnn.experiments.training.selection import deciding_split

__all__ = ["Rebuilt", "rebuild", "registered_options"]

_MOST_NAMED = 5
_MOST_SAID = 500  # characters: torch lists every weight that does not fit


@dataclass(frozen=True)
class Rebuilt:
    """A trained network.

    Args:
        model: In evaluation mode, on the CPU.
        task: What it was trained on.
        settings: How.
        name: What the run was called.
        step: How many steps it had been trained for.
        checkpoint: The file that its weights are from.
    """

    model: nn.Module
    task: Task
    settings: Settings
    name: str
    step: int
    checkpoint: Path

    def batch(self, sequences: int) -> Batch:
        """Return a few sequences of the split that chose the model, else of the training data.

        Raises:
            MissingDataError: If the data is not on this machine; nothing is downloaded.
        """
        missing = self.task.missing_data()
        if missing is not None:
            raise MissingDataError(f"there is no {missing}")
        return probe(self.task, deciding_split(self.task) or "train", sequences)


def rebuild(path: str | Path, data_root: str | None = None) -> Rebuilt:
    """Build the model of a run and load its weights.

    Args:
        path: The folder of a run, of which the best model is taken, or else the last one; or one
            of its checkpoints.
        data_root: The folder of the data files.
    Raises:
        ValueError: If there is no such run, it was not made by the command line, or this version
            cannot build its model.
        CheckpointError: If the checkpoint is damaged, of a newer format or of something else.
        MissingDataError: If the size of the model is that of data which is not there.
    """
    path = Path(path)
    folder = path.parent if path.suffix == ".pt" else path
    config = _config(folder)
    file = path if path.suffix == ".pt" else _checkpoint_of(folder)
    state = checkpoint.load(file)
    known = config.get("config") or {}
    if known.get("command") not in ("train", "reproduce"):
        raise ValueError(_of_python(folder, file, "learner" in state))
    try:
        model, task, settings = _build(known, data_root)
    except Exception as error:  # options that somebody wrote can break a constructor in any way
        raise ValueError(_cannot_be_built(folder, config, error)) from error
    try:
        weights = state["learner"]["model"] if "learner" in state else state["model"]
        step = int(state["course"]["step"] if "learner" in state else state["step"])
    except (KeyError, TypeError, ValueError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(f"{file} is no checkpoint of a run: {said}") from None
    try:
        model.to(torch.float64 if settings.precision == "64-true" else None)
        model.load_state_dict(weights)
    except (ValueError, TypeError, RuntimeError, AttributeError) as error:
        raise ValueError(_cannot_be_built(folder, config, error)) from error
    name = str(config.get("name") or folder.name)
    return Rebuilt(model.eval(), task, settings, name, step, file)


def _cannot_be_built(folder: Path, config: Mapping[str, Any], error: Exception) -> str:
    versions = config.get("versions")
    wrote = versions.get("eigenrnn") if isinstance(versions, dict) else None
    other = f"eigenrnn {wrote or 'of unknown version'} wrote it, this is {__version__}: "
    said = complaints.explain(str(error) or type(error).__name__, {}, "train")
    return (
        f"the model of {folder} cannot be built: {'' if wrote == __version__ else other}"
        f"{said[:_MOST_SAID]}"
    )


def _config(folder: Path) -> dict[str, Any]:
    """Read what a run has written of itself.

    Raises:
        ValueError: If there is no run, or several are below.
    """
    file = RunDirectory(folder).config
    if not file.is_file():
        below = sorted(str(found.parent) for found in folder.glob("**/config.json"))
        hint = f"; there are runs in {', '.join(below[:_MOST_NAMED])}" if below else ""
        more = f" and {len(below) - _MOST_NAMED} more" if len(below) > _MOST_NAMED else ""
        raise ValueError(
            f"expected the folder of a run, or a checkpoint in it, got {folder}, which has no "
            f"config.json{hint}{more}"
        )
    content = read_json(file, ())
    if not isinstance(content.get("config") or {}, dict):
        raise ValueError(f"{file} is damaged: it does not describe a run")
    return content


def _checkpoint_of(folder: Path) -> Path:
    """Choose the best model, else the last one.

    Raises:
        ValueError: If there is none yet.
    """
    files = RunDirectory(folder)
    found = next((file for file in (files.best, files.last) if file.exists()), None)
    if found is None:
        raise ValueError(f"{folder} has no checkpoint yet: continue the run with --resume")
    return found


def _of_python(folder: Path, file: Path, is_last: bool) -> str:
    weights = "['learner']['model']" if is_last else "['model']"
    return (
        f"the model of {folder} was made in Python, and only its weights are stored: build it "
        f"again, model.load_state_dict("
        f"eigenrnn.experiments.training.checkpoint.load('{file}'){weights}), and "
        "call eigenrnn.analysis.analyse(model)"
    )


def _build(known: dict[str, Any], data_root: str | None) -> tuple[nn.Module, Task, Settings]:
    """Make what a run was made of.

    Raises:
        ValueError: If there is no such recipe, or it is not said which.
    """
    if known["command"] == "train":
        made = make(registered_options(known.get("options")), data_root)
        return made.model, made.task, made.settings
    named = {field.name: field.default_factory is MISSING for field in fields(RunKey)}
    missing = [name for name, is_needed in named.items() if is_needed and name not in known]
    if missing:
        raise ValueError(f"its config.json is damaged: {', '.join(missing)} is missing")
    origin = RunKey(**{name: known[name] for name in named if name in known})
    if origin.recipe not in RECIPES:
        raise ValueError(f"there is no recipe {origin.recipe}")
    row = origin.find_row(recipe_with_data_root(RECIPES[origin.recipe], data_root))
    return row.build(origin.seed), row.task, row.settings


def registered_options(content: object) -> Namespace:
    """Read the options of `train` from a file that anybody may have written.

    Every class and function is looked up among the registered ones. Nothing is imported, and no
    other file is read.

    Args:
        content: The options as `config.json` has them.
    Raises:
        ValueError: If an option does not exist, or names what is not registered.
    """
    if not isinstance(content, dict):
        raise ValueError(f"its config.json is damaged: expected options, got {content!r}")
    given = cast("dict[str, Any]", content)
    known = commands()["train"][0].get_defaults().as_dict()
    for name in given:
        if name not in known or name in ARGUMENTS_OF_THE_CALL:
            raise ValueError(f"train takes no option {name!r}{near(name, known)}")
    kinds = {field.name: field.type for field in fields(Settings)}
    values = {n: _value("train", n, v, kinds.get(n)) for n, v in (known | given).items()}
    task, layer = values["task"], values["layer"]
    values["task"] = task() if isinstance(task, partial) else task
    if not isinstance(values["task"], Task):
        raise ValueError(f"expected a task in its config.json, got {given.get('task')!r}")
    if getattr(layer, "func", layer) not in LAYERS.values():
        raise ValueError(f"expected a layer in its config.json, got {given.get('layer')!r}")
    return Namespace(**values)


def _value(owner: str, name: str, value: Any, annotation: object = None) -> Any:
    """Return an option as its owner takes it: a number, a text, or what is registered.

    Raises:
        ValueError: If it names what is not registered.
    """
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return tuple(_value(owner, name, item, annotation) for item in items)
    if isinstance(value, dict):
        return _object(owner, name, cast("dict[str, Any]", value))
    is_name = isinstance(value, str) and not _takes_text(annotation)
    return _lookup(owner, name, value) if is_name else value


def _object(owner: str, name: str, content: dict[str, Any]) -> Any:
    """Return a registered class with its options.

    Raises:
        ValueError: If it is not registered, or has no such option.
    """
    options = content.get("init_args") or {}
    if content.keys() - {"class_path", "init_args"} or not isinstance(options, dict):
        raise ValueError(
            f"expected {owner}.{name} to have class_path and init_args, got {content}"
        )
    found = _lookup(owner, name, content.get("class_path"))
    known = annotations_of(found) if isinstance(found, type) else {}
    label = found.__name__
    values: dict[str, Any] = {}
    for option, value in cast("dict[str, Any]", options).items():
        if option not in known:
            raise ValueError(f"{label} takes no option {option!r}{near(option, known)}")
        values[option] = _value(label, option, value, known[option])
    return partial(found, **values)


def _lookup(owner: str, name: str, path: object) -> Any:
    """Find what is registered under an import path.

    Raises:
        ValueError: If nothing is.
    """
    if not isinstance(path, str) or path not in registered():
        raise ValueError(
            f"{name} of {owner} names {path}, which is not registered in eigenrnn and therefore "
            "not imported; if you trust it, build the model in Python and load the checkpoint"
        )
    return registered()[path]


def _takes_text(annotation: object) -> bool:
    """Whether an option may be a text, and not the name of a class or a function."""
    if annotation is str or annotation is Path or get_origin(annotation) is Literal:
        return True
    return any(map(_takes_text, get_args(annotation)))
