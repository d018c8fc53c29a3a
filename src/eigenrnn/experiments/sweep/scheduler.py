"""Gives the trials of a sweep to the processors of a Ray cluster."""

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from eigenrnn.experiments.sweep.progress import SweepProgress
from eigenrnn.experiments.sweep.search_space import Grid, Search
from eigenrnn.experiments.sweep.study import propose, read_points, write_points
from eigenrnn.experiments.sweep.trial import Criterion, Trial, TrialSource
from eigenrnn.experiments.sweep.worker import train
from eigenrnn.experiments.training.signals import DeferredSignals

__all__ = ["Scheduler"]

_POLL_S = 0.2


class Scheduler:
    """Trains the trials of a sweep, each in a Ray task of its own.

    All state is in the folder of the sweep: the state of each trial, and the points of a search.

    Args:
        source: What is trained.
        plan: The points of the sweep.
        criterion: The metric by which trials are compared; None if there is none.
        out: The folder of the sweep.
        fingerprint: The fingerprint stored in that folder.
        progress: Records and prints the states of the trials.
        cpus_per_trial: The processors of a trial.
        gpus_per_trial: The GPUs of a trial.
        retries: How often a trial is tried again whose worker or machine has died.
        trials_at_once: The maximal number of concurrent trials; None means as many as fit.
    """

    def __init__(
        self,
        *,
        source: TrialSource,
        plan: Grid | Search,
        criterion: Criterion | None,
        out: Path,
        fingerprint: str,
        progress: SweepProgress,
        cpus_per_trial: int,
        gpus_per_trial: float,
        retries: int,
        trials_at_once: int | None,
    ) -> None:
        self._source = source
        self._plan = plan
        self._criterion = criterion
        self._out = out
        self._fingerprint = fingerprint
        self._progress = progress
        self._cpus_per_trial = cpus_per_trial
        self._gpus_per_trial = gpus_per_trial
        self._retries = retries
        self._trials_at_once = trials_at_once or math.inf
        self._points = list(plan.points) if isinstance(plan, Grid) else read_points(out, plan)
        self._deaths: Counter[str] = Counter()
        self._waiting: deque[Trial] = deque()
        for number, parameters in enumerate(self._points):
            self._add(number, parameters)

    @property
    def is_over(self) -> bool:
        """Whether no trial waits, and no point is left to propose."""
        plan = self._plan
        return not self._waiting and (isinstance(plan, Grid) or len(self._points) >= plan.trials)

    def run(self, signals: DeferredSignals) -> None:
        """Train the unfinished trials on the cluster of this process, until a signal arrives."""
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        events = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
        source = ray.put(self._source)
        # Ray itself would retry without end what exceeds the memory
        task = ray.remote(train).options(
            num_cpus=self._cpus_per_trial, num_gpus=self._gpus_per_trial, max_retries=0
        )
        fixed = (source, self._out, self._fingerprint, self._cpus_per_trial, events.put)
        running: dict[Any, Trial] = {}
        while not signals.received:
            while len(running) < self._max_running() and (trial := self._next()) is not None:
                running[task.remote(trial, *fixed)] = trial
            if not running:
                return
            ended, _ = ray.wait(list(running), timeout=_POLL_S)
            for event in events.get_nowait_batch(events.size()):
                self._progress.report(event)
            for reference in ended:
                self._finish(reference, running.pop(reference))

    def _finish(self, reference: Any, trial: Trial) -> None:
        """Record the outcome of a trial whose task has ended, or try the trial again."""
        try:
            self._progress.ended(ray.get(reference))
        except RayTaskError as error:  # before the training, as in an import
            self._progress.ended(replace(trial, state="failed", message=str(error.cause)))
        except RayError:
            self._deaths[trial.path] += 1
            if self._deaths[trial.path] <= self._retries:
                self._waiting.appendleft(trial)
                return
            found = trial.read(self._out)
            message = f"its worker or machine has died {self._deaths[trial.path]} times"
            lost = replace(found, state="lost", message=f"{message}; see --resume")
            self._progress.ended(found if found.is_final else lost)

    def _add(self, number: int, parameters: Mapping[str, Any]) -> None:
        trials = self._progress.add(self._source.trials(number, parameters))
        self._waiting.extend(trial for trial in trials if not trial.is_final)

    def _next(self) -> Trial | None:
        """Return the next trial; None if there is none at the moment."""
        while not self._waiting and not self.is_over:
            self._propose()
        return self._waiting.popleft() if self._waiting else None

    def _propose(self) -> None:
        """Add the next point of a search."""
        plan = self._plan
        criterion = self._criterion
        if isinstance(plan, Search) and criterion is not None:
            of_points: dict[int, list[Trial]] = {}
            for trial in self._progress.trials:
                of_points.setdefault(trial.number, []).append(trial)
            results: list[tuple[Mapping[str, Any], float | None]] = []
            for number, trials in of_points.items():
                if all(trial.is_final for trial in trials):
                    results.append((self._points[number], criterion.objective(trials)))
            number = len(self._points)
            self._points.append(propose(plan, criterion.mode, number, results))
            write_points(self._out, self._points)
            self._add(number, self._points[number])

    def _max_running(self) -> float:
        """Return how many trials fit on the machines that are now in the cluster."""
        needs: dict[str, float] = {"CPU": self._cpus_per_trial}
        if self._gpus_per_trial:
            needs["GPU"] = self._gpus_per_trial
        fitting = 0
        for node in ray.nodes():
            if node["Alive"]:
                resources = node["Resources"]
                # 1e-9 because the quotient of two fractions may be just below a whole number
                fitting += min(int(resources.get(k, 0) / n + 1e-9) for k, n in needs.items())
        # if none fits, one waits until a machine joins
        return min(self._trials_at_once, max(1, fitting))
