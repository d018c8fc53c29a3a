"""The only training loop."""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from eigenrnn.errors import NonFiniteLossError
from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training import checkpoint
from eigenrnn.experiments.training.callbacks import Callback, Measured
from eigenrnn.experiments.training.course import Best, Course
from eigenrnn.experiments.training.interrupts import Interrupts
from eigenrnn.experiments.training.journal import Journal
from eigenrnn.experiments.training.learner import Learner
from eigenrnn.experiments.training.ledger import Entry, Ledger
from eigenrnn.experiments.training.progress import RunProgress
from eigenrnn.experiments.training.result import Metrics, Result
from eigenrnn.experiments.training.run_directory import RunDirectory
from eigenrnn.experiments.training.schedule import lr_decay
from eigenrnn.experiments.training.selection import chosen_by, deciding_split, is_better
from eigenrnn.experiments.training.settings import Settings

__all__ = ["Run"]


@dataclass
class Run:
    """Takes a run from where it is to its end."""

    learner: Learner
    task: Task
    settings: Settings
    files: RunDirectory
    fingerprint: dict[str, str]
    course: Course
    best: Best | None
    progress: RunProgress
    callbacks: Sequence[Callback]
    limit: float = math.inf  # seconds
    journal: Journal | None = None  # only the first process keeps one

    def __post_init__(self) -> None:
        self.steps = self.settings.total_steps(self.task)
        self.per_epoch = self.task.steps_per_epoch(self.settings.batch_size)
        self.eval_every = self.settings.evaluation_interval(self.task)
        self.checkpoint_every = self.settings.checkpoint_every or self.eval_every
        self.first = self.learner.fabric.is_global_zero
        self.ledger = Ledger(
            self.learner.fabric,
            list(self.learner.parameters),
            check_gradients=not self.learner.scales_gradients,
        )
        self.began = time.monotonic() - self.course.seconds
        self.began_to_compute = time.process_time() - (self.course.processor_seconds or 0.0)

    def train(self) -> Result:
        """Take all steps that are left, or as many as signals and time allow.

        Raises:
            NonFiniteLossError: If a loss or a gradient is not finite.
        """
        device = self.learner.fabric.device
        with ExitStack() as stack:
            # Every step seeds torch's global stream; the caller gets it back as it was.
            cuda = [device] if device.type == "cuda" else []
            stack.enter_context(torch.random.fork_rng(cuda))
            for callback in self.callbacks:
                callback.begin(self.course.step, self.learner.model, self.task, self.files.path)
            if self.first:
                self.journal = stack.enter_context(self._open_journal())
            stack.enter_context(self.progress)
            interrupts = stack.enter_context(Interrupts())
            try:
                is_early = self._take_steps(interrupts)
            except NonFiniteLossError as error:
                raise NonFiniteLossError(f"{error}; {self._last_good()}") from None
        # Only now: a signal may come in the last step or the last evaluation too.
        result = self._result(signal=self._agreed(interrupts.number), is_early=is_early)
        if result.interrupted:
            more = " and more max_minutes" if result.out_of_time else ""
            self.progress.say(
                f"stopped after step {self.course.step} of {self.steps} and saved in "
                f"{self.files.path}: go on with resume=True{more} (on the command line: --resume)"
            )
        if self.first and not is_early:
            result.write(self.files.result)
        return result

    def _agreed(self, signal: int | None) -> int | None:
        """Return the signal that came to any of the processes."""
        fabric = self.learner.fabric
        if fabric.world_size == 1:
            return signal
        number = torch.tensor(signal or 0, device=fabric.device)
        return int(torch.as_tensor(fabric.all_reduce(number, reduce_op="max"))) or None

    def _result(self, *, signal: int | None, is_early: bool) -> Result:
        """Sum up the run as far as it has come."""
        course, best = self.course, self.best
        return Result(
            steps=course.step,
            seconds=course.seconds,
            processor_seconds=course.processor_seconds,
            train_loss=course.train_loss,
            last=course.last,
            best={} if best is None else best.metrics,
            best_step=None if best is None else best.step,
            best_by=chosen_by(self.task),
            directory=self.files.path,
            interrupted=is_early or signal is not None,
            out_of_time=is_early and signal is None,
            signal=signal,
        )

    def _take_steps(self, interrupts: Interrupts) -> bool:
        learner, start = self.learner, self.course.step
        if self.course.seconds >= self.limit:  # not the clock: processes must agree
            return start < self.steps
        batches = self.task.batches("train", self.settings.batch_size, self.settings.seed, start)
        for step in range(start + 1, self.steps + 1):
            batch = next(batches)
            loss, penalty, norms = learner.backward(step, batch)
            self.ledger.add(step, loss, penalty, norms)
            # Before the optimisers move: what is not finite must not reach the parameters.
            looked = self._looks(step, interrupts)
            asked = interrupts.requested or self._is_out_of_time()
            entries, stop = self.ledger.read(stop=asked) if looked else ([], False)
            learner.update(norms, scale=batch.lr_scale, decay=self._lr_decay(step))
            self.course.step = step
            for callback in self.callbacks:
                callback.after_step(step, loss, learner.model)
            measured = self._measured(step)
            if entries:
                self._record(entries, measured, stop=stop)
            elif measured and self.journal is not None:
                self.journal.write(step, measured)
            if self.course.ended:
                return False
            if stop:
                return step < self.steps
        return False

    def _measured(self, step: int) -> dict[str, float | NDArray[np.float64]]:
        """Collect what the callbacks have measured of a step."""
        found = (callback.measured(step, self.learner.model) for callback in self.callbacks)
        return {name: value for measured in found for name, value in measured.items()}

    def _lr_decay(self, step: int) -> float:
        plateaus = self.course.plateaus
        return lr_decay(self.settings, step=step, per_epoch=self.per_epoch, plateaus=plateaus)

    def _looks(self, step: int, interrupts: Interrupts) -> bool:
        """Whether to wait for the device at this step, which costs nothing on a CPU."""
        fabric = self.learner.fabric
        if fabric.device.type == "cpu" or self._is_due(step, self.settings.log_every):
            return True
        if self._is_due(step, self.eval_every) or self._is_due(step, self.checkpoint_every):
            return True
        # Several processes look at the same steps only, where they agree on whether to stop.
        return interrupts.requested and fabric.world_size == 1

    def _is_out_of_time(self) -> bool:
        return time.monotonic() - self.began >= self.limit

    def _is_due(self, step: int, every: int) -> bool:
        return step % every == 0 or step == self.steps

    def _record(self, entries: list[Entry], measured: Measured, *, stop: bool) -> None:
        """Evaluate, write and save what is due after a step."""
        entry = entries[-1]
        step = entry.step
        self.course.train_loss = entry.loss
        total, count = self.course.losses
        self.course.losses = total + sum(e.loss for e in entries), count + len(entries)
        self.progress.advance(step, entry.loss)
        evaluation = self._evaluate() if self._is_due(step, self.eval_every) else {}
        self.course.seconds = time.monotonic() - self.began
        if self.course.processor_seconds is not None:
            self.course.processor_seconds = time.process_time() - self.began_to_compute
        row = dict(measured)
        if evaluation or self._is_due(step, self.settings.log_every):
            row = {**self._numbers(entry), **_flat(evaluation), **measured}
            self.course.losses = 0.0, 0
        if row and self.journal is not None:
            self.journal.write(step, row)
        if stop or self.course.ended or self._is_due(step, self.checkpoint_every):
            self._save()

    def _numbers(self, entry: Entry) -> dict[str, float]:
        """Return what a row of the journal says of training."""
        total, count = self.course.losses
        numbers = {
            "seconds": self.course.seconds,
            "train_loss": entry.loss,
            "train_loss_mean": total / count,
            "train_grad_norm": entry.grad_norm,
        }
        return {**numbers, "train_penalty": entry.penalty} if entry.penalty else numbers

    def _evaluate(self) -> Metrics:
        size = self.settings.eval_batch_size or self.settings.batch_size
        metrics: Metrics = {}
        with self.learner.average.in_place():
            for split in self.task.splits:
                if split != "train":
                    metrics[split] = self.learner.measure(self.task.batches(split, size))
            split = deciding_split(self.task)
            if split is not None:
                self._select(metrics, split)
        for callback in self.callbacks:
            callback.after_evaluation(self.course.step, metrics, self.learner.model)
        return metrics

    def _select(self, metrics: Metrics, split: str) -> None:
        """Keep the model if a split says that it is the best so far."""
        course, name = self.course, self.task.metric_name
        course.last = metrics
        metric = f"{split} {name} {metrics[split][name]:.4g}"
        self.progress.evaluated(course.step, course.train_loss, metric)
        before = None if self.best is None else self.best.metrics.get(split)
        better = is_better(self.task, metrics[split], before)
        self._judge(metrics[split], better=better)
        if not better:
            return
        self.best = Best(course.step, metrics, deepcopy(self.learner.model.state_dict()))
        if self.first:
            self.best.write(self.files.best)

    def _judge(self, figures: dict[str, float], *, better: bool) -> None:
        """Decide what an evaluation means for the steps that are left."""
        course, settings = self.course, self.settings
        course.plateaus += not better
        course.waited = 0 if better else course.waited + 1
        patience, below = settings.patience, settings.stop_below
        course.ended = patience is not None and course.waited >= patience
        course.ended |= below is not None and figures["loss"] < below
        metric = figures[self.task.metric_name]
        metric = metric if self.task.higher_is_better else -metric
        if settings.average_after is not None and not self.learner.average.begun:
            long_ago = course.deciding[: -settings.average_after]
            if long_ago and metric < max(long_ago):
                self.learner.average.begin()
        course.deciding.append(metric)

    def _save(self) -> None:
        """Write the checkpoint to go on from.

        Raises:
            NonFiniteLossError: If a parameter is not finite: such a state is never kept.
        """
        parameters = self.learner.parameters
        finite = torch.stack([p.isfinite().all() for p in parameters.values()]).tolist()
        lost = [name for name, is_finite in zip(parameters, finite, strict=True) if not is_finite]
        if lost:
            raise NonFiniteLossError(
                f"expected finite parameters after step {self.course.step}, "
                f"got NaN or infinity in {', '.join(lost)}"
            )
        state = {
            "identity": self.fingerprint,
            "course": asdict(self.course),
            "learner": self.learner.state_dict(),
            # with its model: `best.pt` may be of a later step than this, which a crash takes back
            "best": None if self.best is None else vars(self.best),
        }
        if self.journal is not None:
            self.journal.sync()
            checkpoint.save(self.files.last, state)

    def _open_journal(self) -> Journal:
        columns = ["seconds", "train_loss", "train_loss_mean", "train_penalty", "train_grad_norm"]
        for split in self.task.splits:
            if split != "train":
                columns += [f"{split}_{name}" for name in self.task.figure_names]
        for callback in self.callbacks:
            columns += callback.columns
        return Journal(self.files.metrics, self.files.board, columns, step=self.course.step)

    def _last_good(self) -> str:
        if not self.files.last.exists():
            return "there is no checkpoint yet"
        return f"the last good checkpoint is {self.files.last}"


def _flat(metrics: Metrics) -> dict[str, float]:
    return {
        f"{split}_{name}": number
        for split, numbers in metrics.items()
        for name, number in numbers.items()
    }
