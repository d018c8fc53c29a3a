"""From the folder of a run back to the trained model."""

import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentError
from torch import nn

from eigenrnn.cli import complaints
from eigenrnn.cli.make import make, options_of, recipe_with_data_root
from eigenrnn.errors import CheckpointError, MissingDataError
from eigenrnn.recipes.origin import Origin
from eigenrnn.registry import RECIPES
from eigenrnn.tasks import Batch, Task
from eigenrnn.train import Settings, checkpoint
from eigenrnn.train.probe import probe
from eigenrnn.train.run_directory import RunDirectory
from eigenrnn.train.selection import deciding_split
from eigenrnn.version import __version__

__all__ = ["Rebuilt", "rebuild"]

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
        model.to(torch.float64 if settings.precision == "64-true" else None)
        model.load_state_dict(state["learner"]["model"] if "learner" in state else state["model"])
        step = state["course"]["step"] if "learner" in state else state["step"]
    except KeyError as error:
        raise CheckpointError(f"{file} is no checkpoint of a run: it has no {error}") from None
    except (ValueError, TypeError, RuntimeError, ArgumentError) as error:
        wrote = config.get("versions", {}).get("eigenrnn", "of unknown version")
        other = f"eigenrnn {wrote} wrote it, this is {__version__}: "
        said = complaints.explain(str(error), {}, "train")
        raise ValueError(
            f"the model of {folder} cannot be built: {'' if wrote == __version__ else other}"
            f"{said[:_MOST_SAID]}"
        ) from error
    return Rebuilt(model.eval(), task, settings, config.get("name") or folder.name, step, file)


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
            f"expected the folder of a run or a checkpoint in one, got {folder}, which has no "
            f"config.json{hint}{more}"
        )
    try:
        content = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("config", {}) or {}, dict):
        raise ValueError(f"{file} is damaged: it describes no run")
    return dict(content)


def _checkpoint_of(folder: Path) -> Path:
    """Choose the best model, else the last one.

    Raises:
        ValueError: If there is none yet.
    """
    files = RunDirectory(folder)
    found = next((file for file in (files.best, files.last) if file.exists()), None)
    if found is None:
        raise ValueError(f"{folder} has no checkpoint yet: let the run go on with --resume")
    return found


def _of_python(folder: Path, file: Path, is_last: bool) -> str:
    weights = "['learner']['model']" if is_last else "['model']"
    return (
        f"the model of {folder} was made in Python, and only its weights are kept: build it there "
        f"again, model.load_state_dict(eigenrnn.train.checkpoint.load('{file}'){weights}), and "
        "call eigenrnn.analysis.analyse(model)"
    )


def _build(known: dict[str, Any], data_root: str | None) -> tuple[nn.Module, Task, Settings]:
    """Make what a run was made of.

    Raises:
        ValueError: If there is no such recipe, or it is not said which.
    """
    if known["command"] == "train":
        made = make(options_of(known.get("options", {})), data_root)
        return made.model, made.task, made.settings
    named = {field.name: field.default_factory is MISSING for field in fields(Origin)}
    missing = [name for name, is_needed in named.items() if is_needed and name not in known]
    if missing:
        raise ValueError(f"its config.json is damaged: it has no {', '.join(missing)}")
    origin = Origin(**{name: known[name] for name in named if name in known})
    if origin.recipe not in RECIPES:
        raise ValueError(f"there is no recipe {origin.recipe}")
    row = origin.find(recipe_with_data_root(RECIPES[origin.recipe], data_root))
    return row.build(origin.seed), row.task, row.settings
