"""The class `Sweep`, which checks and runs a sweep."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from torch.cuda import device_count

from eigenrnn.errors import check_installed, check_positive_integer
from eigenrnn.experiments.sweep.folder import check_folder, open_folder
from eigenrnn.experiments.sweep.progress import SweepProgress
from eigenrnn.experiments.sweep.search_space import (
    Grid,
    Search,
    check_gpus,
    check_non_negative_integer,
)
from eigenrnn.experiments.sweep.trial import Criterion, Trial, TrialSource
from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training.progress import plain_console
from eigenrnn.experiments.training.result import selection_metric
from eigenrnn.experiments.training.run_folder import locked
from eigenrnn.experiments.training.signals import DeferredSignals

__all__ = ["StoppedError", "Sweep"]


class StoppedError(KeyboardInterrupt):
    """A signal ended the sweep.

    Args:
        number: The number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


@dataclass(frozen=True)
class Sweep:
    """Many runs, trained in parallel on the available processors.

    Each trial is a run with its own folder and checkpoints. If its worker or machine dies, another
    one resumes it from its checkpoint. A trial that diverges or fails is recorded, and the others
    continue.

    Args:
        source: Builds the models of the trials.
        plan: The points to try.
        description: The content of the sweep's file; only a sweep with the same description can
            be resumed in a folder.
        cpus_per_trial: The number of CPU cores, and of threads, of each trial.
        gpus_per_trial: The number of GPUs of each trial, or the fraction of one.
        retries: How often a trial is resumed whose worker or machine has died.
    Raises:
        ValueError: If an option is out of range.
    """

    source: TrialSource
    plan: Grid | Search
    description: Mapping[str, Any]
    cpus_per_trial: int = 1
    gpus_per_trial: float = 0
    retries: int = 10

    def __post_init__(self) -> None:
        check_positive_integer("cpus_per_trial", self.cpus_per_trial)
        check_gpus("gpus_per_trial", self.gpus_per_trial)
        check_non_negative_integer("retries", self.retries)

    def run(
        self,
        out: str | Path,
        *,
        address: str | None = None,
        resume: bool = False,
        overwrite: bool = False,
        trials_at_once: int | None = None,
        console: Console | None = None,
    ) -> list[Trial]:
        """Run the trials, and update `results.csv` whenever one starts or ends.

        Args:
            out: The folder of the sweep; all machines must see it under this path.
            address: The address of an existing Ray cluster, `HOST:PORT`; None starts one on this
                machine, and stops it afterwards.
            resume: Continue the sweep in the folder; finished trials are not repeated.
            overwrite: Delete the sweep in the folder.
            trials_at_once: The maximal number of concurrent trials; None means as many as fit.
            console: The console for messages; standard error by default.
        Returns:
            All trials, with their states.
        Raises:
            ValueError: If a trial is invalid, or the folder holds another sweep.
            RunExistsError: If the folder holds runs and neither `resume` nor `overwrite` is set.
            FolderInUseError: If another process is writing to the folder.
            ConnectionError: If there is no cluster at the address.
            ImportError: If Ray or Optuna is missing, or other machines could reach this
                version of Ray.
            StoppedError: If Ctrl-C or SIGTERM ended the sweep; it is a `KeyboardInterrupt`.
        """
        folder = Path(out).absolute()
        console = console or plain_console(stderr=True)
        if trials_at_once is not None:
            check_positive_integer("trials_at_once", trials_at_once)
        check_installed("sweep", "a sweep", "ray", "optuna")
        import ray

        # only here, because they import Ray and Optuna
        from eigenrnn.experiments.sweep.cluster import check_address, check_cluster, cluster
        from eigenrnn.experiments.sweep.scheduler import Scheduler

        # quick checks before slow ones, and all of them before anything is written
        if ray.is_initialized():
            address = None  # this process stays in its cluster
        elif address is None:
            self._check_machine()
        else:
            check_address(address)
        self._check_trials()
        check_folder(folder, self.description, resume=resume, overwrite=overwrite)
        if address is not None:
            check_cluster(address)
        with locked(folder), DeferredSignals() as signals:
            fingerprint = open_folder(folder, self.description, overwrite=overwrite)
            progress = SweepProgress(
                folder, self.source, self._count_trials(), console, self.criterion()
            )
            scheduler = Scheduler(
                source=self.source,
                plan=self.plan,
                criterion=self.criterion(),
                out=folder,
                fingerprint=fingerprint,
                progress=progress,
                cpus_per_trial=self.cpus_per_trial,
                gpus_per_trial=self.gpus_per_trial,
                retries=self.retries,
                trials_at_once=trials_at_once,
            )
            progress.announce()
            try:
                if not scheduler.is_over:
                    with cluster(address):
                        try:
                            scheduler.run(signals)
                        finally:  # before the cluster stops: SIGKILL may soon follow SIGTERM
                            progress.close()
            finally:  # instead of an error of Ray, whose processes may receive the signal too
                if signals.number is not None:
                    raise StoppedError(signals.number)
        return progress.trials

    def criterion(self) -> Criterion | None:
        """Return the metric by which trials are compared; None if the task has none.

        Raises:
            ValueError: If the search names an unknown metric, or one without a known mode.
        """
        # all points have one task, up to its options
        example = self.source.trials(0, self.plan.examples[0])[0]
        task = self.source.task(example)
        metric: str | None = None
        mode: str | None = None
        if isinstance(self.plan, Search):
            metric = self.plan.metric
            mode = self.plan.mode
        is_explicit = metric is not None
        if metric is None:
            metric = selection_metric(task, self.source.best_by(example))
        if metric is None:
            return None
        return Criterion(metric, _mode(task, metric, mode), is_explicit)

    def _count_trials(self) -> int:
        """Return the number of trials of all points."""
        if isinstance(self.plan, Grid):
            return sum(len(self.source.trials(0, point)) for point in self.plan.points)
        # the points of a search are not known yet, but each has as many seeds
        return len(self.source.trials(0, self.plan.examples[0])) * self.plan.trials

    def _check_machine(self) -> None:
        """Check that a trial fits on this machine; otherwise it would wait forever.

        Raises:
            ValueError: If it does not.
        """
        available = {"cpus_per_trial": os.cpu_count() or 1, "gpus_per_trial": device_count()}
        for name, most in available.items():
            number = getattr(self, name)
            if number > most:
                raise ValueError(
                    f"expected {name} <= {most}, as many as this machine has, got {number}"
                )

    def _check_trials(self) -> None:
        """Check all trials before any is trained.

        Raises:
            ValueError: If a search has no metric.
        """
        if self.criterion() is None and isinstance(self.plan, Search):
            raise ValueError("expected a task with a metric for a search, got one without")
        # one seed is enough: seeds are valid or invalid together
        self.source.check(
            [self.source.trials(0, parameters)[0] for parameters in self.plan.examples]
        )


def _mode(task: Task, metric: str, mode: str | None) -> str:
    """Return the given mode of a metric, or the known one.

    Raises:
        ValueError: If there is no such metric, or its mode is neither given nor known.
    """
    split, _, name = metric.partition(" ")
    if split == "train" or split not in task.splits or name not in task.metric_names:
        known: list[str] = []
        for evaluated in task.splits:
            if evaluated != "train":
                known += [f"{evaluated} {each}" for each in task.metric_names]
        raise ValueError(f"expected metric among {', '.join(known)}; got {metric!r}")
    if mode is not None:
        return mode
    return "max" if task.is_higher_better(name) else "min"
