"""Ray Tune trains the trials of a sweep, and Optuna proposes the points of a search."""

import logging
import os
import random
import shutil
import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import ray
from optuna.samplers import TPESampler
from optuna.storages import InMemoryStorage
from ray import tune
from ray.tune.search import Repeater
from ray.tune.search.optuna import OptunaSearch
from ray.tune.search.repeater import TRIAL_INDEX

from eigenrnn_experiments.sweep.run import Sweep, Trial
from eigenrnn_experiments.training.progress import plain_console

__all__ = ["tune_trials"]


def tune_trials(
    sweep: Sweep, out: Path, waiting: Sequence[Trial], address: str | None, at_once: int | None
) -> None:
    """Train the trials of a sweep that are not finished.

    Each trial resumes from its own checkpoint, so nothing that Tune stores is read again.

    Args:
        sweep: The sweep.
        out: Its folder.
        waiting: The trials to train; those of a search follow from the folder.
        address: The address of an existing cluster, or None.
        at_once: The maximal number of concurrent trials; None means as many as fit.
    """
    os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # so that relative paths in the file stay valid
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # so that `verbose=0` prints nothing
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # so that Ctrl-C raises KeyboardInterrupt
    space: dict[str, Any] = {}
    search: dict[str, Any] = {}
    if sweep.plan.search:
        search = _search(sweep, out)
    else:
        space["trials"] = tune.grid_search([[trial] for trial in waiting])
    resources = {"cpu": sweep.plan.cpus_per_trial, "gpu": sweep.plan.gpus_per_trial}
    trained = tune.with_resources(tune.with_parameters(_train, sweep=sweep, out=out), resources)
    scratch = out / ".tune"
    shutil.rmtree(scratch, ignore_errors=True)  # of a killed sweep
    with _cluster(resources, address):
        run_config = tune.RunConfig(
            name=scratch.name,
            storage_path=str(out),
            failure_config=tune.FailureConfig(max_failures=sweep.plan.retries),
            callbacks=[_Progress(sweep, out)],
            verbose=0,
        )
        config = tune.TuneConfig(max_concurrent_trials=at_once, reuse_actors=True, **search)
        tune.Tuner(trained, param_space=space, tune_config=config, run_config=run_config).fit()
    shutil.rmtree(scratch, ignore_errors=True)


def _train(config: Mapping[str, Any], sweep: Sweep, out: Path) -> None:
    """Train a trial in a worker, and report its score."""
    trial = _trial(config)
    sweep.train_here(trial, out, plain_console(quiet=True))
    tune.report({"score": sweep.score(trial, out)})


def _trial(config: Mapping[str, Any]) -> Trial:
    return config["trials"][config.get(TRIAL_INDEX, 0)]


class _Progress(tune.Callback):
    """Records the trials that have ended."""

    def __init__(self, sweep: Sweep, out: Path) -> None:
        self._sweep = sweep
        self._out = out

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        del iteration, trials, info
        self._sweep.ended(_trial(trial.config), self._out)

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        one = _trial(trial.config)
        if one.status(self._out).state == "waiting":  # nobody was left to store an error
            message = "its worker ended without an error, such as for lack of memory: --resume"
            one.files(self._out).write_status("failed", message)
        self.on_trial_complete(iteration, trials, trial, **info)


def _search(sweep: Sweep, out: Path) -> dict[str, Any]:
    """Return the options of Tune for a search, which knows the points in the folder."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # The folder is the record. A study in a file would keep the points of a killed sweep as
    # running, and number them anew when they are tried again.
    study: dict[str, Any] = {"storage": InMemoryStorage(), "study_name": "sweep"}
    proposals = _Proposals(
        sweep,
        out,
        space=sweep.plan.distributions,
        metric="score",
        mode="max",
        sampler=_Sampler(sweep.plan.search_seed),
        **study,
    )
    points = sweep.read_points(out)
    for number, point in enumerate(points):
        trials = sweep.trials_of(number, point)
        proposed = {name: point[name] for name in sweep.plan.search}
        if all(trial.is_final(out) for trial in trials):
            # the mean of `Repeater`, to the last bit
            value = float(np.nanmean([sweep.score(trial, out) for trial in trials]))
            proposals.add_evaluated_point(proposed, value)
        else:
            optuna.load_study(**study).enqueue_trial(proposed)
            proposals.unfinished.append(number)
    remaining = len(proposals.unfinished) + max(0, sweep.plan.trials - len(points))
    seeds = len(sweep.trials_of(0, sweep.points[0]))
    return {"search_alg": Repeater(proposals, repeat=seeds), "num_samples": remaining * seeds}


class _Proposals(OptunaSearch):
    """Proposes the trials of each point, first of those in the folder that are not finished."""

    def __init__(self, sweep: Sweep, out: Path, **options: Any) -> None:
        super().__init__(**options)
        self._sweep = sweep
        self._out = out
        self.unfinished: list[int] = []

    def suggest(self, trial_id: str) -> dict[str, Any]:
        point = {**self._sweep.points[0], **(super().suggest(trial_id) or {})}
        if self.unfinished:
            number = self.unfinished.pop(0)
        else:
            points = self._sweep.read_points(self._out)
            number = len(points)
            self._sweep.write_points(self._out, [*points, point])
        return {"trials": self._sweep.trials_of(number, point)}


class _Sampler(TPESampler):
    """Optuna's sampler, whose random numbers follow from the number of a point.

    A point depends on the results of the finished points alone, also in a resumed search.
    """

    def __init__(self, search_seed: int) -> None:
        super().__init__()
        self._search_seed = search_seed

    def before_trial(self, study: optuna.Study, trial: Any) -> None:
        seed = random.Random(f"{self._search_seed} {trial.number}").getrandbits(32)
        super().__init__(seed=seed)
        super().before_trial(study, trial)


def _start_ray(address: str | None, options: Mapping[str, Any]) -> None:
    """Start or join a cluster.

    Raises:
        ConnectionError: If Ray does not start in time, as on a busy machine.
    """
    try:
        # local, not the address in RAY_ADDRESS
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **options)
    except ConnectionError:
        raise
    except Exception as error:  # Ray raises a bare one if its node is slow
        first, *_ = str(error).splitlines() or [type(error).__name__]
        raise ConnectionError(
            f"expected Ray to start, got: {first}; try again with --resume"
        ) from error


@contextmanager
def _cluster(needed: Mapping[str, float], address: str | None) -> Generator[None]:
    """Join a cluster, or start one on this machine; leave or stop it afterwards.

    Raises:
        ValueError: If a trial needs more processors than this machine has.
        ConnectionError: If Ray does not start.
    """
    if ray.is_initialized():  # this process stays in its cluster
        yield
        return
    options: dict[str, Any] = {}
    if address is None:
        options["include_dashboard"] = False
        if hasattr(os, "sched_getaffinity"):  # the processors that this process may use
            options["num_cpus"] = len(os.sched_getaffinity(0))
    before = signal.getsignal(signal.SIGTERM)
    try:
        _start_ray(address, options)
        # SIGTERM stops the sweep as Ctrl-C does; Ray would abort
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        found = ray.cluster_resources()
        missing = {n: amount for n, amount in needed.items() if amount > found.get(n.upper(), 0)}
        if missing and address is None:  # others may still join a cluster
            raise ValueError(f"expected a machine with {missing} for each trial, got {found}")
        yield
    finally:
        ray.shutdown()
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
