"""Runs a sweep: what is checked before, who trains, and what is left."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from torch.cuda import device_count

from eigenrnn.errors import check_positive_integer
from eigenrnn.experiments.sweep.board import Board
from eigenrnn.experiments.sweep.cluster import (
    check_address,
    check_cluster,
    check_installed,
    cluster,
    has_joined,
)
from eigenrnn.experiments.sweep.criterion import Criterion
from eigenrnn.experiments.sweep.folder import check_folder, open_folder
from eigenrnn.experiments.sweep.plan import Grid, Search
from eigenrnn.experiments.sweep.source import Source
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.sweep.stops import Stops
from eigenrnn.experiments.sweep.values import check_gpus, check_whole
from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training.progress import plain_console
from eigenrnn.experiments.training.run_directory import locked
from eigenrnn.experiments.training.selection import chosen_by

__all__ = ["Sweep"]


@dataclass(frozen=True)
class Sweep:
    """Many runs, trained at once as far as there are processors.

    Each trial is a run of its own, with its folder and its checkpoints. One whose worker or
    machine dies goes on from its checkpoint on another; one that diverges or fails is noted, and
    the others go on.

    Args:
        source: Makes the networks of the trials.
        plan: What is tried.
        description: What the sweep is, as it was asked for: a folder is gone on with only by the
            same.
        cpus_per_trial: The processors of each trial, and the threads that it uses.
        gpus_per_trial: The graphics processors of each, or the part of one.
        retries: How often a trial goes on whose worker or machine has died.
    Raises:
        ValueError: If an option is out of its range.
    """

    source: Source
    plan: Grid | Search
    description: Mapping[str, Any]
    cpus_per_trial: int = 1
    gpus_per_trial: float = 0
    retries: int = 10

    def __post_init__(self) -> None:
        check_positive_integer("cpus_per_trial", self.cpus_per_trial)
        check_gpus("gpus_per_trial", self.gpus_per_trial)
        check_whole("retries", self.retries)

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
        """Run the trials, and write `results.csv` anew when one begins or ends.

        Args:
            out: The folder of the sweep; all machines must see it under this name.
            address: Where a cluster is that trains them, `HOST:PORT`; None starts one on this
                machine, and ends it afterwards.
            resume: Go on with what is there: what has ended is not repeated.
            overwrite: Delete what is there.
            trials_at_once: How many trials may run at once; None lets as many as fit.
            console: Where to say what happens, by default on standard error.
        Returns:
            What has become of each trial.
        Raises:
            ValueError: If a trial cannot be, or the folder holds another sweep.
            RunExistsError: If the folder holds runs and neither `resume` nor `overwrite` is set.
            FolderInUseError: If another process is writing to the folder.
            ConnectionError: If there is no cluster at the address.
            ImportError: If Ray Tune or Optuna is missing, or other machines could reach this
                version of Ray.
            StoppedError: If Ctrl-C or SIGTERM asked the sweep to end: a `KeyboardInterrupt`.
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
        self._check()
        check_folder(folder, self.description, resume=resume, overwrite=overwrite)
        check_installed()
        if address is not None and joins:
            check_cluster(address)
        with locked(folder), Stops() as stops:
            mark = open_folder(folder, self.description, overwrite=overwrite)
            begun = _Begun(self, folder, mark, trials_at_once, console, address, stops)
            if isinstance(self.plan, Grid):
                return begun.grid(self.plan)
            return begun.search(self.plan)

    def decides(self) -> Criterion | None:
        """Say by what trials are compared.

        Returns:
            The figure; None if the task has none.
        Raises:
            ValueError: If the search names a figure that there is not, or whose good end is not
                known.
        """
        task = self.source.task(self.source.trials(0, self._first())[0])
        search = self.plan if isinstance(self.plan, Search) else None
        named = None if search is None else search.metric
        metric = chosen_by(task) if named is None else named
        if metric is None:
            return None
        mode = _mode(task, metric, search and search.mode)
        return Criterion(metric, mode, named is not None)

    def _first(self) -> Mapping[str, Any]:
        return self.plan.points[0] if isinstance(self.plan, Grid) else self.plan.corners[0]

    def _check_machine(self) -> None:
        """Refuse trials for which this machine alone has no room, and which would wait forever.

        Raises:
            ValueError: If it has none.
        """
        gpus = 0 if has_joined() else self.gpus_per_trial
        there = {"cpus_per_trial": os.cpu_count() or 1, "gpus_per_trial": device_count()}
        for (name, most), asked in zip(there.items(), (self.cpus_per_trial, gpus), strict=True):
            if asked > most:
                raise ValueError(
                    f"expected {name} <= {most}, as many as this machine has, got {asked}"
                )

    def _check(self) -> None:
        """Refuse a sweep of which a trial cannot be, before anything is trained.

        Raises:
            ValueError: If a search has nothing to decide by.
        """
        points = self.plan.points if isinstance(self.plan, Grid) else self.plan.corners
        if self.decides() is None and isinstance(self.plan, Search):
            raise ValueError("expected a task with a metric for a search, got one without")
        # seeds differ in nothing that could be wrong
        self.source.check([self.source.trials(0, parameters)[0] for parameters in points])


@dataclass(frozen=True)
class _Begun:
    """A sweep whose folder is open and whose cluster is there."""

    sweep: Sweep
    out: Path
    mark: str
    at_once: int | None
    console: Console
    address: str | None
    stops: Stops

    def grid(self, plan: Grid) -> list[Status]:
        source = self.sweep.source
        points = enumerate(plan.points)
        trials = [trial for n, point in points for trial in source.trials(n, point)]
        board = self._board(len(trials))
        left = [status.trial for status in board.add(trials) if not status.is_final]
        self._announce(board)
        if left:
            with self._cluster(board) as folder:
                jobs = [[trial] for trial in left]
                self._tuning(None).grid(jobs, board, folder, self.stops)
        return board.statuses

    def search(self, plan: Search) -> list[Status]:
        from eigenrnn.experiments.sweep.suggestions import Suggestions, suggested_before
        from eigenrnn.experiments.sweep.tuning import objective

        criterion = self.sweep.decides()
        mode = criterion.mode if criterion else ""  # refused before, if there is none
        source = self.sweep.source
        board = self._board(plan.trials * len(source.trials(0, plan.corners[0])))
        known = suggested_before(self.out)
        for place, point in enumerate(known):
            found = board.add(source.trials(point.number, point.parameters))
            is_over = all(status.is_final for status in found)
            known[place] = replace(point, objective=objective(found, criterion), is_over=is_over)
        self._announce(board)
        left = max(plan.trials, len(known)) - sum(point.is_over for point in known)
        if left:
            with self._cluster(board) as folder:
                suggestions = Suggestions(plan, mode, self.out, known)
                self._tuning(criterion).search(suggestions, left, board, folder, self.stops)
        return board.statuses

    def _board(self, expected: int) -> Board:
        criterion = self.sweep.decides()
        return Board(self.out, self.sweep.source, expected, self.console, criterion)

    @contextmanager
    def _cluster(self, board: Board) -> Generator[str]:
        """Have a cluster meanwhile; however that ends, write what has become of the trials."""
        is_over = False
        with cluster(self.address, self.stops) as folder:
            try:
                yield folder
                is_over = True
            finally:  # first: who sends SIGTERM does not wait for long
                board.close(is_over=is_over)

    def _announce(self, board: Board) -> None:
        board.write()
        before = sum(status.is_final for status in board.statuses)
        if before:
            self.console.print(f"{before} trials had ended already", highlight=False)

    def _tuning(self, criterion: Criterion | None) -> Any:
        from eigenrnn.experiments.sweep.tuning import Tuning

        sweep = self.sweep
        return Tuning(
            source=sweep.source,
            out=self.out,
            mark=self.mark,
            cpus=sweep.cpus_per_trial,
            gpus=sweep.gpus_per_trial,
            retries=sweep.retries,
            at_once=self.at_once,
            criterion=criterion,
        )


def _mode(task: Task, metric: str, given: str | None) -> str:
    """Say whether a figure should be small or large, as it was given or as is known.

    Raises:
        ValueError: If there is no such figure, or nobody knows.
    """
    split, _, name = metric.partition(" ")
    if split == "train" or split not in task.splits or name not in task.figure_names:
        splits = [split for split in task.splits if split != "train"]
        known = ", ".join(f"{split} {name}" for split in splits for name in task.figure_names)
        raise ValueError(f"expected metric among {known}; got {metric!r}")
    if given is not None:
        return given
    if name == task.metric_name:
        return "max" if task.higher_is_better else "min"
    if name != "loss":
        raise ValueError(f"expected mode to be min or max for the metric {metric!r}, got none")
    return "min"
