"""The tables of the report: our numbers and the paper's, the runs, settings and machines."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eigenrnn.experiments.report.learning_curves import Group, task_options
from eigenrnn.experiments.report.records import (
    RecipeRecord,
    format_description,
    layer_class,
    task_name,
)
from eigenrnn.experiments.training.run_folder import RunFolder

__all__ = [
    "NumberCell",
    "Table",
    "chosen_by",
    "comparison",
    "configuration",
    "evaluations",
    "format_reported",
    "machines",
    "paper_and_ours",
    "run_label",
    "runs",
    "runs_of_all_tasks",
]

_TEXT_COLUMNS = {"network", "quantity", "where", "option", "seeds", "state", "task"}
_SCIENTIFIC_BELOW = 1e-4  # smaller numbers are written with a power of ten
_LAST_COLUMNS = ("diverged", "seconds per run", "state")
_VERSION_ORDER = ("eigenrnn", "torch", "python", "platform", "processor")


@dataclass(frozen=True)
class NumberCell:
    """A number in a table.

    Args:
        value: The number.
        text: How a table for readers shows it, with its error.
        error: Its standard error, if it is a mean.
    """

    value: float
    text: str
    error: float | None = None


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        headings: One heading per column.
        cells: The cells of each row by heading; a missing one is empty.
        text: The headings of columns with text rather than numbers.
    """

    headings: list[str]
    cells: Sequence[Mapping[str, str | NumberCell]]
    text: set[str] = field(default_factory=lambda: set(_TEXT_COLUMNS))

    @classmethod
    def of(cls, records: Sequence[Mapping[str, str | NumberCell]]) -> "Table":
        """Build a table from records; empty columns are dropped."""
        names = dict.fromkeys(name for record in records for name in record)
        headings = sorted(names, key=_LAST_COLUMNS.__contains__)
        return cls([h for h in headings if any(record.get(h) for record in records)], records)

    @property
    def rows(self) -> list[list[str]]:
        """The texts of the cells, one per heading."""
        cells = [[record.get(h, "") for h in self.headings] for record in self.cells]
        return [[c.text if isinstance(c, NumberCell) else c for c in row] for row in cells]


def paper_and_ours(recipe: RecipeRecord) -> Table:
    """Return a table of the published numbers and ours."""
    return Table.of([comparison(row) for row in recipe.content["rows"]])


def runs(groups: Sequence[Group]) -> Table:
    """Return a table of the results on one task, one row per group."""
    return Table.of([_group_results(each) for each in groups])


def runs_of_all_tasks(groups: Sequence[Group]) -> Table:
    """Return a table of the results on all tasks, one row per group."""
    names = _task_names(groups)
    several = len(names) > 1
    return Table.of(
        [({"task": names[g.task]} if several else {}) | _group_results(g) for g in groups]
    )


def _task_names(groups: Sequence[Group]) -> dict[str, str]:
    """Return a name for each task, with the options that tell it from others of that name."""
    tasks = {
        each.task: (task_name(each.runs[0].config["task"]), task_options(each.runs[0]))
        for each in groups
    }
    names: dict[str, str] = {}
    for task, (name, options) in tasks.items():
        alike = [others for other, others in tasks.values() if other == name]
        differing = [
            f"{key} {value}"
            for key, value in options.items()
            if any(others.get(key) != value for others in alike)
        ]
        names[task] = f"{name} ({', '.join(differing)})" if differing else name
    return names


def chosen_by(groups: Sequence[Group]) -> str:
    """Return the quantities that selected the best models of the runs."""
    results = [run.result for each in groups for run in each.runs if run.result is not None]
    return ", ".join(sorted({result.best_by for result in results if result.best_by}))


def configuration(groups: Sequence[Group]) -> tuple[Table, Table]:
    """Return the settings that all groups share, and those in which they differ."""
    settings = [_options(each.runs[0]) for each in groups]
    names = list(dict.fromkeys(name for options in settings for name in options))
    shared = [n for n in names if len({options.get(n, "") for options in settings}) == 1]
    same = [{"option": n, "value": settings[0][n]} for n in shared]
    differing = [
        {"option": n, **{g.label: s.get(n, "") for g, s in zip(groups, settings, strict=True)}}
        for n in names
        if n not in shared
    ]
    text = {"option", "value", *(g.label for g in groups)}
    return tuple(Table(t.headings, t.cells, text) for t in (Table.of(same), Table.of(differing)))  # type: ignore[return-value]


def evaluations(groups: Sequence[Group]) -> Table:
    """Return a table of the metrics that `eigenrnn evaluate` wrote, one row per run."""
    rows: list[Mapping[str, str | NumberCell]] = []
    for each in groups:
        for run in each.runs:
            content = run.evaluation
            if content is None:
                continue
            numbers = {
                name: NumberCell(value, f"{value:.4g}")
                for name, value in content["metrics"].items()
            }
            names = {"network": run_label(each, run), "file": Path(content["file"]).name}
            rows.append({**names, "sequences": f"{content['count']:,}", **numbers})
    table = Table.of(rows)
    return Table(table.headings, table.cells, {*_TEXT_COLUMNS, "file"})


def run_label(group: Group, run: RunFolder) -> str:
    """Return the label of a run, with its seed or its folder if its group has several runs."""
    if len(group.runs) == 1:
        return group.label
    seeds = [each.seed for each in group.runs]
    is_unique = seeds.count(run.seed) == 1
    return f"{group.label}, {f'seed {run.seed}' if is_unique else run.path}"


def machines(records: Sequence[RunFolder], recipes: Sequence[RecipeRecord]) -> Table:
    """Return a table of versions and machines, with the number of runs on each."""
    found: dict[tuple[tuple[str, str], ...], int] = {}
    for versions, count in [
        *((_machine(run), 1) for run in records),
        *((_versions(recipe.content["versions"]), 0) for recipe in recipes),
    ]:
        key = tuple(versions.items())
        found[key] = found.get(key, 0) + count
    # the runs of a recipe have the same versions as its results: count them once
    rows = [{**dict(key), "runs": str(n)} for key, n in found.items() if n or not records]
    table = Table.of(rows)
    return Table(table.headings, table.cells, {*table.headings} - {"runs"})


def comparison(row: Mapping[str, Any]) -> dict[str, str | NumberCell]:
    """Return the cells that compare our numbers with a paper's.

    Args:
        row: A row of `results.json`.
    """
    values = _point_values(row, "values")
    reported = row["reported"]
    parameters = row.get("parameters")
    seconds = [s for s in row.get("seconds", ()) if s > 0]
    return {
        "network": row["label"],
        "parameters": "" if parameters is None else _count(parameters),
        "quantity": row["quantity"],
        "where": row.get("place", ""),
        "paper": format_reported(row)
        if reported is None
        else NumberCell(reported, format_reported(row), row.get("error")),
        "ours": _with_error(values) or ("not run" if parameters is None else "no run counts"),
        "difference": _difference(values, reported),
        "runs": _count(len(values)) if values else "",
        "ours, selected on validation": _with_error(_point_values(row, "selected")),
        "diverged": _count(len(row["failed"])) if row.get("failed") else "",
        "seconds per run": _mean_seconds(seconds),
    }


def _difference(values: Sequence[float], reported: float | None) -> str | NumberCell:
    """Return our mean minus the paper's number, with the last digit of our error or mean."""
    if not values or reported is None:
        return ""
    mean = statistics.fmean(values)
    error = _standard_error(values)
    difference = mean - reported
    number, digits = (error, 3) if error else (mean or reported or 1.0, 4)
    if not math.isfinite(difference) or not math.isfinite(number):
        return NumberCell(difference, f"{difference:+g}")
    significant = min(4, _power(difference) - _power(number) + digits)
    if not difference or significant < 1:
        return NumberCell(difference, "0")
    if abs(difference) < _SCIENTIFIC_BELOW:
        return NumberCell(difference, f"{difference:+.{significant - 1}e}")
    return NumberCell(
        difference, f"{difference:+.{max(0, significant - 1 - _power(difference))}f}"
    )


def _power(number: float) -> int:
    """Return the power of ten of the first significant digit."""
    return math.floor(math.log10(abs(number))) if number else 0


def _point_values(row: Mapping[str, Any], name: str) -> list[float]:
    """Return the values at the best point of a search, or all values."""
    values = row.get(name, ())
    points = row.get("points", ())
    best = row.get("best_point")
    if best is None or len(points) != len(values):
        return list(values)
    return [value for value, point in zip(values, points, strict=True) if point == best]


def format_reported(row: Mapping[str, Any]) -> str:
    """Write the number that a paper reports, with the digits that it prints.

    Args:
        row: A row of `results.json`.
    """
    if row.get("at_most") is not None:
        return f"at most {row['at_most']:g}"
    value = row["reported"]
    decimals = row.get("decimals")
    if value is None:
        return "not printed"
    error = "" if row.get("error") is None else f" ± {row['error']:g}"
    if decimals is None:
        return f"{value:g}{error}"
    fixed = f"{value:.{decimals}f}"
    figures = len(fixed.replace(".", "").lstrip("0"))
    return f"{fixed if abs(value) >= _SCIENTIFIC_BELOW else f'{value:.{figures - 1}e}'}{error}"


def _with_error(values: Sequence[float]) -> str | NumberCell:
    """Return the mean and its standard error; an empty text without values."""
    if not values:
        return ""
    mean = statistics.fmean(values)
    error = _standard_error(values)
    if error is None:
        return NumberCell(mean, f"{mean:#.4g}")
    return NumberCell(mean, f"{mean:#.4g} ± {error:#.3g}", error)


def _standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean; None for fewer than two or infinite values."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    return statistics.stdev(values) / len(values) ** 0.5


def _count(count: int) -> NumberCell:
    return NumberCell(count, f"{count:,}")


def _mean_seconds(seconds: Sequence[float]) -> str | NumberCell:
    if not seconds:
        return ""
    mean = statistics.fmean(seconds)
    return NumberCell(mean, f"{mean:.1f}")


def _group_results(group: Group) -> dict[str, str | NumberCell]:
    results = [run.result for run in group.runs if run.result is not None]
    found: dict[str, list[float]] = {}
    for result in results:
        for split, numbers in result.best.items():
            for name, number in numbers.items():
                found.setdefault(f"{split} {name}", []).append(number)
    unfinished = len(group.runs) - len(results)
    return {
        "network": group.label,
        **{name: _with_error(values) for name, values in found.items()},
        "parameters": _count(group.runs[0].config["parameters"]),
        "seeds": _seed_text([run.seed for run in group.runs]),
        "steps": _range([result.steps for result in results]),
        "seconds per run": _mean_seconds([result.seconds for result in results]),
        "state": "" if not unfinished else f"{unfinished} of {len(group.runs)} unfinished",
    }


def _seed_text(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) if len(seeds) <= 5 else f"{len(seeds)} seeds"


def _range(numbers: Sequence[int]) -> str | NumberCell:
    if not numbers:
        return ""
    low = min(numbers)
    high = max(numbers)
    return _count(low) if low == high else f"{low:,} to {high:,}"


def _options(run: RunFolder) -> dict[str, str]:
    config = run.config
    task = {"layer": layer_class(run), "task": format_description(config["task"])}
    settings = {k: v for k, v in config["settings"].items() if k != "seed"}
    entry = {k: v for k, v in (config.get("config") or {}).items() if not isinstance(v, dict)}
    every = {**task, "parameters": f"{config['parameters']:,}", **settings, **entry}
    return {
        name: "none" if value is None or value == [] else str(value)
        for name, value in every.items()
    }


def _machine(run: RunFolder) -> dict[str, str]:
    settings = run.config["settings"]
    named = {k: str(settings[k]) for k in ("accelerator", "devices", "precision") if k in settings}
    return {**_versions(run.config["versions"]), **named}


def _versions(versions: Mapping[str, Any]) -> dict[str, str]:
    names = [
        *(n for n in _VERSION_ORDER if n in versions),
        *(n for n in versions if n not in _VERSION_ORDER),
    ]
    return {name: str(versions[name]) for name in names}
