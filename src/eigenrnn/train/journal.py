"""What a run writes while it trains: `metrics.csv`, and the same for TensorBoard."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from torch.utils.tensorboard.writer import SummaryWriter

from eigenrnn.train.atomic import write_atomically

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
        step: The last step to keep; zero begins anew.

    Raises:
        ValueError: If the file of an earlier beginning has other columns.
    """

    def __init__(
        self, metrics: Path, board: Path, columns: Sequence[str], *, step: int = 0
    ) -> None:
        self._columns = ["step", *columns]
        kept = _rows_up_to(metrics, self._columns, step) if step else []
        write_atomically(metrics, _as_csv([self._columns, *kept]).encode())
        self._file = metrics.open("a", newline="")
        self._board = SummaryWriter(str(board), purge_step=step + 1 if step else None)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add the row of a step; a column without a number stays blank."""
        row = [str(step), *(_text(numbers.get(name)) for name in self._columns[1:])]
        self._file.write(_as_csv([row]))
        self._file.flush()
        for name, number in numbers.items():
            self._board.add_scalar(name.replace("_", "/", 1), number, step)

    def sync(self) -> None:
        """Put all rows on disk, so that none is missing before a checkpoint."""
        os.fsync(self._file.fileno())
        self._board.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._board.close()


def _rows_up_to(path: Path, columns: list[str], step: int) -> list[list[str]]:
    """Read the rows to keep: whole ones, of steps not past `step`.

    Raises:
        ValueError: If the columns are others.
    """
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    header, rows = (rows[0], rows[1:]) if rows else ([], [])
    if header != columns:
        expected, got = ", ".join(columns), ", ".join(header)
        raise ValueError(f"expected the columns {expected} in {path}, got {got}")
    return [row for row in rows if len(row) == len(columns) and int(row[0]) <= step]


def _as_csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _text(number: float | None) -> str:
    # The shortest text that gives the very number back: resumed runs are compared bit for bit.
    return "" if number is None else repr(float(number))
