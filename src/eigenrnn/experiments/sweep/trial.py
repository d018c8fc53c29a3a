"""A trial of a sweep, the metric that ranks trials, and the table of all."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.training.records import Status
from eigenrnn.experiments.training.run_folder import RunFolder

__all__ = ["Criterion", "Trial", "format_value", "write_table"]


@dataclass(frozen=True)
class Trial:
    """One run of a sweep; its state is in its folder.

    Args:
        number: The number of its point in the sweep; all seeds of a point share it.
        parameters: The values of the varied parameters, by name.
        seed: The seed of the run.
        path: The folder of the run, relative to that of the sweep.
        point: The label of the point.
    """

    number: int
    parameters: Mapping[str, Any]
    seed: int
    path: str
    point: str = ""

    @property
    def name(self) -> str:
        """The name of the trial on the console."""
        parameters = [f"{name}={format_value(value)}" for name, value in self.parameters.items()]
        return ", ".join([*parameters, f"seed {self.seed}"])

    def files(self, out: Path) -> RunFolder:
        """Return the folder of the run in the folder of the sweep."""
        return RunFolder(out / self.path)

    def status(self, out: Path) -> Status:
        """Read the `state`, the `message` of an error, and any further `scores` of the run.

        The state is `waiting`, `unfinished`, `ended`, `diverged` (a loss was not finite) or
        `failed` (with an error).
        """
        files = self.files(out)
        status = files.read_status()
        has_begun = status.state == "waiting" and files.config_file.exists()
        lost_result = status.state == "ended" and not files.result_file.exists()
        if has_begun or lost_result:
            return Status("unfinished", status.message, status.scores)
        return status

    def is_final(self, out: Path) -> bool:
        """Whether training again would give the same outcome."""
        return self.status(out).state in ("ended", "diverged")


@dataclass(frozen=True)
class Criterion:
    """A metric by which trials are compared.

    Args:
        metric: A split and the name of a metric, such as `test loss`.
        mode: `min` if lower is better, `max` if higher is.
    """

    metric: str
    mode: Literal["min", "max"]

    @property
    def worst(self) -> float:
        """The score of a trial that has none."""
        return math.inf if self.mode == "min" else -math.inf

    def score(self, files: RunFolder) -> float:
        """Return the best value at an evaluation of a run that has ended.

        Raises:
            ValueError: If the files of the run are damaged, or lack the metric.
        """
        if files.read_result() is None:
            return self.worst
        name = self.metric.replace(" ", "_", 1)
        columns = files.read_metrics()
        if name not in columns:
            raise ValueError(f"expected a column {name} in {files.metrics_file}, got none")
        values = columns[name]
        if np.isnan(values).all():  # also at steps without an evaluation
            return self.worst
        return float(np.nanmin(values) if self.mode == "min" else np.nanmax(values))


def format_value(value: Any) -> str:
    """Format the value of a parameter for the console."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def write_table(out: Path, trials: Sequence[Trial], criterion: Criterion | None) -> None:
    """Write `results.csv` atomically, one line per trial.

    Args:
        out: The folder of the sweep.
        trials: All trials.
        criterion: The metric of a search, which has columns of its own.
    """
    rows = [_row(out, trial, criterion) for trial in trials]
    columns: dict[str, None] = {}  # a set that keeps its order
    for row in rows:
        columns.update(dict.fromkeys(row))
    for name in ("message", "folder"):  # which all rows have, after what only some have
        columns[name] = columns.pop(name, None)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(out / "results.csv", text.getvalue().encode())


def _row(out: Path, trial: Trial, criterion: Criterion | None) -> dict[str, Any]:
    files = trial.files(out)
    status = trial.status(out)
    result = files.read_result()
    row: dict[str, Any] = {**trial.parameters, "seed": trial.seed, "status": status.state}
    if result is not None:
        row |= {"steps": result.steps, "seconds": round(result.seconds, 3)}
        if criterion is not None:
            row |= {"metric": criterion.metric, "metric_best": repr(criterion.score(files))}
        row |= {"best_by": result.best_by, "best_step": result.best_step}
        for title, metrics in (("best", result.best), ("last", result.last)):
            for split, numbers in metrics.items():
                for name, number in numbers.items():
                    # the shortest text that parses to the same number
                    row[f"{title}_{split}_{name}"] = repr(number)
    for name, number in (status.scores or {}).items():
        row[f"score_{name}"] = repr(number)
    return {**row, "message": " ".join(status.message.split()), "folder": trial.path}
