"""What every analysis gives: numbers, a picture of them and a table."""

import csv
import io
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from eigenrnn.atomic import write_atomically
from eigenrnn.errors import check_installed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Analysis", "Table"]

# Every module of the package imports this one first.
check_installed("analysis", "eigenrnn.analysis", "scipy", "matplotlib")

Table = dict[str, ArrayLike]
"""Columns of equal length, by name."""


class Analysis(ABC):
    """What was found; a subclass is a frozen dataclass of the numbers."""

    @abstractmethod
    def plot(self) -> "Figure":
        """Draw it; `figure.savefig` writes the picture, and a notebook shows it by itself."""

    @abstractmethod
    def table(self) -> Table:
        """Return what the picture shows, as columns."""

    def headline(self) -> dict[str, float]:
        """Return the few numbers that say most, by name."""
        return {}

    def save(self, stem: str | Path) -> list[Path]:
        """Write the picture and the table.

        Args:
            stem: Where to, without ending: ``.png`` and ``.csv`` are added. Files that are there
                are replaced.
        Returns:
            Both files.
        """
        picture, table = Path(f"{stem}.png"), Path(f"{stem}.csv")
        picture.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(table, _as_csv(self.table()).encode())  # first: it never fails to fit
        drawn = io.BytesIO()
        self.plot().savefig(drawn, format="png", dpi=150)
        write_atomically(picture, drawn.getvalue())
        return [picture, table]


def _as_csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    columns = [list(map(_written, column)) for column in table.values()]  # type: ignore[call-overload]
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def _written(value: object) -> str:
    # ten digits: enough for any picture, and the same on every machine but for the last ones
    return f"{value:.10g}" if isinstance(value, float) else str(value)
