"""Figures of the archived runs: learning curves, and our numbers beside the paper's."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Figure
from eigenrnn_experiments.recipes import Recipe, Row
from eigenrnn_experiments.training import Run
from reproduction.archive import (
    Archive,
    CurveColumns,
    comparison_of,
    current_runs,
    runs_by_row,
)
from reproduction.claims.nnrnn import GAPS

__all__ = ["BarFigure", "CurveFigure", "curve_figures", "longest_runs", "paper_figures"]

CHANCE_LEVEL = "chance level"
STEPS_PER_EPOCH = 391  # of nnrnn/fig2 on permuted MNIST
LOG_SCALE_RATIO = 100  # of the highest to the lowest point, above which the axis is logarithmic

CURVES = {"scornn": "scornn/fig1", "enrnn": "enrnn/fig2", "nnrnn": "nnrnn/fig2"}
"""The recipe whose learning curves illustrate a paper."""
BARS = {
    "nc_gru": {
        "nc_gru/table1": "counting brackets",
        "nc_gru/table2": "denoising",
        "nc_gru/table3": "adding",
        "nc_gru/table4": "copying",
    },
    "nonnormal": {"nonnormal/fig1": "total Fisher memory"},
}
"""The recipes whose numbers illustrate a paper, with the title of their panel."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class BarFigure:
    """One number of ours per network, beside the paper's.

    Args:
        name: The name of the image file, without suffix.
        caption: The caption of the figure.
        panels: The numbers by panel and network: ours, and the paper's or NaN.
        quantity: The quantity on the vertical axis.
        log: Whether the axis is logarithmic.
    """

    name: str
    caption: str
    panels: Mapping[str, Mapping[str, tuple[float, float]]]
    quantity: str
    log: bool

    def plot(self) -> Figure:
        """Draw the bars."""
        rows = -(-len(self.panels) // 2)
        figure, all_axes = plot.canvas(min(2, len(self.panels)), rows)
        for unused in all_axes[len(self.panels) :]:
            unused.set_visible(False)
        for axes, (title, bars) in zip(all_axes, self.panels.items(), strict=False):
            numbers = np.array(list(bars.values()))
            series = {"ours": numbers[:, 0], "paper": numbers[:, 1]}  # a NaN draws no bar
            known = {name: y for name, y in series.items() if not np.isnan(y).all()}
            width = 0.8 / max(len(known), 1)  # a group is 0.8 wide, which leaves a gap
            places = np.arange(len(bars))
            for number, (name, y) in enumerate(known.items()):
                axes.bar(places + (number + 0.5) * width - 0.4, y, width, label=name)
            axes.set_xticks(places, list(bars), rotation=90, fontsize="small")
            if self.log:
                axes.set_yscale("log")
                axes.set_ylim(axes.dataLim.minposy / 2, axes.dataLim.ymax * 2)
            if len(known) > 1:
                axes.legend(fontsize="small", frameon=False)
            plot.label(axes, "", self.quantity, title)
        return figure


@dataclass(frozen=True)
class CurveFigure:
    """The learning curves of the rows of a recipe that share a task.

    Args:
        name: The name of the image file, without suffix.
        caption: The caption of the figure.
        steps: The training steps of the points.
        series: The median over the seeds, by row.
        bands: The lower and upper quartile, for rows with several seeds.
        quantity: The quantity on the vertical axis.
    """

    name: str
    caption: str
    steps: Numbers
    series: Mapping[str, Numbers]
    bands: Mapping[str, Numbers]
    quantity: str

    def plot(self) -> Figure:
        """Draw the curves."""
        figure, (axes,) = plot.canvas()
        plot.lines(axes, self.steps, self.series, bands=self.bands, log=self.has_log_scale())
        plot.label(axes, "update", self.quantity)
        return figure

    def has_log_scale(self) -> bool:
        """Whether the curves are losses over several orders of magnitude."""
        values = np.concatenate(list(self.series.values()))
        low = float(np.nanmin(values))
        high = float(np.nanmax(values))
        return self.quantity.endswith("loss") and 0 < low * LOG_SCALE_RATIO < high


def curve_figures(archive: Archive, recipes: Mapping[str, Recipe]) -> list[CurveFigure]:
    """Return the learning curves of all recipes with archived runs, one figure for each task.

    A curve is the median over the seeds that have reached a step; its band is the interquartile
    range. Of each seed the longest run counts. A search shows its best point. Diverged runs are
    not shown.

    Args:
        archive: The archive of runs.
        recipes: All recipes, by name.
    """
    runs, _ = current_runs(recipes, archive.runs())
    of_rows: dict[tuple[str, str], list[Run]] = {}
    for run in longest_runs(runs):
        of_rows.setdefault((run.key.recipe, run.key.row), []).append(run)
    found: list[CurveFigure] = []
    for recipe in recipes.values():
        groups: dict[tuple[str, str], dict[str, list[Run]]] = {}
        for row in recipe.rows:
            if not isinstance(row, Row):
                continue
            its = _shown(row, of_rows.get((recipe.name, row.label), []))
            if its:
                key = (json.dumps(row.describe()["task"]), _quantity(row, its))
                groups.setdefault(key, {})[row.label] = its
        for number, ((_, quantity), rows) in enumerate(groups.items(), start=1):
            steps, series, bands = _curves(quantity, rows)
            found.append(
                CurveFigure(
                    name=f"results-{recipe.name.replace('/', '-')}-{number}",
                    caption=_caption(recipe, quantity, rows),
                    steps=steps,
                    series=series,
                    bands=bands,
                    quantity=quantity.replace("_", " "),
                )
            )
    return found


def longest_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the longest run of each row, point and seed."""
    found: dict[tuple[str, str, str, int | None], Run] = {}
    for run in runs:
        key = (run.key.recipe, run.key.row, run.key.point, run.key.seed)
        if key not in found or run.steps > found[key].steps:
            found[key] = run
    return list(found.values())


def paper_figures(
    archive: Archive, recipes: Mapping[str, Recipe], paper: str
) -> list[CurveFigure | BarFigure]:
    """Return the figures that illustrate a paper on the page of results.

    Args:
        archive: The archive of runs.
        recipes: All recipes, by name.
        paper: The folder of the paper's recipes.
    """
    runs, _ = current_runs(recipes, archive.runs())
    if paper in CURVES:
        name = CURVES[paper]
        gap = [_gap_figure(runs)] if paper == "nnrnn" else []
        return [*curve_figures(archive, {name: recipes[name]}), *gap]
    panels: dict[str, dict[str, tuple[float, float]]] = {}
    for name, title in BARS[paper].items():
        bars = _bars(recipes[name], runs)
        if bars:
            panels[title] = bars
    if paper == "nc_gru":
        caption = "The losses of NC-GRU's tables 1 to 4: ours, and those that the paper prints."
        return [BarFigure(f"results-{paper}", caption, panels, "loss", log=True)]
    caption = (
        "The total Fisher memory of matrices that training may start from; 1 bounds every "
        "normal matrix."
    )
    return [BarFigure(f"results-{paper}", caption, panels, "memory", log=False)]


def _gap_figure(runs: Sequence[Run]) -> BarFigure:
    """Return how far expRNN is ahead of nnRNN on permuted MNIST, ours beside the authors'."""
    exp: dict[float, float] = {}
    nn: dict[float, float] = {}
    curves = {"expRNN 512 psMNIST": exp, "nnRNN 512 psMNIST": nn}
    for run in longest_runs(runs):
        if run.key.row in curves and run.key.seed == 0:
            steps, accuracies = _column(run, "validation_accuracy")
            curves[run.key.row].update(zip(steps, accuracies, strict=True))
    bars: dict[str, tuple[float, float]] = {}
    for epoch, theirs in GAPS.items():
        step = epoch * STEPS_PER_EPOCH
        bars[f"epoch {epoch}"] = (exp.get(step, math.nan) - nn.get(step, math.nan), theirs)
    caption = (
        "How far expRNN is ahead of nnRNN on permuted MNIST, validation accuracy: ours, and the "
        "authors' as read off the figure in their repository."
    )
    panels = {"expRNN ahead of nnRNN": bars}
    return BarFigure("results-nnrnn-gap", caption, panels, "difference of accuracies", log=False)


def _bars(recipe: Recipe, runs: Sequence[Run]) -> dict[str, tuple[float, float]]:
    """Return our mean and the paper's number of each row; NaN if none is printed."""
    found: dict[str, tuple[float, float]] = {}
    by_row = runs_by_row(
        {recipe.name: recipe}, [run for run in runs if run.key.recipe == recipe.name]
    )
    for row in recipe.rows:
        reported = row.reported[0]
        ours = comparison_of(row, reported, by_row.get((recipe.name, row.label), ())).ours
        printed = reported.value
        if not ours.count or (printed is None and isinstance(row, Row)):
            continue
        if printed is None:  # no bar for the paper
            printed = math.nan
        found[row.label] = (ours.value, printed)
    return found


def _shown(row: Row, runs: Sequence[Run]) -> list[Run]:
    """Choose the runs of a row to show."""
    best = comparison_of(row, row.reported[0], runs).best_point
    shown: list[Run] = []
    for run in runs:
        has_curve = run.state != "diverged" and run.curves.get("training")
        if has_curve and best in (None, run.key.point):
            shown.append(run)
    return shown


def _quantity(row: Row, runs: Sequence[Run]) -> str:
    """Choose the column of the quantity that the paper reports, or else of a loss."""
    reported = row.reported[0]
    if reported.split == "train":
        return "train_loss"
    wanted = (f"{reported.split}_{reported.quantity}", f"{reported.split}_loss", "test_loss")
    for name in wanted:
        if all(name in run.curves["evaluated"] for run in runs):
            return name
    return "train_loss"


def _curves(
    quantity: str, rows: Mapping[str, Sequence[Run]]
) -> tuple[Numbers, dict[str, Numbers], dict[str, Numbers]]:
    """Return steps, medians and quartiles of the runs of each row."""
    points: dict[str, list[tuple[Numbers, Numbers]]] = {}
    all_steps: list[Numbers] = []
    baselines: set[float] = set()
    for label, runs in rows.items():
        points[label] = []
        for run in runs:
            x, y = _column(run, quantity)
            points[label].append((x, y))
            all_steps.append(x)
            if run.baseline is not None:
                baselines.add(run.baseline)
    steps = np.unique(np.concatenate(all_steps))
    series: dict[str, Numbers] = {}
    bands: dict[str, Numbers] = {}
    for label, of_runs in points.items():
        # nothing beyond the end of a run
        values = np.array([np.interp(steps, x, y, right=np.nan) for x, y in of_runs])
        known = ~np.isnan(values).all(axis=0)
        quartiles = np.full((3, len(steps)), np.nan)
        quartiles[:, known] = np.nanquantile(values[:, known], (0.25, 0.5, 0.75), axis=0)
        low, middle, high = quartiles
        series[label] = middle
        if len(of_runs) > 1:
            bands[label] = np.array([low, high])
    if quantity.endswith("loss") and len(baselines) == 1:
        series[CHANCE_LEVEL] = np.full(len(steps), baselines.pop())
    return steps, series, bands


def _column(run: Run, quantity: str) -> tuple[Numbers, Numbers]:
    """Return the points of a curve that have a value."""
    curve: CurveColumns = run.curves["evaluated"]
    if quantity == "train_loss":
        curve = run.curves["training"]
    name = quantity
    if quantity not in curve:  # the mean of the training loss since the last row
        name = next(each for each in curve if each != "step")
    steps = np.array(curve["step"], np.float64)
    values = np.array(curve[name], np.float64)  # None becomes NaN
    known = ~np.isnan(values)
    return steps[known], values[known]


def _caption(recipe: Recipe, quantity: str, rows: Mapping[str, Sequence[Run]]) -> str:
    count = max(len(runs) for runs in rows.values())
    seeds = "one seed"
    if count > 1:
        seeds = f"median and interquartile range of up to {count} seeds"
    return f"{recipe.summary} {recipe.name}: {quantity.replace('_', ' ')}, {seeds}."
