"""The class `Sweep`, which checks the trials of a sweep and trains them, and its `Trial`."""

import math
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
import pandas as pd
import torch
from rich.console import Console
from torch import nn

from eigenrnn.errors import check_installed
from eigenrnn_experiments.atomic import write_atomically
from eigenrnn_experiments.errors import FolderInUseError, NonFiniteLossError, RunExistsError
from eigenrnn_experiments.tasks.base import Task
from eigenrnn_experiments.training import Result, Settings, records
from eigenrnn_experiments.training.files import read_json, write_json
from eigenrnn_experiments.training.progress import plain_console
from eigenrnn_experiments.training.records import Status
from eigenrnn_experiments.training.result import selection_metric, selection_score
from eigenrnn_experiments.training.run_folder import RunFolder, locked

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Plan", "Sweep", "Trial", "point_folder", "point_label"]

_POINTS = "points.json"
_REQUIREMENT = "eigenrnn-experiments[sweep]"
_MAY_CHANGE_ON_RESUME = ("trials", "cpus_per_trial", "gpus_per_trial", "retries", "data_root")
_MAX_FOLDER_NAME = 80  # characters
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class _Points(TypedDict):
    """The content of `points.json`."""

    points: list[dict[str, Any]]


@dataclass(frozen=True)
class Trial:
    """One run of a sweep; its state is in its folder.

    Args:
        parameters: The values of the varied parameters, by name.
        seed: The seed of the run.
        path: The folder of the run, relative to that of the sweep.
        point: The label of the point.
    """

    parameters: Mapping[str, Any]
    seed: int
    path: str
    point: str = ""

    def files(self, out: Path) -> RunFolder:
        """Return the folder of the run in the folder of the sweep."""
        return RunFolder(out / self.path)

    def status(self, out: Path) -> Status:
        """Read the `state`, the `message` of an error, and any further `scores` of the run.

        The state is `waiting`, `ended`, `diverged` (a loss was not finite) or `failed` (with an
        error).
        """
        files = self.files(out)
        status = files.read_status()
        if status.state == "ended" and not files.result_file.exists():  # it was deleted
            return Status()
        return status

    def is_final(self, out: Path) -> bool:
        """Whether training again would give the same outcome."""
        return self.status(out).state in ("ended", "diverged")


def point_label(parameters: Mapping[str, Any]) -> str:
    """Return the label of a point, such as `lr=0.01 layer.negative=3`."""
    parts: list[str] = []
    for name, value in parameters.items():
        text = str(value)
        if isinstance(value, float):
            text = f"{value:.6g}"
        parts.append(f"{name}={text}")
    return " ".join(parts)


def point_folder(number: int, label: str) -> str:
    """Return the name of the folder of a point, which its number makes unique."""
    return f"{number:03d} {label}"[:_MAX_FOLDER_NAME]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep tries: a grid, or a search in which Optuna proposes each point.

    Args:
        grid: The values of each parameter.
        search: The domain of each parameter: `low`, `high`, `log` and `step`, or `choices`.
        seeds: The seeds of each point.
        trials: The number of points of a search.
        search_seed: The seed of the proposals.
        data_root: The folder with the data files.
        cpus_per_trial: The number of CPU cores, and of threads, of each trial.
        gpus_per_trial: The number of GPUs of each trial, or the fraction of one.
        retries: How often a trial is resumed whose worker or machine has died.
    """

    grid: dict[str, Annotated[list[Any], msgspec.Meta(min_length=1)]] = {}
    search: dict[str, dict[str, Any]] = {}
    seeds: list[_NotNegative] = []
    trials: _Positive = 20
    search_seed: _NotNegative = 0
    data_root: str | None = None
    cpus_per_trial: _Positive = 1
    gpus_per_trial: Annotated[float, msgspec.Meta(ge=0)] = 0
    retries: _NotNegative = 10

    def __post_init__(self) -> None:
        if self.grid and self.search:
            raise ValueError("expected grid or search, got both")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"expected different seeds, got {self.seeds}")

    @property
    def grid_points(self) -> list[dict[str, Any]]:
        """The points of the grid; one without parameters if there is no grid."""
        return [dict(zip(self.grid, v, strict=True)) for v in product(*self.grid.values())]

    @property
    def is_varied(self) -> bool:
        """Whether it has parameters of its own."""
        return bool(self.grid or self.search)

    @property
    def distributions(self) -> dict[str, "BaseDistribution"]:
        """The domains as Optuna's distributions; whole numbers between whole ends.

        Raises:
            ValueError: If a domain is invalid.
        """
        from optuna import distributions

        found: dict[str, BaseDistribution] = {}
        for name, domain in self.search.items():
            kind: Any = distributions.FloatDistribution
            if "choices" in domain:
                kind = distributions.CategoricalDistribution
            elif all(isinstance(domain.get(n, 1), int) for n in ("low", "high", "step")):
                kind = distributions.IntDistribution
            try:
                found[name] = kind(**domain)
            except (TypeError, ValueError) as error:
                raise ValueError(f"in the domain of {name}, {dict(domain)}: {error}") from None
        return found


@dataclass(frozen=True, kw_only=True)
class Sweep(ABC):
    """Many runs, trained in parallel by Ray Tune, or one after another where it is not installed.

    Each trial is a run with its own folder and checkpoints. If its worker or machine dies, another
    one resumes it from its checkpoint. A trial that diverges or fails is recorded, and the others
    continue.

    Args:
        plan: What the sweep tries.
        points: The points of the grid; for a search one point, which its proposals extend.
        description: The content of the sweep's file; only a sweep with the same description can
            be resumed in a folder.
    """

    plan: Plan
    points: Sequence[Mapping[str, Any]]
    description: Mapping[str, Any]

    @abstractmethod
    def trials_of(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        """Return the trials of a point, one per seed."""

    @abstractmethod
    def build(self, trial: Trial) -> tuple[nn.Module, Task, Settings]:
        """Build what a trial trains, or raise an error if it is invalid."""

    @abstractmethod
    def train(self, trial: Trial, files: RunFolder, **options: Any) -> Result:
        """Train a trial in a folder, with further arguments of `fit`."""

    def summarise(self, out: Path, trials: Sequence[Trial]) -> None:
        """Write a summary beside the table of the sweep."""
        del out, trials

    def run(
        self,
        out: str | Path,
        *,
        address: str | None = None,
        resume: bool = False,
        trials_at_once: int | None = None,
    ) -> list[Trial]:
        """Train the trials, and update `results.csv` whenever one ends.

        Args:
            out: The folder of the sweep; all machines must see it under this path.
            address: The address of an existing Ray cluster, `HOST:PORT`; None starts one on this
                machine, and stops it afterwards.
            resume: Continue the sweep in the folder; finished trials are not repeated.
            trials_at_once: The maximal number of concurrent trials; None means as many as fit.
        Returns:
            All trials.
        Raises:
            ValueError: If a trial is invalid, or the folder holds another sweep.
            RunExistsError: If the folder holds runs and `resume` is not set.
            FolderInUseError: If another process is writing to the folder.
            ConnectionError: If there is no cluster at the address.
            ImportError: If a search or an address needs a package that is not installed.
        """
        folder = Path(out).absolute()
        if self.plan.search or address is not None:
            check_installed(_REQUIREMENT, "a search or an address", "ray", "optuna")
        if address is not None:
            _check_address(address)
        self._check()
        with locked(folder):
            _open(folder, self.description, resume=resume)
            self.write_results(folder)
            waiting = [trial for trial in self.trials(folder) if not trial.is_final(folder)]
            if find_spec("ray") is None or find_spec("optuna") is None:
                self._print(f"one trial after another; in parallel: pip install '{_REQUIREMENT}'")
                for trial in waiting:
                    self.train_here(trial, folder, plain_console(stderr=True))
                    self.ended(trial, folder)
            elif waiting or self.plan.search:
                from eigenrnn_experiments.sweep.tuning import tune_trials

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
        torch.set_num_threads(self.plan.cpus_per_trial)
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
        points = self.points
        if self.plan.search:
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

    @cached_property
    def _task(self) -> Task:
        """The task of all points, up to its options."""
        return self.build(self._examples[0])[1]

    def score(self, trial: Trial, out: Path) -> float:
        """Return the metric that selects the best model, with a sign so that larger is better.

        Raises:
            ValueError: If the result of the run is damaged.
        """
        result = trial.files(out).result
        if result is None or result.best_by is None:
            return -math.inf
        split, _, name = result.best_by.partition(" ")
        score = selection_score(self._task, name, result.best[split])
        return -math.inf if math.isnan(score) else score

    def ended(self, trial: Trial, out: Path) -> None:
        """Print how a trial has ended, and write the results."""
        over = sum(each.status(out).state != "waiting" for each in self.trials(out))
        status = trial.status(out)
        self._print(f"[{over}/{self._total}] {trial.path} {status.state} {status.message}".strip())
        self.write_results(out)

    def _print(self, line: str) -> None:
        plain_console(stderr=True).print(line, highlight=False, soft_wrap=True)

    def write_results(self, out: Path) -> None:
        """Write `results.csv` and the summary of the source from the folders of the runs."""
        trials = self.trials(out)
        rows = [_row(out, trial) for trial in trials]
        # as objects: a column of whole numbers with empty cells would become one of floats
        table = pd.DataFrame(rows, dtype=object)
        write_atomically(out / "results.csv", table.to_csv(index=False).encode())
        self.summarise(out, trials)

    @property
    def _total(self) -> int:
        """The number of trials of all points."""
        number = sum(len(self.trials_of(0, point)) for point in self.points)
        return number * (self.plan.trials if self.plan.search else 1)

    @property
    def _examples(self) -> list[Trial]:
        """One trial of each point to check: seeds are valid or invalid together.

        Of a search these are two points, with the first and the last value of each domain.
        """
        points = [*self.points]
        if self.plan.search:
            first = dict(points[0])
            last = dict(points[0])
            for name, domain in self.plan.search.items():
                values = domain.get("choices") or [domain["low"], domain["high"]]
                first[name] = values[0]
                last[name] = values[-1]
            points = [first, last]
        return [self.trials_of(0, point)[0] for point in points]

    def _check(self) -> None:
        """Build all trials before any is trained, and download their data.

        Raises:
            ValueError: If a trial is invalid.
        """
        if self.plan.search:
            _ = self.plan.distributions
        for trial in self._examples:
            _, task, settings = self.build(trial)
            settings.total_steps(task)
            if selection_metric(task, settings.best_by) is None and self.plan.search:
                raise ValueError("expected a validation or test split for a search, got none")
            if task.missing_data() is not None:
                next(task.batches("train", 1))  # downloads the data, or raises


def _open(out: Path, description: Mapping[str, Any], *, resume: bool) -> None:
    """Prepare the folder of a sweep.

    Raises:
        ValueError: If the sweep to resume is of another file, or its description is damaged.
        RunExistsError: If the folder holds runs that are not to be resumed.
    """
    file = out / "sweep.json"
    if not resume or not file.exists():
        if file.exists() or any(out.glob("**/config.json")):
            raise RunExistsError(
                f"{out} already holds runs: resume a sweep with resume=True (on the command line: "
                "--resume), or choose another folder with --out"
            )
    else:
        then = read_json(file)
        for name in {**then, **description}:
            was = then.get(name)
            now = description.get(name)
            if name not in _MAY_CHANGE_ON_RESUME and was != now:
                raise ValueError(
                    f"{out} holds a sweep of another file: {name} was {was!r}, now {now!r}; "
                    "choose another folder with --out"
                )
    write_json(file, description)


def _check_address(address: str) -> None:
    """Connect to an address, because Ray itself tries for minutes.

    Raises:
        ConnectionError: If nothing listens there.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"expected the HOST:PORT of a Ray cluster, got {address!r} ({error}); "
            "`ray start --head` starts one and prints it"
        ) from None


def _row(out: Path, trial: Trial) -> dict[str, Any]:
    files = trial.files(out)
    status = trial.status(out)
    row: dict[str, Any] = {**trial.parameters, "seed": trial.seed, "folder": trial.path}
    row |= {"status": status.state, "message": status.message}
    result = files.result
    if result is not None:
        row |= {"steps": result.steps, "seconds": round(result.seconds, 3)}
        row |= {"best_by": result.best_by, "best_step": result.best_step}
        for title, metrics in (("best", result.best), ("last", result.last)):
            for split, numbers in metrics.items():
                row |= {f"{title}_{split}_{name}": n for name, n in numbers.items()}
    for name, number in (status.scores or {}).items():
        row[f"score_{name}"] = number
    return row
