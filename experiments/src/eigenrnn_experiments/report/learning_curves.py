"""Learning curves: runs that differ only by their seed are one curve with a band."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os.path import commonpath, commonprefix
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn_experiments.report.records import Records, format_description
from eigenrnn_experiments.statistics import mean_of, spaced_indices
from eigenrnn_experiments.training.run import Description, RunFolder
from eigenrnn_experiments.training.settings import IGNORED_SETTINGS

__all__ = ["MAX_POINTS", "Curve", "Group", "averaged_over", "curve", "group", "task_options"]

MAX_POINTS = 1000
"""A longer curve shows so many points of it, evenly spaced."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """The runs that differ only by their seed.

    Args:
        label: The label of the group.
        runs: The runs, sorted by seed.
        task: The task as text, without its seed.
        network: What determines the colour: the row of a recipe, or the group itself.
        shown: Whether its curve is shown initially; a search shows only its best point.
    """

    label: str
    runs: tuple[RunFolder, ...]
    task: str
    network: str
    shown: bool = True

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs, each once."""
        return sorted({run.run.key.seed or 0 for run in self.runs})

    @property
    def averaged_over(self) -> str:
        """What the mean of the runs is over: "seeds", or "runs" of one seed."""
        return "seeds" if len(self.seeds) > 1 else "runs"

    @property
    def quantities(self) -> list[str]:
        """The columns of metrics.csv that hold numbers."""
        quantities: list[str] = []
        columns = chain.from_iterable(run.metrics for run in self.runs)
        for name in dict.fromkeys(columns):
            if name in ("step", "seconds"):
                continue
            if any(np.isfinite(run.metrics.get(name, np.nan)).any() for run in self.runs):
                quantities.append(name)
        return quantities


@dataclass(frozen=True)
class Curve:
    """The mean of a quantity over the runs of a group, by step.

    Args:
        step: The steps.
        mean: The mean over the runs that have the step.
        error: Its standard error; NaN for fewer than two runs.
    Shape:
        (n,) each.
    """

    step: Numbers
    mean: Numbers
    error: Numbers


def group(records: Records) -> list[Group]:
    """Group the runs that differ only by their seed, in the order of the recipe's rows.

    Runs that are equal in these too are no sample: they are in different groups.
    """
    found: dict[tuple[str, int], list[RunFolder]] = {}
    copies: Counter[str] = Counter()
    for run in records.runs:
        key = _group_key(run)
        with_seeds = repr((key, run.run.key.seed, run.run.task))
        found.setdefault((key, copies[with_seeds]), []).append(run)
        copies[with_seeds] += 1
    groups: list[Group] = []
    for runs in found.values():
        by_seed = sorted(runs, key=lambda run: run.run.key.seed or 0)
        groups.append(_make_group(records, by_seed))
    order: dict[str, int] = {}  # of the rows, by their first place
    number = 0
    for each in records.recipes:
        for row in each.recipe.rows:
            order.setdefault(row.label, number)
            number += 1
    # groups of no row come last, in their own order
    return _with_distinct_labels(sorted(groups, key=lambda g: order.get(g.network, number)))


def averaged_over(groups: Sequence[Group]) -> str:
    """Return what the means of groups are over, such as "seeds"; empty if no group has a mean."""
    found = {each.averaged_over for each in groups if len(each.runs) > 1}
    return " or ".join(sorted(found))


def curve(runs: Sequence[RunFolder], quantity: str) -> Curve:
    """Return mean and standard error of a quantity at every step.

    A curve of more than `MAX_POINTS` steps shows so many of them, evenly spaced.
    """
    pairs = [_finite(run, quantity) for run in runs]
    steps = np.unique(np.concatenate([step for step, _ in pairs]))
    # a row for each run, NaN at the steps that it lacks: runs may have evaluated at others
    table = np.full((len(pairs), len(steps)), np.nan)
    for row, (step, values) in zip(table, pairs, strict=True):
        row[np.searchsorted(steps, step)] = values
    shown = spaced_indices(len(steps), MAX_POINTS)
    means = [mean_of(numbers[np.isfinite(numbers)].tolist()) for numbers in table[:, shown].T]
    return Curve(
        step=steps[shown],
        mean=np.array([each.value for each in means]),
        error=np.array([each.error for each in means], np.float64),  # None becomes NaN
    )


def _finite(run: RunFolder, quantity: str) -> tuple[Numbers, Numbers]:
    step = run.metrics["step"]
    values = run.metrics.get(quantity, np.full(len(step), np.nan))
    return step[np.isfinite(values)], values[np.isfinite(values)]


def _group_key(run: RunFolder) -> str:
    """Return a key that is equal for runs that differ only by their seed."""
    # None in place of what runs of a group may differ in
    settings = {**run.run.settings, **dict.fromkeys(("seed", *IGNORED_SETTINGS))}
    # rows of a recipe are apart even if their networks and settings are equal
    key = run.run.key
    place = key.recipe, key.row, key.point
    return json.dumps([_task(run), run.run.network, run.run.modules, settings, place])


def task_options(run: RunFolder) -> dict[str, Any]:
    """Return the options of the task of a run that were set, with the names of the user's files.

    The seed of the task is left out, as it may be that of the run: runs that differ only by it are
    averaged.
    """
    files = {name: Path(file).name for name, file in run.run.files.items()}
    options = files | run.run.task.options
    return {k: v for k, v in options.items() if v is not None and not k.endswith("seed")}


def _task(run: RunFolder) -> str:
    return format_description(Description(run.run.task.kind, task_options(run)))


def _make_group(records: Records, runs: list[RunFolder]) -> Group:
    key = runs[0].run.key
    task = _task(runs[0])
    if not key.recipe:
        label = _common_name(runs)
        return Group(label=label, runs=tuple(runs), task=task, network=label)
    shown = records.best_point(runs[0]) in (None, key.point)
    return Group(label=key.network, runs=tuple(runs), task=task, network=key.row, shown=shown)


def _common_name(runs: Sequence[RunFolder]) -> str:
    """Return the common prefix of the names of the runs."""
    names = [run.run.name or run.path.resolve().name for run in runs]
    prefix = commonprefix(names)  # noqa: RUF071, not paths
    if any(name[len(prefix) :][:1].isdecimal() for name in names):  # "lstm-1" of -10 and -11
        prefix = prefix.rstrip("0123456789")
    return re.sub(r"[\s,_=-]*(seed)?[\s,_=-]*$", "", prefix) or runs[0].run.layer


def _with_distinct_labels(groups: Sequence[Group]) -> list[Group]:
    """Extend equal labels by the settings that differ, or else by a folder."""
    alike: dict[tuple[str, str], list[Group]] = {}
    for each in groups:  # a network keeps its label and colour on another task
        alike.setdefault((each.label, each.task), []).append(each)
    suffixes: dict[Group, str] = {}
    for same in alike.values():
        suffixes.update(_differences(same))
    distinct: list[Group] = []
    for each in groups:
        suffix = suffixes[each]
        distinct.append(replace(each, label=each.label + suffix, network=each.network + suffix))
    return distinct


def _differences(groups: Sequence[Group]) -> Iterator[tuple[Group, str]]:
    """Yield for each group of equal label the settings in which it differs from the others."""
    if len(groups) == 1:
        yield groups[0], ""
        return
    facts = [_facts(each.runs[0]) for each in groups]
    differing: list[str] = []
    for name in facts[0]:
        values = {str(each.get(name)) for each in facts}
        if len(values) > 1:
            differing.append(name)
    shown = differing[:3]  # more would not fit into a legend
    texts: list[str] = []
    for each in facts:
        parts = [f"{name}={each.get(name)}" for name in shown]
        texts.append(", ".join(parts))
    folders = [each.runs[0].path.resolve() for each in groups]
    above = commonpath([folder.parent for folder in folders])
    for each, text, folder in zip(groups, texts, folders, strict=True):
        suffix = ""
        if text:
            suffix = f", {text}"
        if texts.count(text) > 1:  # a difference that is not shown, or none
            suffix += f" ({folder.relative_to(above)})"
        yield each, suffix


def _facts(run: RunFolder) -> Mapping[str, Any]:
    settings = {k: v for k, v in run.run.settings.items() if k != "seed"}
    facts = {"layer": run.run.layer, "parameters": run.run.parameters, **settings}
    layer = (run.run.network or {}).get("layer")
    if isinstance(layer, dict):  # a call with options
        facts |= layer.get("options", {})
    return facts
