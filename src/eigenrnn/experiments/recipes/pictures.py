"""Pictures of several analyses at once: curves side by side, and maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from eigenrnn.analysis import Analysis, plot
from eigenrnn.analysis.base import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curves", "Map", "SideBySide"]


@dataclass(frozen=True)
class Curves(Analysis):
    """Some curves over the same points.

    Args:
        x: The points.
        series: The curves by name.
        x_name: What the points are, with their unit.
        y_name: What the curves are, with their unit.
        title: What is shown.
        bands: Half the width of a curve's band, for those that have one.
        log: Whether the vertical axis is logarithmic.
    """

    x: ArrayLike
    series: Mapping[str, ArrayLike]
    x_name: str
    y_name: str
    title: str = ""
    bands: Mapping[str, ArrayLike] = field(default_factory=dict[str, ArrayLike])
    log: bool = False

    def draw(self, axes: "Axes") -> None:
        """Draw the curves where there may be others beside them."""
        plot.lines(axes, self.x, self.series, bands=self.bands, log=self.log)
        plot.label(axes, self.x_name, self.y_name, self.title)

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        self.draw(axes)
        return figure

    def table(self) -> Table:
        count, points = len(self.series), np.asarray(self.x)
        curves = [np.asarray(curve) for curve in self.series.values()]
        unknown = np.full(len(points), np.nan)
        bands = [np.asarray(self.bands.get(name, unknown)) for name in self.series]
        known = {"half_width": np.concatenate(bands)} if self.bands else {}
        return {
            "curve": np.repeat(list(self.series), len(points)),
            self.x_name: np.tile(points, count),
            self.y_name: np.concatenate(curves),
            **known,
        }


@dataclass(frozen=True)
class SideBySide(Analysis):
    """Several sets of curves in one picture.

    Args:
        parts: From left to right.
    """

    parts: Sequence[Curves]

    def plot(self) -> "Figure":
        figure, axes = plot.canvas(len(self.parts))
        for each, part in zip(axes, self.parts, strict=True):
            part.draw(each)
        return figure

    def table(self) -> Table:
        """Put the tables one below the other, the names of their axes as columns."""
        tables = [part.table() for part in self.parts]
        sizes = [len(np.asarray(table["curve"])) for table in tables]
        columns: Table = {
            "part": np.repeat(np.arange(1, len(tables) + 1), sizes),
            "curve": np.concatenate([np.asarray(table["curve"]) for table in tables]),
        }
        names = dict.fromkeys(name for table in tables for name in table if name != "curve")
        for name in names:
            pairs = zip(tables, sizes, strict=True)
            blank = [np.asarray(t.get(name, np.full(size, np.nan)), float) for t, size in pairs]
            columns[name] = np.concatenate(blank)
        return columns


@dataclass(frozen=True)
class Map(Analysis):
    """A number for each pair of steps.

    Args:
        values: The numbers; NaN stays blank.
        x_name: What the columns are.
        y_name: What the rows are, from top to bottom.
        name: What the numbers are.
        log: Whether colours stand for powers of ten.
        first: The number of the first row and column.
    """

    values: ArrayLike
    x_name: str
    y_name: str
    name: str
    log: bool = False
    first: int = 0

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        plot.heat_map(axes, self.values, self.name, log=self.log, first=self.first)
        plot.label(axes, self.x_name, self.y_name)
        return figure

    def table(self) -> Table:
        values = np.asarray(self.values)
        rows, columns = np.nonzero(np.isfinite(values))
        numbers = values[rows, columns]
        return {
            self.y_name: rows + self.first,
            self.x_name: columns + self.first,
            self.name: numbers,
        }
