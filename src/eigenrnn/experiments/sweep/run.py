"""The class `Sweep`, which checks and runs a sweep."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from torch.cuda import device_count

from eigenrnn.errors import check_positive_integer
from eigenrnn.experiments.sweep.cluster import (
    check_address,
    check_cluster,
    check_installed,
    cluster,
    has_joined,
)
from eigenrnn.experiments.sweep.criterion import Criterion
from eigenrnn.experiments.sweep.folder import check_folder, open_folder
from eigenrnn.experiments.sweep.progress import SweepProgress
from eigenrnn.experiments.sweep.search_space import (
    Grid,
    Search,
    check_gpus,
    check_non_negative_integer,
)
from eigenrnn.experiments.sweep.signals import RaisingSignals
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.sweep.trials import TrialSource
from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training.progress import plain_console
from eigenrnn.experiments.training.result import selection_metric
from eigenrnn.experiments.training.run_folder import locked

__all__ = ["Sweep"]


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
    ) -> list[Status]:
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
            The status of each trial.
        Raises:
            ValueError: If a trial is invalid, or the folder holds another sweep.
            RunExistsError: If the folder holds runs and neither `resume` nor `overwrite` is set.
            FolderInUseError: If another process is writing to the folder.
            ConnectionError: If there is no cluster at the address.
            ImportError: If Ray Tune or Optuna is missing, or other machines could reach this
                version of Ray.
            StoppedError: If Ctrl-C or SIGTERM ended the sweep; it is a `KeyboardInterrupt`.
        """
        folder = Path(out).absolute()
        console = console or plain_console(stderr=True)
        if trials_at_once is not None:
            check_positive_integer("trials_at_once", trials_at_once)
        joins = address is not None and not has_joined()
        if address is None:
            self._check_machine()
        elif joins:
            check_address(address)
        self._check_trials()
        check_folder(folder, self.description, resume=resume, overwrite=overwrite)
        check_installed()
        if address is not None and joins:
            check_cluster(address)
        with locked(folder), RaisingSignals() as signals:
            fingerprint = open_folder(folder, self.description, overwrite=overwrite)
            execution = _Execution(
                self, folder, fingerprint, trials_at_once, console, address, signals
            )
            if isinstance(self.plan, Grid):
                return execution.grid(self.plan)
            return execution.search(self.plan)

    def criterion(self) -> Criterion | None:
        """Return the metric by which trials are compared; None if the task has none.

        Raises:
            ValueError: If the search names an unknown metric, or one without a known mode.
        """
        task = self.source.task(self.source.trials(0, self._first_point())[0])
        search = self.plan if isinstance(self.plan, Search) else None
        explicit = None if search is None else search.metric
        metric = selection_metric(task) if explicit is None else explicit
        if metric is None:
            return None
        mode = _mode(task, metric, search and search.mode)
        return Criterion(metric, mode, explicit is not None)

    def _first_point(self) -> Mapping[str, Any]:
        return self.plan.points[0] if isinstance(self.plan, Grid) else self.plan.corners[0]

    def _check_machine(self) -> None:
        """Check that a trial fits on this machine; otherwise it would wait forever.

        Raises:
            ValueError: If it does not.
        """
        gpus = 0 if has_joined() else self.gpus_per_trial
        available = {"cpus_per_trial": os.cpu_count() or 1, "gpus_per_trial": device_count()}
        requested = (self.cpus_per_trial, gpus)
        for (name, most), number in zip(available.items(), requested, strict=True):
            if number > most:
                raise ValueError(
                    f"expected {name} <= {most}, as many as this machine has, got {number}"
                )

    def _check_trials(self) -> None:
        """Check all trials before any is trained.

        Raises:
            ValueError: If a search has no metric.
        """
        points = self.plan.points if isinstance(self.plan, Grid) else self.plan.corners
        if self.criterion() is None and isinstance(self.plan, Search):
            raise ValueError("expected a task with a metric for a search, got one without")
        # one seed is enough: seeds are valid or invalid together
        self.source.check([self.source.trials(0, parameters)[0] for parameters in points])


@dataclass(frozen=True)
class _Execution:
    """The execution of a sweep whose folder is open."""

    sweep: Sweep
    out: Path
    fingerprint: str
    max_concurrent: int | None
    console: Console
    address: str | None
    signals: RaisingSignals

    def grid(self, plan: Grid) -> list[Status]:
        source = self.sweep.source
        points = enumerate(plan.points)
        trials = [trial for n, point in points for trial in source.trials(n, point)]
        progress = self._progress(len(trials))
        left = [status.trial for status in progress.add(trials) if not status.is_final]
        self._announce(progress)
        if left:
            with self._cluster(progress) as folder:
                jobs = [[trial] for trial in left]
                self._runner(None).run_grid(jobs, progress, folder, self.signals)
        return progress.statuses

    def search(self, plan: Search) -> list[Status]:
        from eigenrnn.experiments.sweep.optuna_search import ResumableSearch, read_suggestions
        from eigenrnn.experiments.sweep.ray_tune import objective

        criterion = self.sweep.criterion()
        mode = criterion.mode if criterion else ""  # `_check_trials` requires a criterion
        source = self.sweep.source
        progress = self._progress(plan.trials * len(source.trials(0, plan.corners[0])))
        points = read_suggestions(self.out)
        for index, point in enumerate(points):
            statuses = progress.add(source.trials(point.number, point.parameters))
            is_over = all(status.is_final for status in statuses)
            value = objective(statuses, criterion)
            points[index] = replace(point, objective=value, is_over=is_over)
        self._announce(progress)
        left = max(plan.trials, len(points)) - sum(point.is_over for point in points)
        if left:
            with self._cluster(progress) as folder:
                search = ResumableSearch(plan, mode, self.out, points)
                runner = self._runner(criterion)
                runner.run_search(search, left, progress, folder, self.signals)
        return progress.statuses

    def _progress(self, expected: int) -> SweepProgress:
        criterion = self.sweep.criterion()
        return SweepProgress(self.out, self.sweep.source, expected, self.console, criterion)

    @contextmanager
    def _cluster(self, progress: SweepProgress) -> Generator[str]:
        """Start or join a cluster; however the context ends, write the final table."""
        is_over = False
        with cluster(self.address, self.signals) as folder:
            try:
                yield folder
                is_over = True
            finally:  # before the cluster stops: SIGKILL may soon follow SIGTERM
                progress.close(is_over=is_over)

    def _announce(self, progress: SweepProgress) -> None:
        progress.write()
        finished = sum(status.is_final for status in progress.statuses)
        if finished:
            self.console.print(f"{finished} trials had ended already", highlight=False)

    def _runner(self, criterion: Criterion | None) -> Any:
        from eigenrnn.experiments.sweep.ray_tune import TrialRunner

        sweep = self.sweep
        return TrialRunner(
            source=sweep.source,
            out=self.out,
            fingerprint=self.fingerprint,
            cpus=sweep.cpus_per_trial,
            gpus=sweep.gpus_per_trial,
            retries=sweep.retries,
            max_concurrent=self.max_concurrent,
            criterion=criterion,
        )


def _mode(task: Task, metric: str, mode: str | None) -> str:
    """Return the given mode of a metric, or the known one.

    Raises:
        ValueError: If there is no such metric, or its mode is neither given nor known.
    """
    split, _, name = metric.partition(" ")
    if split == "train" or split not in task.splits or name not in task.metric_names:
        splits = [split for split in task.splits if split != "train"]
        known = ", ".join(f"{split} {name}" for split in splits for name in task.metric_names)
        raise ValueError(f"expected metric among {known}; got {metric!r}")
    if mode is not None:
        return mode
    if name == task.metric_name:
        return "max" if task.higher_is_better else "min"
    if name != "loss":
        raise ValueError(f"expected mode to be min or max for the metric {metric!r}, got none")
    return "min"
