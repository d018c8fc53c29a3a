"""The writer of `metrics.csv`, which also sends the same numbers to TensorBoard."""

import csv
import io
import os
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eigenrnn_experiments.files import add_filename_to_errors, read_rows, write_atomically
from eigenrnn_experiments.training.callbacks import Measurements

__all__ = ["MetricsWriter"]


class MetricsWriter:
    """Writes one line of numbers for each logged step.

    Each line is written to the file at once. A writer that is opened at a later step discards the
    lines after that step, so a resumed run leaves the same file as an uninterrupted one.

    Args:
        metrics: The CSV file.
        tensorboard: The folder for TensorBoard.
        columns: The names of the numbers, besides `step`. TensorBoard shows a name such as
            `test_loss` as `test/loss`.
        step: The last step to keep; zero starts a new file. Columns missing in an existing file
            are appended; columns that only the existing file has stay blank.

    Raises:
        ValueError: If the existing file has different columns.
        WriteError: If it cannot be written; its content is then unchanged.
    """

    def __init__(
        self, metrics: Path, tensorboard: Path, columns: Sequence[str], *, step: int = 0
    ) -> None:
        rows = _kept_rows(metrics, ["step", *columns], step)
        self._columns = rows[0]
        write_atomically(metrics, _as_csv(rows).encode())
        self._metrics, self._folder = metrics, tensorboard
        self._file = metrics.open("a", newline="")
        with add_filename_to_errors(tensorboard):
            # TensorBoard hides what a killed run wrote after its last checkpoint
            purge_step = step + 1 if step else None
            from torch.utils.tensorboard.writer import SummaryWriter  # takes 0.3 s to import

            self._tensorboard = SummaryWriter(str(tensorboard), purge_step=purge_step)

    def write(self, step: int, numbers: Measurements) -> None:
        """Write the line of a step; a column without a number stays blank.

        Arrays go to TensorBoard only, as histograms.

        Raises:
            WriteError: If the line cannot be written.
        """
        row = [str(step), *(_cell(numbers.get(name)) for name in self._columns[1:])]
        with add_filename_to_errors(self._metrics):
            self._file.write(_as_csv([row]))
            self._file.flush()
        with add_filename_to_errors(self._folder):
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
        with add_filename_to_errors(self._metrics):
            os.fsync(self._file.fileno())
        with add_filename_to_errors(self._folder):
            self._tensorboard.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # so that TensorBoard is closed even if closing the file fails, as on a full disk
        with (
            add_filename_to_errors(self._folder),
            closing(self._tensorboard),
            add_filename_to_errors(self._metrics),
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
    longer = max(header, columns, key=len)
    if longer[: min(len(header), len(columns))] != min(header, columns, key=len):
        expected, got = ", ".join(columns), ", ".join(header)
        raise ValueError(f"expected the columns {expected} in {path}, got {got}")
    blank = [""] * (len(longer) - len(header))
    damaged = next((row for row in rows if not re.fullmatch(r"\d{1,18}", row[0])), None)
    if damaged is not None:
        raise ValueError(
            f"{path} is damaged: expected each row to begin with a step, got {damaged[0][:20]!r}"
        )
    kept = [row for row in rows if int(row[0]) <= step]
    return [longer, *(row + blank for row in kept)]


def _as_csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _cell(number: float | NDArray[np.float64] | None) -> str:
    # The shortest text that parses to the same number: resumed runs are compared bit for bit.
    return "" if number is None else repr(float(number))
