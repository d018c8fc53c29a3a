"""The table paper | ours | difference of a recipe."""

import math
import statistics
from collections.abc import Sequence

from eigenrnn.experiments.recipes.base import Recipe
from eigenrnn.experiments.recipes.outcome import Outcome, standard_error
from eigenrnn.experiments.recipes.panel import Panel
from eigenrnn.experiments.report.tables import printed

__all__ = ["columns", "remarks", "to_markdown"]

_SMALL = 1e-4  # below it a number is written with a power of ten
QUICK = "A quick run: it shows that the recipe works, and reaches nothing."


def to_markdown(
    recipe: Recipe,
    outcomes: Sequence[Outcome],
    *,
    quick: bool = False,
    drawn: Sequence[Panel] | None = None,
) -> str:
    """Lay the outcomes out as a page of Markdown, with the pictures where it is known which."""
    lines = [f"# {recipe.name}", "", recipe.summary, "", f"Source: {recipe.source}.", ""]
    if quick:
        lines += [f"**{QUICK}**", ""]
    table = columns(outcomes)
    text = {"network", "quantity"}
    lines += [_row(list(table)), _row(["---" if name in text else "---:" for name in table], "")]
    lines += [_row(list(cells)) for cells in zip(*table.values(), strict=True)]
    if drawn is not None:
        lines += _pictures(recipe, drawn)
    for title, items in remarks(recipe, outcomes).items():
        lines += ["", f"## {title}", "", *(f"- {item}" for item in items)]
    return "\n".join(lines) + "\n"


def _pictures(recipe: Recipe, drawn: Sequence[Panel]) -> list[str]:
    """Show the pictures that were drawn, and name the others."""
    lines: list[str] = []
    for panel in recipe.panels:
        if panel in drawn:
            lines += ["", f"![{panel.about}]({panel.name}.png)", "", f"{panel.about}."]
        else:
            lines += ["", f"{panel.name}, not drawn as a run is missing: {panel.about}."]
    return lines


def columns(outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Write the cells of each column, by its heading; one that says nothing is left out."""
    table = {
        "network": [o.label for o in outcomes],
        "parameters": ["" if o.parameters is None else f"{o.parameters:,}" for o in outcomes],
        "quantity": [o.quantity for o in outcomes],
        "paper": [printed(vars(o)) for o in outcomes],
        "ours": [_with_error(o.counted) or _why_none(o) for o in outcomes],
        "difference": [_difference(o) for o in outcomes],
        "ours, selected on validation": [_with_error(o.counted_selected) for o in outcomes],
        "seconds a run": [
            f"{statistics.fmean(o.seconds):.1f}" if o.seconds else "" for o in outcomes
        ],
    }
    return {name: cells for name, cells in table.items() if any(cells)}


def remarks(recipe: Recipe, outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Collect the notes on the paper's numbers, and where we do otherwise than the paper."""
    rows = {row.label: row for row in recipe.rows}
    ours = [(o.label, text) for o in outcomes for text in rows[o.label].departures]
    found = {
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
            *(f"{label}: {text}." for label, text in ours),
        ],
    }
    return {title: items for title, items in found.items() if items}


def _difference(outcome: Outcome) -> str:
    """Write it down to the last digit that is written of our error or, if none is, of our mean."""
    difference = outcome.difference
    if difference is None:
        return ""
    error = outcome.standard_error
    number, figures = (error, 3) if error else (outcome.mean or outcome.reported or 1.0, 4)
    if not math.isfinite(difference) or not math.isfinite(number):
        return f"{difference:+g}"
    known = min(4, _power(difference) - _power(number) + figures)
    if not difference or known < 1:
        return "0"
    if abs(difference) < _SMALL:
        return f"{difference:+.{known - 1}e}"
    return f"{difference:+.{max(0, known - 1 - _power(difference))}f}"


def _power(number: float) -> int:
    """Return the power of ten of the first digit."""
    return math.floor(math.log10(abs(number))) if number else 0


def _mean_scores(outcome: Outcome) -> str:
    """Write the mean of each score over the runs."""
    means = {n: statistics.fmean(s[n] for s in outcome.scores) for n in outcome.scores[0]}
    return ", ".join(f"{name} {mean:.4g}" for name, mean in means.items())


def _finished(outcome: Outcome) -> int:
    """Count the runs that have a number and did not diverge."""
    return sum(seconds > 0 for seconds in outcome.seconds)


def _why_none(outcome: Outcome) -> str:
    return "not run" if outcome.parameters is None else "no run counts"


def _row(cells: Sequence[str], space: str = " ") -> str:
    return f"|{space}{f'{space}|{space}'.join(cells)}{space}|"


def _with_error(values: tuple[float, ...]) -> str:
    """Write mean and standard error."""
    if not values:
        return ""
    mean, error = statistics.fmean(values), standard_error(values)
    return f"{mean:#.4g}" if error is None else f"{mean:#.4g} ± {error:#.3g}"
