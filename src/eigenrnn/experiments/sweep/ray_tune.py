"""Running the trials of a sweep with Ray Tune."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from eigenrnn.experiments.sweep.criterion import Criterion
from eigenrnn.experiments.sweep.optuna_search import OBJECTIVE, ResumableSearch
from eigenrnn.experiments.sweep.progress import SweepProgress
from eigenrnn.experiments.sweep.signals import RaisingSignals
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.sweep.trials import Trial, TrialSource
from eigenrnn.experiments.sweep.worker import train_trials
from eigenrnn.experiments.training.result import Metrics

__all__ = ["TrialRunner", "objective"]


@dataclass(frozen=True)
class TrialRunner:
    """Runs trials with Ray Tune.

    Args:
        source: Builds the models of the trials.
        out: The folder of the sweep.
        fingerprint: The fingerprint of the sweep, stored in that folder.
        cpus: The number of CPU cores, and of threads, of each trial.
        gpus: The number of GPUs of each trial, or the fraction of one.
        retries: How often a trial is resumed whose worker or machine has died.
        max_concurrent: The maximal number of concurrent trials; None means as many as fit.
        criterion: The metric that a search optimises; None for a grid.
    """

    source: TrialSource
    out: Path
    fingerprint: str
    cpus: int
    gpus: float
    retries: int
    max_concurrent: int | None
    criterion: Criterion | None = None

    def run_grid(
        self,
        jobs: Sequence[Sequence[Trial]],
        progress: SweepProgress,
        folder: str,
        signals: RaisingSignals,
    ) -> None:
        """Run jobs; the trials of a job run one after another in one worker."""
        space = {"job": tune.grid_search(list(range(len(jobs))))}
        self._run(_ProgressCallback(progress, self, jobs, signals), folder, space)

    def run_search(
        self,
        search: ResumableSearch,
        samples: int,
        progress: SweepProgress,
        folder: str,
        signals: RaisingSignals,
    ) -> None:
        """Run points that a search proposes; the seeds of a point share a worker."""
        callback = _ProgressCallback(progress, self, (), signals)
        self._run(callback, folder, {}, search_alg=search, num_samples=samples)

    def _run(
        self, callback: "_ProgressCallback", folder: str, space: dict[str, Any], **options: Any
    ) -> None:
        trainable = tune.with_parameters(_train, runner=self, jobs=callback.jobs)
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"cpu": self.cpus, "gpu": self.gpus}),
            param_space=space,
            tune_config=tune.TuneConfig(
                # a process then imports torch once, not once per trial
                reuse_actors=True,
                max_concurrent_trials=self.max_concurrent,
                **options,
            ),
            run_config=tune.RunConfig(
                name="sweep",
                storage_path=folder,
                failure_config=tune.FailureConfig(max_failures=self.retries),
                callbacks=[callback],
                verbose=0,
            ),
        )
        tuner.fit()
        callback.signals.check()


def _train(
    config: Mapping[str, Any], runner: TrialRunner, jobs: Sequence[Sequence[Trial]]
) -> None:
    """Train the trials of one job, in a worker."""

    def report(trial: Trial, step: int, metrics: Metrics) -> None:
        tune.report({"evaluation": (trial, step, metrics)})

    trials = _trials(config, jobs, runner.source)
    statuses = train_trials(
        trials, runner.source, runner.out, runner.fingerprint, runner.cpus, report
    )
    tune.report({"statuses": statuses, OBJECTIVE: objective(statuses, runner.criterion)})


def objective(statuses: Sequence[Status], criterion: Criterion | None) -> float | None:
    """Return the mean score of the trials of a point; None unless all have a score."""
    scores = [None if criterion is None else criterion.score(status) for status in statuses]
    values = [score.value for score in scores if score is not None]
    return statistics.fmean(values) if values and len(values) == len(scores) else None


def _trials(
    config: Mapping[str, Any], jobs: Sequence[Sequence[Trial]], source: TrialSource
) -> Sequence[Trial]:
    """Return our trials for one trial of Ray Tune, which is a job or a proposed point."""
    if "job" in config:
        return jobs[config["job"]]
    return source.trials(config["number"], config["parameters"])


class _ProgressCallback(tune.Callback):
    """Forwards the events of Ray Tune to the progress, and ends the sweep after a signal."""

    def __init__(
        self,
        progress: SweepProgress,
        runner: TrialRunner,
        jobs: Sequence[Sequence[Trial]],
        signals: RaisingSignals,
    ) -> None:
        self.jobs = jobs
        self.signals = signals
        self._progress = progress
        self._runner = runner

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Ray saves its callbacks, and we never restore them

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        del iteration, trials
        self.signals.check()  # many times a second

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        del iteration, trials
        self._progress.started(_trials(trial.config, self.jobs, self._runner.source))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
    ) -> None:
        del iteration, trials, trial
        if "statuses" in result:
            self._progress.ended(result["statuses"])
        elif "evaluation" in result:
            self._progress.evaluated(*result["evaluation"])

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        del iteration, trials
        reason = f"its worker or machine has died {self._runner.retries + 1} times; see --resume"
        self._progress.lost(_trials(trial.config, self.jobs, self._runner.source), reason)
