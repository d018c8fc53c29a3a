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
from eigenrnn.experiments.sweep.trial import Criterion, Trial, TrialSource
from eigenrnn.experiments.sweep.worker import Event

__all__ = ["SweepProgress", "is_current", "write_table"]


class SweepProgress:
    """All trials and their states, in the order in which they were added.

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
        self._trials: dict[str, Trial] = {}
        self._finished: set[str] = set()
        self._write_failed = False

    @property
    def trials(self) -> list[Trial]:
        """All trials added so far."""
        return list(self._trials.values())

    @property
    def _total(self) -> int:
        return max(self._expected, len(self._trials))

    def add(self, trials: Sequence[Trial]) -> list[Trial]:
        """Add trials with the states stored in their folders, and return them."""
        added = [_not_running(trial.read(self._out)) for trial in trials]
        for trial in added:
            self._trials[trial.path] = trial
            if trial.is_final:
                self._finished.add(trial.path)
            elif trial.state == "waiting" and trial.message:  # its files are damaged
                self._print(f"{trial.name}: {trial.message}")
        return added

    def announce(self) -> None:
        """Write the table, and print how many trials a resumed sweep has finished before."""
        self.write()
        if self._finished:
            self._print(f"{len(self._finished)} trials had ended already")

    def report(self, event: Event) -> None:
        """Record the start of a trial, or print an evaluation."""
        path, step, metrics = event
        trial = self._trials[path]
        if step is None:
            self._trials[path] = trial.read(self._out)
            self.write()
            return
        message = f"{trial.name}: step {step}"
        if self._criterion is not None:
            split, _, name = self._criterion.metric.partition(" ")
            value = metrics.get(split, {}).get(name)
            if value is not None:
                message += f", {split} {name} {value:.4g}"
        self._print(message)

    def ended(self, trial: Trial) -> None:
        """Record and print the outcome of a trial."""
        self._trials[trial.path] = trial
        self._finished.add(trial.path)
        outcome: str = trial.state
        if trial.state != "ended":
            outcome += f": {trial.message}"
        self._print(f"[{len(self._finished)}/{self._total}] {trial.name} {outcome}")
        self.write()

    def close(self) -> None:
        """Write the final table, once no trial is running."""
        # not the others: their workers reported them, and on a full disk their files are old
        for trial in self.trials:
            if trial.state in ("waiting", "running", "stopped"):
                self._trials[trial.path] = _not_running(trial.read(self._out))
        self.write(is_over=len(self._finished) == self._total)
        if self._write_failed:
            self._print(f"{self._out / RESULTS} is out of date: --resume writes it again")

    def write(self, *, is_over: bool = False) -> None:
        """Write the table and the summary; the first failure in a row is printed."""
        try:
            write_table(self._out, self.trials, self._criterion)
            self._source.summarise(self._out, self.trials, is_over=is_over)
            self._write_failed = False
        except OSError as error:
            if not self._write_failed:
                self._print(f"the table in {self._out} could not be written: {error}")
            self._write_failed = True

    def _print(self, message: str) -> None:
        self._console.print(message, markup=False, emoji=False, highlight=False, soft_wrap=True)


def _not_running(trial: Trial) -> Trial:
    """Change `running`, left behind by a worker that died, to `stopped`."""
    if trial.state == "running":
        return replace(trial, state="stopped")
    return trial


def write_table(out: Path, trials: Sequence[Trial], criterion: Criterion | None) -> None:
    """Write `results.csv` atomically, one line per trial."""
    write_atomically(out / RESULTS, _table(trials, criterion))


def is_current(out: Path, trials: Sequence[Trial], criterion: Criterion | None) -> bool:
    """Whether `results.csv` agrees with the given trials."""
    file = out / RESULTS
    return file.is_file() and file.read_bytes() == _table(trials, criterion)


def _table(trials: Sequence[Trial], criterion: Criterion | None) -> bytes:
    rows = [_row(trial, criterion) for trial in trials]
    names: dict[str, None] = {}  # a set that keeps the order
    for row in rows:
        names.update(dict.fromkeys(row))
    # the columns that all rows have come first and last, the others between them
    last = ["message", "folder"]
    columns = [name for name in names if name not in last] + last
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _row(trial: Trial, criterion: Criterion | None) -> dict[str, Any]:
    result = trial.result
    row: dict[str, Any] = {**trial.parameters, "seed": trial.seed, "status": trial.state}
    if result is not None:
        row |= {"steps": result.steps, "seconds": round(result.seconds, 3)}
        row |= _explicit_metric(trial, criterion)
        row |= {"best_by": result.best_by, "best_step": result.best_step}
        for title, metrics in (("best", result.best), ("last", result.last)):
            for split, numbers in metrics.items():
                for name, number in numbers.items():
                    # the shortest text that parses to the same number
                    row[f"{title}_{split}_{name}"] = repr(number)
    if trial.scores is not None:
        for name, number in trial.scores.items():
            row[f"score_{name}"] = repr(number)
    message = " ".join(trial.message.split())
    return {**row, "attempts": trial.attempts, "message": message, "folder": trial.path}


def _explicit_metric(trial: Trial, criterion: Criterion | None) -> dict[str, Any]:
    """Return the columns of a metric that the search names."""
    if criterion is None or not criterion.explicit:
        return {}
    columns: dict[str, Any] = {"metric": criterion.metric}
    score = criterion.score(trial)
    if score is not None:
        columns["metric_best"] = repr(score.value)
        columns["metric_step"] = score.step
    return columns
