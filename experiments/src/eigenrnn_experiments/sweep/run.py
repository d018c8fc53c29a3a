"""The class `Sweep`, which checks the runs of a sweep and trains them."""

import math
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
import pandas as pd
import torch
from rich.console import Console

from eigenrnn.errors import check_installed
from eigenrnn_experiments.console import plain_console, say
from eigenrnn_experiments.errors import (
    FolderInUseError,
    NonFiniteLossError,
    RunExistsError,
    StoppedError,
)
from eigenrnn_experiments.files import read_json, read_record, write_atomically, write_json
from eigenrnn_experiments.recipes import Plan, Recipe, Row
from eigenrnn_experiments.recipes.reproduce import check_row, train, write_page
from eigenrnn_experiments.tasks.base import Selection, Task
from eigenrnn_experiments.training import Run, RunFolder
from eigenrnn_experiments.training.run import RunKey, locked
from eigenrnn_experiments.training.table import table_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Sweep", "SweepFile"]

_POINTS = "points.json"
_REQUIREMENT = "eigenrnn-experiments[sweep]"
_MAY_CHANGE_ON_RESUME = ("trials", "cpus_per_trial", "gpus_per_trial", "retries", "data_root")
_FINAL = ("ended", "diverged")
_COLUMNS = ("state", "message", "steps", "seconds", "best_by", "best_step")
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]

Point = tuple[Mapping[str, Any], Sequence[RunKey]]
"""The hyperparameters of a point, and the keys of its runs, one for each seed."""


class _Points(TypedDict):
    """The content of `points.json`."""

    points: list[dict[str, Any]]


class SweepFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the file of a sweep says, besides the options of what it trains.

    Args:
        recipe: The name of a recipe; without it, the file holds options of `eigenrnn train`.
        rows: Parts of the labels of the rows of the recipe; empty for all.
        quick: Whether each row takes a few steps only, too few for the reported numbers.
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

    recipe: str | None = None
    rows: list[str] = []
    quick: bool = False
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
        for name, values in self.grid.items():
            if len(set(map(repr, values))) < len(values):  # true and 1 differ
                raise ValueError(f"expected different values of {name}, got {values}")

    @property
    def varies(self) -> bool:
        """Whether it has hyperparameters of its own."""
        return bool(self.grid or self.search)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Many runs, trained in parallel by Ray Tune, or one after another where it is not installed.

    A trial trains all seeds of a point, each in its own folder with its own checkpoints. If its
    worker or machine dies, another one resumes it. A run that diverges or fails is recorded, and
    the others continue.

    Args:
        file: What the file says.
        plans: The runs of each row. A search has one plan, whose points it proposes.
        row_of: Returns what a run trains, from its key.
        description: The content of the file; only a sweep with the same description can be
            resumed in a folder.
        recipe: The recipe with the rows of the sweep; None without one.
    """

    file: SweepFile
    plans: Sequence[Plan]
    row_of: Callable[[RunKey], Row]
    description: Mapping[str, Any]
    recipe: Recipe | None = None

    def run(
        self,
        out: str | Path,
        *,
        address: str | None = None,
        resume: bool = False,
        trials_at_once: int | None = None,
    ) -> list[Run]:
        """Train all runs, and update `results.csv` whenever a point ends.

        Args:
            out: The folder of the sweep; all machines must see it under this path.
            address: The address of an existing Ray cluster, `HOST:PORT`; None starts one on this
                machine, and stops it afterwards.
            resume: Continue the sweep in the folder; finished runs are not repeated.
            trials_at_once: The maximal number of concurrent trials; None means as many as fit.
        Returns:
            All runs.
        Raises:
            ValueError: If a run is invalid, or the folder holds another sweep.
            RunExistsError: If the folder holds runs and `resume` is not set.
            FolderInUseError: If another process is writing to the folder.
            ConnectionError: If there is no cluster at the address.
            ImportError: If a search or an address needs a package that is not installed.
        """
        folder = Path(out).absolute()
        if self.file.search or address is not None:
            check_installed(_REQUIREMENT, "a search or an address", "ray", "optuna")
        if address is not None:
            _check_address(address)
        self._check()
        with locked(folder):
            _open(folder, self.description, resume=resume)
            self.write_results(folder)
            waiting = [keys for _, keys in self.points(folder) if not self.is_final(keys, folder)]
            if find_spec("ray") is None or find_spec("optuna") is None:
                say(
                    f"one run after another; in parallel: pip install '{_REQUIREMENT}'",
                    stderr=True,
                )
                for keys in waiting:
                    for key in keys:
                        self._train(key, folder, plain_console(stderr=True))
                    self.ended(keys, folder)
            elif waiting or self.file.search:
                from eigenrnn_experiments.sweep.tuning import tune_points

                tune_points(self, waiting, folder, address=address, at_once=trials_at_once)
        return [self.run_of(key, folder) for key in self._all_keys(folder)]

    def _all_keys(self, out: Path) -> list[RunKey]:
        """Return the keys of all runs, point by point."""
        found: list[RunKey] = []
        for _, keys in self.points(out):
            found += keys
        return found

    def propose(self, values: Mapping[str, Any], out: Path) -> Sequence[RunKey]:
        """Store a point that a search proposes, and return the keys of its runs."""
        points = self._read_points(out)
        write_json(out / _POINTS, {"points": [*points, values]})
        return self.plans[0].keys_at(values, len(points))

    def points(self, out: Path) -> list[Point]:
        """Return all points of a grid, or those that a search has proposed so far."""
        found: list[Point] = []
        for plan in self.plans:
            values = self._read_points(out) if self.file.search else plan.points
            found += [(each, plan.keys_at(each, number)) for number, each in enumerate(values)]
        return found

    def _read_points(self, out: Path) -> list[dict[str, Any]]:
        """Read the points that a search has proposed.

        Raises:
            ValueError: If their file is damaged.
        """
        file = out / _POINTS
        if not file.exists():
            return []
        return read_record(file, _Points)["points"]

    def run_of(self, key: RunKey, out: Path) -> Run:
        """Read the record of a run; one that has not begun has the state `unfinished`."""
        files = RunFolder(out / key.path)
        if not files.run_file.exists():
            return Run(key=key)
        return files.run

    def is_final(self, keys: Sequence[RunKey], out: Path) -> bool:
        """Whether training again would give the same outcome of each of these runs."""
        return all(self._is_final(self.run_of(key, out)) for key in keys)

    def _is_final(self, run: Run) -> bool:
        has_numbers = run.numbers is not None or run.state == "diverged"
        return run.state in _FINAL and has_numbers

    def train_point(self, keys: Sequence[RunKey], out: Path) -> float:
        """Train all seeds of a point in this process, or resume them; return its score."""
        for key in keys:
            self._train(key, out, plain_console(quiet=True))
        return self.score(keys, out)

    def _train(self, key: RunKey, out: Path, console: Console) -> None:
        """Train a run in this process, or resume it; its error is stored in its folder.

        Raises:
            FolderInUseError: If the worker before this one is still ending.
            StoppedError: If a signal ended the run.
        """
        if self._is_final(self.run_of(key, out)):
            return
        torch.set_num_threads(self.file.cpus_per_trial)
        folder = out / key.path
        try:
            run = train(self.row_of(key), key, folder, resume=True, console=console)
        except FolderInUseError:
            raise
        except NonFiniteLossError:
            return  # `fit` has stored it
        except Exception as error:  # any other error: the other runs continue
            RunFolder(folder).write_failure(key, f"{type(error).__name__}: {error}")
            return
        if run.signal is not None:
            raise StoppedError(run.signal)

    def lost(self, keys: Sequence[RunKey], out: Path) -> None:
        """Record that a worker has died, at the run that it was training."""
        for key in keys:
            run = self.run_of(key, out)
            if run.state == "failed":  # with its own error
                return
            if not self._is_final(run):
                message = "its worker ended without an error, such as for lack of memory: --resume"
                RunFolder(out / key.path).write_failure(key, message)
                return

    def score(self, keys: Sequence[RunKey], out: Path) -> float:
        """Return the mean over the seeds of the metric that selects the best model.

        It has a sign so that larger is better. A point is the worst if one of its runs has
        diverged or failed, or has no such metric.

        Raises:
            ValueError: If the record of a run is damaged.
        """
        scores = [self.score_of(self.run_of(key, out)) for key in keys]
        return sum(scores) / len(scores)

    def score_of(self, run: Run) -> float:
        """Return the metric of one run so that larger is better; minus infinity if it has none."""
        if run.state != "ended":  # a point that a search proposes may be invalid
            return -math.inf
        selection = self._selection(run)
        if selection.split not in run.best:
            return -math.inf
        score = selection.score(run.best[selection.split])
        return -math.inf if math.isnan(score) else score

    def value_of(self, run: Run) -> float:
        """Return the metric of a run that has a score, as its task gives it."""
        selection = self._selection(run)
        return selection.number(run.best[str(selection.split)])

    def _selection(self, run: Run) -> Selection:
        varied = {name: value for name, value in run.key.varied.items() if name.startswith("task")}
        name = repr((run.key.row, varied))
        if name not in self._tasks:
            self._tasks[name] = self.row_of(run.key).task
        return Selection(self._tasks[name], run.settings.get("best_by"))

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        """A task for each row and each choice of the task, because it takes long to read a row."""
        return {}

    def ended(self, keys: Sequence[RunKey], out: Path) -> None:
        """Print how the runs of a point have ended, and write the results."""
        every = self._all_keys(out)
        over = sum((out / key.path / "run.json").exists() for key in every)
        total = len(every)
        if self.file.search:
            total = self.file.trials * len(keys)
        for key in keys:
            run = self.run_of(key, out)
            line = f"[{over}/{total}] {key.path.as_posix()} {run.state} {run.message}"
            say(line.strip(), stderr=True)
        self.write_results(out)

    def write_results(self, out: Path) -> None:
        """Write `results.csv` and, for a recipe, `results.md` from the folders of the runs."""
        lines: list[dict[str, Any]] = []
        records: list[Run] = []
        for values, keys in self.points(out):
            for key in keys:
                run = self.run_of(key, out)
                records.append(run)
                row = {"row": key.row} if key.recipe else {}
                line = {**row, **values, "seed": key.seed, "folder": key.path.as_posix()}
                lines.append(line)
        table = table_of(records)
        numbers = [name for name in table if name.startswith(("best_", "last_", "scores_"))]
        columns = list(dict.fromkeys([*_COLUMNS, *numbers]))
        # a grid may vary one of them, such as the steps, which then stand in `lines`
        varied = set[str]().union(*lines)
        columns = [name for name in columns if name not in varied]
        # as objects: a column of whole numbers with empty cells would become one of floats
        shown = table[columns].astype(object)
        results = pd.concat([pd.DataFrame(lines, dtype=object), shown], axis=1)
        write_atomically(out / "results.csv", results.to_csv(index=False).encode())
        if self.recipe is not None:
            draws = not self.file.varies and all(map(self._is_final, records))
            write_page(out, self.recipe, quick=self.file.quick, draws=draws)

    @property
    def distributions(self) -> dict[str, "BaseDistribution"]:
        """The domains of a search as Optuna's distributions; whole numbers between whole ends.

        Raises:
            ValueError: If a domain is invalid.
        """
        from optuna import distributions

        found: dict[str, BaseDistribution] = {}
        for name, domain in self.file.search.items():
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

    @property
    def _examples(self) -> list[RunKey]:
        """One run of each point to check: seeds are valid or invalid together.

        Of a search these are two points, with the first and the last value of each domain.
        """
        if not self.file.search:
            keys: list[RunKey] = []
            for plan in self.plans:
                keys += [plan.keys_at(point, 0)[0] for point in plan.points]
            return keys
        first: dict[str, Any] = {}
        last: dict[str, Any] = {}
        for name, domain in self.file.search.items():
            values = domain.get("choices") or [domain["low"], domain["high"]]
            first[name] = values[0]
            last[name] = values[-1]
        return [self.plans[0].keys_at(point, 0)[0] for point in (first, last)]

    def _check(self) -> None:
        """Build all points before any is trained, and download their data.

        Raises:
            ValueError: If a point is invalid.
        """
        if self.file.search:
            _ = self.distributions
        metrics: set[str | None] = set()
        for key in self._examples:
            row = self.row_of(key)
            check_row(row)
            selection = Selection(row.task, row.settings.best_by)
            metrics.add(selection.metric)
            if self.file.search and selection.split is None:
                raise ValueError("expected a validation or test split for a search, got none")
            if self.file.search and len(metrics) > 1:
                named = " and ".join(map(str, metrics))
                raise ValueError(f"expected one metric for all points of a search, got {named}")
            if row.task.missing_data() is not None:
                next(row.task.batches("train", 1))  # downloads the data, or raises


def _open(out: Path, description: Mapping[str, Any], *, resume: bool) -> None:
    """Prepare the folder of a sweep.

    Raises:
        ValueError: If the sweep to resume is of another file, or its description is damaged.
        RunExistsError: If the folder holds runs that are not to be resumed.
    """
    file = out / "sweep.json"
    has_runs = any(out.glob("**/run.json"))
    if not resume and (file.exists() or has_runs):
        raise RunExistsError(
            f"{out} already holds runs: resume a sweep with resume=True (on the command line: "
            "--resume), or choose another folder with --out"
        )
    if has_runs and not file.exists():
        raise RunExistsError(
            f"expected the folder of a sweep, got {out}, which holds runs but no sweep.json: "
            "choose another folder with --out"
        )
    if file.exists():
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
