"""Starts a run, anew or from its checkpoint."""

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from eigenrnn.errors import CheckpointError
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.training.callbacks import Callback
from eigenrnn.experiments.training.course import Best, Course
from eigenrnn.experiments.training.identity import facts, identity, refuse_another
from eigenrnn.experiments.training.learner import Learner
from eigenrnn.experiments.training.loop import Run
from eigenrnn.experiments.training.processes import launch, on_first
from eigenrnn.experiments.training.progress import RunProgress, plain_console
from eigenrnn.experiments.training.result import Result
from eigenrnn.experiments.training.run_directory import RunDirectory, locked, write_json
from eigenrnn.experiments.training.selection import chosen_by
from eigenrnn.experiments.training.settings import Settings
from eigenrnn.layers.stacked import Stacked
from eigenrnn.memory import check_memory

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
    the run after the step in hand and saves it. Other processes cannot write to the folder of a
    run that is being trained. With several devices each takes its rows of the same batches, so
    that the losses are those of one device up to rounding, dropout aside.

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
        FolderInUseError: If another process is writing to `directory`.
        CheckpointError: If the checkpoint to go on from is damaged.
        WriteError: If a file cannot be written; what was there before is as it was.
        NonFiniteLossError: If a loss or a gradient is not finite; the last checkpoint is sound.
        ValueError: If the run to resume is another one or its result is damaged, if it should be
            both resumed and overwritten, if the processes cannot share a batch
            evenly, if a batch's states would not fit into memory, if the model has nothing to
            train, or if `max_minutes` is not positive.

    Example:
        >>> settings = Settings(steps=1_000, optimiser="rmsprop_tf1")
        >>> fit(model, Copying(delay=100), settings, "runs/copying").last  # doctest: +SKIP
        {'test': {'loss': 0.0012, 'accuracy': 1.0}}
    """
    limit = _seconds(max_minutes)
    if resume and overwrite:
        raise ValueError("expected resume or overwrite, got both")
    files, steps = RunDirectory(directory), settings.total_steps(task)
    # before anything is written: missing data or memory must not leave half a run
    _check_memory(model, next(task.batches("train", settings.batch_size)))
    fingerprint = identity(model, task, settings)
    fabric = launch(settings)

    def start() -> tuple[dict[str, Any] | None, Result | None]:
        stack.enter_context(locked(files.path))  # in the first process, for all of the run
        state = files.open(resume=resume, overwrite=overwrite)
        if state is not None:
            is_at_end = _is_at_end(state, files.last, fingerprint, steps)
            if is_at_end and files.result.exists():
                return state, Result.read(files.result)
        known = {"name": name, "best_by": chosen_by(task), **facts(model, task, settings)}
        write_json(files.config, {**known, "config": config or {}})
        files.result.unlink(missing_ok=True)  # that of a run which is now to be longer
        return state, None

    with ExitStack() as stack:
        state, finished = on_first(fabric, start)
        if finished is not None:
            return finished
        learner = Learner(fabric, model, task, settings)
        course, best = _go_back(learner, state, files)
        if not fabric.is_global_zero:
            console = plain_console(quiet=True)
        progress = RunProgress(
            console or plain_console(stderr=True), name or files.path.name, steps, course.step
        )
        run = Run(
            learner, task, settings, files, fingerprint, course, best, progress, callbacks, limit
        )
        result = run.train()
        fabric.barrier()
    return result


def _is_at_end(
    state: Mapping[str, Any], path: Path, fingerprint: Mapping[str, str], steps: int
) -> bool:
    """Whether a checkpoint is of the end of the run that is asked for.

    Raises:
        CheckpointError: If it lacks what is needed to say so.
        ValueError: If it is of another run, or of a longer one.
    """
    with _naming_the_checkpoint(path):
        then, course = state["identity"], Course.of_state(state["course"])
    refuse_another(then, fingerprint)
    if steps < course.step:
        raise ValueError(
            f"expected steps >= {course.step}, as many as the run has taken, got {steps}"
        )
    return steps == course.step or course.ended


def _go_back(
    learner: Learner, state: Mapping[str, Any] | None, files: RunDirectory
) -> tuple[Course, Best | None]:
    """Put a learner into the state of a checkpoint, if there is one; return how far it had come.

    Raises:
        CheckpointError: If the checkpoint lacks a part.
    """
    if state is None:
        return Course(processor_seconds=0.0), None
    with _naming_the_checkpoint(files.last):
        learner.load_state_dict(state["learner"])
        course, best = Course.of_state(state["course"]), Best.of_state(state["best"])
    if learner.fabric.is_global_zero:  # that of a later step may be there, which is taken again
        files.best.unlink(missing_ok=True) if best is None else best.write(files.best)
    return course, best


@contextmanager
def _naming_the_checkpoint(path: Path) -> Generator[None]:
    """Say which checkpoint lacks what a run needs to go on, and what to do.

    Raises:
        CheckpointError: If it does.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        what = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(
            f"{path} is no checkpoint to go on from: {what}; put another in its place, or start "
            "anew with overwrite=True (on the command line: --overwrite)"
        ) from error


def _seconds(minutes: float | None) -> float:
    """Convert them; None is without end.

    Raises:
        ValueError: If they are not positive.
    """
    if minutes is not None and not minutes > 0:
        raise ValueError(f"expected max_minutes > 0, got {minutes}")
    return math.inf if minutes is None else 60 * minutes


def _check_memory(model: nn.Module, batch: Batch) -> None:
    """Refuse what does not fit: states and their gradients, gradients and moments of weights.

    Raises:
        ValueError: If they do not.
    """
    steps, rows = batch.inputs.shape[:2]
    layers = [m for m in model.modules() if isinstance(m, Stacked | nn.RNNBase)]
    units = sum(layer.hidden_size * layer.num_layers for layer in layers)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    of_weights = sum(weight.numel() * weight.element_size() for weight in trained)
    check_memory(
        2 * _BYTES * steps * rows * units + 2 * of_weights,
        f"the states of {rows} sequences of {steps} steps and the gradients of the weights",
        "take shorter sequences, a smaller batch or fewer units",
    )
