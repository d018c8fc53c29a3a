"""The progress of a sweep: messages on the console, and the table `results.csv`."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.sweep.folder import RESULTS
from eigenrnn.experiments.sweep.trial import Criterion, Status, Trial, TrialSource
from eigenrnn.experiments.sweep.worker import Event

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

    @property
    def _total(self) -> int:
        return max(self._expected, len(self._statuses))

    def add(self, trials: Sequence[Trial]) -> list[Status]:
        """Add trials with the status stored in their folders, and return it."""
        for trial in trials:
            status = self._statuses[trial.path] = _not_running(Status.read(trial, self._out))
            if status.is_final:
                self._finished.add(trial.path)
            elif status.state == "waiting" and status.message:  # its files are damaged
                self._print(f"{trial.name}: {status.message}")
        return [self._statuses[trial.path] for trial in trials]

    def announce(self) -> None:
        """Write the table, and print how many trials a resumed sweep has finished before."""
        self.write()
        if self._finished:
            self._print(f"{len(self._finished)} trials had ended already")

    def report(self, event: Event) -> None:
        """Record the start of a trial, or print an evaluation."""
        path, step, metrics = event
        trial = self._statuses[path].trial
        if step is None:
            self._statuses[path] = Status.read(trial, self._out)
            self.write()
            return
        split, _, name = ("" if self._criterion is None else self._criterion.metric).partition(" ")
        value = metrics.get(split, {}).get(name)
        text = "" if value is None else f", {split} {name} {value:.4g}"
        self._print(f"{trial.name}: step {step}{text}")

    def ended(self, status: Status) -> None:
        """Record and print the outcome of a trial."""
        path, name = status.trial.path, status.trial.name
        self._statuses[path] = status
        self._finished.add(path)
        outcome = "ended" if status.state == "ended" else f"{status.state}: {status.message}"
        self._print(f"[{len(self._finished)}/{self._total}] {name} {outcome}")
        self.write()

    def close(self) -> None:
        """Write the final table, once no trial is running."""
        # not the others: their workers reported them, and on a full disk their files are old
        for status in self.statuses:
            if status.state in ("waiting", "running", "stopped"):
                found = _not_running(Status.read(status.trial, self._out))
                self._statuses[status.trial.path] = found
        self.write(is_over=len(self._finished) == self._total)
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
