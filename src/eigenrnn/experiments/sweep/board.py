"""Keeps what has become of all trials: on the console, and in the table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from eigenrnn.experiments.sweep.criterion import Criterion
from eigenrnn.experiments.sweep.folder import RESULTS
from eigenrnn.experiments.sweep.results import write_table
from eigenrnn.experiments.sweep.source import Source, Trial
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.training.result import Metrics

__all__ = ["Board"]


class Board:
    """The trials of a sweep and their statuses, in the order in which they were added.

    Args:
        out: The folder of the sweep.
        source: Sums up what the trials came to.
        expected: How many trials there will be.
        console: Where to say what happens.
        criterion: By what trials are compared; None if there is nothing.
    """

    def __init__(
        self,
        out: Path,
        source: Source,
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
        self._over: set[str] = set()
        self._cannot_write = False

    @property
    def statuses(self) -> list[Status]:
        """Those of all trials that are known."""
        return list(self._statuses.values())

    def add(self, trials: Sequence[Trial]) -> list[Status]:
        """Add trials, as far as they have come in an earlier beginning."""
        found = [_at_rest(Status.read(trial, self._out)) for trial in trials]
        self._take(found)
        self._over |= {status.trial.place for status in found if status.is_final}
        for status in found:
            if status.state == "waiting" and status.message:  # its files are damaged
                self._say(f"{status.trial.name}: {status.message}")
        return found

    def started(self, trials: Sequence[Trial]) -> None:
        """Note that a worker has been given these trials, and begins with the first."""
        found = [_at_rest(Status.read(trial, self._out)) for trial in trials]
        left = [place for place, status in enumerate(found) if not status.is_final]
        if left:
            found[left[0]] = replace(found[left[0]], state="running", message="")
        self._take(found)
        self.write()

    def looked(self, trial: Trial, step: int, metrics: Metrics) -> None:
        """Tell of an evaluation."""
        metric = "" if self._criterion is None else self._criterion.metric
        split, _, name = metric.partition(" ")
        figure = metrics.get(split, {}).get(name)
        said = "" if figure is None else f", {metric} {figure:.4g}"
        self._say(f"{trial.name}: step {step}{said}")
        known = self._statuses.get(trial.place)
        if known is not None and known.state != "running":  # the worker has come to the next seed
            same_point = [s.trial for s in self.statuses if s.trial.number == trial.number]
            self._take([Status.read(other, self._out) for other in same_point])
            self.write()

    def ended(self, statuses: Sequence[Status]) -> None:
        """Take over what has become of trials, and write it."""
        self._take(statuses)
        self._over |= {status.trial.place for status in statuses}
        for status in statuses:
            said = "ended" if status.state == "ended" else f"{status.state}: {status.message}"
            self._say(f"[{len(self._over)}/{self._expected}] {status.trial.name} {said}")
        self.write()

    def lost(self, trials: Sequence[Trial], why: str) -> None:
        """Take trials as lost that have not ended."""
        found = [Status.read(trial, self._out) for trial in trials]
        self.ended([s if s.is_final else replace(s, state="lost", message=why) for s in found])

    def close(self, *, is_over: bool) -> None:
        """Write for the last time what has become of all trials, of which none runs any more.

        Args:
            is_over: Whether all have come to their ends; else the sweep was stopped.
        """
        # of the others it was told, and it may not lie on a disk that is full
        left = [s.trial for s in self.statuses if s.state in ("waiting", "running", "stopped")]
        self._take([_at_rest(Status.read(trial, self._out)) for trial in left])
        self.write(is_over=is_over)
        if self._cannot_write:
            self._say(f"{self._out / RESULTS} is out of date: --resume writes it anew")

    def write(self, *, is_over: bool = False) -> None:
        """Write the table and the summary; a disk that is full is told of once."""
        try:
            write_table(self._out, self.statuses, self._criterion)
            self._source.summarise(self._out, self.statuses, is_over=is_over)
            self._cannot_write = False
        except OSError as error:
            if not self._cannot_write:
                self._say(f"the table in {self._out} could not be written: {error}")
            self._cannot_write = True

    def _take(self, statuses: Sequence[Status]) -> None:
        self._statuses |= {status.trial.place: status for status in statuses}

    def _say(self, message: str) -> None:
        self._console.print(message, markup=False, emoji=False, highlight=False, soft_wrap=True)


def _at_rest(status: Status) -> Status:
    """Take a trial that nobody trains as stopped, though its last worker could not write so."""
    return replace(status, state="stopped") if status.state == "running" else status
