"""Tables of numbers with their errors: as text, CSV and Markdown."""

import math
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import pandas as pd

from eigenrnn_experiments.statistics import mean_of

__all__ = [
    "FORMATS",
    "NumberCell",
    "Table",
    "count_cell",
    "difference_cell",
    "mean_cell",
    "printed_number",
    "seconds_cell",
    "to_csv",
    "to_markdown",
]

_TEXT_COLUMNS = {"network", "quantity", "where", "option", "seeds", "state", "task"}
_SCIENTIFIC_BELOW = 1e-4  # smaller numbers are written with a power of ten
_LAST_COLUMNS = ("diverged", "seconds per run", "state")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


@dataclass(frozen=True)
class NumberCell:
    """A number in a table.

    Args:
        value: The number.
        text: How a table for readers shows it, with its error.
        error: Its standard error, if it is a mean.
    """

    value: float
    text: str
    error: float | None = None


Cell = str | NumberCell


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        headings: One heading per column.
        cells: The cells of each row by heading; a missing one is empty.
        text: The headings of columns with text rather than numbers.
    """

    headings: list[str]
    cells: Sequence[Mapping[str, Cell]]
    text: set[str] = field(default_factory=lambda: set(_TEXT_COLUMNS))

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Cell]]) -> "Table":
        """Build a table from records; empty columns are dropped."""
        names = dict.fromkeys(chain.from_iterable(records))  # a set that keeps the order
        filled = [name for name in names if any(record.get(name) for record in records)]
        # False sorts before True, and equal keys keep their order
        return cls(sorted(filled, key=_LAST_COLUMNS.__contains__), records)

    def without(self, headings: Container[str]) -> "Table":
        """Return the table without some columns."""
        return replace(self, headings=[each for each in self.headings if each not in headings])

    @property
    def rows(self) -> list[list[str]]:
        """The texts of the cells, one per heading."""
        rows: list[list[str]] = []
        for record in self.cells:
            row: list[str] = []
            for heading in self.headings:
                cell = record.get(heading, "")
                if isinstance(cell, NumberCell):
                    cell = cell.text
                row.append(cell)
            rows.append(row)
        return rows


# Numbers as text


def mean_cell(values: Iterable[float]) -> Cell:
    """Return the mean and its standard error; an empty text without values."""
    mean = mean_of(values)
    if not mean.count:
        return ""
    # `#` keeps zeros at the end, so that all means show as many digits
    if mean.error is None:
        return NumberCell(mean.value, f"{mean.value:#.4g}")
    return NumberCell(mean.value, f"{mean.value:#.4g} ± {mean.error:#.3g}", mean.error)


def seconds_cell(values: Iterable[float]) -> Cell:
    """Return the mean of some durations; an empty text without any."""
    mean = mean_of(values)
    if not mean.count:
        return ""
    return NumberCell(mean.value, f"{mean.value:.1f}")


def count_cell(count: int) -> NumberCell:
    """Return a whole number."""
    return NumberCell(count, f"{count:,}")


def difference_cell(values: Sequence[float], reported: float | None) -> Cell:
    """Return our mean minus the paper's number, with the last digit of our error or mean."""
    ours = mean_of(values)
    if not ours.count or reported is None:
        return ""
    mean = ours.value
    error = ours.error
    difference = mean - reported
    # the number whose last digit the difference has: an error is shown with 3, a mean with 4
    if error:
        number = error
        digits = 3
    else:
        number = mean or reported or 1.0
        digits = 4
    if not math.isfinite(difference) or not math.isfinite(number):
        return NumberCell(difference, f"{difference:+g}")
    # Down to the last digit of that number. A mean shows 4 digits, and a difference no more.
    significant = min(4, _power(difference) - _power(number) + digits)
    if not difference or significant < 1:  # all its digits are beyond that one
        return NumberCell(difference, "0")
    if abs(difference) < _SCIENTIFIC_BELOW:
        return NumberCell(difference, f"{difference:+.{significant - 1}e}")
    decimals = max(0, significant - 1 - _power(difference))
    return NumberCell(difference, f"{difference:+.{decimals}f}")


def _power(number: float) -> int:
    """Return the power of ten of the first significant digit."""
    if not number:  # which has no logarithm
        return 0
    return math.floor(math.log10(abs(number)))


def printed_number(value: float, decimals: int | None) -> str:
    """Write a number with as many digits as a paper prints."""
    if decimals is None:
        return f"{value:g}"
    text = f"{value:.{decimals}f}"
    if abs(value) < _SCIENTIFIC_BELOW:
        figures = len(text.replace(".", "").lstrip("0"))
        text = f"{value:.{figures - 1}e}"
    return text


# Formats


def to_csv(table: Table) -> str:
    """Return a table in CSV, with unrounded numbers.

    A column of means has a second one with the standard errors.
    """
    columns: dict[str, list[object]] = {}
    for heading in table.headings:
        cells = [each.get(heading, "") for each in table.cells]
        # numbers with all digits, unlike on the page
        columns[heading] = [cell.value if isinstance(cell, NumberCell) else cell for cell in cells]
        errors: list[object] = [
            cell.error if isinstance(cell, NumberCell) else None for cell in cells
        ]
        if any(error is not None for error in errors):
            columns[f"{heading} standard error"] = errors
    # as objects: whole numbers beside empty cells would become floats
    return pd.DataFrame(columns, dtype=object).to_csv(index=False)


def to_markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown."""
    marks: list[str] = []
    for heading in table.headings:
        if heading in table.text:
            marks.append("---")
        else:  # numbers stand at the right
            marks.append("---:")
    lines = [list(map(_markdown_text, table.headings)), marks]
    lines += [list(map(_markdown_text, row)) for row in table.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "csv": to_csv,
    "markdown": to_markdown,
}
"""The formats by the names that commands accept."""


def _markdown_text(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
