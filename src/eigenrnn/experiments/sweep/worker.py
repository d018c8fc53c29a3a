"""Training a trial, in a worker on some machine of the cluster."""

import errno
import platform
import signal
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from eigenrnn.experiments.errors import NonFiniteLossError
from eigenrnn.experiments.sweep.folder import check_shared
from eigenrnn.experiments.sweep.trial import Trial, TrialSource
from eigenrnn.experiments.training import Callback
from eigenrnn.experiments.training.result import Metrics
from eigenrnn.experiments.training.run_folder import RunFolder

__all__ = ["Event", "train"]

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Event = tuple[str, int | None, Metrics]
"""The path of a trial, and the step and metrics of an evaluation; no step when it starts."""


class _TakenOverError(RuntimeError):
    """Another worker has resumed the run, so this one must stop writing to its folder."""


def train(
    trial: Trial,
    source: TrialSource,
    out: Path,
    fingerprint: str,
    threads: int,
    report: Callable[[Event], object],
) -> Trial:
    """Train a trial, and return it with its state; errors are recorded in it.

    Args:
        trial: The trial.
        source: Builds its model.
        out: The folder of the sweep, which all machines must share.
        fingerprint: The fingerprint of the sweep, stored in that folder.
        threads: The number of threads to use.
        report: Called when the trial starts, and after each evaluation.
    """
    torch.set_num_threads(threads)
    try:
        check_shared(out, fingerprint)
    except ValueError as error:
        return replace(trial, state="failed", message=f"{error}: {_node()}")
    before = trial.read(out)
    if before.is_final:
        return before
    trial = replace(
        before,
        state="running",
        message="",
        attempts=before.attempts + 1,
        node=_node(),
        owner=uuid.uuid4().hex,
    )
    try:
        trial.write(out)
        report((trial.path, None, {}))
        trial = _fit(trial, source, out, report)
    except _TakenOverError as error:  # nothing is written: the folder belongs to another worker
        return replace(trial, state="failed", message=str(error))
    except NonFiniteLossError as error:
        trial = replace(trial, state="diverged", message=str(error))
    except Exception as error:  # any other error: the other trials continue
        message = _error_message(error, RunFolder(out / trial.path))
        trial = replace(trial, state="failed", message=message)
    with suppress(OSError):  # on a full disk the trial is still returned
        trial.write(out)
    return trial


def _fit(trial: Trial, source: TrialSource, out: Path, report: Callable[[Event], object]) -> Trial:
    folder = RunFolder(out / trial.path)
    folder.result_file.unlink(missing_ok=True)  # it may be damaged; the checkpoint gives it again
    callback = _ReportCallback(trial, out, report)
    quiet = Console(quiet=True)
    result = source.train(trial, folder, resume=True, callbacks=[callback], console=quiet)
    if result.signal is not None:
        signal.raise_signal(result.signal)  # ends the worker: Ray resumes the trial elsewhere
    scores = folder.read_status().get("scores")
    return replace(trial, state="ended", result=result, scores=scores)


class _ReportCallback(Callback):
    """Reports evaluations, and ends the run if another worker has resumed it.

    A machine that was considered dead may come back, and two writers would corrupt the folder.
    """

    def __init__(self, trial: Trial, out: Path, report: Callable[[Event], object]) -> None:
        self._trial = trial
        self._out = out
        self._report = report

    def after_evaluation(self, step: int, metrics: Metrics, model: nn.Module) -> None:
        del model
        trial = self._trial
        if trial.read(self._out).owner != trial.owner:
            raise _TakenOverError(f"another worker has taken over {self._out / trial.path}")
        self._report((trial.path, step, metrics))


def _node() -> str:
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return platform.node()
    return f"{platform.node()} {ray.get_runtime_context().get_node_id()}"


def _error_message(error: Exception, folder: RunFolder) -> str:
    """Describe an error and, for a full disk, the last checkpoint."""
    if not isinstance(error, OSError) or error.errno not in _DISK_FULL:
        return f"{type(error).__name__}: {error}"
    kept = "there is no checkpoint yet"
    if folder.last.exists():
        kept = f"the last good checkpoint is {folder.last}"
    return f"the disk of {folder.path} is full ({error.strerror}); {kept}"
