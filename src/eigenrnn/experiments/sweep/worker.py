"""Training the trials of a point, in a worker on some machine of the cluster."""

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
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.sweep.trials import Trial, TrialSource
from eigenrnn.experiments.training import Callback, checkpoint, fit
from eigenrnn.experiments.training.result import Metrics
from eigenrnn.experiments.training.run_folder import RunFolder

__all__ = ["train_trials"]

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_Report = Callable[[Trial, int, Metrics], None]


class _TakenOverError(RuntimeError):
    """Another worker has resumed the run, so this one must stop writing to its folder."""


def train_trials(
    trials: Sequence[Trial],
    source: TrialSource,
    out: Path,
    fingerprint: str,
    threads: int,
    report: _Report,
) -> list[Status]:
    """Train the trials of a point one after another, and return their statuses.

    An error in one is recorded in its status and does not stop the next.

    Args:
        trials: The trials.
        source: Builds their models.
        out: The folder of the sweep, which all machines must share.
        fingerprint: The fingerprint of the sweep, stored in that folder.
        threads: The number of threads to use.
        report: Called after each evaluation.
    """
    torch.set_num_threads(threads)  # holds for the current thread only
    try:
        check_shared(out, fingerprint)
    except ValueError as error:
        return [Status(trial, "failed", f"{error}: {_node()}") for trial in trials]
    return [_train(trial, source, out, report) for trial in trials]


def _train(trial: Trial, source: TrialSource, out: Path, report: _Report) -> Status:
    before = Status.read(trial, out)
    if before.is_final:
        return before
    folder = out / trial.path
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
        status = replace(_fit(status, source, out, report), state="ended")
    except _TakenOverError as error:  # nothing is written: the folder belongs to another worker
        return replace(status, state="failed", message=str(error))
    except NonFiniteLossError as error:
        status = replace(status, state="diverged", message=str(error))
    except Exception as error:  # any other error: the other trials continue
        status = replace(status, state="failed", message=_error_message(error, folder))
    with suppress(OSError):  # on a full disk the status is still returned
        status.write(out)
    return status


def _fit(status: Status, source: TrialSource, out: Path, report: _Report) -> Status:
    folder = out / status.trial.path
    if replace(status, state="ended").with_result(out).result is None:  # missing or damaged
        RunFolder(folder).result.unlink(missing_ok=True)
    setup = source.prepare(status.trial, folder)
    result = fit(
        setup.model,
        setup.task,
        setup.settings,
        folder,
        resume=True,
        callbacks=[*setup.callbacks, _ReportCallback(status, out, report)],
        console=Console(quiet=True),
        config=setup.config,
        name=setup.name,
    )
    scores: Mapping[str, float] | None = None
    if setup.score is not None:
        state = checkpoint.load(RunFolder(folder).best)
        setup.model.load_state_dict(state["model"])
        scores = dict(setup.score(setup.model.eval(), folder / "scores"))
    return replace(status, result=result, scores=scores)


class _ReportCallback(Callback):
    """Reports evaluations, and ends the run if another worker has resumed it.

    A machine that was considered dead may come back, and two writers would corrupt the folder.
    """

    def __init__(self, status: Status, out: Path, report: _Report) -> None:
        self._status = status
        self._out = out
        self._report = report

    def after_evaluation(self, step: int, metrics: Metrics, model: nn.Module) -> None:
        del model
        owner = Status.read(self._status.trial, self._out).owner
        if owner != self._status.owner:
            raise _TakenOverError(
                f"another worker has taken over {self._out / self._status.trial.path}"
            )
        self._report(self._status.trial, step, metrics)


def _node() -> str:
    import ray

    context: Any = ray.get_runtime_context() if ray.is_initialized() else None
    return platform.node() if context is None else f"{platform.node()} {context.get_node_id()}"


def _error_message(error: Exception, folder: Path) -> str:
    """Describe an error and, for a full disk, the last checkpoint."""
    if not isinstance(error, OSError) or error.errno not in _DISK_FULL:
        return f"{type(error).__name__}: {error}"
    last = RunFolder(folder).last
    kept = f"the last good checkpoint is {last}" if last.exists() else "there is no checkpoint yet"
    return f"the disk of {folder} is full ({error.strerror}); {kept}"
