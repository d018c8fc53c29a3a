"""Starts a run, anew or from its checkpoint."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from eigenrnn.data.memory import check_memory
from eigenrnn.layers.stacked import Stacked
from eigenrnn.tasks.base import Batch, Task
from eigenrnn.train.callbacks import Callback
from eigenrnn.train.course import Course
from eigenrnn.train.identity import facts, identity, refuse_another
from eigenrnn.train.learner import Learner
from eigenrnn.train.loop import Run
from eigenrnn.train.processes import launch, on_first
from eigenrnn.train.progress import RunProgress
from eigenrnn.train.result import Result
from eigenrnn.train.run_directory import RunDirectory, write_json
from eigenrnn.train.selection import chosen_by
from eigenrnn.train.settings import Settings

__all__ = ["fit"]

_BYTES = 4  # of a number; a rough estimate needs no other


def fit(  # noqa: PLR0913  the options are independent of each other
    model: nn.Module,
    task: Task,
    settings: Settings,
    directory: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    console: Console | None = None,
    config: Mapping[str, Any] | None = None,
    name: str | None = None,
    max_minutes: float | None = None,
) -> Result:
    """Train a model on a task.

    A run that was killed at any moment goes on from its last checkpoint with `resume=True`, and on
    a CPU gives the same losses to the last bit as one that never stopped. The first Ctrl-C ends
    the run after the step in hand and saves it. With several devices each takes its rows of the
    same batches, so that the losses are those of one device up to rounding, dropout aside.

    Args:
        model: Called with inputs (T, B, M); trained in place and moved to the device.
        task: Batches, loss and metric.
        settings: How to train.
        directory: The folder of the run: configuration, metrics, checkpoints and result.
        resume: Go on with the run in `directory`. It must be of the same model, task and settings
            but for those that only set its length, its pace or its place. Without a checkpoint it
            starts from the beginning; a run that has ended gives its result.
        overwrite: Delete the run in `directory` and start anew.
        callbacks: Called after steps and evaluations.
        console: Where to show progress, by default on standard error: a live bar on a terminal, a
            line per evaluation elsewhere, nothing on a quiet console.
        config: Further facts for `config.json`.
        name: What to call the run on the console; by default as its folder.
        max_minutes: The run ends early, as after Ctrl-C, once it has trained for so many minutes,
            those before it was resumed among them; with more of them it can go on.

    Raises:
        RunExistsError: If `directory` holds a run and neither `resume` nor `overwrite` is set.
        CheckpointError: If the checkpoint to go on from is damaged.
        NonFiniteLossError: If a loss or a gradient is not finite; the last checkpoint is sound.
        ValueError: If the run to resume is another one, if the processes cannot share a batch
            evenly, if a batch's states would not fit into memory, if the model has nothing to
            train, or if `max_minutes` is not positive.

    Example:
        >>> settings = Settings(steps=1_000, optimiser="rmsprop_tf1")
        >>> fit(model, Copying(delay=100), settings, "runs/copying").last  # doctest: +SKIP
        {'test': {'loss': 0.0012, 'accuracy': 1.0}}
    """
    limit = _seconds(max_minutes)
    files, steps = RunDirectory(directory), settings.total_steps(task)
    # before anything is written: missing data or memory must not leave half a run
    _check_memory(model, next(task.batches("train", settings.batch_size)))
    fingerprint = identity(model, task, settings)
    fabric = launch(settings)

    def start() -> tuple[dict[str, Any] | None, str | None]:
        state = files.open(resume=resume, overwrite=overwrite)
        if state is not None:
            refuse_another(state["identity"], fingerprint)
            taken = state["course"]["step"]
            if steps < taken:
                raise ValueError(f"expected steps >= {taken}, those taken already, got {steps}")
            if (steps == taken or state["course"]["ended"]) and files.result.exists():
                return state, files.result.read_text()
        files.result.unlink(missing_ok=True)  # that of a run which is now to be longer
        known = {"name": name, "best_by": chosen_by(task), **facts(model, task, settings)}
        write_json(files.config, {**known, "config": config or {}})
        return state, None

    state, finished = on_first(fabric, start)
    if finished is not None:
        return Result.from_json(finished, files.path)
    learner, course = Learner(fabric, model, task, settings), Course(processor_seconds=0.0)
    if state is not None:
        learner.load_state_dict(state["learner"])
        course = Course(**state["course"])
    if not fabric.is_global_zero:
        console = Console(quiet=True)
    progress = RunProgress(
        console or Console(stderr=True), name or files.path.name, steps, course.step
    )
    run = Run(learner, task, settings, files, fingerprint, course, progress, callbacks, limit)
    interrupted = run.train()
    fabric.barrier()
    return run.result(interrupted=interrupted)


def _seconds(minutes: float | None) -> float:
    """Convert them; None is without end.

    Raises:
        ValueError: If they are not positive.
    """
    if minutes is not None and not minutes > 0:
        raise ValueError(f"expected max_minutes > 0, got {minutes}")
    return math.inf if minutes is None else 60 * minutes


def _check_memory(model: nn.Module, batch: Batch) -> None:
    """Refuse a batch whose states do not fit, those forward and their gradients.

    Raises:
        ValueError: If they do not.
    """
    steps, rows = batch.inputs.shape[:2]
    layers = [m for m in model.modules() if isinstance(m, Stacked | nn.RNNBase)]
    units = sum(layer.hidden_size * layer.num_layers for layer in layers)
    check_memory(
        2 * _BYTES * steps * rows * units,
        f"the states of {rows} sequences of {steps} steps",
        "take shorter sequences, a smaller batch or fewer units",
    )
