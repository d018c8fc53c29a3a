"""The only training loop."""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eigenrnn_experiments.errors import NonFiniteLossError
from eigenrnn_experiments.tasks.base import Task
from eigenrnn_experiments.training import checkpoint
from eigenrnn_experiments.training.callbacks import Callback, Measurements
from eigenrnn_experiments.training.deferred_metrics import DeferredMetrics, StepMetrics
from eigenrnn_experiments.training.files import Columns, read_table
from eigenrnn_experiments.training.metrics_writer import MetricsWriter
from eigenrnn_experiments.training.optimisers import lr_factor
from eigenrnn_experiments.training.progress import RunProgress
from eigenrnn_experiments.training.run import FRACTIONS, FirstBelow, Metrics, Run, State
from eigenrnn_experiments.training.run_folder import RunFolder
from eigenrnn_experiments.training.selection import (
    is_better,
    selection_score,
    selection_split,
)
from eigenrnn_experiments.training.settings import Settings
from eigenrnn_experiments.training.signals import DeferredSignals
from eigenrnn_experiments.training.train_step import TrainStep
from eigenrnn_experiments.training.training_state import BestModel, TrainingState

__all__ = ["TrainingLoop", "first_below"]


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
        self.eval_every = self.settings.evaluation_interval(self.task)
        self.checkpoint_every = self.settings.checkpoint_every or self.eval_every
        self.metrics = DeferredMetrics(
            list(self.train_step.parameters),
            check_gradients=not self.train_step.scales_gradients,
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
                raise NonFiniteLossError(f"{error}; {self._last_checkpoint()}") from None
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
                stop = signals.received or self._is_out_of_time()
            train_step.update(norms, scale=batch.lr_scale, decay=self._lr_factor(step))
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

    def _lr_factor(self, step: int) -> float:
        return lr_factor(
            self.settings,
            step=step,
            steps=self.steps,
            per_epoch=self.per_epoch,
            plateaus=self.state.plateaus,
        )

    def _must_read_metrics(self, step: int, signals: DeferredSignals) -> bool:
        """Whether to read the metrics at this step, which waits for the device unless on a CPU."""
        fabric = self.train_step.fabric
        if fabric.device.type == "cpu" or self._is_due(step, self.settings.log_every):
            return True
        if self._is_due(step, self.eval_every) or self._is_due(step, self.checkpoint_every):
            return True
        return signals.received

    def _is_out_of_time(self) -> bool:
        return time.monotonic() - self.start_time >= self.max_seconds

    def _is_due(self, step: int, every: int) -> bool:
        return step % every == 0 or step == self.steps

    def _record(
        self, metrics: list[StepMetrics], measurements: Measurements, *, stop: bool
    ) -> None:
        """Evaluate, write a row and save a checkpoint, each if it is due."""
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
        self.state.seconds = time.monotonic() - self.start_time
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

    def _last_checkpoint(self) -> str:
        if not self.files.last.exists():
            return "there is no checkpoint yet"
        return f"the last good checkpoint is {self.files.last}"


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
