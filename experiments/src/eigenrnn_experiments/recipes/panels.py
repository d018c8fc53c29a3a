"""The pictures of a recipe: curves and maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from eigenrnn.analysis import Analysis, Table, plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE_NOTE", "Curves", "Map", "SideBySide"]

FIGURE_NOTE = (
    "the figure shows the trained network and prints no number; we list the loss of its run"
)
"""The note of a row whose panel shows its trained network."""


@dataclass(frozen=True)
class Curves(Analysis):
    """Several curves over the same points.

    Args:
        x: The points.
        series: The curves by name.
        x_name: The label of the horizontal axis, with its unit.
        y_name: The label of the vertical axis, with its unit.
        title: The title of the picture.
        bands: Half the width of the band around a curve, by the name of the curve.
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
        """Draw the curves into axes of a larger figure."""
        plot.lines(axes, self.x, self.series, bands=self.bands, log=self.log)
        plot.label(axes, self.x_name, self.y_name, self.title)

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        self.draw(axes)
        return figure

    def table(self) -> Table:
        count = len(self.series)
        points = np.asarray(self.x)
        curves = [np.asarray(curve) for curve in self.series.values()]
        table: Table = {
            "curve": np.repeat(list(self.series), len(points)),
            self.x_name: np.tile(points, count),
            self.y_name: np.concatenate(curves),
        }
        if self.bands:  # a curve may have none
            unknown = np.full(len(points), np.nan)
            bands = [np.asarray(self.bands.get(name, unknown)) for name in self.series]
            table["half_width"] = np.concatenate(bands)
        return table


@dataclass(frozen=True)
class SideBySide(Analysis):
    """Several sets of curves, side by side in one picture.

    Args:
        parts: The sets of curves, from left to right.
    """

    parts: Sequence[Curves]

    def plot(self) -> "Figure":
        figure, axes = plot.canvas(len(self.parts))
        for part_axes, part in zip(axes, self.parts, strict=True):
            part.draw(part_axes)
        return figure

    def table(self) -> Table:
        """Concatenate the tables of the parts; the axis labels are columns."""
        frames: list[pd.DataFrame] = []
        for number, part in enumerate(self.parts, start=1):
            frame = pd.DataFrame(dict(part.table()))
            frame.insert(0, "part", number)
            frames.append(frame)
        # the parts have axes of their own, and blanks in the columns of the others
        table = pd.concat(frames, ignore_index=True)
        return {str(name): table[name].to_numpy() for name in table.columns}


@dataclass(frozen=True)
class Map(Analysis):
    """A heat map with one number for each pair of indices.

    Args:
        values: The matrix of numbers; NaN stays blank.
        x_name: The label of the columns.
        y_name: The label of the rows, from top to bottom.
        name: The label of the colour scale.
        log: Whether the colour scale is logarithmic.
        first: The index of the first row and column.
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
