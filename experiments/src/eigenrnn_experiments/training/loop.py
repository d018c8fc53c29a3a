"""The only training loop, and the state that it keeps from step to step."""

import math
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn_experiments.errors import NonFiniteLossError
from eigenrnn_experiments.files import Columns, read_table
from eigenrnn_experiments.tasks.base import (
    Task,
    is_better,
    selection_score,
    selection_split,
)
from eigenrnn_experiments.training import checkpoint
from eigenrnn_experiments.training.callbacks import Callback, Measurements
from eigenrnn_experiments.training.metrics_writer import MetricsWriter
from eigenrnn_experiments.training.progress import RunProgress
from eigenrnn_experiments.training.run import FRACTIONS, FirstBelow, Metrics, Run, RunFolder, State
from eigenrnn_experiments.training.settings import Settings
from eigenrnn_experiments.training.train_step import TrainStep, lr_factor

__all__ = ["BestModel", "TrainingLoop", "TrainingState", "first_below"]


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


_MAX_LISTED = 5  # gradient norms in a message


@dataclass(frozen=True)
class StepMetrics:
    """The metrics of one training step, before the optimiser update.

    Args:
        step: The number of the step, from one.
        loss: The mean loss over the whole batch, without the penalty.
        penalty: The penalty of the constraints.
        grad_norm: The norm of the gradient of all parameters together, before clipping.
    """

    step: int
    loss: float
    penalty: float
    grad_norm: float


class DeferredMetrics:
    """The metrics of the steps since the last read.

    Reading makes the host wait for the device, so it is done once for many steps. An error still
    names the step whose loss was not finite, and the gradients of that step.

    Args:
        names: The names of the parameters.
        check_gradients: Whether gradients must be finite too. A gradient scaler skips steps with
            non-finite gradients by design, so they are then not checked.
    """

    def __init__(self, names: Sequence[str], *, check_gradients: bool) -> None:
        self._names = names
        self._check_gradients = check_gradients
        self._steps: list[int] = []
        self._rows: list[Tensor] = []

    def add(self, step: int, loss: Tensor, penalty: Tensor, norms: Sequence[Tensor]) -> None:
        """Record a step; `norms` are the gradient norms of the parameters."""
        like = loss
        if norms:  # which are in double precision
            like = norms[0]
        numbers = [number.detach().to(like) for number in (loss, penalty, *norms)]
        self._steps.append(step)
        self._rows.append(torch.stack(numbers))

    def read(self) -> list[StepMetrics]:
        """Return the metrics since the last read.

        Raises:
            NonFiniteLossError: If a number is not finite; the message names the first such step
                and its largest gradient norms.
        """
        table = torch.stack(self._rows)  # (steps, 2 + parameters)
        metrics: list[StepMetrics] = []
        for step, (loss, penalty, *norms) in zip(self._steps, table.tolist(), strict=True):
            metrics.append(StepMetrics(step, loss, penalty, math.hypot(*norms)))
            self._check_finite(metrics[-1], norms)
        self._steps.clear()
        self._rows.clear()
        return metrics

    def _check_finite(self, metrics: StepMetrics, norms: list[float]) -> None:
        """Check the loss and, unless a gradient scaler is used, the gradients.

        Raises:
            NonFiniteLossError: If one of them is not finite.
        """
        if not math.isfinite(metrics.loss):
            cause = f"the loss of step {metrics.step} is {metrics.loss}"
        elif self._check_gradients and not math.isfinite(metrics.grad_norm):
            cause = f"a gradient of step {metrics.step} is not finite (loss {metrics.loss:.4g})"
        else:
            return

        def size(named: tuple[float, str]) -> float:
            norm, _ = named
            if math.isnan(norm):  # it comes first, because it may be the cause
                return math.inf
            return norm

        # a stable sort, so equal norms keep the order of the parameters
        largest = sorted(zip(norms, self._names, strict=True), key=size, reverse=True)
        listed = ", ".join(f"{name} {norm:.3g}" for norm, name in largest[:_MAX_LISTED])
        raise NonFiniteLossError(f"{cause}; largest gradient norms: {listed}")


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

    @classmethod
    def from_checkpoint(cls, state: Mapping[str, Any] | None) -> Self | None:
        """Build it from the entry of a checkpoint.

        Raises:
            KeyError: If a part is missing.
        """
        if state is None:
            return None
        return cls(state["step"], state["metrics"], state["model"])


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


@dataclass
class TrainingLoop:
    """Trains from the current state of a run to its end."""

    train_step: TrainStep
    task: Task
    settings: Settings
    files: RunFolder
    run: Run
    fingerprint: dict[str, Any]
    state: TrainingState
    best: BestModel | None
    progress: RunProgress
    callbacks: Sequence[Callback]
    max_seconds: float = math.inf
    writer: MetricsWriter | None = None  # while it trains

    def __post_init__(self) -> None:
        self.steps = self.settings.total_steps(self.task)
        self.per_epoch = self.task.steps_per_epoch(self.settings.batch_size)
        self.eval_every = self.settings.eval_every or self.per_epoch or 100
        self.checkpoint_every = self.settings.checkpoint_every or self.eval_every
        self.metrics = DeferredMetrics(
            list(self.train_step.parameters),
            check_gradients=self.train_step.scaler is None,
        )
        # shifted by the time of earlier calls, so that differences to now are totals
        self.start_time = time.monotonic() - self.state.seconds
        self.start_processor_time = time.process_time() - self.state.processor_seconds

    def train(self) -> Run:
        """Take all remaining steps, unless a signal or the time limit ends the run early.

        Raises:
            NonFiniteLossError: If a loss or a gradient is not finite.
        """
        device = self.train_step.fabric.device
        with ExitStack() as stack:
            # Every step seeds torch's global generator; its state is restored for the caller.
            cuda: list[torch.device] = []
            if device.type == "cuda":
                cuda.append(device)
            stack.enter_context(torch.random.fork_rng(cuda))
            for callback in self.callbacks:
                callback.begin(self.state.step, self.train_step.model, self.task, self.files.path)
            self.writer = stack.enter_context(self._open_writer())
            stack.enter_context(self.progress)
            signals = stack.enter_context(DeferredSignals())
            try:
                is_early = self._take_steps(signals)
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
            self.progress.print(
                f"stopped after step {self.state.step} of {self.steps} and saved in "
                f"{self.files.path}: continue with resume=True{more} "
                "(on the command line: --resume)"
            )
        if is_early:
            return self.record("unfinished", signal=signals.number)
        run = self.record("ended")
        self.files.write(run)
        return replace(run, signal=signals.number)

    def record(self, state: State, *, message: str = "", signal: int | None = None) -> Run:
        """Return the record of the run with what came out of the steps taken so far."""
        now = self.state
        run = replace(
            self.run,
            state=state,
            message=message,
            signal=signal,
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
        baseline = self.task.baseline()
        return replace(
            run,
            ended=datetime.now(UTC).isoformat(timespec="seconds"),
            baseline=baseline,
            first_below=first_below(read_table(self.files.metrics_file), baseline),
        )

    def _take_steps(self, signals: DeferredSignals) -> bool:
        """Take the remaining steps; return whether the run was stopped before its end."""
        train_step = self.train_step
        start = self.state.step
        if self.state.seconds >= self.max_seconds:
            return start < self.steps
        batches = self.task.batches("train", self.settings.batch_size, self.settings.seed, start)
        for step in range(start + 1, self.steps + 1):
            batch = next(batches)
            loss, penalty, norms = train_step.backward(step, batch)
            self.metrics.add(step, loss, penalty, norms)
            read: list[StepMetrics] = []
            stop = False
            # Before the update: numbers that are not finite must not reach the parameters.
            if self._must_read_metrics(step, signals):
                read = self.metrics.read()
                stop = signals.number is not None or self._elapsed() >= self.max_seconds
            decay = lr_factor(
                self.settings,
                step=step,
                steps=self.steps,
                per_epoch=self.per_epoch,
                plateaus=self.state.plateaus,
            )
            train_step.update(norms, scale=batch.lr_scale, decay=decay)
            self.state.step = step
            for callback in self.callbacks:
                callback.after_step(step, loss, train_step.model)
            measurements = self._measurements(step)
            if read:
                self._record(read, measurements, stop=stop)
            elif measurements and self.writer is not None:
                self.writer.write(step, measurements)
            if self.state.ended:
                return False
            if stop:
                return step < self.steps
        return False

    def _measurements(self, step: int) -> dict[str, float | NDArray[np.float64]]:
        """Collect the measurements of all callbacks."""
        found: dict[str, float | NDArray[np.float64]] = {}
        for callback in self.callbacks:
            found |= callback.measure(step, self.train_step.model)
        return found

    def _must_read_metrics(self, step: int, signals: DeferredSignals) -> bool:
        """Whether to read the metrics at this step, which waits for the device unless on a CPU."""
        fabric = self.train_step.fabric
        if fabric.device.type == "cpu" or self._is_due(step, self.settings.log_every):
            return True
        if self._is_due(step, self.eval_every) or self._is_due(step, self.checkpoint_every):
            return True
        return signals.number is not None

    def _elapsed(self) -> float:
        return time.monotonic() - self.start_time

    def _is_due(self, step: int, every: int) -> bool:
        return step % every == 0 or step == self.steps

    def _record(
        self, metrics: list[StepMetrics], measurements: Measurements, *, stop: bool
    ) -> None:
        """Evaluate, write a line and save a checkpoint, each if it is due."""
        current = metrics[-1]
        step = current.step
        self.state.train_loss = current.loss
        total, count = self.state.losses
        total += sum(each.loss for each in metrics)
        self.state.losses = total, count + len(metrics)
        self.progress.advance(step, current.loss)
        evaluation: Metrics = {}
        found: Measurements = {}
        if self._is_due(step, self.eval_every):
            evaluation, found = self._evaluate()
        # after the evaluation, whose time counts, too
        self.state.seconds = self._elapsed()
        self.state.processor_seconds = time.process_time() - self.start_processor_time
        row = {**measurements, **found}
        if evaluation or self._is_due(step, self.settings.log_every):
            row = {**self._training_columns(current), **_flat(evaluation), **row}
            self.state.losses = 0.0, 0
        if row and self.writer is not None:
            self.writer.write(step, row)
        if stop or self.state.ended or self._is_due(step, self.checkpoint_every):
            self._save()

    def _training_columns(self, metrics: StepMetrics) -> dict[str, float]:
        """Return the columns of `metrics.csv` that describe training."""
        total, count = self.state.losses
        columns = {
            "seconds": self.state.seconds,
            "train_loss": metrics.loss,
            "train_loss_mean": total / count,
            "train_grad_norm": metrics.grad_norm,
        }
        if metrics.penalty:
            columns["train_penalty"] = metrics.penalty
        return columns

    def _evaluate(self) -> tuple[Metrics, Measurements]:
        """Evaluate the splits; return their metrics, and the measurements of the callbacks."""
        size = self.settings.eval_batch_size or self.settings.batch_size
        metrics: Metrics = {}
        # also around `_select`, which keeps the weights that were evaluated
        with self.train_step.average.swapped_in():
            for split in self.task.splits:
                if split != "train":
                    metrics[split] = self.train_step.evaluate(self.task.batches(split, size))
            split = selection_split(self.task)
            if split is not None:
                self._select(metrics, split)
        found: dict[str, float | NDArray[np.float64]] = {}
        step = self.state.step
        model = self.train_step.model
        for callback in self.callbacks:
            found |= callback.after_evaluation(step, metrics, model) or {}
        return metrics, found

    def _select(self, metrics: Metrics, split: str) -> None:
        """Keep the model if it is the best so far on the given split."""
        state = self.state
        name = self.settings.best_by or self.task.metric_name
        state.last = metrics
        shown = f"{split} {name} {metrics[split].get(name, math.nan):.4g}"
        self.progress.show_evaluation(state.step, state.train_loss, shown)
        previous: dict[str, float] | None = None
        if self.best is not None:
            previous = self.best.metrics.get(split)
        better = is_better(self.task, metrics[split], previous, self.settings.best_by)
        self._update_schedules(metrics[split], better=better)
        if not better:
            return
        # a copy, because a `state_dict` holds the parameters themselves, which go on training
        self.best = BestModel(state.step, metrics, deepcopy(self.train_step.model.state_dict()))
        checkpoint.save(self.files.best, vars(self.best))

    def _update_schedules(self, metrics: dict[str, float], *, better: bool) -> None:
        """Update the learning rate decay, early stopping and averaging after an evaluation."""
        state = self.state
        settings = self.settings
        if better:
            state.waited = 0
        else:
            state.waited += 1
            state.plateaus += 1
        has_waited = settings.patience is not None and state.waited >= settings.patience
        is_low = settings.stop_below is not None and metrics["loss"] < settings.stop_below
        state.ended = has_waited or is_low
        metric = selection_score(self.task, settings.best_by, metrics)
        if settings.average_after is not None and not self.train_step.average.is_active:
            # as in NT-ASGD of AWD-LSTM: without the last evaluations, so that noise decides less
            earlier = state.deciding[: -settings.average_after]
            if earlier and metric < max(earlier):
                self.train_step.average.start()
        state.deciding.append(metric)

    def _save(self) -> None:
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
        content: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "state": asdict(self.state),
            "train_step": self.train_step.state_dict(),
            "best": None,
        }
        if self.best is not None:
            # with its model: `best.pt` may be of a later step, which a crash undoes
            content["best"] = vars(self.best)
        if self.writer is not None:
            self.writer.sync()
            checkpoint.save(self.files.last, content)

    def _open_writer(self) -> MetricsWriter:
        columns = ["seconds", "train_loss", "train_loss_mean", "train_penalty", "train_grad_norm"]
        for split in self.task.splits:
            if split != "train":
                columns += [f"{split}_{name}" for name in self.task.metric_names]
        # `begin` has been called, in which a callback may add its columns
        for callback in self.callbacks:
            columns += callback.columns
        files = self.files
        return MetricsWriter(files.metrics_file, files.tensorboard, columns, step=self.state.step)


def _flat(metrics: Metrics) -> dict[str, float]:
    flat: dict[str, float] = {}
    for split, numbers in metrics.items():
        for name, number in numbers.items():
            flat[f"{split}_{name}"] = number
    return flat


def first_below(columns: Columns, baseline: float) -> tuple[FirstBelow, ...]:
    """Return where each loss first falls below fractions of the chance-level loss."""
    found: list[FirstBelow] = []
    for name, values in columns.items():
        if "loss" not in name:
            continue
        for fraction in FRACTIONS:
            below = np.flatnonzero(values < fraction * baseline)
            step: int | None = None
            if len(below):
                step = int(columns["step"][below[0]])
            found.append(FirstBelow(name, fraction, step))
    return tuple(found)
