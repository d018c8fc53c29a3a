"""Ray Tune trains points in parallel, and Optuna proposes those of a search."""

import logging
import os
import random
import shutil
import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
import ray
from optuna.samplers import TPESampler
from optuna.storages import InMemoryStorage
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from eigenrnn.memory import keep_freed_memory
from eigenrnn_experiments.training.run import RunKey

if TYPE_CHECKING:
    from eigenrnn_experiments.sweep.run import Sweep

__all__ = ["tune_points"]


def tune_points(
    sweep: "Sweep",
    points: Sequence[Sequence[RunKey]],
    out: Path,
    *,
    address: str | None,
    at_once: int | None,
) -> None:
    """Train the points of a sweep in parallel.

    Each run resumes from its own checkpoint, so nothing that Tune stores is read again.

    Args:
        sweep: The sweep.
        points: The keys of the runs of each point that is not finished.
        out: The folder of the sweep.
        address: The address of an existing cluster, or None.
        at_once: The maximal number of concurrent trials; None means as many as fit.
    """
    file = sweep.file
    resources = {"cpu": file.cpus_per_trial, "gpu": file.gpus_per_trial}
    scratch = out / ".tune"  # the folder of Tune
    os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # so that relative paths in the file stay valid
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # so that `verbose=0` prints nothing
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # so that Ctrl-C raises KeyboardInterrupt
    space: dict[str, Any] = {}
    searching: dict[str, Any] = {}
    if file.search:
        searching["search_alg"] = _Proposals(sweep, out)
        finished = len(sweep.points(out)) - len(points)
        searching["num_samples"] = max(len(points), file.trials - finished)
    else:
        space["keys"] = tune.grid_search(list(points))
    training = tune.with_parameters(_train, sweep=sweep, out=out)
    trained = tune.with_resources(training, resources)
    shutil.rmtree(scratch, ignore_errors=True)  # of a killed sweep
    with _cluster(resources, address):
        run_config = tune.RunConfig(
            name=scratch.name,
            storage_path=str(scratch.parent),
            failure_config=tune.FailureConfig(max_failures=file.retries),
            callbacks=[_Progress(sweep, out)],
            verbose=0,
        )
        config = tune.TuneConfig(max_concurrent_trials=at_once, reuse_actors=True, **searching)
        tune.Tuner(trained, param_space=space, tune_config=config, run_config=run_config).fit()
    shutil.rmtree(scratch, ignore_errors=True)


def _train(config: Mapping[str, Any], sweep: "Sweep", out: Path) -> None:
    """Train a point in a worker, and report its score."""
    keep_freed_memory()
    tune.report({"score": sweep.train_point(config["keys"], out)})


class _Progress(tune.Callback):
    """Records the points that have ended."""

    def __init__(self, sweep: "Sweep", out: Path) -> None:
        self._sweep = sweep
        self._out = out

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        del iteration, trials, info
        self._sweep.ended(trial.config["keys"], self._out)

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        del iteration, trials, info
        # nobody was left to store an error
        self._sweep.lost(trial.config["keys"], self._out)
        self._sweep.ended(trial.config["keys"], self._out)


class _Proposals(OptunaSearch):
    """Proposes the points of a search, first those in its folder that are not finished."""

    def __init__(self, sweep: "Sweep", out: Path) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # The folder is the record. A study in a file would keep the points of a killed sweep as
        # running, and number them anew when they are tried again.
        study: dict[str, Any] = {"storage": InMemoryStorage(), "study_name": "sweep"}
        sampler = _Sampler(sweep.file.search_seed)
        super().__init__(sweep.distributions, metric="score", mode="max", sampler=sampler, **study)
        self._sweep = sweep
        self._out = out
        self._waiting: list[Sequence[RunKey]] = []
        unfinished: list[dict[str, Any]] = []
        for values, keys in sweep.points(out):
            proposed = {name: values[name] for name in sweep.file.search}
            if sweep.is_final(keys, out):
                self.add_evaluated_point(proposed, sweep.score(keys, out))
            else:
                unfinished.append(proposed)
                self._waiting.append(keys)
        for proposed in unfinished:
            optuna.load_study(**study).enqueue_trial(proposed)

    def suggest(self, trial_id: str) -> dict[str, Any]:
        values = super().suggest(trial_id) or {}
        if self._waiting:
            return {"keys": self._waiting.pop(0)}
        return {"keys": self._sweep.propose(values, self._out)}


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
