"""The numbers of a paper beside the runs of its recipe, and the page that shows them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from eigenrnn_experiments import tables
from eigenrnn_experiments.recipes.recipe import Entry, Panel, Recipe, Reference
from eigenrnn_experiments.recipes.row import Quoted, Reported, Row
from eigenrnn_experiments.statistics import Mean, mean_of

__all__ = [
    "Comparison",
    "Note",
    "compare",
    "compared_numbers",
    "note_text",
    "notes",
    "notice_of",
    "runs_of",
    "table_of",
    "to_markdown",
]

_ENDED = ("ended", "diverged", "computed")
_LEFT_OUT = ("where", "runs", "diverged")  # columns of the report

Note = tuple[str, str]
"""The label of a row, or an empty string for all rows, and a text."""


@dataclass(frozen=True)
class Comparison:
    """One number of a paper beside the runs of its row.

    Args:
        row: The row.
        reported: The number.
        runs: The runs of the row that have ended or diverged, one a line, as `training.runs`
            returns them.
        unjudged: Why no number of ours can be compared with it; empty if ours can.
    """

    row: Entry
    reported: Reported
    runs: pd.DataFrame
    unjudged: str = ""

    @property
    def label(self) -> str:
        """The label of the row."""
        return self.row.label

    @property
    def quantity(self) -> str:
        """What is compared, with the rule that selects an evaluation."""
        if isinstance(self.row, Row | Reference):
            return self.reported.measure
        return self.reported.quantity

    @property
    def note(self) -> str:
        """How the paper's number was obtained, or why the row was not run."""
        reason = ""
        if isinstance(self.row, Quoted):
            reason = "not run: quoted from another paper"
        elif isinstance(self.row, Reference):
            reason = f"trained by `eigenrnn reproduce {self.row.recipe.name}`"
        return "; ".join(note for note in (self.reported.note, reason) if note)

    @cached_property
    def counted(self) -> pd.DataFrame:
        """The runs that count, with their `value` and `selected`, at all points of a search.

        A run that diverged counts as no success, and has no other number.
        """
        lines: list[dict[str, Any]] = []
        for run in self.runs.to_dict("records"):
            number = run["numbers"].get(self.reported.measure)
            if number is not None:
                lines.append({**run, "value": number.value, "selected": number.selected})
            elif run["state"] == "diverged" and self.reported.quantity == "success":
                lines.append({**run, "value": 0.0, "selected": None})
        columns = [*self.runs.columns, "value", "selected"]
        return pd.DataFrame(lines, columns=columns)

    @cached_property
    def best_point(self) -> str | None:
        """The point of a search with the lowest mean deciding loss; None if all points count.

        A point at which more of the runs have diverged is worse.
        """
        pooled = self.reported.pooled or self.reported.quantity == "success"
        if pooled or not any(self.counted["point"]):
            return None
        ranks: dict[str, tuple[float, float]] = {}
        for point, its in self.runs.groupby("point", sort=False):
            losses = its.loc[its["state"] != "diverged", "deciding"]
            if len(losses):
                ranks[str(point)] = 1 - len(losses) / len(its), mean_of(losses).value
        return min(ranks, key=ranks.__getitem__)

    @cached_property
    def best(self) -> pd.DataFrame:
        """The runs that count at the best point of a search; all of them without a search."""
        if self.best_point is None:
            return self.counted
        return self.counted.loc[self.counted["point"] == self.best_point]

    @property
    def values(self) -> list[float]:
        """Our numbers at the best point."""
        return list(self.best["value"])

    @property
    def ours(self) -> Mean:
        """Our mean over the runs at the best point."""
        return mean_of(self.values)

    @property
    def selected(self) -> list[float]:
        """The test numbers of the models selected on validation, if there are any."""
        return list(self.best["selected"].dropna())

    @property
    def diverged(self) -> list[str]:
        """The runs that diverged, by point and seed."""
        lost = self.runs[self.runs["state"] == "diverged"]
        return [
            f"{point} seed {int(seed)}".strip()
            for point, seed in zip(lost["point"], lost["seed"], strict=True)
        ]

    @property
    def parameters(self) -> int | None:
        """The number of parameters that our network trains; None if it was not run."""
        known = self.runs["parameters"].dropna()
        return int(known.iloc[-1]) if len(known) else None

    @property
    def baseline(self) -> float | None:
        """The chance-level loss, if the number is a loss and it is known."""
        known = self.runs["baseline"].dropna()
        if self.reported.quantity not in ("loss", "loss_mean") or known.empty:
            return None
        return float(known.iloc[-1])

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's number; None if either is missing or they do not compare."""
        if not self.ours.count or self.reported.value is None or self.reason:
            return None
        return self.ours.value - self.reported.value

    @property
    def reason(self) -> str:
        """Why no number of ours can be compared; empty if ours can."""
        return self.unjudged or self.reported.unjudged


def compare(
    recipe: Recipe,
    table: pd.DataFrame,
    *,
    quick: bool = False,
    listed: Collection[str] | None = None,
) -> list[Comparison]:
    """Return each number of a recipe beside the runs of its row, in order.

    Args:
        recipe: The recipe.
        table: The runs, as `training.runs` returns them; those of other recipes are left out.
        quick: Whether the quick runs are compared.
        listed: The labels of the rows that are listed without runs too; all by default.
    """
    found: list[Comparison] = []
    for row in recipe.rows:
        its = runs_of(table, recipe, row, quick=quick)
        if its.empty and listed is not None and row.label not in listed:
            continue
        unjudged = ""
        if isinstance(row, Row):
            unjudged = _changes(row, its)
        found += [Comparison(row, each, its, unjudged) for each in compared_numbers(row)]
    return found


def _changes(row: Row, runs: pd.DataFrame) -> str:
    """Say what a sweep has changed of a row; empty if it has changed nothing."""
    same = row.with_changes({})
    names: dict[str, None] = {}  # a set that keeps the order
    for varied in runs["varied"]:
        for name, value in varied.items():
            if row.with_changes({name: value}) != same:
                names[f"{name}={value}"] = None
    if not names:
        return ""
    return f"changed by the sweep: {', '.join(names)}"


def compared_numbers(row: Entry) -> list[Reported]:
    """Return the first number of a row, and those of the others that are printed."""
    first, *others = row.reported
    return [first, *(each for each in others if each.value is not None)]


def runs_of(
    table: pd.DataFrame, recipe: Recipe, row: Entry, *, quick: bool = False
) -> pd.DataFrame:
    """Return the runs of a row that have ended or diverged, in the order of its points and seeds.

    A seed counts once at a point, wherever copies of its run lie. Runs whose hyperparameters a
    sweep has changed are those of a row without runs of its own.

    Args:
        table: The runs of several rows.
        recipe: The recipe of the row. A row that another one trains has the runs of that.
        row: The row.
        quick: Whether the quick runs are meant.
    """
    trained = row
    if isinstance(row, Reference):
        recipe = row.recipe
        trained = row.row
    is_its = (table["recipe"] == recipe.name) & (table["row"] == row.label)
    is_its &= table["state"].isin(_ENDED) & (table["quick"] == quick)
    is_its &= np.array([each == recipe.reduced_to for each in table["reduced"]], bool)
    its = table.loc[is_its]
    if not isinstance(trained, Row):
        return its.drop_duplicates("point")
    if quick:
        trained = trained.quick()
    points = list(trained.points())
    is_own = its["point"].isin(points) & ~its["varied"].astype(bool)
    if its["varied"].any() and not is_own.any():  # by a sweep, which has other points
        its = its.loc[its["varied"].astype(bool)]
        return its.loc[~its.assign(values=its["varied"].map(str)).duplicated(["values", "seed"])]
    its = its.loc[is_own].drop_duplicates(["point", "seed"])
    order = [points.index(point) for point in its["point"]]
    return its.assign(order=order).sort_values(["order", "seed"])


# The table and the notes below it


def table_of(comparisons: Sequence[Comparison]) -> tables.Table:
    """Return a table of the published numbers and ours."""
    return tables.Table.of([_cells(each) for each in comparisons])


def _cells(compared: Comparison) -> dict[str, tables.Cell]:
    reported = compared.reported
    counted_runs = compared.counted
    # a row has its number of parameters once one of its networks was built
    parameters: tables.Cell = ""
    ours: tables.Cell = "no finished run"
    if compared.parameters is not None:
        parameters = tables.count_cell(compared.parameters)
        ours = "no run counts"
    counted: tables.Cell = ""
    if compared.values:
        ours = tables.mean_cell(compared.values)
        counted = tables.count_cell(len(compared.values))
    difference = tables.difference_cell(compared.values, reported.value)
    if compared.reason:
        difference = "not comparable"
    diverged: tables.Cell = ""
    if compared.diverged:
        diverged = tables.count_cell(len(compared.diverged))
    return {
        "network": compared.label,
        "parameters": parameters,
        "quantity": compared.quantity,
        "where": reported.place,
        "paper": _paper_cell(reported),
        "ours": ours,
        "difference": difference,
        "runs": counted,
        "ours, selected on validation": tables.mean_cell(compared.selected),
        "diverged": diverged,
        "seconds per run": tables.seconds_cell(
            counted_runs[counted_runs["state"] != "diverged"]["seconds"]
        ),
    }


def _paper_cell(reported: Reported) -> tables.Cell:
    """Return the number that a paper reports, with the digits that it prints."""
    if reported.at_most is not None:
        return f"at most {reported.at_most:g}"
    if reported.value is None:
        return "not printed"
    text = tables.printed_number(reported.value, reported.decimals)
    if reported.error is not None:
        text += f" ± {reported.error:g}"
    return tables.NumberCell(reported.value, text, reported.error)


def to_markdown(
    recipe: Recipe,
    comparisons: Sequence[Comparison],
    *,
    quick: bool = False,
    drawn: Sequence[Panel] | None = None,
) -> str:
    """Write a Markdown page: the table, the pictures if `drawn` is given, and the notes."""
    lines = [f"# {recipe.name}", "", recipe.summary, "", f"Source: {recipe.source}.", ""]
    if notice := notice_of(recipe, quick=quick):
        lines += [f"**{notice}**", ""]
    table = table_of(comparisons).without(_LEFT_OUT)
    lines += tables.to_markdown(table).splitlines()
    if drawn is not None:
        lines += _pictures(recipe, drawn)
    for title, items in notes(recipe, comparisons).items():
        lines += ["", f"## {title}", ""]
        lines += [f"- {note_text(item)}" for item in items]
    return "\n".join(lines) + "\n"


def notice_of(recipe: Recipe, *, quick: bool) -> str:
    """Return why the numbers are not comparable with the paper's; empty for full runs."""
    if quick:
        return (
            "A quick run: it shows that the recipe works; its numbers are not comparable with the "
            "paper's."
        )
    if recipe.reduced_to is None:
        return ""
    return f"Reduced runs of {recipe.reduced_to}: the paper trains for longer."


def _pictures(recipe: Recipe, drawn: Sequence[Panel]) -> list[str]:
    """Embed the pictures that were drawn, and name the others."""
    lines: list[str] = []
    for panel in recipe.panels:
        if panel in drawn:
            lines += ["", f"![{panel.caption}]({panel.name}.png)", "", f"{panel.caption}."]
        else:
            lines += ["", f"{panel.name}, not drawn because a run is missing: {panel.caption}."]
    return lines


def notes(recipe: Recipe, comparisons: Sequence[Comparison]) -> dict[str, list[Note]]:
    """Collect notes, scores, diverged runs, best points and departures, by heading."""
    sections: dict[str, list[Note]] = {
        "Not comparable": [],
        "Notes": [],
        "Scores of the best models": [],
        "Diverged": [],
        "Best points": [],
        "Departures": [("", text) for text in recipe.departures],
    }
    for each in comparisons:
        label = each.label
        if each.note:
            sections["Notes"].append((f"{label}, {each.reported.place}", each.note))
        if each.reason:
            sections["Not comparable"].append((label, each.reason))
        scores = _mean_scores(each.runs)
        if scores:
            sections["Scores of the best models"].append((label, scores))
        if each.diverged:
            failed = ", ".join(each.diverged)
            text = f"{len(each.diverged)} of {len(each.runs)} runs ({failed})"
            sections["Diverged"].append((label, text))
        if each.best_point is not None:
            points = each.counted["point"].nunique()
            sections["Best points"].append((label, f"{each.best_point}, of {points} points"))
        sections["Departures"] += [(label, text) for text in each.row.departures]
    # the numbers of one row share what is noted of the row
    return {title: list(dict.fromkeys(items)) for title, items in sections.items() if items}


def note_text(note: Note) -> str:
    """Write a note as a sentence."""
    label, text = note
    if not label:
        return f"{text}."
    return f"{label}: {text}."


def _mean_scores(runs: pd.DataFrame) -> str:
    """Format the mean of each score over the runs."""
    texts: list[str] = []
    for column in runs.columns:
        if column.startswith("scores_"):
            mean = mean_of(runs[column].dropna())
            if mean.count:
                texts.append(f"{column.removeprefix('scores_')} {mean.value:.4g}")
    return ", ".join(texts)
