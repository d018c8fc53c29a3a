"""The tables of the report: the runs, their settings and their machines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from eigenrnn_experiments.report.learning_curves import Group, task_options
from eigenrnn_experiments.report.records import format_description, task_name
from eigenrnn_experiments.tables import Cell, Table, count_cell, mean_cell, seconds_cell
from eigenrnn_experiments.training.run import RunFolder

__all__ = [
    "chosen_by",
    "configuration",
    "further_metrics",
    "machines",
    "results",
]


def results(groups: Sequence[Group]) -> Table:
    """Return a table of the results, one row per group, with its task where they differ."""
    names = _task_names(groups)
    records: list[dict[str, Cell]] = []
    for each in groups:
        record: dict[str, Cell] = {}
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
        short_names[each.task] = task_name(run.run.task)
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
            if run.run.state == "ended" and run.run.best_by:
                quantities.add(run.run.best_by)
    return ", ".join(sorted(quantities))


def further_metrics(groups: Sequence[Group]) -> set[str]:
    """Return the headings of metrics that are no losses and selected no model, on any split."""
    metrics: dict[str, str] = {}  # by heading
    essential = {"loss"}
    for each in groups:
        for run in each.runs:
            if run.run.state != "ended":
                continue
            for split, numbers in run.run.best.items():
                for metric in numbers:
                    heading = f"{split} {metric}"
                    metrics[heading] = metric
                    if heading == run.run.best_by:
                        essential.add(metric)
    return {heading for heading, metric in metrics.items() if metric not in essential}


def configuration(groups: Sequence[Group]) -> tuple[Table, Table]:
    """Return the settings that all groups share, and those in which they differ."""
    settings = [_options(each.runs[0]) for each in groups]
    labels = [each.label for each in groups]
    same: list[dict[str, str]] = []
    differing: list[dict[str, str]] = []
    for name in dict.fromkeys(chain.from_iterable(settings)):  # each once, in their order
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


def machines(records: Sequence[RunFolder]) -> Table:
    """Return a table of versions and machines, with the number of runs on each."""
    counts: Counter[tuple[tuple[str, str], ...]] = Counter()
    for run in records:
        chosen = {name: run.run.settings[name] for name in ("accelerator", "precision")}
        counts[tuple({**run.run.versions, **chosen}.items())] += 1
    rows = [{**dict(versions), "runs": str(count)} for versions, count in counts.items()]
    table = Table.of(rows)
    return replace(table, text=set(table.headings) - {"runs"})


def _group_results(group: Group) -> dict[str, Cell]:
    ended = [each.run for each in group.runs if each.run.state == "ended"]
    found: dict[str, list[float]] = {}
    for result in ended:
        for split, numbers in result.best.items():
            for name, number in numbers.items():
                found.setdefault(f"{split} {name}", []).append(number)
    record: dict[str, Cell] = {"network": group.label}
    for name, values in found.items():
        record[name] = mean_cell(values)
    record["parameters"] = count_cell(group.runs[0].run.parameters or 0)
    record["seeds"] = ", ".join(str(run.run.key.seed or 0) for run in group.runs)
    if len(group.runs) > 5:
        record["seeds"] = f"{len(group.runs)} seeds"
    record["steps"] = _range([each.steps for each in ended])
    record["seconds per run"] = seconds_cell([each.seconds for each in ended])
    states = Counter(each.run.state for each in group.runs)
    del states["ended"]
    counts = [f"{count} of {len(group.runs)} {state}" for state, count in states.items()]
    if counts:
        record["state"] = ", ".join(counts)
    return record


def _range(numbers: Sequence[int]) -> Cell:
    if not numbers:
        return ""
    low = min(numbers)
    high = max(numbers)
    if low == high:
        return count_cell(low)
    return f"{low:,} to {high:,}"


def _options(run: RunFolder) -> dict[str, str]:
    record = run.run
    every: dict[str, Any] = {
        "layer": record.layer,
        "task": format_description(record.task),
        "parameters": f"{record.parameters:,}",
        **record.settings,
    }
    del every["seed"]  # in which the runs of a group differ
    if record.key.recipe:
        every.update({"recipe": record.key.recipe, "row": record.key.row})
        every.update({"point": record.key.point, "reduced": record.key.reduced})
    texts: dict[str, str] = {}
    for name, value in every.items():
        texts[name] = str(value)
        if value is None or value in ([], ""):
            texts[name] = "none"
    return texts
