"""Shows how a run goes: a live bar on a terminal, a plain line per evaluation elsewhere."""

import time
from datetime import timedelta
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Task as Bar
from rich.text import Text

__all__ = ["RunProgress", "plain_console"]


def plain_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Make a console that shows all text as it is: `[red]` is no colour, and `:x:` no emoji."""
    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False)


class RunProgress:
    """The progress of one run: loss, metric, steps per second and time left.

    Args:
        console: Where to show it; `Console(quiet=True)` shows nothing.
        name: The description of the run.
        steps: The number of steps of the whole run.
        done: The number of steps that an earlier beginning took.
    """

    def __init__(self, console: Console, name: str, steps: int, done: int = 0) -> None:
        self._console = console
        self._name = name
        self._steps = steps
        self._began, self._began_at = done, time.monotonic()
        self._live = _bars(console) if console.is_interactive and not console.quiet else None
        if self._live is not None:
            self._bar = self._live.add_task(name, total=steps, completed=done, loss="", metric="")

    def advance(self, step: int, loss: float) -> None:
        """Show that a step was taken."""
        if self._live is not None:
            self._live.update(self._bar, completed=step, loss=f"loss {loss:.4g}")

    def evaluated(self, step: int, loss: float, metric: str) -> None:
        """Show an evaluation, `metric` being its name and value."""
        if self._live is not None:
            self._live.update(self._bar, completed=step, metric=metric)
            return
        rate = (step - self._began) / max(time.monotonic() - self._began_at, 1e-9)
        left = timedelta(seconds=round((self._steps - step) / rate)) if rate else "?"
        self.say(
            f"{self._name}: step {step}/{self._steps}, loss {loss:.4g}, {metric}, "
            f"{rate:.1f} steps/s, {left} left"
        )

    def say(self, message: str) -> None:
        """Print one line, as it is."""
        self._console.print(message, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()


class _Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task: Bar) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f} steps/s")


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}", markup=False),
        TextColumn("{task.fields[metric]}", markup=False),
        _Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        refresh_per_second=4,  # each refresh takes the interpreter from the training loop
    )
