"""The outcome of the archived runs of a row, and whether it agrees with the paper."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields, replace
from decimal import Decimal
from typing import Any

from eigenrnn.experiments.recipes import Entry, Outcome, Recipe, Row
from eigenrnn.experiments.recipes.outcome import standard_error
from eigenrnn.experiments.results.archive import ArchivedRun
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Settings

__all__ = [
    "changes_since_run",
    "describe_task",
    "disagrees",
    "is_comparable",
    "margin",
    "outcome_of",
    "runs_by_row",
]

_ZERO = 5e-4  # for a curve that reaches zero in the figure


def runs_by_row(
    recipes: Mapping[str, Recipe], runs: Sequence[ArchivedRun]
) -> dict[tuple[str, str], list[ArchivedRun]]:
    """Group runs by recipe and row, sorted by the point and seed of the recipe.

    Raises:
        ValueError: If a run does not match a row of the current recipes.
    """
    rows = {(r.name, row.label): row for r in recipes.values() for row in r.rows}
    found: dict[tuple[str, str], list[ArchivedRun]] = {}
    for run in runs:
        row = rows.get((run.recipe, run.row))
        reason = f"there is no {run.recipe}: {run.row}" if row is None else _mismatch(row, run)
        if reason:
            version = run.versions.get("eigenrnn", "of unknown version")
            raise ValueError(
                f"expected {run.relative_path} to match its current recipe, got a run that "
                f"differs (written by eigenrnn {version}): {reason}; run it again, or "
                "move it out of the archive"
            )
        found.setdefault((run.recipe, run.row), []).append(run)
    for name, row_runs in found.items():
        row = rows[name]
        order = {point: i for i, point in enumerate(row.points() if isinstance(row, Row) else ())}
        row_runs.sort(key=lambda run: (order.get(run.point, 0), run.seed or 0))
    return found


def _mismatch(row: Entry, run: ArchivedRun) -> str:
    """Say how a run differs from its row; empty if it matches."""
    if not isinstance(row, Row) or run.seed is None:
        return ""
    points = row.points()
    if run.point not in points:
        return f"there is no point {run.point!r}"
    return "; ".join(
        changes_since_run(points[run.point].with_seed(run.seed), run.task or "", run.settings)
    )


def outcome_of(row: Entry, runs: Sequence[ArchivedRun]) -> Outcome:
    """Return the outcome of the archived runs of a row; unfinished runs do not count."""
    outcome = Outcome.not_run(row)
    for run in runs:
        if run.state == "computed":
            outcome = outcome.with_value(math.nan if run.value is None else run.value, run.seconds)
        elif run.state != "unfinished":
            outcome = _with_run(outcome, row, run)
    return outcome


def _with_run(outcome: Outcome, row: Entry, run: ArchivedRun) -> Outcome:
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


def is_comparable(outcome: Outcome) -> bool:
    """Whether we have a number, and the paper a number or a bound."""
    theirs = outcome.reported if outcome.at_most is None else outcome.at_most
    return outcome.mean is not None and theirs is not None


def margin(outcome: Outcome) -> float:
    """Return how far our number may be from the paper's, or above its bound.

    This is the paper's error if it prints one that is not zero. Otherwise it is half a unit of the
    last printed digit or twice our standard error, whichever is larger.
    """
    if outcome.error:
        return outcome.error
    theirs = outcome.reported if outcome.at_most is None else outcome.at_most
    ours = standard_error(outcome.counted_values)
    return max(_half_a_digit(theirs, outcome.decimals), 2 * (ours or 0.0))


def disagrees(outcome: Outcome) -> bool:
    """Whether our number differs from the paper's by more than the margin, or is not finite.

    A bound is exceeded if our mean is above it by more than the margin, or if most of our runs are
    above it by more than half a unit of its last digit. The second rule does not loosen when the
    runs vary widely.
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
    # the factor allows for rounding; a NaN is not within any limit
    return number <= limit * (1 + 1e-9)


def _half_a_digit(number: float | None, decimals: int | None = None) -> float:
    if not number:
        return 0.0 if number is None else _ZERO
    if decimals is not None:
        return 0.5 * 10.0**-decimals
    return 0.5 * 10.0 ** int(Decimal(repr(number)).as_tuple().exponent)


# these change where a run is trained and how often it is saved, but its numbers only by rounding
_IGNORED_SETTINGS = ("accelerator", "devices", "num_nodes", "strategy", "checkpoint_every")


def describe_task(task: Task) -> str:
    """Write a task with its options, without its data folder."""
    return f"{type(task).__name__}({', '.join(f'{k}={v}' for k, v in _options(task).items())})"


def changes_since_run(row: Row, task: str, settings: Mapping[str, Any]) -> list[str]:
    """List the options in which a run differs from its current row.

    Options that did not exist when the run was written must have their default in the row.

    Args:
        row: The row at one point of its grid, with a seed.
        task: The task recorded by the run.
        settings: The settings recorded by the run.
    """
    name, _, recorded = task.partition("(")
    expected = _options(row.task)
    if name != type(row.task).__name__:
        return [f"the task was {name}, now {type(row.task).__name__}"]
    defaults = {
        f.name: repr(f.default)
        for f in fields(row.task)  # pyright: ignore[reportArgumentType]  tasks are dataclasses
        if f.default is not MISSING
    }
    changed = [
        f"{option} was {_recorded_value(option, recorded) or 'absent'}, now {value}"
        for option, value in expected.items()
        if not re.search(rf"(?<!\w){re.escape(f'{option}={value}')}(?=[,)])", recorded)
        and (_recorded_value(option, recorded) is not None or value != defaults.get(option))
    ]
    now = asdict(row.settings)
    default_settings = {f.name: f.default for f in fields(Settings)}
    for setting in sorted({*now} - {*_IGNORED_SETTINGS}):
        was = settings.get(setting, default_settings[setting])
        if _as_json(was) != _as_json(now[setting]):
            changed.append(f"{setting} was {was}, now {now[setting]}")
    return changed


def _options(task: Task) -> dict[str, str]:
    options = fields(task)  # pyright: ignore[reportArgumentType]  tasks are dataclasses
    return {f.name: repr(getattr(task, f.name)) for f in options if f.compare}


def _recorded_value(option: str, text: str) -> str | None:
    found = re.search(rf"(?<!\w){option}=(.*?)(?:, \w+=|\)$)", text)
    return found[1] if found is not None else None


def _as_json(value: Any) -> Any:
    # JSON stores tuples as lists
    return list(value) if isinstance(value, tuple | list) else value
