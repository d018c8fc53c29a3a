"""The class `Sweep`, which checks the trials of a sweep and trains them."""

import json
import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import torch
from rich.console import Console
from torch import nn

from eigenrnn import __version__
from eigenrnn.errors import check_installed, check_positive_integer
from eigenrnn.experiments.errors import FolderInUseError, NonFiniteLossError, RunExistsError
from eigenrnn.experiments.sweep.trial import Criterion, Trial, write_table
from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training import Result, Settings, records
from eigenrnn.experiments.training.files import write_json
from eigenrnn.experiments.training.optimisers import check_recurrent_rate
from eigenrnn.experiments.training.progress import plain_console
from eigenrnn.experiments.training.result import selection_metric
from eigenrnn.experiments.training.run_folder import RunFolder, locked

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Search", "Sweep"]

_DESCRIPTION = "sweep.json"
_POINTS = "points.json"
_FILES = (_DESCRIPTION, _POINTS, "results.csv", "results.json", "results.md")
_MAY_CHANGE_ON_RESUME = ("trials", "cpus_per_trial", "gpus_per_trial", "retries", "data_root")
_CONNECT_S = 3
_SETTINGS = frozenset(field.name for field in fields(Settings))


class _Description(TypedDict):
    """The content of `sweep.json`."""

    file: dict[str, Any]


class _Points(TypedDict):
    """The content of `points.json`."""

    points: list[dict[str, Any]]


@dataclass(frozen=True)
class Search:
    """Points that Optuna proposes, each from the results of the previous ones.

    Args:
        space: The domain of each parameter: `low`, `high`, `log` and `step`, or `choices`.
        trials: The number of points.
        metric: The metric to optimise, such as `test loss`. A point scores its best value at any
            evaluation of a run, averaged over seeds. None means the metric of the task.
        mode: Whether to minimise or to maximise the metric; None means as is better.
        seed: The seed of the proposals.
    """

    space: Mapping[str, Mapping[str, Any]]
    trials: int = 20
    metric: str | None = None
    mode: Literal["min", "max"] | None = None
    seed: int = 0

    @property
    def distributions(self) -> dict[str, "BaseDistribution"]:
        """The domains as Optuna's distributions; whole numbers between whole ends.

        Raises:
            ValueError: If a domain is invalid.
        """
        from optuna.distributions import (
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        found: dict[str, BaseDistribution] = {}
        for name, domain in self.space.items():
            kind: Any = FloatDistribution
            if "choices" in domain:
                kind = CategoricalDistribution
            elif all(isinstance(domain.get(n, 1), int) for n in ("low", "high", "step")):
                kind = IntDistribution
            try:
                found[name] = kind(**domain)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"expected low and high, or choices, for {name}, got {dict(domain)}: {error}"
                ) from None
        return found

    @property
    def examples(self) -> list[Mapping[str, Any]]:
        """The points to check before the search starts: each end of each domain."""
        ends = {n: d.get("choices") or [d["low"], d["high"]] for n, d in self.space.items()}
        first = {name: values[0] for name, values in ends.items()}
        # one parameter at a time: all combinations would be too many
        found: list[Mapping[str, Any]] = [first]
        for name, values in ends.items():
            found.extend({**first, name: value} for value in values[1:])
        return found


@dataclass(frozen=True, kw_only=True)
class Sweep(ABC):
    """Many runs, trained in parallel by Ray Tune, or one after another where it is not installed.

    Each trial is a run with its own folder and checkpoints. If its worker or machine dies, another
    one resumes it from its checkpoint. A trial that diverges or fails is recorded, and the others
    continue.

    Args:
        plan: The points of a grid, or a search.
        description: The content of the sweep's file; only a sweep with the same description can
            be resumed in a folder.
        cpus_per_trial: The number of CPU cores, and of threads, of each trial.
        gpus_per_trial: The number of GPUs of each trial, or the fraction of one.
        retries: How often a trial is resumed whose worker or machine has died.
    """

    plan: Sequence[Mapping[str, Any]] | Search
    description: Mapping[str, Any]
    cpus_per_trial: int = 1
    gpus_per_trial: float = 0
    retries: int = 10

    @abstractmethod
    def trials_of(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        """Return the trials of a point, one per seed."""

    @abstractmethod
    def task_and_settings(self, trial: Trial) -> tuple[Task, Settings]:
        """Return the task and the settings of a trial, or raise an error if they are invalid."""

    @abstractmethod
    def build(self, trial: Trial) -> tuple[nn.Module, Task, Settings]:
        """Build the network of a trial; the task knows where its data are."""

    @abstractmethod
    def train(self, trial: Trial, files: RunFolder, **options: Any) -> Result:
        """Train a trial in a folder, with further arguments of `fit`."""

    def states_rate(self, trial: Trial) -> bool:
        """Whether the user states a learning rate of the constrained matrices of a trial."""
        del trial
        return True

    def summarise(self, out: Path, trials: Sequence[Trial], *, is_over: bool) -> None:
        """Write a summary beside the table of the sweep, at the end with `is_over`."""
        del out, trials, is_over

    def run(
        self,
        out: str | Path,
        *,
        address: str | None = None,
        resume: bool = False,
        overwrite: bool = False,
        trials_at_once: int | None = None,
    ) -> list[Trial]:
        """Train the trials, and update `results.csv` whenever one ends.

        Args:
            out: The folder of the sweep; all machines must see it under this path.
            address: The address of an existing Ray cluster, `HOST:PORT`; None starts one on this
                machine, and stops it afterwards.
            resume: Continue the sweep in the folder; finished trials are not repeated.
            overwrite: Delete the sweep in the folder.
            trials_at_once: The maximal number of concurrent trials; None means as many as fit.
        Returns:
            All trials.
        Raises:
            ValueError: If a trial is invalid, or the folder holds another sweep.
            RunExistsError: If the folder holds runs and neither `resume` nor `overwrite` is set.
            FolderInUseError: If another process is writing to the folder.
            ConnectionError: If there is no cluster at the address.
            ImportError: If a search or an address needs a package that is not installed.
        """
        folder = Path(out).absolute()
        if trials_at_once is not None:
            check_positive_integer("trials_at_once", trials_at_once)
        if resume and overwrite:
            raise ValueError("expected resume or overwrite, got both")
        if isinstance(self.plan, Search) or address is not None:
            check_installed("sweep", "a search or an address", "ray", "optuna")
        if address is not None:
            _check_address(address)
        self._check()
        with locked(folder):
            _open(folder, self.description, resume=resume, overwrite=overwrite)
            self.write_results(folder)
            trials = self.trials(folder)
            waiting = [trial for trial in trials if not trial.is_final(folder)]
            if not waiting and len(trials) >= self._total:
                return trials
            try:
                from eigenrnn.experiments.sweep.tuning import tune_trials
            except ImportError as error:  # only here, because it imports Ray
                if isinstance(self.plan, Search) or address is not None:
                    raise
                self._print(f"one trial after another: in parallel with eigenrnn[sweep] ({error})")
                for trial in waiting:
                    self.train_here(trial, folder, plain_console(stderr=True))
                    self.ended(trial, folder)
            else:
                tune_trials(self, folder, waiting, address, trials_at_once)
        return self.trials(folder)

    def train_here(self, trial: Trial, out: Path, console: Console) -> None:
        """Train a trial in this process, or resume it; its error is stored in its folder.

        Raises:
            FolderInUseError: If the worker before this one is still ending.
            KeyboardInterrupt: If a signal ended the run.
        """
        if trial.is_final(out):
            return
        torch.set_num_threads(self.cpus_per_trial)
        files = trial.files(out)
        try:
            result = self.train(trial, files, resume=True, console=console)
        except FolderInUseError:
            raise
        except NonFiniteLossError:
            return  # `fit` has stored it
        except Exception as error:  # any other error: the other trials continue
            files.write_status("failed", f"{type(error).__name__}: {error}")
            return
        if result.signal is not None:
            raise KeyboardInterrupt
        files.write_status("ended", scores=files.read_status().scores)

    def trials(self, out: Path) -> list[Trial]:
        """Return all trials of a grid, or those that a search has proposed so far."""
        points = self.plan
        if isinstance(points, Search):
            points = self.read_points(out)
        found: list[Trial] = []
        for number, point in enumerate(points):
            found.extend(self.trials_of(number, point))
        return found

    def read_points(self, out: Path) -> list[Mapping[str, Any]]:
        """Read the points that a search has proposed.

        Raises:
            ValueError: If their file is damaged.
        """
        file = out / _POINTS
        if not file.exists():
            return []
        points: list[Mapping[str, Any]] = [*records.read(file, _Points)["points"]]
        names = self._examples[0].parameters.keys()
        if any(point.keys() != names for point in points):
            raise ValueError(f"{file} is damaged: expected points with {', '.join(names)}")
        return points

    def write_points(self, out: Path, points: Sequence[Mapping[str, Any]]) -> None:
        """Write the points that a search has proposed."""
        write_json(out / _POINTS, {"points": list(points)})

    def criterion(self) -> Criterion | None:
        """Return the metric by which trials are compared; None if the task of a grid has none.

        Raises:
            ValueError: If a search names an unknown metric, or its task has none.
        """
        # all points have one task, up to its options
        task, settings = self.task_and_settings(self._examples[0])
        search = Search({})
        if isinstance(self.plan, Search):
            search = self.plan
        metric = search.metric or selection_metric(task, settings.best_by)
        if metric is None and search is not self.plan:
            return None
        known: dict[str, str] = {}
        for split in task.splits:
            if split != "train":
                known.update({f"{split} {name}": name for name in task.metric_names})
        if metric not in known:
            raise ValueError(f"expected metric among {', '.join(known)}; got {metric!r}")
        is_higher_better = task.is_higher_better(known[metric])
        return Criterion(metric, search.mode or ("max" if is_higher_better else "min"))

    def ended(self, trial: Trial, out: Path) -> None:
        """Print how a trial has ended, and write the results."""
        states = [each.status(out).state for each in self.trials(out)]
        over = sum(state in ("ended", "diverged", "failed") for state in states)
        status = trial.status(out)
        outcome = ": ".join(filter(None, (status.state, status.message)))
        self._print(f"[{over}/{self._total}] {trial.name} {outcome}")
        self.write_results(out)

    def _print(self, line: str) -> None:
        plain_console(stderr=True).print(line, highlight=False, soft_wrap=True)

    def write_results(self, out: Path) -> None:
        """Write `results.csv` and the summary of the source from the folders of the runs."""
        trials = self.trials(out)
        criterion: Criterion | None = None
        if isinstance(self.plan, Search):
            criterion = self.criterion()
        write_table(out, trials, criterion)
        final = sum(trial.is_final(out) for trial in trials)
        self.summarise(out, trials, is_over=final == self._total)

    @property
    def _total(self) -> int:
        """The number of trials of all points."""
        if isinstance(self.plan, Search):
            return self.plan.trials * len(self.trials_of(0, self.plan.examples[0]))
        return sum(len(self.trials_of(0, point)) for point in self.plan)

    @property
    def _examples(self) -> list[Trial]:
        """One trial of each point to check: seeds are valid or invalid together."""
        points = self.plan
        if isinstance(points, Search):
            points = points.examples
        return [self.trials_of(0, point)[0] for point in points]

    def _check(self) -> None:
        """Check all trials before any is trained, and download their data.

        Raises:
            ValueError: If a trial is invalid.
        """
        if isinstance(self.plan, Search):
            _ = self.plan.distributions
        self.criterion()
        built: set[str] = set()
        refusals: list[ValueError] = []
        for trial in self._examples:
            task, settings = self.task_and_settings(trial)
            settings.total_steps(task)
            # trials that differ in training settings only share a network: build it once
            shape = repr({n: v for n, v in trial.parameters.items() if n not in _SETTINGS})
            if shape in built:
                continue
            built.add(shape)
            model, task, settings = self.build(trial)
            if task.missing_data() is not None:
                next(task.batches("train", 1))  # downloads the data, or raises
            if self.states_rate(trial):
                try:
                    check_recurrent_rate(model, settings)
                except ValueError as error:
                    refusals.append(error)
        if len(refusals) == len(built):  # one of several layers may need the rate
            raise refusals[0]


def _open(out: Path, description: Mapping[str, Any], *, resume: bool, overwrite: bool) -> None:
    """Prepare the folder of a sweep.

    Raises:
        ValueError: If the sweep to resume is of another file, or its description is damaged.
        RunExistsError: If the folder holds a sweep and neither option is set, or other runs.
    """
    file = out / _DESCRIPTION
    if not file.exists() and any(out.glob("**/config.json")):
        raise RunExistsError(
            f"{out} holds runs that are not of a sweep: choose another folder with --out"
        )
    if file.exists() and overwrite:
        # only the files of a sweep: the folder may hold others
        for run in list(out.glob("**/seed-[0-9]*")):
            shutil.rmtree(run)
        for name in _FILES:
            (out / name).unlink(missing_ok=True)
    elif file.exists() and not resume:
        raise RunExistsError(
            f"{out} already holds a sweep: resume it with resume=True (on the command line: "
            "--resume), or delete it with overwrite=True (--overwrite)"
        )
    elif file.exists():
        then = records.read(file, _Description)["file"]
        now = json.loads(json.dumps(dict(description)))  # as JSON stores it
        changed = [
            f"{name} was {then.get(name)!r}, now {now.get(name)!r}"
            for name in dict.fromkeys([*then, *now])
            if name not in _MAY_CHANGE_ON_RESUME and then.get(name) != now.get(name)
        ]
        if changed:
            raise ValueError(
                f"{out} holds a sweep of another file: {'; '.join(changed)}; choose another "
                "folder with --out"
            )
    write_json(file, {"eigenrnn": __version__, "file": dict(description)})


def _check_address(address: str) -> None:
    """Connect to an address, because Ray itself tries for minutes.

    Raises:
        ConnectionError: If nothing listens there.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"expected the HOST:PORT of a Ray cluster, got {address!r} ({error}); "
            "`ray start --head` starts one and prints it"
        ) from None
