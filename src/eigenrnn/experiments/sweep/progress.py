"""The progress of a sweep: messages on the console, and the table `results.csv`."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.sweep.criterion import Criterion
from eigenrnn.experiments.sweep.folder import RESULTS
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.sweep.trials import Trial, TrialSource
from eigenrnn.experiments.training.result import Metrics

__all__ = ["SweepProgress", "is_current", "write_table"]


class SweepProgress:
    """The statuses of all trials, in the order in which they were added.

    Args:
        out: The folder of the sweep.
        source: Writes the summary of the sweep.
        expected: The total number of trials.
        console: The console for messages.
        criterion: The metric by which trials are compared; None if the task has none.
    """

    def __init__(
        self,
        out: Path,
        source: TrialSource,
        expected: int,
        console: Console,
        criterion: Criterion | None,
    ) -> None:
        self._out = out
        self._source = source
        self._expected = expected
        self._console = console
        self._criterion = criterion
        self._statuses: dict[str, Status] = {}
        self._finished: set[str] = set()
        self._write_failed = False

    @property
    def statuses(self) -> list[Status]:
        """The statuses of all trials added so far."""
        return list(self._statuses.values())

    def add(self, trials: Sequence[Trial]) -> list[Status]:
        """Add trials with the status stored in their folders."""
        statuses = [_not_running(Status.read(trial, self._out)) for trial in trials]
        self._update(statuses)
        self._finished |= {status.trial.path for status in statuses if status.is_final}
        for status in statuses:
            if status.state == "waiting" and status.message:  # its files are damaged
                self._print(f"{status.trial.name}: {status.message}")
        return statuses

    def started(self, trials: Sequence[Trial]) -> None:
        """Record that a worker has started the first unfinished one of these trials."""
        statuses = [_not_running(Status.read(trial, self._out)) for trial in trials]
        unfinished = [index for index, status in enumerate(statuses) if not status.is_final]
        if unfinished:
            first = unfinished[0]
            statuses[first] = replace(statuses[first], state="running", message="")
        self._update(statuses)
        self.write()

    def evaluated(self, trial: Trial, step: int, metrics: Metrics) -> None:
        """Print an evaluation; the first one of a seed also marks it as running."""
        metric = "" if self._criterion is None else self._criterion.metric
        split, _, name = metric.partition(" ")
        value = metrics.get(split, {}).get(name)
        text = "" if value is None else f", {metric} {value:.4g}"
        self._print(f"{trial.name}: step {step}{text}")
        known = self._statuses.get(trial.path)
        if known is not None and known.state != "running":  # the worker has started this seed
            same_point = [s.trial for s in self.statuses if s.trial.number == trial.number]
            self._update([Status.read(other, self._out) for other in same_point])
            self.write()

    def ended(self, statuses: Sequence[Status]) -> None:
        """Record and print the outcome of trials."""
        self._update(statuses)
        self._finished |= {status.trial.path for status in statuses}
        for status in statuses:
            outcome = "ended" if status.state == "ended" else f"{status.state}: {status.message}"
            count = f"[{len(self._finished)}/{self._expected}]"
            self._print(f"{count} {status.trial.name} {outcome}")
        self.write()

    def lost(self, trials: Sequence[Trial], reason: str) -> None:
        """Record the trials that have not ended as lost."""
        found = [Status.read(trial, self._out) for trial in trials]
        self.ended([s if s.is_final else replace(s, state="lost", message=reason) for s in found])

    def close(self, *, is_over: bool) -> None:
        """Write the final table, once no trial is running.

        Args:
            is_over: Whether all trials have finished; otherwise the sweep was stopped.
        """
        # not the others: their workers reported them, and on a full disk their files are old
        left = [s.trial for s in self.statuses if s.state in ("waiting", "running", "stopped")]
        self._update([_not_running(Status.read(trial, self._out)) for trial in left])
        self.write(is_over=is_over)
        if self._write_failed:
            self._print(f"{self._out / RESULTS} is out of date: --resume writes it again")

    def write(self, *, is_over: bool = False) -> None:
        """Write the table and the summary; the first failure in a row is printed."""
        try:
            write_table(self._out, self.statuses, self._criterion)
            self._source.summarise(self._out, self.statuses, is_over=is_over)
            self._write_failed = False
        except OSError as error:
            if not self._write_failed:
                self._print(f"the table in {self._out} could not be written: {error}")
            self._write_failed = True

    def _update(self, statuses: Sequence[Status]) -> None:
        self._statuses |= {status.trial.path: status for status in statuses}

    def _print(self, message: str) -> None:
        self._console.print(message, markup=False, emoji=False, highlight=False, soft_wrap=True)


def _not_running(status: Status) -> Status:
    """Change `running`, left behind by a worker that died, to `stopped`."""
    return replace(status, state="stopped") if status.state == "running" else status


def write_table(out: Path, statuses: Sequence[Status], criterion: Criterion | None) -> None:
    """Write `results.csv` atomically, one line per trial."""
    write_atomically(out / RESULTS, _table(statuses, criterion))


def is_current(out: Path, statuses: Sequence[Status], criterion: Criterion | None) -> bool:
    """Whether `results.csv` agrees with the given statuses."""
    file = out / RESULTS
    return file.exists() and file.read_bytes() == _table(statuses, criterion)


def _table(statuses: Sequence[Status], criterion: Criterion | None) -> bytes:
    rows = [_row(status, criterion) for status in statuses]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    # the columns that all rows have come first and last, the others between them
    last = ("message", "folder")
    columns = [*(name for name in columns if name not in last), *last]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _row(status: Status, criterion: Criterion | None) -> dict[str, Any]:
    trial, result = status.trial, status.result
    row: dict[str, Any] = {**trial.parameters, "seed": trial.seed, "status": status.state}
    if result is not None:
        row |= {"steps": result.steps, "seconds": round(result.seconds, 3)}
        row |= _explicit_metric(status, criterion)
        row |= {"best_by": result.best_by, "best_step": result.best_step}
        for title, metrics in (("best", result.best), ("last", result.last)):
            for split, numbers in metrics.items():
                # the shortest text that parses to the same number
                row |= {f"{title}_{split}_{name}": repr(n) for name, n in numbers.items()}
    row |= {f"score_{name}": repr(number) for name, number in (status.scores or {}).items()}
    message = " ".join(status.message.split())
    return {**row, "attempts": status.attempts, "message": message, "folder": trial.path}


def _explicit_metric(status: Status, criterion: Criterion | None) -> dict[str, Any]:
    """Return the columns of a metric that the search names."""
    if criterion is None or not criterion.explicit:
        return {}
    score = criterion.score(status)
    best = {} if score is None else {"metric_best": repr(score.value), "metric_step": score.step}
    return {"metric": criterion.metric, **best}
