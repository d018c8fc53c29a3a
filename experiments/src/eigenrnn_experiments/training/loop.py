"""The only training loop, and the state that it keeps from step to step."""

import signal
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from eigenrnn_experiments.errors import CheckpointError, NonFiniteLossError
from eigenrnn_experiments.files import read_table
from eigenrnn_experiments.tasks.base import Selection, Task
from eigenrnn_experiments.training import checkpoint
from eigenrnn_experiments.training.callbacks import Callback
from eigenrnn_experiments.training.log import RunLog
from eigenrnn_experiments.training.optimisers import lr_factor
from eigenrnn_experiments.training.run import Metrics, Run, RunFolder, State, first_below
from eigenrnn_experiments.training.settings import Pace, Settings
from eigenrnn_experiments.training.train_step import StepMetrics, TrainStep

__all__ = ["BestModel", "DeferredSignals", "TrainingLoop", "TrainingState", "checkpoint_errors"]


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DeferredSignals:
    """A context in which the first Ctrl-C or SIGTERM only sets `number`.

    A second signal acts immediately, as it does outside. If an exception leaves the context after
    the first signal, the signal is raised again, so it is not lost. Outside the main thread, where
    Python receives no signals, the context does nothing.

    Attributes:
        number: The number of the signal received; None if there was none.

    Example:
        >>> with DeferredSignals() as signals:
        ...     print(signals.number)
        None
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
            for number in _SIGNALS:
                signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._restore()
        if self.number is not None and isinstance(error, Exception):
            signal.raise_signal(self.number)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            if handler is None:  # it was not installed from Python and cannot be restored
                signal.signal(number, signal.SIG_DFL)
            else:
                signal.signal(number, handler)
        self._previous = {}


@dataclass(frozen=True)
class BestModel:
    """The best evaluation so far and its model: part of the checkpoint, and all of `best.pt`.

    Args:
        step: The number of steps taken before the evaluation.
        metrics: The loss and the metric of each split.
        model: The `state_dict` of the model.
    """

    step: int
    metrics: Metrics
    model: Mapping[str, Any]


@dataclass
class TrainingState:
    """The counters and metrics of a run; the field names are the keys in its checkpoint.

    Args:
        step: The number of steps taken.
        seconds: The wall-clock time of these steps and of the evaluations.
        processor_seconds: The processor time of all threads of this process.
        train_loss: The loss of the last step.
        losses: The sum and the number of losses since the last line of `metrics.csv`.
        last: The metrics of the last evaluation.
        deciding: The selection metric at every evaluation, negated if lower is better.
        plateaus: The number of evaluations without improvement.
        waited: The number of evaluations since the best one.
        ended: Whether early stopping ended the run before its last step.
    """

    step: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    train_loss: float = float("nan")
    losses: tuple[float, int] = (0.0, 0)
    last: Metrics = field(default_factory=dict)
    deciding: list[float] = field(default_factory=list[float])
    plateaus: int = 0
    waited: int = 0
    ended: bool = False

    @classmethod
    def from_checkpoint(cls, state: Mapping[str, Any]) -> Self:
        """Build it from the entry of a checkpoint.

        Raises:
            KeyError: If a field is missing.
        """
        return cls(**{f.name: state[f.name] for f in fields(cls)})


@dataclass(kw_only=True)
class TrainingLoop:
    """Trains from the current state of a run to its end.

    Args:
        train_step: Takes the steps, and evaluates the model.
        task: The task.
        settings: The settings of the run.
        pace: Its length, and when it is evaluated and saved.
        selection: Which evaluation is the best.
        baseline: The chance-level loss.
        files: The folder of the run.
        run: The record that it has begun with.
        callbacks: Called after steps and evaluations.
        console: Where to show progress; standard error by default.
        max_seconds: The time limit, including the time before the run was resumed.
        state: What the loop keeps from step to step.
        best: The best evaluation so far.
    """

    train_step: TrainStep
    task: Task
    settings: Settings
    pace: Pace
    selection: Selection
    baseline: float
    files: RunFolder
    run: Run
    callbacks: Sequence[Callback]
    console: Console | None
    max_seconds: float
    state: TrainingState = field(default_factory=TrainingState)
    best: BestModel | None = None
    _logged: int = 0  # the step of the last line of `metrics.csv` before the checkpoint

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from a checkpoint, and write its `best.pt`.

        Raises:
            CheckpointError: If the checkpoint lacks a part, or is of a model of other shapes.
        """
        with checkpoint_errors(self.files.last):
            self.train_step.load_state_dict(saved["train_step"])
            self.state = TrainingState.from_checkpoint(saved["state"])
            self._logged = saved.get("logged", 0)
            if saved["best"] is not None:
                names = [each.name for each in fields(BestModel)]
                self.best = BestModel(**{name: saved["best"][name] for name in names})
        # `best.pt` may be of a later step, now taken again
        if self.best is None:
            self.files.best.unlink(missing_ok=True)
        else:
            checkpoint.save(self.files.best, vars(self.best))

    def train(self) -> Run:
        """Take all remaining steps, unless a signal or the time limit ends the run early.

        Raises:
            NonFiniteLossError: If a loss or a gradient is not finite.
        """
        # shifted by the time of earlier calls, so that differences to now are totals
        self._start_time = time.monotonic() - self.state.seconds
        self._start_processor_time = time.process_time() - self.state.processor_seconds
        device = self.train_step.fabric.device
        with ExitStack() as stack:
            # Every step seeds torch's global generator; its state is restored for the caller.
            cuda: list[torch.device] = []
            if device.type == "cuda":
                cuda.append(device)
            stack.enter_context(torch.random.fork_rng(cuda))
            columns = ["train_loss", "train_loss_mean", "train_penalty", "train_grad_norm"]
            columns = ["seconds", *columns, *self.selection.columns]
            for callback in self.callbacks:
                callback.begin(self.state.step, self.train_step.model, self.task, self.files.path)
                columns += callback.columns
            signals = stack.enter_context(DeferredSignals())
            log = RunLog(
                self.files,
                columns,
                step=self.state.step,
                logged=self._logged,
                steps=self.pace.steps,
                name=self.run.name,
                console=self.console,
            )
            stack.enter_context(log)
            try:
                is_early = self._take_steps(log, signals)
            except NonFiniteLossError as error:
                last = "there is no checkpoint yet"
                if self.files.last.exists():
                    last = f"the last good checkpoint is {self.files.last}"
                raise NonFiniteLossError(f"{error}; {last}") from None
        # Only here: a signal may also arrive in the last step or the last evaluation.
        if is_early or signals.number is not None:
            more = ""
            if signals.number is None:
                more = " and more max_minutes"
            log.print(
                f"stopped after step {self.state.step} of {self.pace.steps} and saved in "
                f"{self.files.path}: continue with resume=True{more} "
                "(on the command line: --resume)"
            )
        run = self.record("unfinished" if is_early else "ended")
        self.files.write(run)
        return replace(run, signal=signals.number)

    def record(self, state: State, *, message: str = "") -> Run:
        """Return the record of the run with what came out of the steps taken so far."""
        now = self.state
        run = replace(
            self.run,
            state=state,
            message=message,
            steps=now.step,
            seconds=now.seconds,
            processor_seconds=now.processor_seconds,
            train_loss=now.train_loss,
            last=now.last,
        )
        if self.best is not None:
            run = replace(run, best=self.best.metrics, best_step=self.best.step)
        if state == "unfinished":
            return run
        return replace(
            run,
            ended=datetime.now(UTC).isoformat(timespec="seconds"),
            baseline=self.baseline,
            first_below=first_below(read_table(self.files.metrics_file), self.baseline),
        )

    def _take_steps(self, log: RunLog, signals: DeferredSignals) -> bool:
        """Take the remaining steps; return whether the run was stopped before its end."""
        state = self.state
        start, steps = state.step, self.pace.steps
        if state.ended:  # it was killed before it wrote its record
            return False
        if state.seconds >= self.max_seconds:
            return start < steps
        batches = self.task.batches("train", self.settings.batch_size, self.settings.seed, start)
        for step in range(start + 1, steps + 1):
            reads = signals.number is not None or self._must_read_metrics(step)
            decay = lr_factor(
                self.settings,
                step=step,
                steps=steps,
                per_epoch=self.pace.per_epoch,
                plateaus=state.plateaus,
            )
            loss, metrics = self.train_step.take(step, next(batches), decay=decay, reads=reads)
            is_over = signals.number is not None or self._elapsed() >= self.max_seconds
            # only a step whose metrics are read is saved, so without them the run goes on to one
            stop = bool(metrics) and is_over
            state.step = step
            measured: dict[str, float | NDArray[np.float64]] = {}
            for callback in self.callbacks:
                callback.after_step(step, loss, self.train_step.model)
                measured |= callback.measure(step, self.train_step.model)
            if metrics:
                self._log(log, metrics, measured)
                if stop or state.ended or self._is_due(step, self.pace.checkpoint_every):
                    self._save(log)
                if stop or state.ended:
                    return step < steps and not state.ended
            elif measured:
                log.write(step, measured)
        return False

    def _must_read_metrics(self, step: int) -> bool:
        """Whether to read the metrics at this step, which waits for the device unless on a CPU."""
        if self.train_step.fabric.device.type == "cpu":
            return True
        everys = self.settings.log_every, self.pace.eval_every, self.pace.checkpoint_every
        return any(self._is_due(step, every) for every in everys)

    def _elapsed(self) -> float:
        return time.monotonic() - self._start_time

    def _is_due(self, step: int, every: int) -> bool:
        return step % every == 0 or step == self.pace.steps

    def _log(
        self,
        log: RunLog,
        metrics: list[StepMetrics],
        measured: dict[str, float | NDArray[np.float64]],
    ) -> None:
        """Evaluate, show the step and write a line, each if it is due."""
        state = self.state
        step, current = state.step, metrics[-1]
        state.train_loss = current.loss
        total, count = state.losses
        total += sum(each.loss for each in metrics)
        count += len(metrics)
        state.losses = total, count
        row: dict[str, float | NDArray[np.float64]] = {}
        shown = ""
        if self._is_due(step, self.pace.eval_every):
            evaluation = self._evaluate()
            for split, numbers in evaluation.items():
                row |= {f"{split}_{name}": number for name, number in numbers.items()}
                if split == self.selection.split:
                    shown = f"{self.selection.metric} {self.selection.number(numbers):.4g}"
            for callback in self.callbacks:
                found = callback.after_evaluation(step, evaluation, self.train_step.model)
                measured |= found or {}
        # after the evaluation, whose time counts, too
        state.seconds = self._elapsed()
        state.processor_seconds = time.process_time() - self._start_processor_time
        if row or self._is_due(step, self.settings.log_every):
            row["seconds"] = state.seconds
            row["train_loss"] = current.loss
            row["train_loss_mean"] = total / count
            row["train_grad_norm"] = current.grad_norm
            if current.penalty:
                row["train_penalty"] = current.penalty
            state.losses = 0.0, 0
        log.show(step, current.loss, shown)
        if row or measured:
            log.write(step, {**row, **measured})

    def _evaluate(self) -> Metrics:
        """Evaluate the fixed sets; keep the model if it is the best so far.

        The learning rate decay, early stopping and averaging follow from it.
        """
        state, settings = self.state, self.settings
        metrics = self.train_step.evaluate()
        split = self.selection.split
        if split is None:
            return metrics
        state.last = metrics
        score = self.selection.score(metrics[split])
        previous: dict[str, float] | None = None
        if self.best is not None:
            previous = self.best.metrics.get(split)
        if self.selection.is_better(metrics[split], previous):
            state.waited = 0
            # a copy: a `state_dict` holds the parameters themselves, which go on training
            weights = deepcopy(self.train_step.evaluated.state_dict())
            self.best = BestModel(state.step, metrics, weights)
            checkpoint.save(self.files.best, vars(self.best))
        else:
            state.waited += 1
            state.plateaus += 1
        has_waited = settings.patience is not None and state.waited >= settings.patience
        is_low = settings.stop_below is not None and metrics[split]["loss"] < settings.stop_below
        state.ended = has_waited or is_low
        if settings.average_after is not None and self.train_step.average is None:
            # as in NT-ASGD of AWD-LSTM: without the last evaluations, so that noise decides less
            earlier = state.deciding[: -settings.average_after]
            if earlier and score < max(earlier):
                self.train_step.start_average()
        state.deciding.append(score)
        return metrics

    def _save(self, log: RunLog) -> None:
        """Write the checkpoint.

        Raises:
            NonFiniteLossError: If a parameter is not finite; such a state is never saved.
        """
        parameters = self.train_step.parameters
        # read at once, because each read waits for the device
        finite = torch.stack([p.isfinite().all() for p in parameters.values()]).tolist()
        lost = [name for name, is_finite in zip(parameters, finite, strict=True) if not is_finite]
        if lost:
            raise NonFiniteLossError(
                f"expected finite parameters after step {self.state.step}, "
                f"got NaN or infinity in {', '.join(lost)}"
            )
        content = {
            "fingerprint": self.run.fingerprint,
            "state": asdict(self.state),
            "train_step": self.train_step.state_dict(),
            # with its model: `best.pt` may be of a later step, which a crash undoes
            "best": None if self.best is None else vars(self.best),
        }
        log.sync()
        checkpoint.save(self.files.last, content | {"logged": log.logged})


@contextmanager
def checkpoint_errors(path: Path) -> Generator[None]:
    """Raise `CheckpointError`, naming the file, if a part of the checkpoint does not fit.

    Raises:
        CheckpointError: If a part is missing, or has another type, length or shape.
    """
    try:
        yield
    # ValueError from the optimisers, RuntimeError from `Module.load_state_dict`
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        cause = str(error)
        if isinstance(error, KeyError):  # whose text is the key alone
            cause = f"it has no {error.args[0]}"
        raise CheckpointError(
            f"cannot resume from the checkpoint {path}: {cause}; replace it, or start a new run "
            "with overwrite=True (on the command line: --overwrite)"
        ) from error
