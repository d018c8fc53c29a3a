"""Loads the trained model of a run from its folder, which may be someone else's."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from eigenrnn import __version__, init
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.files import convert
from eigenrnn_experiments.recipes import Row
from eigenrnn_experiments.recipes.recipe import row_of
from eigenrnn_experiments.registry import CONSTRAINTS, LAYERS, RECIPES, TASKS
from eigenrnn_experiments.tasks import Batch, Task
from eigenrnn_experiments.tasks.base import Selection, model_for
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing
from eigenrnn_experiments.training import Settings
from eigenrnn_experiments.training.description import (
    build,
    describe_call,
    differences,
)
from eigenrnn_experiments.training.dynamics import probe_batch
from eigenrnn_experiments.training.run import Run, RunFolder

__all__ = ["TrainedModel", "load"]

_MAX_MISMATCHES = 500  # characters, because torch lists every mismatched weight


@dataclass(frozen=True)
class TrainedModel:
    """The trained model of a run.

    Args:
        model: The model in evaluation mode, on the CPU.
        task: The task.
        preprocessing: What maps the user's own texts to inputs of the model; None for a task that
            reads no such texts.
        settings: The training settings.
        name: The name of the run.
        step: The number of training steps of the checkpoint.
        checkpoint: The file with the weights.
    """

    model: nn.Module
    task: Task
    preprocessing: TextPreprocessing | None
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
        split = Selection(self.task).split or "train"
        return probe_batch(self.task, split, sequences)


def load(
    path: str | Path,
    data_root: str | None = None,
    *,
    model: nn.Module | None = None,
    task: Task | None = None,
) -> TrainedModel:
    """Load the trained model of a run, and what maps the user's own texts to its inputs.

    The folder may be someone else's: nothing from it is run, and only classes of eigenrnn and
    torch's recurrent layers are built. The training data is not needed, unless the task has no
    preprocessing.

    The command line and the recipes store the call that makes the network. Pass the network of any
    other run as `model`, for instance one with a set or layer of your own, and a task of your own
    as `task`.

    Args:
        path: The folder of a run, which loads its best model or else its last one; or one of its
            checkpoints.
        data_root: The folder with the data files.
        model: A network like that of the run, which receives its weights.
        task: The task of the run.
    Raises:
        ValueError: If the run does not exist, its network was made in Python and is not passed,
            or its model cannot be built by this version, for instance because a default has
            changed.
        CheckpointError: If the checkpoint is damaged, or is another file.
        MissingDataError: If the size of the model depends on missing data.
    """
    path = Path(path)
    folder = path
    if path.suffix == ".pt":
        folder = path.parent
    files = RunFolder(folder)
    run = files.run
    settings = convert(files.run_file, run.settings, Settings)
    file = path
    if path.suffix != ".pt":
        file = files.best if files.best.exists() else files.last
        if not file.exists():
            if run.state == "diverged":
                raise ValueError(f"{folder} diverged before its first checkpoint: {run.message}")
            raise ValueError(f"{folder} has no checkpoint yet: continue the run with --resume")
    weights, step = files.read_weights(path if path.suffix == ".pt" else None)
    preprocessing = files.read_preprocessing()
    try:
        row: Row | None = None
        name = run.key.recipe
        if name in RECIPES and (model is None or task is None):
            row = row_of(run.key, RECIPES[name].with_data_root(data_root))
        elif name and model is None:
            raise ValueError(f"there is no recipe {name}")
        if task is None:
            task = row.task if row is not None else _task(run, data_root)
        if model is None:
            model = _network(run, row, preprocessing or task)
        # weights of all other precisions fit into single precision
        if settings.precision == "64-true":
            model.to(torch.float64)
        model.load_state_dict(weights)
    except MissingDataError:
        raise
    except Exception as error:  # edited options can make a constructor raise anything
        raise ValueError(_build_error(run, folder, error)) from error
    return TrainedModel(model.eval(), task, preprocessing, settings, run.name, step, file)


def _build_error(run: Run, folder: Path, error: Exception) -> str:
    version = run.versions.get("eigenrnn")
    reason = " ".join(str(error).split()) or type(error).__name__
    reason = reason[:_MAX_MISMATCHES]
    if version != __version__:
        reason = f"written by eigenrnn {version}, this is {__version__}: {reason}"
    return (
        f"the model of {folder} cannot be built: {reason}; in Python, "
        "eigenrnn_experiments.load(run, model=model) takes the same network, made anew, and "
        "task= a task of your own"
    )


def _task(run: Run, data_root: str | None) -> Task:
    """Build the task of a run.

    Raises:
        ValueError: If it is not a task of eigenrnn.
    """
    content = run.task
    if content.kind not in TASKS:
        raise ValueError(f"{content.kind} is no task of eigenrnn")
    options = build(content.options, {})
    options |= run.files
    task = TASKS[content.kind](**options)
    return task.with_data_root(data_root)


def _network(run: Run, row: Row | None, sizes: Task | TextPreprocessing) -> nn.Module:
    """Build the network of a run.

    Args:
        run: The record of the run.
        row: The row, for a run of a recipe.
        sizes: What states the numbers of inputs and outputs.
    Raises:
        ValueError: If it was made in Python, or its call or a default has changed.
    """
    if run.network is None:
        raise ValueError("the network was made in Python")
    then = run.network
    # the stored weights replace those drawn here, which must not use up the user's random numbers
    with torch.random.fork_rng(devices=()):
        if row is not None:
            now = row.describe()["network"]
            model = row.build(row.settings.seed)
        else:
            parts = {n: build(v, _names()) for n, v in then.items() if n != "defaults"}
            now = describe_call(**parts)
            make_layer = partial(parts["layer"], **parts.get("options", {}))
            size = parts.get("embedding_size")
            model = model_for(sizes, make_layer, parts["hidden_size"], embedding_size=size)
    changed = differences(then, now)
    if changed:
        raise ValueError("; ".join(changed))
    return model


@cache
def _names() -> Mapping[str, Any]:
    """Return what a network may be made from, by the names that `describe` writes."""
    names: dict[str, Any] = {**LAYERS, **CONSTRAINTS}
    for name in init.__all__:
        if inspect.isfunction(getattr(init, name)):
            names[name] = getattr(init, name)
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        names[f"torch.{kind.__name__}"] = kind
    for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        names[str(dtype)] = dtype
    for number in (math.inf, -math.inf, math.nan):
        names[str(number)] = number
    return names
