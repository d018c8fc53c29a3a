"""The result that every analysis returns: numbers, a figure and a table."""

import csv
import io
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from eigenrnn.errors import check_installed
from eigenrnn.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:  # matplotlib is imported where a figure is drawn
    Figure = "Figure"

__all__ = ["Analysis", "Figure", "Table"]

# Functions import scipy and matplotlib where they use them, because that takes half a second.
# This names what is missing beforehand.
check_installed("eigenrnn[analysis]", "eigenrnn.analysis", "scipy", "matplotlib")

Table = dict[str, ArrayLike]
"""Columns of equal length, by name."""


class Analysis(ABC):
    """The result of an analysis; a subclass is a frozen dataclass of its numbers."""

    @abstractmethod
    def plot(self) -> Figure:
        """Draw the result as a matplotlib figure; a notebook displays it directly."""

    @abstractmethod
    def table(self) -> Table:
        """Return the data of the figure, as columns."""

    def headline(self) -> dict[str, float]:
        """Return the few most important numbers, by name."""
        return {}

    def save(self, stem: str | Path) -> list[Path]:
        """Write the figure and the table.

        Args:
            stem: The path without suffix; ``.png`` and ``.csv`` are added. Existing files are
                replaced.
        Returns:
            Both files.
        """
        picture = Path(f"{stem}.png")
        table = Path(f"{stem}.csv")
        picture.parent.mkdir(parents=True, exist_ok=True)
        # the table first, because drawing can fail
        with replacing(table) as new:
            new.write_text(_as_csv(self.table()), encoding="utf-8", newline="")
        with replacing(picture) as new:
            self.plot().savefig(new, format="png", dpi=150)
        return [picture, table]


def _as_csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    columns = [list(map(_format_cell, column)) for column in table.values()]  # type: ignore[call-overload]
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def _format_cell(value: object) -> str:
    # ten digits suffice for any figure, and only the last ones differ between machines
    return f"{value:.10g}" if isinstance(value, float) else str(value)
