"""The tables of the report: our numbers and the paper's, the runs, settings and machines."""

import math
import statistics
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from eigenrnn_experiments.report.learning_curves import Group, task_options
from eigenrnn_experiments.report.records import (
    RecipeRecord,
    format_description,
    task_name,
)
from eigenrnn_experiments.training.run_folder import RunFolder

__all__ = [
    "NumberCell",
    "Table",
    "chosen_by",
    "comparison",
    "configuration",
    "format_reported",
    "further_metrics",
    "machines",
    "paper_and_ours",
    "runs",
    "runs_of_all_tasks",
    "standard_error",
]

_TEXT_COLUMNS = {"network", "quantity", "where", "option", "seeds", "state", "task"}
_SCIENTIFIC_BELOW = 1e-4  # smaller numbers are written with a power of ten
_LAST_COLUMNS = ("diverged", "seconds per run", "state")


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
        names: dict[str, None] = {}  # a set that keeps the order
        for record in records:
            names.update(dict.fromkeys(record))
        filled = [name for name in names if any(record.get(name) for record in records)]
        # False sorts before True, and equal keys keep their order
        return cls(sorted(filled, key=_LAST_COLUMNS.__contains__), records)

    def without(self, headings: Container[str]) -> "Table":
        """Return the table without some columns."""
        return replace(self, headings=[each for each in self.headings if each not in headings])

    @property
    def rows(self) -> list[list[str]]:
        """The texts of the cells, one per heading."""
        rows: list[list[str]] = []
        for record in self.cells:
            row: list[str] = []
            for heading in self.headings:
                cell = record.get(heading, "")
                if isinstance(cell, NumberCell):
                    cell = cell.text
                row.append(cell)
            rows.append(row)
        return rows


def paper_and_ours(recipe: RecipeRecord) -> Table:
    """Return a table of the published numbers and ours."""
    return Table.of([comparison(row) for row in recipe.content["rows"]])


def runs(groups: Sequence[Group]) -> Table:
    """Return a table of the results on one task, one row per group."""
    return Table.of([_group_results(each) for each in groups])


def runs_of_all_tasks(groups: Sequence[Group]) -> Table:
    """Return a table of the results on all tasks, one row per group."""
    names = _task_names(groups)
    records: list[dict[str, str | NumberCell]] = []
    for each in groups:
        record: dict[str, str | NumberCell] = {}
        if len(names) > 1:
            record["task"] = names[each.task]
        records.append(record | _group_results(each))
    return Table.of(records)


def _task_names(groups: Sequence[Group]) -> dict[str, str]:
    """Return a name for each task, with the options that tell it from others of that name."""
    short_names: dict[str, str] = {}
    options_of: dict[str, dict[str, Any]] = {}
    for each in groups:
        run = each.runs[0]
        short_names[each.task] = task_name(run.config.task)
        options_of[each.task] = task_options(run)
    names: dict[str, str] = {}
    for task, name in short_names.items():
        alike = [options_of[other] for other in short_names if short_names[other] == name]
        differing: list[str] = []
        for key, value in options_of[task].items():
            if any(options.get(key) != value for options in alike):
                differing.append(f"{key} {value}")
        names[task] = name
        if differing:
            names[task] += f" ({', '.join(differing)})"
    return names


def chosen_by(groups: Sequence[Group]) -> str:
    """Return the quantities that selected the best models of the runs."""
    quantities: set[str] = set()
    for each in groups:
        for run in each.runs:
            if run.result is not None and run.result.best_by:
                quantities.add(run.result.best_by)
    return ", ".join(sorted(quantities))


def further_metrics(groups: Sequence[Group]) -> set[str]:
    """Return the headings of metrics that are no losses and selected no model, on any split."""
    metrics: dict[str, str] = {}  # by heading
    essential = {"loss"}
    for each in groups:
        for run in each.runs:
            if run.result is None:
                continue
            for split, numbers in run.result.best.items():
                for metric in numbers:
                    heading = f"{split} {metric}"
                    metrics[heading] = metric
                    if heading == run.result.best_by:
                        essential.add(metric)
    return {heading for heading, metric in metrics.items() if metric not in essential}


def configuration(groups: Sequence[Group]) -> tuple[Table, Table]:
    """Return the settings that all groups share, and those in which they differ."""
    settings = [_options(each.runs[0]) for each in groups]
    labels = [each.label for each in groups]
    names: dict[str, None] = {}  # a set that keeps the order
    for options in settings:
        names.update(dict.fromkeys(options))
    same: list[dict[str, str]] = []
    differing: list[dict[str, str]] = []
    for name in names:
        values = [options.get(name, "") for options in settings]
        if len(set(values)) == 1:
            same.append({"option": name, "value": values[0]})
        else:
            differing.append({"option": name, **dict(zip(labels, values, strict=True))})
    text = {"option", "value", *labels}
    return (
        replace(Table.of(same), text=text),
        replace(Table.of(differing), text=text),
    )


def machines(records: Sequence[RunFolder], recipes: Sequence[RecipeRecord]) -> Table:
    """Return a table of versions and machines, with the number of runs on each."""
    counts: Counter[tuple[tuple[str, str], ...]] = Counter()
    for run in records:
        counts[tuple(_machine(run).items())] += 1
    for recipe in recipes:  # listed also where none of its runs is here
        counts[tuple(recipe.content["versions"].items())] += 0
    rows: list[dict[str, str]] = []
    for versions, count in counts.items():
        # the runs of a recipe have the same versions as its results: count them once
        if count or not records:
            rows.append({**dict(versions), "runs": str(count)})
    table = Table.of(rows)
    return replace(table, text=set(table.headings) - {"runs"})


def comparison(row: Mapping[str, Any]) -> dict[str, str | NumberCell]:
    """Return the cells that compare our numbers with a paper's.

    Args:
        row: A row of `results.json`.
    """
    values = _point_values(row, "values")
    reported = row["reported"]
    seconds = [s for s in row.get("seconds", ()) if s > 0]  # a run that diverged counts none
    # a row has its number of parameters once one of its networks was built
    parameters: str | NumberCell = ""
    ours: str | NumberCell = "not run"
    if row.get("parameters") is not None:
        parameters = _count(row["parameters"])
        ours = "no run counts"
    paper: str | NumberCell = format_reported(row)
    if reported is not None:
        paper = NumberCell(reported, format_reported(row), row.get("error"))
    counted: str | NumberCell = ""
    if values:
        ours = _with_error(values)
        counted = _count(len(values))
    difference = _difference(values, reported)
    if row.get("unjudged"):
        difference = "not comparable"
    diverged: str | NumberCell = ""
    if row.get("failed"):
        diverged = _count(len(row["failed"]))
    return {
        "network": row["label"],
        "parameters": parameters,
        "quantity": row["quantity"],
        "where": row.get("place", ""),
        "paper": paper,
        "ours": ours,
        "difference": difference,
        "runs": counted,
        "ours, selected on validation": _with_error(_point_values(row, "selected")),
        "diverged": diverged,
        "seconds per run": _mean_seconds(seconds),
    }


def _difference(values: Sequence[float], reported: float | None) -> str | NumberCell:
    """Return our mean minus the paper's number, with the last digit of our error or mean."""
    if not values or reported is None:
        return ""
    mean = statistics.fmean(values)
    error = standard_error(values)
    difference = mean - reported
    # the number whose last digit the difference has: an error is shown with 3, a mean with 4
    if error:
        number = error
        digits = 3
    else:
        number = mean or reported or 1.0
        digits = 4
    if not math.isfinite(difference) or not math.isfinite(number):
        return NumberCell(difference, f"{difference:+g}")
    # Down to the last digit of that number. A mean shows 4 digits, and a difference no more.
    significant = min(4, _power(difference) - _power(number) + digits)
    if not difference or significant < 1:  # all its digits are beyond that one
        return NumberCell(difference, "0")
    if abs(difference) < _SCIENTIFIC_BELOW:
        return NumberCell(difference, f"{difference:+.{significant - 1}e}")
    decimals = max(0, significant - 1 - _power(difference))
    return NumberCell(difference, f"{difference:+.{decimals}f}")


def _power(number: float) -> int:
    """Return the power of ten of the first significant digit."""
    if not number:  # which has no logarithm
        return 0
    return math.floor(math.log10(abs(number)))


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
    error = ""
    if row.get("error") is not None:
        error = f" ± {row['error']:g}"
    if decimals is None:
        return f"{value:g}{error}"
    text = f"{value:.{decimals}f}"
    if abs(value) < _SCIENTIFIC_BELOW:  # with as many digits as the paper prints
        figures = len(text.replace(".", "").lstrip("0"))
        text = f"{value:.{figures - 1}e}"
    return text + error


def _with_error(values: Sequence[float]) -> str | NumberCell:
    """Return the mean and its standard error; an empty text without values."""
    if not values:
        return ""
    mean = statistics.fmean(values)
    error = standard_error(values)
    # `#` keeps zeros at the end, so that all means show as many digits
    if error is None:
        return NumberCell(mean, f"{mean:#.4g}")
    return NumberCell(mean, f"{mean:#.4g} ± {error:#.3g}", error)


def standard_error(values: Sequence[float]) -> float | None:
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
    record: dict[str, str | NumberCell] = {"network": group.label}
    for name, values in found.items():
        record[name] = _with_error(values)
    record["parameters"] = _count(group.runs[0].config.parameters)
    record["seeds"] = _number_text([run.seed for run in group.runs], "seeds")
    record["steps"] = _range([result.steps for result in results])
    record["seconds per run"] = _mean_seconds([result.seconds for result in results])
    unfinished = len(group.runs) - len(results)
    if unfinished:
        record["state"] = f"{unfinished} of {len(group.runs)} unfinished"
    return record


def _number_text(numbers: Sequence[int], noun: str) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 5 else f"{len(numbers)} {noun}"


def _range(numbers: Sequence[int]) -> str | NumberCell:
    if not numbers:
        return ""
    low = min(numbers)
    high = max(numbers)
    if low == high:
        return _count(low)
    return f"{low:,} to {high:,}"


def _options(run: RunFolder) -> dict[str, str]:
    config = run.config
    every: dict[str, Any] = {
        "layer": config.layer,
        "task": format_description(config.task),
        "parameters": f"{config.parameters:,}",
    }
    # all but the seed, in which the runs of a group differ
    every.update(asdict(replace(config.settings, seed=0)))
    del every["seed"]
    if config.key is not None:
        every.update({"recipe": config.key.recipe, "row": config.key.row})
        every.update({"point": config.key.point, "reduced": config.key.reduced})
    texts: dict[str, str] = {}
    for name, value in every.items():
        texts[name] = str(value)
        if value is None or value == () or value == "":
            texts[name] = "none"
    return texts


def _machine(run: RunFolder) -> dict[str, str]:
    settings = run.config.settings
    return {
        **run.config.versions,
        "accelerator": settings.accelerator,
        "precision": settings.precision,
    }
