"""What the archived runs of a row come to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from eigenrnn.experiments.recipes import Entry, Outcome, Recipe, Row
from eigenrnn.experiments.recipes.outcome import standard_error
from eigenrnn.experiments.results.archive import Archived
from eigenrnn.experiments.results.recorded import departs

__all__ = ["by_row", "is_judged", "margin", "misses", "outcome_of"]

_ZERO = 5e-4  # a curve that a figure shows at zero


def by_row(
    recipes: Mapping[str, Recipe], runs: Sequence[Archived]
) -> dict[tuple[str, str], list[Archived]]:
    """Sort runs by recipe and row, those of a row as its recipe lists points and seeds.

    Raises:
        ValueError: If a run is of no row of these recipes, as they are today.
    """
    rows = {(r.name, row.label): row for r in recipes.values() for row in r.rows}
    found: dict[tuple[str, str], list[Archived]] = {}
    for run in runs:
        row = rows.get((run.recipe, run.row))
        why = f"there is no {run.recipe}: {run.row}" if row is None else _why_not(row, run)
        if why:
            wrote = run.versions.get("eigenrnn", "of unknown version")
            raise ValueError(
                f"expected a run of a recipe of this version in {run.place}, got one that "
                f"differs (eigenrnn {wrote} wrote it): {why}; run it again, or move it out "
                "of the archive"
            )
        found.setdefault((run.recipe, run.row), []).append(run)
    for name, several in found.items():
        row = rows[name]
        order = {point: i for i, point in enumerate(row.points() if isinstance(row, Row) else ())}
        several.sort(key=lambda run: (order.get(run.point, 0), run.seed or 0))
    return found


def _why_not(row: Entry, run: Archived) -> str:
    """Say why a run is none of a row, if it is none."""
    if not isinstance(row, Row) or run.seed is None:
        return ""
    points = row.points()
    if run.point not in points:
        return f"there is no point {run.point!r}"
    return "; ".join(departs(points[run.point].with_seed(run.seed), run.task or "", run.settings))


def outcome_of(row: Entry, runs: Sequence[Archived]) -> Outcome:
    """Set the archived runs of a row beside the paper's number; unfinished ones do not count."""
    outcome = Outcome.not_run(row)
    for run in runs:
        if run.state == "computed":
            outcome = outcome.with_value(math.nan if run.value is None else run.value, run.seconds)
        elif run.state != "unfinished":
            outcome = _with_run(outcome, row, run)
    return outcome


def _with_run(outcome: Outcome, row: Entry, run: Archived) -> Outcome:
    outcome = replace(outcome, parameters=run.parameters)
    if run.state == "diverged":
        if isinstance(row, Row):
            return outcome.with_failure(row, run.seed or 0, run.parameters or 0, run.point)
        return outcome
    if run.scores:
        outcome = replace(outcome, scores=(*outcome.scores, dict(run.scores)))
    if run.value is None:
        return outcome
    return replace(
        outcome,
        seeds=(*outcome.seeds, run.seed or 0),
        values=(*outcome.values, run.value),
        selected=outcome.selected if run.selected is None else (*outcome.selected, run.selected),
        points=(*outcome.points, run.point),
        deciding=(*outcome.deciding, math.inf if run.deciding is None else run.deciding),
        seconds=(*outcome.seconds, run.seconds),
    )


def is_judged(outcome: Outcome) -> bool:
    """Whether there is a number of ours, and of the paper's a number or a bound."""
    theirs = outcome.reported if outcome.at_most is None else outcome.at_most
    return outcome.mean is not None and theirs is not None


def margin(outcome: Outcome) -> float:
    """Say how far our number may be from the paper's, or above its bound.

    The paper's error bar where it prints one that is not rounded to zero, else half a unit of the
    last digit that it prints or twice our standard error, whichever is more.
    """
    if outcome.error:
        return outcome.error
    theirs = outcome.reported if outcome.at_most is None else outcome.at_most
    ours = standard_error(outcome.counted_values)
    return max(_half_a_digit(theirs, outcome.decimals), 2 * (ours or 0.0))


def misses(outcome: Outcome) -> bool:
    """Whether our number is further from the paper's than the margin, or none where it has one.

    Of a bound, whether our mean is above it by more than the margin, or most of our runs are by
    more than half a unit of its last digit: runs that differ widely are no excuse.
    """
    if outcome.at_most is None:
        difference = outcome.difference
        return difference is not None and not _within(abs(difference), margin(outcome))
    if outcome.mean is None:
        return False
    digit = _half_a_digit(outcome.at_most)
    above = [not _within(value - outcome.at_most, digit) for value in outcome.counted_values]
    return 2 * sum(above) > len(above) or not _within(
        outcome.mean - outcome.at_most, margin(outcome)
    )


def _within(number: float, limit: float) -> bool:
    # a hair more than the limit is rounding; what is no number is not within
    return number <= limit * (1 + 1e-9)


def _half_a_digit(number: float | None, decimals: int | None = None) -> float:
    if not number:
        return 0.0 if number is None else _ZERO
    if decimals is not None:
        return 0.5 * 10.0**-decimals
    return 0.5 * 10.0 ** int(Decimal(repr(number)).as_tuple().exponent)
