"""The log of a run: progress on the console, and numbers in `metrics.csv` and TensorBoard."""

import csv
import io
import os
import re
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
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

from eigenrnn_experiments.files import add_filename_to_errors, read_rows, write_atomically
from eigenrnn_experiments.training.callbacks import Measurements
from eigenrnn_experiments.training.run import RunFolder

__all__ = ["RunLog"]


class RunLog:
    """Shows a run on the console, and writes one line of numbers for each logged step.

    A terminal shows a live bar, other outputs get one line per evaluation. Each line of
    `metrics.csv` is written to the file at once. A log that is opened at a later step discards the
    lines after that step, so a resumed run leaves the same file as an uninterrupted one.

    Args:
        files: The folder of the run.
        columns: The names of the numbers, besides `step`. TensorBoard shows a name such as
            `test_loss` as `test/loss`.
        step: The last step to keep; zero starts a new file. Columns missing in an existing file
            are appended; columns that only the existing file has stay blank.
        logged: The step of the last line before that step.
        steps: The total number of steps.
        name: The name of the run on the console.
        console: The output, standard error by default; `Console(quiet=True)` shows nothing.

    Attributes:
        print: Prints one line literally.
        logged: The step of the last line.

    Raises:
        ValueError: If the existing file has different columns, or lost lines.
        WriteError: If it cannot be written; its content is then unchanged.
    """

    def __init__(
        self,
        files: RunFolder,
        columns: Sequence[str],
        *,
        step: int = 0,
        logged: int = 0,
        steps: int = 0,
        name: str = "",
        console: Console | None = None,
    ) -> None:
        rows = _kept_rows(files.metrics_file, ["step", *columns], step)
        last = int(rows[-1][0]) if len(rows) > 1 else 0
        if last < logged:
            raise ValueError(
                f"expected lines up to step {logged} in {files.metrics_file}, as the checkpoint "
                f"goes on from there, got {last}: restore the file, or begin anew with "
                "overwrite=True (--overwrite)"
            )
        self._files = files
        self._columns = rows[0]
        write_atomically(files.metrics_file, _as_csv(rows).encode())
        self._file = files.metrics_file.open("a", newline="")
        with add_filename_to_errors(files.tensorboard):
            # TensorBoard hides what a killed run wrote after its last checkpoint
            purge_step = step + 1 if step else None
            from torch.utils.tensorboard.writer import SummaryWriter  # takes 0.3 s to import

            self._tensorboard = SummaryWriter(str(files.tensorboard), purge_step=purge_step)
        console = console or Console(stderr=True)
        plain = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
        self.print = partial(console.print, **plain)
        self._name = name
        self._steps = steps
        self._first_step = step
        self.logged = logged
        self._start_time = time.monotonic()
        self._live: Progress | None = None
        if console.is_interactive and not console.quiet:
            self._live = _bars(console)
            self._bar = self._live.add_task(name, total=steps, completed=step, loss="", metric="")

    def show(self, step: int, loss: float, metric: str = "") -> None:
        """Show the loss of a step and, after an evaluation, the name and value of its metric."""
        if self._live is not None:
            self._live.update(self._bar, completed=step, loss=f"loss {loss:.4g}")
            if metric:
                self._live.update(self._bar, metric=metric)
        elif metric:
            seconds = max(time.monotonic() - self._start_time, 1e-9)
            rate = (step - self._first_step) / seconds
            left = "?"
            if rate:
                left = str(timedelta(seconds=round((self._steps - step) / rate)))
            self.print(
                f"{self._name}: step {step}/{self._steps}, loss {loss:.4g}, {metric}, "
                f"{rate:.1f} steps/s, {left} left"
            )

    def write(self, step: int, numbers: Measurements) -> None:
        """Write the line of a step; a column without a number stays blank.

        Arrays go to TensorBoard only, as histograms.

        Raises:
            WriteError: If the line cannot be written.
            ValueError: If a number has no column.
        """
        for name, number in numbers.items():
            if not isinstance(number, np.ndarray) and name not in self._columns:
                raise ValueError(
                    f"expected {name} among the columns of the callback that measures it, got none"
                )
        row = [str(step), *(_cell(numbers.get(name)) for name in self._columns[1:])]
        with add_filename_to_errors(self._files.metrics_file):
            self._file.write(_as_csv([row]))
            self._file.flush()
        self.logged = step
        with add_filename_to_errors(self._files.tensorboard):
            for name, number in numbers.items():
                tag = name.replace("_", "/", 1)
                if isinstance(number, np.ndarray):
                    self._tensorboard.add_histogram(tag, number, step)
                else:
                    self._tensorboard.add_scalar(tag, number, step)

    def sync(self) -> None:
        """Flush all rows to disk, so that a checkpoint is never ahead of them.

        Raises:
            WriteError: If they cannot be written.
        """
        with add_filename_to_errors(self._files.metrics_file):
            os.fsync(self._file.fileno())
        with add_filename_to_errors(self._files.tensorboard):
            self._tensorboard.flush()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        # so that TensorBoard is closed even if closing the file fails, as on a full disk
        with (
            add_filename_to_errors(self._files.tensorboard),
            closing(self._tensorboard),
            add_filename_to_errors(self._files.metrics_file),
        ):
            self._file.close()


def _kept_rows(path: Path, columns: list[str], step: int) -> list[list[str]]:
    """Return the header and the complete rows up to `step`.

    Raises:
        ValueError: If the columns differ, or the file is damaged.
    """
    if not step or not path.exists():
        return [columns]
    header, rows = read_rows(path)
    if header[0] != "step":
        raise ValueError(f"expected the column step first in {path}, got {header[0]}")
    every = list(dict.fromkeys([*header, *columns]))
    blank = [""] * (len(every) - len(header))
    damaged = next((row for row in rows if not re.fullmatch(r"\d{1,18}", row[0])), None)
    if damaged is not None:
        raise ValueError(
            f"{path} is damaged: expected each row to begin with a step, got {damaged[0][:20]!r}"
        )
    kept = [row for row in rows if int(row[0]) <= step]
    return [every, *(row + blank for row in kept)]


def _as_csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _cell(number: float | NDArray[np.float64] | None) -> str:
    # The shortest text that parses to the same number: resumed runs are compared bit for bit.
    return "" if number is None else repr(float(number))


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
