"""Trains the runs of a point where Ray puts it: in a worker, on some machine."""

import errno
import platform
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from eigenrnn.errors import NonFiniteLossError
from eigenrnn.experiments.sweep.folder import check_shared
from eigenrnn.experiments.sweep.source import Source, Trial
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.training import Callback, checkpoint, fit
from eigenrnn.experiments.training.result import Metrics
from eigenrnn.experiments.training.run_directory import RunDirectory

__all__ = ["train_points"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _TakenOverError(RuntimeError):
    """Another worker goes on with the run: this one must not write to its folder any more."""


def train_points(
    trials: Sequence[Trial],
    source: Source,
    out: Path,
    sweep: str,
    threads: int,
    report: Callable[[Trial, int, Metrics], None],
) -> list[Status]:
    """Train the runs of a point one after another; say what has become of each.

    What goes wrong with one is part of its status and does not stop the next.

    Args:
        trials: The runs.
        source: Makes their networks.
        out: The folder of the sweep, which all machines must share.
        sweep: The mark of the sweep in that folder.
        threads: How many threads each may use.
        report: Told of each evaluation.
    """
    torch.set_num_threads(threads)  # of this very thread of the process
    try:
        check_shared(out, sweep)
    except ValueError as error:
        return [Status(trial, "failed", f"{error}: {_node()}") for trial in trials]
    return [_train(trial, source, out, report) for trial in trials]


def _train(
    trial: Trial, source: Source, out: Path, report: Callable[[Trial, int, Metrics], None]
) -> Status:
    before = Status.read(trial, out)
    if before.is_final:
        return before
    folder = out / trial.place
    status = replace(
        before,
        state="running",
        message="",
        attempts=before.attempts + 1,
        node=_node(),
        owner=uuid.uuid4().hex,
    )
    try:
        status.write(out)
        status = replace(_run(status, source, out, report), state="ended")
    except _TakenOverError as error:  # nothing is written: the folder is another's
        return replace(status, state="failed", message=str(error))
    except NonFiniteLossError as error:
        status = replace(status, state="diverged", message=str(error))
    except Exception as error:  # whatever it is, the other runs go on
        status = replace(status, state="failed", message=_explained(error, folder))
    with suppress(OSError):  # a full disk: the status is told all the same
        status.write(out)
    return status


def _run(
    status: Status, source: Source, out: Path, report: Callable[[Trial, int, Metrics], None]
) -> Status:
    folder = out / status.trial.place
    if replace(status, state="ended").with_result(out).result is None:  # none, or it is damaged
        RunDirectory(folder).result.unlink(missing_ok=True)
    prepared = source.prepare(status.trial, folder)
    watching = [*prepared.callbacks, _Watch(status, out, report)]
    result = fit(
        prepared.model,
        prepared.task,
        prepared.settings,
        folder,
        resume=True,
        callbacks=watching,
        console=Console(quiet=True),
        config=prepared.config,
        name=prepared.name,
    )
    scores: Mapping[str, float] | None = None
    if prepared.score is not None:
        state = checkpoint.load(RunDirectory(folder).best)
        prepared.model.load_state_dict(state["model"])
        scores = dict(prepared.score(prepared.model.eval(), folder / "scores"))
    return replace(status, result=result, scores=scores)


class _Watch(Callback):
    """Tells of evaluations, and ends a run that another worker goes on with.

    A machine that was thought dead may come back; two writers in a folder would spoil it.
    """

    def __init__(
        self, status: Status, out: Path, report: Callable[[Trial, int, Metrics], None]
    ) -> None:
        self._status = status
        self._out = out
        self._report = report

    def after_evaluation(self, step: int, metrics: Metrics, model: nn.Module) -> None:
        del model
        owner = Status.read(self._status.trial, self._out).owner
        if owner != self._status.owner:
            raise _TakenOverError(
                f"another worker has taken over {self._out / self._status.trial.place}"
            )
        self._report(self._status.trial, step, metrics)


def _node() -> str:
    import ray

    context: Any = ray.get_runtime_context() if ray.is_initialized() else None
    return platform.node() if context is None else f"{platform.node()} {context.get_node_id()}"


def _explained(error: Exception, folder: Path) -> str:
    """Say what ended a run, and from where it can go on."""
    if not isinstance(error, OSError) or error.errno not in _FULL:
        return f"{type(error).__name__}: {error}"
    last = RunDirectory(folder).last
    kept = f"the last good checkpoint is {last}" if last.exists() else "there is no checkpoint yet"
    return f"the disk of {folder} is full ({error.strerror}); {kept}"
