"""The console: progress of a run as a live bar or as lines, Markdown, and the user's texts."""

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

__all__ = ["RunProgress", "plain_console", "show_markdown"]


def plain_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that prints text literally, without markup or emoji."""
    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False)


def show_markdown(text: str, console: Console) -> None:
    """Draw Markdown on a terminal whose width it fits; elsewhere print it as it is."""
    from rich.markdown import Markdown  # takes 0.1 s to import

    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=False)]
    if console.is_terminal and sum(widths) <= console.width:
        console.print(Markdown(text))
    else:
        console.out(text, end="", highlight=False)


class RunProgress:
    """Shows loss, metric, steps per second and remaining time of a run.

    Args:
        console: The output; `Console(quiet=True)` shows nothing.
        name: The name of the run.
        steps: The total number of steps.
        done: The number of steps taken before the run was resumed.
    """

    def __init__(self, console: Console, name: str, steps: int, done: int = 0) -> None:
        self._console = console
        self._name = name
        self._steps = steps
        self._first_step = done
        self._start_time = time.monotonic()
        self._live: Progress | None = None
        if console.is_interactive and not console.quiet:
            self._live = _bars(console)
            self._bar = self._live.add_task(name, total=steps, completed=done, loss="", metric="")

    def advance(self, step: int, loss: float) -> None:
        """Show the loss of a step."""
        if self._live is not None:
            self._live.update(self._bar, completed=step, loss=f"loss {loss:.4g}")

    def show_evaluation(self, step: int, loss: float, metric: str) -> None:
        """Show an evaluation; `metric` is its name and value."""
        if self._live is not None:
            self._live.update(self._bar, completed=step, metric=metric)
            return
        seconds = max(time.monotonic() - self._start_time, 1e-9)
        rate = (step - self._first_step) / seconds
        left = "?"
        if rate:
            left = str(timedelta(seconds=round((self._steps - step) / rate)))
        self.print(
            f"{self._name}: step {step}/{self._steps}, loss {loss:.4g}, {metric}, "
            f"{rate:.1f} steps/s, {left} left"
        )

    def print(self, message: str) -> None:
        """Print one line literally."""
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
        if speed is None:
            return Text("")
        return Text(f"{speed:.1f} steps/s")


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
