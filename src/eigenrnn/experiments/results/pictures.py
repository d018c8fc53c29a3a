"""The curves of the archived runs, as pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import Analysis, plot
from eigenrnn.analysis.base import Table
from eigenrnn.experiments.recipes import Recipe, Row
from eigenrnn.experiments.results.archive import Archive, Archived, Curve
from eigenrnn.experiments.results.outcomes import by_row, outcome_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "pictures"]

_GUESS = "a guess without memory"
_WIDE = 100  # how many times the highest point the lowest is of a logarithmic axis

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Picture(Analysis):
    """The curves of some rows of a recipe that are trained on the same task.

    Args:
        name: That of a file.
        about: What is shown.
        steps: Where there are points.
        series: The median over the seeds, by row.
        bands: The lower and upper quartile, of rows with several seeds.
        quantity: What the curves are of.
    """

    name: str
    about: str
    steps: Numbers
    series: Mapping[str, Numbers]
    bands: Mapping[str, Numbers]
    quantity: str

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        plot.lines(axes, self.steps, self.series, bands=self.bands, log=self.is_wide())
        plot.label(axes, "update", self.quantity)
        return figure

    def table(self) -> Table:
        count, points = len(self.series), len(self.steps)
        unknown = np.full((2, points), np.nan)
        low, high = np.hstack([self.bands.get(name, unknown) for name in self.series])
        return {
            "curve": np.repeat(list(self.series), points),
            "update": np.tile(self.steps, count),
            self.quantity: np.concatenate(list(self.series.values())),
            "lower_quartile": low,
            "upper_quartile": high,
        }

    def is_wide(self) -> bool:
        """Whether the curves are losses that differ by powers of ten."""
        together = np.concatenate(list(self.series.values()))
        low, high = float(np.nanmin(together)), float(np.nanmax(together))
        return self.quantity.endswith("loss") and 0 < low * _WIDE < high


def pictures(folder: str | Path, recipes: Mapping[str, Recipe]) -> list[Picture]:
    """Lay out the curves of every recipe that has archived runs.

    A curve is the median over the seeds that are still running at a step, its band the middle
    half of them. Of a search the best point is shown. Runs that diverged are left out.

    Args:
        folder: That of the archive.
        recipes: All of them, by name.
    Raises:
        ValueError: If a file of the archive is damaged, of another version, or none of it.
    """
    of_rows = by_row(recipes, Archive(folder).runs())
    found: list[Picture] = []
    for recipe in recipes.values():
        groups: dict[tuple[str, str], dict[str, list[Archived]]] = {}
        for row in (row for row in recipe.rows if isinstance(row, Row)):
            runs = _shown(row, of_rows.get((recipe.name, row.label), []))
            if runs:
                shown = (str(row.task), _quantity(row, runs))
                groups.setdefault(shown, {})[row.label] = runs
        for number, ((_, quantity), rows) in enumerate(groups.items(), start=1):
            name = f"results-{recipe.name.replace('/', '-')}-{number}"
            about = _about(recipe, quantity, rows)
            found.append(
                Picture(name, about, *_curves(quantity, rows), quantity.replace("_", " "))
            )
    return found


def _shown(row: Row, runs: Sequence[Archived]) -> list[Archived]:
    """Choose the runs of a row that are drawn."""
    best = outcome_of(row, runs).best_point
    sound = [run for run in runs if run.state != "diverged" and run.training]
    return [run for run in sound if best is None or run.point == best]


def _quantity(row: Row, runs: Sequence[Archived]) -> str:
    """Choose the column that shows what the paper reports, or else a loss."""
    reported = row.reported
    if reported.split == "train":
        return "train_loss"
    wanted = (f"{reported.split}_{reported.quantity}", f"{reported.split}_loss", "test_loss")
    there = (name for name in wanted if all(name in run.evaluated for run in runs))
    return next(there, "train_loss")


def _curves(
    quantity: str, rows: Mapping[str, Sequence[Archived]]
) -> tuple[Numbers, dict[str, Numbers], dict[str, Numbers]]:
    """Return steps, medians and quartiles of the runs of each row."""
    read = {label: [_column(run, quantity) for run in runs] for label, runs in rows.items()}
    steps = np.unique(np.concatenate([x for runs in read.values() for x, _ in runs]))
    series, bands = dict[str, Numbers](), dict[str, Numbers]()
    for label, runs in read.items():
        there = np.array([np.interp(steps, x, y, right=np.nan) for x, y in runs])
        known = ~np.isnan(there).all(axis=0)
        low, middle, high = np.full((3, len(steps)), np.nan)
        quartiles = np.nanquantile(there[:, known], (0.25, 0.5, 0.75), axis=0)
        low[known], middle[known], high[known] = quartiles
        series[label] = middle
        if len(runs) > 1:
            bands[label] = np.array([low, high])
    baselines = {run.baseline for runs in rows.values() for run in runs} - {None}
    if quantity.endswith("loss") and len(baselines) == 1:
        series[_GUESS] = np.full(len(steps), baselines.pop())
    return steps, series, bands


def _column(run: Archived, quantity: str) -> tuple[Numbers, Numbers]:
    """Read the points of a curve that have a number."""
    curve: Curve = run.training if quantity == "train_loss" else run.evaluated
    name = quantity if quantity in curve else next(n for n in curve if n != "step")
    known = [(s, v) for s, v in zip(curve["step"], curve[name], strict=True) if v is not None]
    steps, values = zip(*known, strict=True) if known else ((), ())
    return np.array(steps, np.float64), np.array(values, np.float64)


def _about(recipe: Recipe, quantity: str, rows: Mapping[str, Sequence[Archived]]) -> str:
    most = max(len(runs) for runs in rows.values())
    seeds = "one seed" if most == 1 else f"the median and the middle half of up to {most} seeds"
    return f"{recipe.name}: {quantity.replace('_', ' ')}, {seeds}."
