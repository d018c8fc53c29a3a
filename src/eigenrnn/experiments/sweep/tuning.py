"""Lets Ray Tune run the points of a sweep."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from eigenrnn.experiments.sweep.board import Board
from eigenrnn.experiments.sweep.criterion import Criterion
from eigenrnn.experiments.sweep.source import Source, Trial
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.sweep.stops import Stops
from eigenrnn.experiments.sweep.suggestions import OBJECTIVE, Suggestions
from eigenrnn.experiments.sweep.worker import train_points
from eigenrnn.experiments.training.result import Metrics

__all__ = ["Tuning"]


@dataclass(frozen=True)
class Tuning:
    """How Ray Tune runs trials.

    Args:
        source: Makes their networks.
        out: The folder of the sweep.
        mark: Its mark in there.
        cpus: The processors of each trial, and the threads that it uses.
        gpus: The graphics processors, or the part of one.
        retries: How often a trial goes on whose worker or machine has died.
        at_once: How many trials may run at once; None lets as many as fit.
        criterion: What a search decides by; None for a grid.
    """

    source: Source
    out: Path
    mark: str
    cpus: int
    gpus: float
    retries: int
    at_once: int | None
    criterion: Criterion | None = None

    def grid(
        self, jobs: Sequence[Sequence[Trial]], board: Board, folder: str, stops: Stops
    ) -> None:
        """Run trials, those of a job one after another in one worker."""
        space = {"job": tune.grid_search(list(range(len(jobs))))}
        self._run(_Tell(board, self, jobs, stops), folder, space)

    def search(
        self, suggestions: Suggestions, samples: int, board: Board, folder: str, stops: Stops
    ) -> None:
        """Run so many points that the search proposes, the seeds of each in one worker."""
        tell = _Tell(board, self, (), stops)
        self._run(tell, folder, {}, search_alg=suggestions, num_samples=samples)

    def _run(self, tell: "_Tell", folder: str, space: dict[str, Any], **options: Any) -> None:
        trainable = tune.with_parameters(_train, tuning=self, jobs=tell.jobs)
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"cpu": self.cpus, "gpu": self.gpus}),
            param_space=space,
            tune_config=tune.TuneConfig(
                # a process loads torch once, and not once a trial
                reuse_actors=True,
                max_concurrent_trials=self.at_once,
                **options,
            ),
            run_config=tune.RunConfig(
                name="sweep",
                storage_path=folder,
                failure_config=tune.FailureConfig(max_failures=self.retries),
                callbacks=[tell],
                verbose=0,
            ),
        )
        tuner.fit()
        tell.stops.check()


def _train(config: Mapping[str, Any], tuning: Tuning, jobs: Sequence[Sequence[Trial]]) -> None:
    """Train the runs of one job, in a worker."""

    def report(trial: Trial, step: int, metrics: Metrics) -> None:
        tune.report({"looked": (trial, step, metrics)})

    trials = _trials(config, jobs, tuning.source)
    statuses = train_points(trials, tuning.source, tuning.out, tuning.mark, tuning.cpus, report)
    tune.report({"statuses": statuses, OBJECTIVE: objective(statuses, tuning.criterion)})


def objective(statuses: Sequence[Status], criterion: Criterion | None) -> float | None:
    """Take the mean score over the runs of a point; None unless all have one."""
    scores = [None if criterion is None else criterion.score(status) for status in statuses]
    found = [score.value for score in scores if score is not None]
    return statistics.fmean(found) if found and len(found) == len(scores) else None


def _trials(
    config: Mapping[str, Any], jobs: Sequence[Sequence[Trial]], source: Source
) -> Sequence[Trial]:
    """List the trials of what Ray Tune calls one: a job, or a point that a search proposed."""
    if "job" in config:
        return jobs[config["job"]]
    return source.trials(config["number"], config["parameters"])


class _Tell(tune.Callback):
    """Passes on what Ray Tune hears of trials, and ends the sweep when that is asked for."""

    def __init__(
        self, board: Board, tuning: Tuning, jobs: Sequence[Sequence[Trial]], stops: Stops
    ) -> None:
        self.jobs = jobs
        self.stops = stops
        self._board = board
        self._tuning = tuning

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Ray writes down what it is given, and we never read that

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        del iteration, trials
        self.stops.check()  # many times a second

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        del iteration, trials
        self._board.started(_trials(trial.config, self.jobs, self._tuning.source))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
    ) -> None:
        del iteration, trials, trial
        if "statuses" in result:
            self._board.ended(result["statuses"])
        elif "looked" in result:
            self._board.looked(*result["looked"])

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        del iteration, trials
        why = f"its worker or machine has died {self._tuning.retries + 1} times; see --resume"
        self._board.lost(_trials(trial.config, self.jobs, self._tuning.source), why)
