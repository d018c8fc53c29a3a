"""The archived runs on state tracking: tables, accuracy by length, and the trained spectra."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Figure
from eigenrnn_experiments.recipes import Recipe, Row
from eigenrnn_experiments.tasks import StateTracking
from eigenrnn_experiments.training import Run
from reproduction.archive import Archive, current_runs, runs_by_row
from reproduction.reflections import Reflections

__all__ = [
    "REFLECTIONS",
    "SPECTRA",
    "AccuracyByLength",
    "Eigenvalues",
    "TrackedRow",
    "eigenvalue_figure",
    "length_figure",
    "reflection_figure",
    "table_of_networks",
    "table_of_radii",
    "tracked_rows",
]

REFLECTIONS = "state_tracking/s3-reflections"
"""The recipe whose networks show what they do with the letters of S3."""

RADIUS = "state_tracking/a5-radius"
"""The recipe whose runs measured the spectral radius and the spectral norm while they trained."""

SOLVED = 500
"""A network has solved a problem if its accuracy exceeds 0.9 up to this length."""

SPECTRA = Path(__file__).parent / "state_tracking.json"
"""What `benchmarks.trained_spectra` measured of the trained networks."""

_COMPARED = {
    "state_tracking/s3-sets": "constraints",
    "state_tracking/a5-sets": "constraints",
    RADIUS: "what bounds the radius",
    "state_tracking/s3-delta": "delta rule",
    "state_tracking/a5-delta": "delta rule",
    "state_tracking/s5-delta": "delta rule",
    "state_tracking/s3-reflections": "delta rule, started at reflections",
    "state_tracking/a5-reflections": "delta rule, started at reflections",
    "state_tracking/s5-reflections": "delta rule, started at reflections",
}
"""What a recipe compares; those that are left out compare layers."""

_LENGTHS = (40, 100, 500, 2_000)  # that the tables show, if all networks were tested there

Complexes = NDArray[np.complex128]


@dataclass(frozen=True)
class TrackedRow:
    """A network of a recipe on state tracking, with its archived runs.

    Args:
        recipe: The recipe.
        row: The network.
        point: The point of the grid with the highest mean validation accuracy; if several have it,
            the one with the lowest mean validation loss of these.
        runs_of_points: Its runs at each point, one for each seed.
        exponents: The largest Lyapunov exponent of each run, where it was measured.
        eigenvalues: Those of the recurrent matrix of the first run, if it has a single one.
        reflections: What the first run that solved its problem does with the letters of S3, if
            that was measured.
    """

    recipe: Recipe
    row: Row
    point: str
    runs_of_points: Mapping[str, Sequence[Run]]
    exponents: Sequence[float]
    eigenvalues: Complexes | None
    reflections: Reflections | None

    @property
    def title(self) -> str:
        """The group, and what the recipe compares on it."""
        compared = _COMPARED.get(self.recipe.name)
        if compared is None:
            return self._group
        return f"{self._group}: {compared}"

    @property
    def name(self) -> str:
        """The label of the network without the group."""
        return self.row.label.removesuffix(f" {self._group}")

    @property
    def _group(self) -> str:
        return cast("StateTracking", self.row.task).group

    @property
    def runs(self) -> Sequence[Run]:
        """The runs at the best point."""
        return self.runs_of_points[self.point]

    @property
    def longest(self) -> list[int]:
        """The longest length above 0.9 of each run at the best point, on the test set."""
        return [_longest(run) for run in self.runs]

    def accuracies(self) -> dict[int, float]:
        """Return the median test accuracy over the runs at each length."""
        medians: dict[int, float] = {}
        for n in cast("StateTracking", self.row.task).test_lengths:
            accuracies = [run.best["test"][f"accuracy_{n}"] for run in self.runs]
            medians[n] = statistics.median(accuracies)
        return medians


def tracked_rows(
    archive: Archive, recipes: Mapping[str, Recipe], spectra: Path = SPECTRA
) -> list[TrackedRow]:
    """Return the networks on state tracking that have runs in an archive, by recipe and row.

    Args:
        archive: The archive of runs.
        recipes: All recipes, by name.
        spectra: The file with the measurements of trained networks; it need not exist.
    """
    runs, _ = current_runs(recipes, archive.runs())
    of_rows = runs_by_row(recipes, (run for run in runs if run.state == "ended"))
    measured = _measurements(spectra)
    found: list[TrackedRow] = []
    for recipe in recipes.values():
        for row in recipe.rows:
            its = of_rows.get((recipe.name, row.label), [])
            if its and isinstance(row, Row) and isinstance(row.task, StateTracking):
                found.append(_tracked(recipe, row, its, measured))
    return found


def _rate(runs: Sequence[Run]) -> str:
    """Write the learning rate that the runs of a point share."""
    return f"{runs[0].settings['lr']:g}"


def _longest(run: Run) -> int:
    return int(run.best["test"]["longest"])


def _measurements(file: Path) -> dict[tuple[str, str, str, int], dict[str, Any]]:
    """Read the measurements of trained networks, by recipe, row, point and seed."""
    if not file.exists():
        return {}
    entries = json.loads(file.read_text())
    return {(e["recipe"], e["row"], e["point"], e["seed"]): e for e in entries}


def _quality(runs: Sequence[Run]) -> tuple[float, float]:
    """Return the mean validation accuracy of some runs, and minus their mean validation loss."""
    selected = [run.best["validation"] for run in runs]
    accuracy = statistics.fmean(each["accuracy"] for each in selected)
    loss = statistics.fmean(each["loss"] for each in selected)
    return accuracy, -loss


def _tracked(
    recipe: Recipe,
    row: Row,
    runs: Sequence[Run],
    measured: Mapping[tuple[str, str, str, int], Mapping[str, Any]],
) -> TrackedRow:
    runs_of: dict[str, list[Run]] = {}
    for point in row.points():
        its = [run for run in runs if run.key.point == point]
        if its:
            runs_of[point] = its
    point = max(runs_of, key=lambda name: _quality(runs_of[name]))
    best = runs_of[point]
    exponents: list[float] = []
    eigenvalues: Complexes | None = None  # of the first seed that has some
    for run in best:
        entry = measured.get((recipe.name, row.label, point, run.key.seed or 0))
        if entry is None:
            continue
        exponents.append(entry["lyapunov"])
        if eigenvalues is None and entry["eigenvalues"]:
            eigenvalues = np.array(entry["eigenvalues"]) @ np.array([1, 1j])
    return TrackedRow(
        recipe=recipe,
        row=row,
        point=point,
        runs_of_points=runs_of,
        exponents=exponents,
        eigenvalues=eigenvalues,
        reflections=_reflections(best, measured),
    )


def _reflections(
    runs: Sequence[Run], measured: Mapping[tuple[str, str, str, int], Mapping[str, Any]]
) -> Reflections | None:
    """Return what was measured of the first run that solved its problem."""
    for run in runs:
        entry = measured.get((run.key.recipe, run.key.row, run.key.point, run.key.seed or 0), {})
        if "reflections" in entry and run.best["test"]["longest"] >= SOLVED:
            return Reflections.of(entry["reflections"])
    return None


def table_of_networks(rows: Sequence[TrackedRow]) -> pd.DataFrame:
    """Return a table of networks: their runs, longest lengths, accuracies and exponents."""
    lengths = list(_LENGTHS)  # those at which every network was tested
    for row in rows:
        lengths = [n for n in lengths if n in row.accuracies()]
    lines: list[dict[str, str]] = []
    for row in rows:
        accuracies = row.accuracies()
        cells = {
            "network": row.row.label,
            "parameters": f"{row.row.parameters:,}",
            "rate": _rate(row.runs),
            "longest, by seed": ", ".join(map(str, row.longest)),
        }
        prefix = "accuracy "  # in the first of these headings only, as the table is wide
        for n in lengths:
            cells[f"{prefix}at {n:,}"] = f"{100 * accuracies[n]:.1f} %"
            prefix = ""
        cells["largest exponent"] = ""
        if row.exponents:
            cells["largest exponent"] = f"{statistics.median(row.exponents):.3f}"
        cells["runs"] = str(sum(map(len, row.runs_of_points.values())))
        lines.append(cells)
    return pd.DataFrame(lines)


_SIZES = {
    "radius of T": "radius_raw",
    "norm of T": "norm_raw",
    "radius of W": "radius",
    "norm of W": "norm",
}


def table_of_radii(rows: Sequence[TrackedRow]) -> pd.DataFrame:
    """Return a table of every rate of the networks of `RADIUS`: lengths, and the sizes of T and W.

    The sizes are medians over the seeds, after training.
    """
    lines: list[dict[str, str]] = []
    for row in rows:
        if row.recipe.name != RADIUS:
            continue
        for runs in row.runs_of_points.values():
            cells = {
                "network": row.name,
                "rate": _rate(runs),
                "longest, by seed": ", ".join(str(_longest(run)) for run in runs),
            }
            for heading, name in _SIZES.items():
                sizes = [run.curves["evaluated"][name][-1] for run in runs]
                cells[heading] = f"{statistics.median(cast('list[float]', sizes)):.2f}"
            lines.append(cells)
    return pd.DataFrame(lines)


@dataclass(frozen=True)
class AccuracyByLength:
    """The accuracy at each length of a word, one panel for each recipe.

    Args:
        panels: By the title of a panel, the accuracy at each length, by network.
    """

    panels: Mapping[str, Mapping[str, Mapping[int, float]]]

    def plot(self) -> Figure:
        """Draw a coloured table for each recipe."""
        columns = min(2, len(self.panels))
        sizes = [len(networks) for networks in self.panels.values()]
        heights = [1.0 + 0.2 * max(sizes[i : i + columns]) for i in range(0, len(sizes), columns)]
        figure, axes = plot.canvas(columns, len(heights), panel=(6.0, sum(heights) / len(heights)))
        grid: Any = axes[0].get_gridspec()
        grid.set_height_ratios(heights)  # all networks get cells of about one height
        for part, (title, networks) in zip(axes, self.panels.items(), strict=False):
            accuracies = [list(each.values()) for each in networks.values()]
            lengths = [str(length) for length in next(iter(networks.values()))]
            image = part.imshow(
                np.asarray(accuracies), vmin=0, vmax=1, cmap="viridis", aspect="auto"
            )
            part.set_xticks(np.arange(len(lengths)), lengths, fontsize="small")
            part.set_yticks(np.arange(len(networks)), list(networks), fontsize="small")
            figure.colorbar(image, ax=part).set_label("accuracy")
            plot.label(part, "letters read", "", title)
        for unused in axes[len(self.panels) :]:
            unused.set_visible(False)
        return figure


@dataclass(frozen=True)
class Eigenvalues:
    """The eigenvalues of trained recurrent matrices, one row of panels for each recipe.

    Args:
        panels: By the title of a row, the eigenvalues of each network.
    """

    panels: Mapping[str, Mapping[str, Complexes]]

    def plot(self) -> Figure:
        """Draw each spectrum in the unit circle."""
        columns = max(len(networks) for networks in self.panels.values())
        figure, axes = plot.canvas(columns, len(self.panels), panel=(2.4, 2.4))
        for number, (title, networks) in enumerate(self.panels.items()):
            row = axes[number * columns : (number + 1) * columns]
            for part, (name, eigenvalues) in zip(row, networks.items(), strict=False):
                plot.plane(part, {name: eigenvalues})
                label = ""
                if part is row[0]:  # the title of the row
                    label = title
                plot.label(part, "", label, name)
            for unused in row[len(networks) :]:
                unused.set_visible(False)
        return figure


def length_figure(rows: Sequence[TrackedRow]) -> AccuracyByLength:
    """Return the accuracy by length of all networks, one panel for each recipe."""
    panels: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        panels.setdefault(row.title, {})[row.name] = row.accuracies()
    return AccuracyByLength(panels)


def reflection_figure(rows: Sequence[TrackedRow]) -> Reflections:
    """Return what a network that solved S3 does with its letters.

    Raises:
        ValueError: If no network did, or none was measured.
    """
    found = [row.reflections for row in rows if row.reflections is not None]
    if not found:
        raise ValueError("expected a measured network that solved S3, got none")
    return found[-1]


def eigenvalue_figure(rows: Sequence[TrackedRow]) -> Eigenvalues:
    """Return the eigenvalues of the networks with a single recurrent matrix, by recipe."""
    panels: dict[str, dict[str, Complexes]] = {}
    for row in rows:
        if row.eigenvalues is not None:
            panels.setdefault(row.title, {})[row.name] = row.eigenvalues
    return Eigenvalues(panels)
