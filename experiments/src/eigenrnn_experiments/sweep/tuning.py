"""Ray Tune trains points in parallel, and Optuna proposes those of a search."""

import logging
import os
import random
import shutil
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
import ray
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.storages import InMemoryStorage
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from eigenrnn_experiments.training.run import RunKey

__all__ = ["Search", "tune_points"]

Keys = Sequence[RunKey]


@dataclass
class Search:
    """What a search knows of its points.

    Args:
        distributions: The domain of each parameter.
        seed: The seed of the proposals.
        points: The number of points.
        propose: Stores a point that is proposed, and returns the keys of its runs.
        evaluated: The points that are finished, with their scores.
        unfinished: Those that are not, with the keys of their runs.
    """

    distributions: Mapping[str, BaseDistribution]
    seed: int
    points: int
    propose: Callable[[Mapping[str, Any]], Keys]
    evaluated: list[tuple[dict[str, Any], float]] = field(default_factory=list[Any])
    unfinished: list[tuple[dict[str, Any], Keys]] = field(default_factory=list[Any])


def tune_points(
    train: Callable[[Keys], float],
    points: Sequence[Keys],
    search: Search | None,
    *,
    ended: Callable[[Keys], None],
    lost: Callable[[Keys], None],
    resources: Mapping[str, float],
    retries: int,
    scratch: Path,
    address: str | None,
    at_once: int | None,
) -> None:
    """Map a function over points.

    Each run resumes from its own checkpoint, so nothing that Tune stores is read again.

    Args:
        train: Trains all runs of a point in a worker, and returns the score of the point.
        points: The keys of the runs of each point that is not finished.
        search: What a search knows; None for a grid.
        ended: Called after each point.
        lost: Called before it, if the worker of a point has died too often.
        resources: What a trial needs.
        retries: How often a trial is resumed whose worker has died.
        scratch: The folder of Tune, which is deleted.
        address: The address of an existing cluster, or None.
        at_once: The maximal number of concurrent trials; None means as many as fit.
    """
    os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # so that relative paths in the file stay valid
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # so that `verbose=0` prints nothing
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # so that Ctrl-C raises KeyboardInterrupt
    space: dict[str, Any] = {}
    searching: dict[str, Any] = {}
    if search is None:
        space["keys"] = tune.grid_search(list(points))
    else:
        searching["search_alg"] = _proposals(search)
        remaining = max(0, search.points - len(search.evaluated) - len(search.unfinished))
        searching["num_samples"] = len(search.unfinished) + remaining
    trained = tune.with_resources(tune.with_parameters(_train, train=train), dict(resources))
    shutil.rmtree(scratch, ignore_errors=True)  # of a killed sweep
    with _cluster(resources, address):
        run_config = tune.RunConfig(
            name=scratch.name,
            storage_path=str(scratch.parent),
            failure_config=tune.FailureConfig(max_failures=retries),
            callbacks=[_Progress(ended, lost)],
            verbose=0,
        )
        config = tune.TuneConfig(max_concurrent_trials=at_once, reuse_actors=True, **searching)
        tune.Tuner(trained, param_space=space, tune_config=config, run_config=run_config).fit()
    shutil.rmtree(scratch, ignore_errors=True)


def _train(config: Mapping[str, Any], train: Callable[[Keys], float]) -> None:
    """Train a point in a worker, and report its score."""
    tune.report({"score": train(config["keys"])})


class _Progress(tune.Callback):
    """Records the points that have ended."""

    def __init__(self, ended: Callable[[Keys], None], lost: Callable[[Keys], None]) -> None:
        self._ended = ended
        self._lost = lost

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        del iteration, trials, info
        self._ended(trial.config["keys"])

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        del iteration, trials, info
        self._lost(trial.config["keys"])  # nobody was left to store an error
        self._ended(trial.config["keys"])


def _proposals(search: Search) -> "_Proposals":
    """Return the algorithm of a search, which knows the points in the folder."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # The folder is the record. A study in a file would keep the points of a killed sweep as
    # running, and number them anew when they are tried again.
    study: dict[str, Any] = {"storage": InMemoryStorage(), "study_name": "sweep"}
    proposals = _Proposals(
        search,
        space=search.distributions,
        metric="score",
        mode="max",
        sampler=_Sampler(search.seed),
        **study,
    )
    for values, score in search.evaluated:
        proposals.add_evaluated_point(values, score)
    for values, _ in search.unfinished:
        optuna.load_study(**study).enqueue_trial(values)
    return proposals


class _Proposals(OptunaSearch):
    """Proposes the points, first those in the folder that are not finished."""

    def __init__(self, search: Search, **options: Any) -> None:
        super().__init__(**options)
        self._search = search
        self._waiting = [keys for _, keys in search.unfinished]

    def suggest(self, trial_id: str) -> dict[str, Any]:
        values = super().suggest(trial_id) or {}
        if self._waiting:
            return {"keys": self._waiting.pop(0)}
        return {"keys": self._search.propose(values)}


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
