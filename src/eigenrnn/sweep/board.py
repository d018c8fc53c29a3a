"""Keeps what has become of all trials: on the console, and in the table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from eigenrnn.sweep.results import write_table
from eigenrnn.sweep.source import Source, Trial
from eigenrnn.sweep.status import Status
from eigenrnn.train.result import Metrics

__all__ = ["Board"]


class Board:
    """The trials of a sweep and their statuses, in the order in which they were added.

    Args:
        out: The folder of the sweep.
        source: Sums up what the trials came to.
        expected: How many trials there will be.
        console: Where to say what happens.
    """

    def __init__(self, out: Path, source: Source, expected: int, console: Console) -> None:
        self._out = out
        self._source = source
        self._expected = expected
        self._console = console
        self._statuses: dict[str, Status] = {}
        self._cannot_write = False

    @property
    def statuses(self) -> list[Status]:
        """Those of all trials that are known."""
        return list(self._statuses.values())

    def add(self, trials: Sequence[Trial]) -> list[Status]:
        """Add trials, as far as they have come in an earlier beginning."""
        found = [Status.read(trial, self._out) for trial in trials]
        self._statuses |= {status.trial.place: status for status in found}
        return found

    def looked(self, trial: Trial, step: int, metrics: Metrics) -> None:
        """Tell of an evaluation."""
        said = ", ".join(
            f"{split} {name} {number:.4g}"
            for split, numbers in metrics.items()
            for name, number in numbers.items()
        )
        self._say(f"{trial.name}: step {step}, {said}")

    def ended(self, statuses: Sequence[Status]) -> None:
        """Take over what has become of trials, and write it."""
        self._statuses |= {status.trial.place: status for status in statuses}
        over = sum(status.state not in ("waiting", "running") for status in self.statuses)
        for status in statuses:
            said = "ended" if status.state == "ended" else f"{status.state}: {status.message}"
            self._say(f"[{over}/{self._expected}] {status.trial.name} {said}")
        self.write()

    def lost(self, trials: Sequence[Trial], why: str) -> None:
        """Take trials as lost that have not ended."""
        found = [Status.read(trial, self._out) for trial in trials]
        self.ended([s if s.is_final else replace(s, state="lost", message=why) for s in found])

    def write(self, *, is_over: bool = False) -> None:
        """Write the table and the summary; a disk that is full is told of once."""
        try:
            write_table(self._out, self.statuses)
            self._source.summarise(self._out, self.statuses, is_over=is_over)
            self._cannot_write = False
        except OSError as error:
            if not self._cannot_write:
                self._say(f"the table in {self._out} could not be written: {error}")
            self._cannot_write = True

    def _say(self, message: str) -> None:
        self._console.print(message, markup=False, highlight=False, soft_wrap=True)
