"""The tables of a page: paper and ours, the runs, their configuration, what they ran on."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eigenrnn.experiments.report.collect import RecipeRecord, RunRecord
from eigenrnn.experiments.report.curves import Group

__all__ = [
    "Table",
    "chosen_by",
    "configuration",
    "machines",
    "paper_and_ours",
    "printed",
    "runs",
]

_TEXT = {"network", "quantity", "where", "option", "seeds", "state", "task"}
_SMALL = 1e-4  # below it a number is written with a power of ten
_LAST = ("diverged", "seconds per run", "state")
_ORDER = ("eigenrnn", "torch", "python", "platform", "processor")


@dataclass(frozen=True)
class Table:
    """Cells of text under headings; a heading of `text` is not of numbers.

    Args:
        headings: One for each column.
        rows: One cell for each heading.
        text: The columns that hold words.
    """

    headings: list[str]
    rows: list[list[str]]
    text: set[str] = field(default_factory=lambda: set(_TEXT))

    @classmethod
    def of(cls, records: Sequence[Mapping[str, str]]) -> "Table":
        """Make a table of records; a column that says nothing is left out."""
        names = dict.fromkeys(name for record in records for name in record)
        headings = sorted(names, key=_LAST.__contains__)
        headings = [h for h in headings if any(record.get(h) for record in records)]
        return cls(headings, [[record.get(h, "") for h in headings] for record in records])


def paper_and_ours(recipe: RecipeRecord) -> Table:
    """Set the published numbers beside ours."""
    return Table.of([_compared(row) for row in recipe.content["rows"]])


def runs(groups: Sequence[Group]) -> Table:
    """List what the runs of one task came to, those that differ by their seed in one row."""
    return Table.of([_summed_up(each) for each in groups])


def chosen_by(groups: Sequence[Group]) -> str:
    """Say by what the best models of the runs were chosen."""
    results = [run.result for each in groups for run in each.runs if run.result is not None]
    return ", ".join(sorted({str(r["best_by"]) for r in results if r.get("best_by")}))


def configuration(groups: Sequence[Group]) -> tuple[Table, Table]:
    """List the settings that all share, and those in which the groups differ."""
    settings = [_options(each.runs[0]) for each in groups]
    names = list(dict.fromkeys(name for options in settings for name in options))
    shared = [n for n in names if len({options.get(n, "") for options in settings}) == 1]
    same = [{"option": n, "value": settings[0][n]} for n in shared]
    differing = [
        {"option": n, **{g.label: s.get(n, "") for g, s in zip(groups, settings, strict=True)}}
        for n in names
        if n not in shared
    ]
    words = {"option", "value", *(g.label for g in groups)}
    return tuple(Table(t.headings, t.rows, words) for t in (Table.of(same), Table.of(differing)))  # type: ignore[return-value]


def machines(records: Sequence[RunRecord], recipes: Sequence[RecipeRecord]) -> Table:
    """List the versions and machines, and how many runs had each."""
    found: dict[tuple[tuple[str, str], ...], int] = {}
    for versions, count in [
        *((_where(run), 1) for run in records),
        *((_versions(recipe.content["versions"]), 0) for recipe in recipes),
    ]:
        key = tuple(versions.items())
        found[key] = found.get(key, 0) + count
    # a recipe's own versions are those of its runs, once they are there
    rows = [{**dict(key), "runs": str(n)} for key, n in found.items() if n or not records]
    table = Table.of(rows)
    return Table(table.headings, table.rows, {*table.headings} - {"runs"})


def _compared(row: Mapping[str, Any]) -> dict[str, str]:
    values = _counted(row, "values")
    reported, parameters = row["reported"], row.get("parameters")
    difference = statistics.fmean(values) - reported if values and reported is not None else None
    seconds = [s for s in row.get("seconds", ()) if s > 0]
    return {
        "network": row["label"],
        "parameters": "" if parameters is None else f"{parameters:,}",
        "quantity": row["quantity"],
        "where": row.get("place", ""),
        "paper": printed(row),
        "ours": _with_error(values) or ("not run" if parameters is None else "no run counts"),
        "difference": "" if difference is None else f"{difference:+#.4g}",
        "runs": str(len(values)) if values else "",
        "ours, selected on validation": _with_error(_counted(row, "selected")),
        "diverged": str(len(row["failed"])) if row.get("failed") else "",
        "seconds per run": f"{statistics.fmean(seconds):.1f}" if seconds else "",
    }


def _counted(row: Mapping[str, Any], name: str) -> list[float]:
    """Take the values of the best point of a search, else all."""
    values, points, best = row.get(name, ()), row.get("points", ()), row.get("best_point")
    if best is None or len(points) != len(values):
        return list(values)
    return [value for value, point in zip(values, points, strict=True) if point == best]


def printed(row: Mapping[str, Any]) -> str:
    """Write what a paper reports of a row, as `results.json` has it, with the digits it prints."""
    if row.get("at_most") is not None:
        return f"at most {row['at_most']:g}"
    value, decimals = row["reported"], row.get("decimals")
    if value is None:
        return "not printed"
    error = "" if row.get("error") is None else f" ± {row['error']:g}"
    if decimals is None:
        return f"{value:g}{error}"
    fixed = f"{value:.{decimals}f}"
    figures = len(fixed.replace(".", "").lstrip("0"))
    return f"{fixed if abs(value) >= _SMALL else f'{value:.{figures - 1}e}'}{error}"


def _with_error(values: Sequence[float]) -> str:
    """Write mean and standard error."""
    if not values:
        return ""
    mean = f"{statistics.fmean(values):#.4g}"
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return mean
    return f"{mean} ± {statistics.stdev(values) / len(values) ** 0.5:#.3g}"


def _summed_up(group: Group) -> dict[str, str]:
    results = [run.result for run in group.runs if run.result is not None]
    found: dict[str, list[float]] = {}
    for result in results:
        for split, numbers in result["best"].items():
            for name, number in numbers.items():
                found.setdefault(f"{split} {name}", []).append(number)
    unfinished = len(group.runs) - len(results)
    return {
        "network": group.label,
        **{name: _with_error(values) for name, values in found.items()},
        "parameters": f"{group.runs[0].config['parameters']:,}",
        "seeds": _listed([run.seed for run in group.runs]),
        "steps": _span([int(r["steps"]) for r in results]),
        "seconds per run": f"{statistics.fmean(r['seconds'] for r in results):.1f}"
        if results
        else "",
        "state": "" if not unfinished else f"{unfinished} of {len(group.runs)} not ended",
    }


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) if len(seeds) <= 5 else f"{len(seeds)} seeds"


def _span(numbers: Sequence[int]) -> str:
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _options(run: RunRecord) -> dict[str, str]:
    config = run.config
    task = {"layer": run.network, "task": config["task"]}
    settings = {k: v for k, v in config["settings"].items() if k != "seed"}
    told = {k: v for k, v in (config.get("config") or {}).items() if not isinstance(v, dict)}
    every = {**task, "parameters": f"{config['parameters']:,}", **settings, **told}
    return {
        name: "none" if value is None or value == [] else str(value)
        for name, value in every.items()
    }


def _where(run: RunRecord) -> dict[str, str]:
    settings = run.config["settings"]
    named = {k: str(settings[k]) for k in ("accelerator", "devices", "precision") if k in settings}
    return {**_versions(run.config["versions"]), **named}


def _versions(versions: Mapping[str, Any]) -> dict[str, str]:
    names = [*(n for n in _ORDER if n in versions), *(n for n in versions if n not in _ORDER)]
    return {name: str(versions[name]) for name in names}
