"""Shows how many of so many things are done."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eigenrnn.experiments.training.progress import plain_console

__all__ = ["Counter"]


class Counter:
    """A live bar on a terminal, a line at each tenth elsewhere.

    Args:
        console: Where to show it, by default on standard error.
        what: What is done.
        total: How many there are.
        done: How many are done already.
    """

    def __init__(self, console: Console | None, what: str, total: int, done: int = 0) -> None:
        self._console = console or plain_console(stderr=True)
        self._what, self._total, self._done = what, total, done
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
            disable=not self._console.is_interactive,
        )
        self._task = self._bar.add_task(what, total=total, completed=done)

    def advance(self) -> None:
        """Show that one more is done."""
        self._done += 1
        self._bar.update(self._task, completed=self._done)
        tenths = self._done * 10 // self._total
        if not self._console.is_interactive and tenths > (self._done - 1) * 10 // self._total:
            self._console.print(
                f"{self._what}: {self._done}/{self._total}", highlight=False, soft_wrap=True
            )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
