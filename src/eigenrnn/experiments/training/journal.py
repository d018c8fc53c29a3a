"""What a run writes while it trains: `metrics.csv`, and the same for TensorBoard."""

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
from torch.utils.tensorboard.writer import SummaryWriter

from eigenrnn.atomic import naming_the_file, write_atomically
from eigenrnn.experiments.training.callbacks import Measured

__all__ = ["Journal"]


class Journal:
    """One row of numbers for each logged step.

    Rows are on file as soon as they are written. A journal that is opened again at a step forgets
    what came after it, so that a resumed run leaves the same file as one that never stopped.

    Args:
        metrics: The CSV file.
        board: The folder for TensorBoard.
        columns: The names of the numbers, beside `step`; a name such as `test_loss` is shown as
            `test/loss` on the board.
        step: The last step to keep; zero begins anew. The file of an earlier beginning may have
            fewer columns, to which the last ones are then added, or more, which then stay blank.

    Raises:
        ValueError: If its columns are others.
        WriteError: If it cannot be written; what it held is as it was.
    """

    def __init__(
        self, metrics: Path, board: Path, columns: Sequence[str], *, step: int = 0
    ) -> None:
        rows = _kept(metrics, ["step", *columns], step)
        self._columns = rows[0]
        write_atomically(metrics, _as_csv(rows).encode())
        self._metrics, self._folder = metrics, board
        self._file = metrics.open("a", newline="")
        with naming_the_file(board):
            self._board = SummaryWriter(str(board), purge_step=step + 1 if step else None)

    def write(self, step: int, numbers: Measured) -> None:
        """Add the row of a step; a column without a number stays blank.

        Several numbers of one name are shown on the board alone, as a histogram.

        Raises:
            WriteError: If it cannot be written.
        """
        row = [str(step), *(_text(numbers.get(name)) for name in self._columns[1:])]
        with naming_the_file(self._metrics):
            self._file.write(_as_csv([row]))
            self._file.flush()
        with naming_the_file(self._folder):
            for name, number in numbers.items():
                shown = name.replace("_", "/", 1)
                if isinstance(number, np.ndarray):
                    self._board.add_histogram(shown, number, step)
                else:
                    self._board.add_scalar(shown, number, step)

    def sync(self) -> None:
        """Put all rows on disk, so that none is missing before a checkpoint.

        Raises:
            WriteError: If they cannot be written.
        """
        with naming_the_file(self._metrics):
            os.fsync(self._file.fileno())
        with naming_the_file(self._folder):
            self._board.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with naming_the_file(self._folder), closing(self._board), naming_the_file(self._metrics):
            self._file.close()


def _kept(path: Path, columns: list[str], step: int) -> list[list[str]]:
    """Return the columns, and the rows to keep: whole ones, of steps not past `step`.

    Raises:
        ValueError: If the columns are others, or the file is damaged.
    """
    if not step or not path.exists():
        return [columns]
    rows = _rows(path)
    header = rows[0] if rows else []
    longer = max(header, columns, key=len)
    if not header or longer[: min(len(header), len(columns))] != min(header, columns, key=len):
        expected, got = ", ".join(columns), ", ".join(header)
        raise ValueError(f"expected the columns {expected} in {path}, got {got}")
    blank = [""] * (len(longer) - len(header))
    whole = [row for row in rows[1:] if len(row) == len(header)]
    damaged = next((row for row in whole if not re.fullmatch(r"\d{1,18}", row[0])), None)
    if damaged is not None:
        raise ValueError(
            f"{path} is damaged: expected a step at first in a row, got {damaged[0][:20]!r}"
        )
    whole = [row for row in whole if int(row[0]) <= step]
    return [longer, *(row + blank for row in whole)]


def _rows(path: Path) -> list[list[str]]:
    """Read all rows.

    Raises:
        ValueError: If the file is damaged.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def _as_csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _text(number: float | NDArray[np.float64] | None) -> str:
    # The shortest text that gives the very number back: resumed runs are compared bit for bit.
    return "" if number is None else repr(float(number))
