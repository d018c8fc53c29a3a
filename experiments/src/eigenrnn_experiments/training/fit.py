"""The function `fit`, which starts or resumes a run, and the record with which a run begins."""

import hashlib
import math
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import torch
from rich.console import Console
from torch import nn

import eigenrnn
from eigenrnn import __version__
from eigenrnn.layers import Layer
from eigenrnn.models import count_parameters
from eigenrnn.ops import products_now
from eigenrnn_experiments.errors import NonFiniteLossError
from eigenrnn_experiments.statistics import counted
from eigenrnn_experiments.tasks.base import Selection, Task, check_batch
from eigenrnn_experiments.training.callbacks import Callback
from eigenrnn_experiments.training.description import (
    describe,
    describe_defaults,
    describe_options,
    differences,
)
from eigenrnn_experiments.training.loop import TrainingLoop, TrainingState, checkpoint_errors
from eigenrnn_experiments.training.run import Description, Run, RunFolder, RunKey, locked
from eigenrnn_experiments.training.settings import Settings
from eigenrnn_experiments.training.train_step import TrainStep, open_fabric

__all__ = ["fit", "revision", "versions"]


def fit(
    model: nn.Module,
    task: Task,
    settings: Settings,
    directory: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    console: Console | None = None,
    network: Mapping[str, Any] | None = None,
    key: RunKey | None = None,
    name: str | None = None,
    max_minutes: float | None = None,
) -> Run:
    """Train a model on a task, and return the record of the run.

    A run that was killed at any moment continues from its last checkpoint with `resume=True`; on a
    CPU its losses equal those of an uninterrupted run to the last bit. The first Ctrl-C ends the
    run after the current step and saves a checkpoint. While a run trains, other processes cannot
    write to its folder.

    Args:
        model: Called with inputs (T, B, M); trained in place and moved to the device.
        task: Batches, loss and metric.
        settings: Optimisers, number of steps, seed and device.
        directory: The folder of the run: configuration, metrics, checkpoints and result.
        resume: Continue the run in `directory`. Its model, task and settings must be the same,
            except for settings of its length, its logging and its device. Without a checkpoint
            the run starts from the beginning; a finished run returns its record.
        overwrite: Delete the run in `directory` and start a new one.
        callbacks: Called after steps and evaluations.
        console: Where to show progress; standard error by default. A terminal shows a live bar,
            other outputs get one line per evaluation, and a quiet console shows nothing.
        network: The call that makes the model, as data, from which `load` builds it again; see
            `description.describe_call`. Without it, `load` takes the model as an argument.
        key: What names a run of a recipe.
        name: The name of the run on the console; the name of its folder by default.
        max_minutes: The time limit of the run, including the time before it was resumed. The run
            then ends early, as after Ctrl-C, and can be resumed with a higher limit.

    Raises:
        RunExistsError: If `directory` holds a run and neither `resume` nor `overwrite` is set.
        FolderInUseError: If another process is writing to `directory`.
        CheckpointError: If the checkpoint to resume from is damaged.
        WriteError: If a file cannot be written; its previous content is unchanged.
        NonFiniteLossError: If a loss or a gradient is not finite; the last checkpoint is intact.
        ValueError: If the run to resume differs or its record is damaged, if both `resume` and
            `overwrite` are set, if the model has no trainable parameters, or if
            `max_minutes` is not positive.
        TypeError: If an option of the task cannot be stored as data, such as a lambda.

    Example:
        >>> settings = Settings(steps=1_000, optimiser="rmsprop_tf1")
        >>> fit(model, Copying(delay=100), settings, "runs/copying").last  # doctest: +SKIP
        {'test': {'loss': 0.0012, 'accuracy': 1.0}}
    """
    if max_minutes is not None and not max_minutes > 0:
        raise ValueError(f"expected max_minutes > 0, got {max_minutes}")
    if resume and overwrite:
        raise ValueError("expected resume or overwrite, got both")
    pace = settings.pace(task)
    # before anything is written: without data no partial run should be left behind
    for split in task.splits:
        check_batch(task, next(iter(task.batches(split, settings.batch_size_of(split))), None))
    selection = Selection(task, settings.best_by)
    baseline = task.baseline()
    key = key or RunKey(seed=settings.seed)
    name = name or Path(directory).name
    known = {"key": key, "name": name, "network": network, "best_by": selection.metric}
    run = _begun_run(model, task, settings, **known)
    train_step = TrainStep(open_fabric(settings), model, task, settings)
    files = RunFolder(directory)
    loop = TrainingLoop(
        train_step=train_step,
        task=task,
        settings=settings,
        pace=pace,
        selection=selection,
        baseline=baseline,
        files=files,
        run=run,
        callbacks=callbacks,
        console=console,
        max_seconds=60 * (max_minutes or math.inf),
    )

    with locked(files.path):  # until the run ends
        saved = files.open(resume=resume, overwrite=overwrite)
        is_over = saved is not None and _is_finished(saved, run, files.last, pace.steps)
        if is_over and files.run_file.exists():
            ended = files.read()
            if ended.state == "ended":  # else it was killed before it wrote its record
                return ended
        if saved is not None:  # before the record is written: it may not fit
            loop.restore(saved)
        files.write(loop.record("unfinished"))
        try:
            return loop.train()
        except NonFiniteLossError as error:
            files.write(loop.record("diverged", message=str(error)))
            raise


def _is_finished(saved: Mapping[str, Any], run: Run, path: Path, steps: int) -> bool:
    """Whether a checkpoint is of the last step of the requested run.

    Raises:
        CheckpointError: If the checkpoint lacks a part.
        ValueError: If the checkpoint is of a different run, or of a longer one.
    """
    with checkpoint_errors(path):
        stored = saved["fingerprint"]
        state = TrainingState.from_checkpoint(saved["state"])
    known = run.fingerprint["settings"]
    # settings that did not exist when the checkpoint was written must have their default
    defaults = {n: value for n, value in describe_defaults(Settings).items() if n in known}
    if isinstance(stored.get("settings"), dict):
        stored = {**stored, "settings": defaults | stored["settings"]}
    fingerprint = run.fingerprint
    if "sha256" not in stored:  # a checkpoint from before texts had checksums
        fingerprint.pop("sha256", None)
    changed = differences(stored, fingerprint)
    if changed:
        raise ValueError(
            f"expected the model, task and settings of the run to resume, got {'; '.join(changed)}"
        )
    if steps < state.step:
        raise ValueError(
            f"expected steps >= {state.step}, as many as the run has taken, got {steps}"
        )
    return steps == state.step or state.ended


_CPU_INFO = Path("/proc/cpuinfo")  # Linux, where `platform.processor` returns nothing


def _begun_run(model: nn.Module, task: Task, settings: Settings, **known: Any) -> Run:
    """Return the record of a run that begins, with what is known of it already.

    Raises:
        TypeError: If the task has an option that cannot be stored as data.
    """
    files: dict[str, str] = {}  # the user's own text that a task reads
    sha256: dict[str, str] = {}
    path = getattr(task, "path", None)
    if isinstance(path, str | Path):
        files["path"] = str(path)
        text = Path(path).expanduser()
        if text.is_file():
            with text.open("rb") as file:
                sha256["path"] = hashlib.file_digest(file, "sha256").hexdigest()
    run = Run(
        **known,
        task=Description(describe(task)["class"], describe_options(task)),
        files=files,
        sha256=sha256,
        layer=_layer_class(model),
        modules=str(model),
        parameters=count_parameters(model),
        settings=describe_options(settings),
        revision=revision(),
        versions=versions() | _products(settings),
    )
    preprocessing = task.preprocessing
    if preprocessing is not None:
        options = msgspec.to_builtins(preprocessing)
        described = Description(type(preprocessing).__name__, options)
        run = replace(run, preprocessing=described)
    return run


def _layer_class(model: nn.Module) -> str:
    """Return the class of the first recurrent layer, or else that of the model."""
    for module in model.modules():
        if isinstance(module, Layer | nn.RNNBase):
            return type(module).__name__
    return type(model).__name__


@cache
def revision() -> dict[str, Any] | None:
    """Return the commit of the source tree that both packages run from; None without one.

    `modified` says whether a package differs from the commit.
    """
    packages = Path(eigenrnn.__file__).parent, Path(__file__).parents[1]
    commits: set[str] = set()
    modified = False
    try:
        for package in packages:
            _git(package, "ls-files", "--error-unmatch", "__init__.py")  # not someone else's tree
            commits.add(_git(package, "rev-parse", "HEAD"))
            modified = modified or bool(_git(package, "status", "--porcelain", "--", "."))
    except (OSError, subprocess.CalledProcessError):
        return None
    if len(commits) > 1:
        return None
    return {"commit": commits.pop(), "modified": modified}


def _git(package: Path, *arguments: str) -> str:
    command = ["git", "-C", str(package), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of the software, the processor and, if there is one, the GPU."""
    cores = counted(os.cpu_count() or 1, "core")
    threads = counted(torch.get_num_threads(), "thread")
    found = {
        "eigenrnn": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": f"{_processor()}, {cores}, {threads}",
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def _products(settings: Settings) -> dict[str, str]:
    """Return what the kernels multiply where they can, unless it is float32."""
    dtypes = {
        "32-true": torch.float32,
        "bf16-mixed": torch.bfloat16,
        "bf16-true": torch.bfloat16,
    }
    products = products_now(dtypes.get(settings.precision, torch.float64))
    if products == "float32":
        return {}
    return {"products": products}


def _processor() -> str:
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
