"""Loads the trained model of a run from its folder, which may be someone else's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import torch
from jsonargparse import Namespace
from torch import nn

from eigenrnn import __version__
from eigenrnn.experiments.cli.described_network import build_network, build_task
from eigenrnn.experiments.cli.name_lookup import annotations_of, did_you_mean
from eigenrnn.experiments.cli.parser import PARSERS
from eigenrnn.experiments.cli.train_options import (
    RUN_ARGUMENTS,
    build_training,
    recipe_with_data_root,
)
from eigenrnn.experiments.data.sequences import Sequences
from eigenrnn.experiments.data.tables import Columns
from eigenrnn.experiments.errors import MissingDataError
from eigenrnn.experiments.recipes.runs import row_of
from eigenrnn.experiments.registry import LAYERS, RECIPES, registered
from eigenrnn.experiments.tasks import Batch, Task
from eigenrnn.experiments.tasks.preprocessing import Preprocessing
from eigenrnn.experiments.training import Settings
from eigenrnn.experiments.training.dynamics import probe_batch
from eigenrnn.experiments.training.result import selection_split
from eigenrnn.experiments.training.run_folder import RunFolder
from eigenrnn.experiments.training.run_key import RunKey
from eigenrnn.experiments.training.settings import FORMER_SETTINGS

__all__ = ["TrainedModel", "load", "registered_options"]

_MAX_NAMED = 5
_MAX_MISMATCHES = 500  # characters, because torch lists every mismatched weight


@dataclass(frozen=True)
class TrainedModel:
    """The trained model of a run.

    Args:
        model: The model in evaluation mode, on the CPU.
        task: The task.
        preprocessing: What maps the user's own files to inputs of the model; None for a task that
            reads no such files.
        settings: The training settings.
        name: The name of the run.
        step: The number of training steps of the checkpoint.
        checkpoint: The file with the weights.
    """

    model: nn.Module
    task: Task
    preprocessing: Preprocessing | None
    settings: Settings
    name: str
    step: int
    checkpoint: Path

    def batch(self, sequences: int) -> Batch:
        """Return a few sequences of the split that selected the model, or of the training data.

        Raises:
            MissingDataError: If the data is not on this machine; nothing is downloaded.
        """
        missing = self.task.missing_data()
        if missing is not None:
            raise MissingDataError(f"there is no {missing}")
        split = selection_split(self.task) or "train"
        return probe_batch(self.task, split, sequences)


def load(
    path: str | Path,
    data_root: str | None = None,
    *,
    model: nn.Module | None = None,
    task: Task | None = None,
) -> TrainedModel:
    """Load the trained model of a run, and what maps the user's own files to its inputs.

    The folder may be someone else's: no code from it is run, and only classes of eigenrnn are
    built. The training data is not needed, unless the task has no preprocessing.

    A network that was made in Python is rebuilt if it is a `SequenceModel` around a layer of
    eigenrnn or torch, or around a `ResidualStack` of them. Pass any other one as
    `model`, for instance one with a set or layer of your own, and a task of your own as `task`.

    Args:
        path: The folder of a run, which loads its best model or else its last one; or one of its
            checkpoints.
        data_root: The folder with the data files.
        model: A network like that of the run, which receives its weights.
        task: The task of the run.
    Raises:
        ValueError: If the run does not exist, its network was made in Python and is not passed,
            or its model cannot be built by this version. If the stored data of the run was
            changed.
        CheckpointError: If the checkpoint is damaged, has a newer format, or is another file.
        MissingDataError: If the size of the model depends on missing data.
    """
    path = Path(path)
    if path.suffix == ".pt":
        folder = path.parent
        config = _config(folder)
        file = path
    else:
        folder = path
        config = _config(folder)  # first, for its message about a folder that is no run
        file = _checkpoint_of(folder)
    weights, step = RunFolder(folder).read_weights(file)
    entry = config.get("config") or {}
    is_from_command_line = entry.get("command") in ("train", "reproduce")
    preprocessing = RunFolder(folder).read_preprocessing()
    data: dict[str, Sequences] = {}
    if not is_from_command_line:
        data = RunFolder(folder).read_data()
    try:
        if is_from_command_line and model is None:
            model, built, settings = _build(entry, data_root, preprocessing)
            if task is None:
                task = built
        else:
            settings = _described_settings(config["settings"])
            if task is None and is_from_command_line:
                task = _task(entry, data_root)
            elif task is None:
                task = build_task(config["task"], data)
            if model is None:
                model = build_network(config["network"])
    except Exception as error:  # edited options can make a constructor raise anything
        if not is_from_command_line and model is None:
            raise ValueError(_made_in_python(folder, error)) from error
        raise ValueError(_build_error(folder, config, error)) from error
    try:
        # weights of all other precisions fit into single precision
        if settings.precision == "64-true":
            model.to(torch.float64)
        model.load_state_dict(weights)
    except (ValueError, TypeError, RuntimeError, AttributeError) as error:
        raise ValueError(_build_error(folder, config, error, _MAX_MISMATCHES)) from error
    name = str(config.get("name") or folder.name)
    return TrainedModel(model.eval(), task, preprocessing, settings, name, step, file)


def _build_error(
    folder: Path, config: Mapping[str, Any], error: Exception, longest: int | None = None
) -> str:
    versions = config.get("versions")
    version = None
    if isinstance(versions, dict):
        version = versions.get("eigenrnn")
    reason = " ".join(str(error).split()) or type(error).__name__
    reason = reason[:longest]
    if version != __version__:
        writer = version or "of unknown version"
        reason = f"written by eigenrnn {writer}, this is {__version__}: {reason}"
    return f"the model of {folder} cannot be built: {reason}"


def _config(folder: Path) -> dict[str, Any]:
    """Read the config.json of a run.

    Raises:
        ValueError: If the folder holds no run; names the runs in its subfolders.
    """
    file = RunFolder(folder).config_file
    if not file.is_file():
        runs = sorted(str(found.parent) for found in folder.glob("**/config.json"))
        hint = ""
        if runs:
            hint = f"; there are runs in {', '.join(runs[:_MAX_NAMED])}"
        if len(runs) > _MAX_NAMED:
            hint += f" and {len(runs) - _MAX_NAMED} more"
        raise ValueError(
            f"expected the folder of a run, or a checkpoint in it, got {folder}, which has no "
            f"config.json{hint}"
        )
    return RunFolder(folder).read_config(any_version=True)


def _checkpoint_of(folder: Path) -> Path:
    """Return the checkpoint of the best model, or else the last one.

    Raises:
        ValueError: If there is no checkpoint yet.
    """
    files = RunFolder(folder)
    found = next((file for file in (files.best, files.last) if file.exists()), None)
    if found is None:
        raise ValueError(f"{folder} has no checkpoint yet: continue the run with --resume")
    return found


def _made_in_python(folder: Path, error: Exception) -> str:
    reason = " ".join(str(error).split()) or type(error).__name__
    return (
        f"the model of {folder} was created in Python and cannot be rebuilt ({reason}): build the "
        f"same model and call eigenrnn.experiments.load('{folder}', model=model), then for "
        "example eigenrnn.analysis.analyse(model)"
    )


def _described_settings(content: Mapping[str, Any]) -> Settings:
    """Return the settings of a run from their description."""
    values: dict[str, Any] = {}
    for name, value in content.items():
        if name in FORMER_SETTINGS:
            continue
        values[name] = value
        if isinstance(value, list):  # JSON has no tuples
            values[name] = tuple(cast("list[Any]", value))
    return Settings(**values)


def _build(
    entry: dict[str, Any],
    data_root: str | None,
    preprocessing: Preprocessing | None,
) -> tuple[nn.Module, Task, Settings]:
    """Build the model, the task and the settings of a run.

    Raises:
        ValueError: If the recipe is unknown, or its name is missing.
    """
    if entry["command"] == "train":
        options = registered_options(entry.get("options"))
        return build_training(options, data_root, preprocessing)
    key = RunKey.from_config(entry)
    if key.recipe not in RECIPES:
        raise ValueError(f"there is no recipe {key.recipe}")
    row = row_of(key, recipe_with_data_root(RECIPES[key.recipe], data_root))
    return row.build(key.seed), row.task, row.settings


def _task(entry: dict[str, Any], data_root: str | None) -> Task:
    """Build the task of a run from the command line.

    Raises:
        ValueError: If the task or the recipe is unknown.
    """
    if entry["command"] == "reproduce":
        key = RunKey.from_config(entry)
        return row_of(key, recipe_with_data_root(RECIPES[key.recipe], data_root)).task
    options = cast("dict[str, Any]", entry["options"])
    make = cast("Callable[[], Task]", _value("train", "task", options["task"]))
    return make()


def registered_options(content: object) -> Namespace:
    """Read the options of `train` from an untrusted file.

    Classes and functions are looked up among the registered ones only. Nothing is imported, and no
    other file is read.

    Args:
        content: The options of `config.json`.
    Raises:
        ValueError: If an option is unknown, or names a class or function that is not registered.
    """
    if not isinstance(content, dict):
        raise ValueError(f"its config.json is damaged: expected options, got {content!r}")
    options = cast("dict[str, Any]", content)
    known = PARSERS["train"]().get_defaults().as_dict()
    for name in options:
        if name not in known or name in RUN_ARGUMENTS:
            raise ValueError(f"train takes no option {name!r}{did_you_mean(name, known)}")
    kinds = {field.name: field.type for field in fields(Settings)}
    values: dict[str, Any] = {}
    for name, value in (known | options).items():
        values[name] = _value("train", name, value, kinds.get(name))
    layer = values["layer"]
    if isinstance(values["task"], partial):  # unlike a layer, which waits for its sizes
        values["task"] = values["task"]()
    if not isinstance(values["task"], Task):
        raise ValueError(f"expected a task in its config.json, got {options.get('task')!r}")
    if getattr(layer, "func", layer) not in LAYERS.values():
        raise ValueError(f"expected a layer in its config.json, got {options.get('layer')!r}")
    return Namespace(**values)


def _value(owner: str, name: str, value: Any, annotation: object = None) -> Any:
    """Return the value of an option: a number, a string, or a registered class or function.

    Raises:
        ValueError: If it names a class or function that is not registered.
    """
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return tuple(_value(owner, name, item, annotation) for item in items)
    if isinstance(value, dict):
        content = cast("dict[str, Any]", value)
        if annotation is Columns:
            return _columns(content)
        if dict[str, float] in get_args(annotation):
            return _numbers(owner, name, content)
        return _object(owner, name, content)
    if isinstance(value, str) and not _accepts_text(annotation):
        return _lookup(owner, name, value)
    return value


def _columns(content: dict[str, Any]) -> Columns:
    """Return the names of the columns of a table.

    Raises:
        ValueError: If there is no such role of a column, or a name is not a text.
    """
    known = {field.name: field.type for field in fields(Columns)}
    for role, value in content.items():
        if role not in known:
            raise ValueError(f"Columns takes no option {role!r}{did_you_mean(role, known)}")
        names = [value]
        if isinstance(value, list):
            names = cast("list[Any]", value)
        if not all(isinstance(each, str | None) for each in names):
            raise ValueError(f"expected the names of columns as {role}, got {value!r}")
    return Columns(**content)


def _numbers(owner: str, name: str, content: dict[str, Any]) -> dict[str, float]:
    """Return numbers by their names, such as the weights of classes.

    Raises:
        ValueError: If one is no number.
    """
    for value in content.values():
        if not isinstance(value, int | float):
            raise ValueError(f"expected numbers as {owner}.{name}, got {value!r}")
    return content


def _object(owner: str, name: str, content: dict[str, Any]) -> Any:
    """Return a registered class with its options.

    Raises:
        ValueError: If the class is not registered, or lacks one of the options.
    """
    options = content.get("init_args") or {}
    if content.keys() - {"class_path", "init_args"} or not isinstance(options, dict):
        raise ValueError(
            f"expected {owner}.{name} to have class_path and init_args, got {content}"
        )
    found = _lookup(owner, name, content.get("class_path"))
    known: dict[str, Any] = {}
    if isinstance(found, type):
        known = annotations_of(found)
    label = found.__name__
    values: dict[str, Any] = {}
    for option, value in cast("dict[str, Any]", options).items():
        if option not in known:
            raise ValueError(f"{label} takes no option {option!r}{did_you_mean(option, known)}")
        values[option] = _value(label, option, value, known[option])
    return partial(found, **values)


def _lookup(owner: str, name: str, path: object) -> Any:
    """Return the class or function registered under an import path.

    Raises:
        ValueError: If the path is not registered.
    """
    if not isinstance(path, str) or path not in registered():
        raise ValueError(
            f"{name} of {owner} names {path}, which is not registered in eigenrnn and therefore "
            "not imported: make the network in Python and pass it, as in load(run, model=model), "
            "and task= with a task of your own"
        )
    return registered()[path]


def _accepts_text(annotation: object) -> bool:
    """Whether an option takes a string that is not the name of a class or function."""
    if annotation is str or annotation is Path or get_origin(annotation) is Literal:
        return True
    return any(map(_accepts_text, get_args(annotation)))
