"""Writes and reads the results of a recipe: `results.json`, and `results.md` with its table."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.recipes.outcome import Outcome, standard_error
from eigenrnn.experiments.recipes.panels import Panel
from eigenrnn.experiments.recipes.recipe import Recipe
from eigenrnn.experiments.report.tables import format_reported
from eigenrnn.experiments.training.files import read_json, write_json
from eigenrnn.experiments.training.fingerprint import versions

__all__ = ["QUICK_NOTICE", "columns", "read_outcomes", "remarks", "to_markdown", "write_results"]

QUICK_NOTICE = (
    "A quick run: it shows that the recipe works; its numbers are not comparable with the paper's."
)
_SCIENTIFIC_BELOW = 1e-4  # smaller numbers are written with a power of ten


def write_results(
    folder: Path,
    recipe: Recipe,
    outcomes: Mapping[str, Outcome],
    *,
    quick: bool,
    drawn: Sequence[Panel] | None = None,
) -> list[Outcome]:
    """Write `results.json` and `results.md`; return the outcomes in the recipe's order."""
    in_order = [outcomes[row.label] for row in recipe.rows if row.label in outcomes]
    content: dict[str, Any] = {
        "recipe": recipe.name,
        "source": recipe.source,
        "quick": quick,
        "versions": versions(),
        "rows": [outcome.to_json() for outcome in in_order],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "results.json", content)
    page = to_markdown(recipe, in_order, quick=quick, drawn=drawn)
    write_atomically(folder / "results.md", page.encode())
    return in_order


def read_outcomes(folder: Path, recipe: Recipe, *, quick: bool) -> dict[str, Outcome]:
    """Read the outcomes that an earlier call wrote into a folder, by label.

    Raises:
        ValueError: If `results.json` is damaged.
    """
    path = folder / "results.json"
    if not path.exists():
        return {}
    content = read_json(path, ("recipe", "quick", "rows"))
    if (content["recipe"], content["quick"]) != (recipe.name, quick):
        return {}
    labels = {row.label for row in recipe.rows}
    try:
        outcomes = [Outcome.from_json(row) for row in content["rows"]]
    except (TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged: {error}; delete it: resume=True (--resume) writes it again from "
            "the runs"
        ) from None
    return {o.label: replace(o, signal=None) for o in outcomes if o.label in labels}


def to_markdown(
    recipe: Recipe,
    outcomes: Sequence[Outcome],
    *,
    quick: bool = False,
    drawn: Sequence[Panel] | None = None,
) -> str:
    """Write a Markdown page: the table, the pictures if `drawn` is given, and the remarks."""
    lines = [f"# {recipe.name}", "", recipe.summary, "", f"Source: {recipe.source}.", ""]
    if quick:
        lines += [f"**{QUICK_NOTICE}**", ""]
    table = columns(outcomes)
    left_aligned = {"network", "quantity"}
    rules = ["---" if name in left_aligned else "---:" for name in table]
    lines += [_markdown_row(list(table)), _markdown_row(rules, "")]
    lines += [_markdown_row(list(cells)) for cells in zip(*table.values(), strict=True)]
    if drawn is not None:
        lines += _pictures(recipe, drawn)
    for title, items in remarks(recipe, outcomes).items():
        lines += ["", f"## {title}", "", *(f"- {item}" for item in items)]
    return "\n".join(lines) + "\n"


def _pictures(recipe: Recipe, drawn: Sequence[Panel]) -> list[str]:
    """Embed the pictures that were drawn, and name the others."""
    lines: list[str] = []
    for panel in recipe.panels:
        if panel in drawn:
            lines += ["", f"![{panel.caption}]({panel.name}.png)", "", f"{panel.caption}."]
        else:
            lines += ["", f"{panel.name}, not drawn because a run is missing: {panel.caption}."]
    return lines


def columns(outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return the cells of each column by its heading, without empty columns."""
    table = {
        "network": [o.label for o in outcomes],
        "parameters": ["" if o.parameters is None else f"{o.parameters:,}" for o in outcomes],
        "quantity": [o.quantity for o in outcomes],
        "paper": [format_reported(vars(o)) for o in outcomes],
        "ours": [_with_error(o.counted_values) or _reason_for_no_value(o) for o in outcomes],
        "difference": [_difference(o) for o in outcomes],
        "ours, selected on validation": [_with_error(o.counted_selected) for o in outcomes],
        "seconds per run": [
            f"{statistics.fmean(o.seconds):.1f}" if o.seconds else "" for o in outcomes
        ],
    }
    return {name: cells for name, cells in table.items() if any(cells)}


def remarks(recipe: Recipe, outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Collect notes, scores, diverged runs, best points and departures, by heading."""
    rows = {row.label: row for row in recipe.rows}
    of_rows = [(o.label, text) for o in outcomes for text in rows[o.label].departures]
    sections = {
        "Notes": [f"{o.label}, {o.place}: {o.note}." for o in outcomes if o.note],
        "Scores of the best models": [
            f"{o.label}: {_mean_scores(o)}." for o in outcomes if o.scores
        ],
        "Diverged": [
            f"{o.label}: {len(o.failed)} of {len(o.failed) + _finished(o)} runs "
            f"({', '.join(o.failed)})."
            for o in outcomes
            if o.failed
        ],
        "Best points": [
            f"{o.label}: {o.best_point}, of {len(set(o.points))} points."
            for o in outcomes
            if o.best_point is not None
        ],
        "Departures": [
            *(f"{text}." for text in recipe.departures),
            *(f"{label}: {text}." for label, text in of_rows),
        ],
    }
    return {title: items for title, items in sections.items() if items}


def _difference(outcome: Outcome) -> str:
    """Format our mean minus the paper's number, with the last digit of our error or mean."""
    difference = outcome.difference
    if difference is None:
        return ""
    error = outcome.standard_error
    number, digits = (error, 3) if error else (outcome.mean or outcome.reported or 1.0, 4)
    if not math.isfinite(difference) or not math.isfinite(number):
        return f"{difference:+g}"
    significant = min(4, _power(difference) - _power(number) + digits)
    if not difference or significant < 1:
        return "0"
    if abs(difference) < _SCIENTIFIC_BELOW:
        return f"{difference:+.{significant - 1}e}"
    return f"{difference:+.{max(0, significant - 1 - _power(difference))}f}"


def _power(number: float) -> int:
    """Return the power of ten of the first significant digit."""
    return math.floor(math.log10(abs(number))) if number else 0


def _mean_scores(outcome: Outcome) -> str:
    """Format the mean of each score over the runs."""
    means = {n: statistics.fmean(s[n] for s in outcome.scores) for n in outcome.scores[0]}
    return ", ".join(f"{name} {mean:.4g}" for name, mean in means.items())


def _finished(outcome: Outcome) -> int:
    """Count the runs with a number that did not diverge."""
    return sum(seconds > 0 for seconds in outcome.seconds)


def _reason_for_no_value(outcome: Outcome) -> str:
    return "not run" if outcome.parameters is None else "no run counts"


def _markdown_row(cells: Sequence[str], space: str = " ") -> str:
    return f"|{space}{f'{space}|{space}'.join(cells)}{space}|"


def _with_error(values: tuple[float, ...]) -> str:
    """Format the mean and the standard error."""
    if not values:
        return ""
    mean, error = statistics.fmean(values), standard_error(values)
    return f"{mean:#.4g}" if error is None else f"{mean:#.4g} ± {error:#.3g}"
