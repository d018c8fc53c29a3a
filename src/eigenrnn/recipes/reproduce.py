"""Runs a recipe and sets the published numbers beside ours."""

import csv
import platform
import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from eigenrnn.models import count_parameters
from eigenrnn.recipes.base import Recipe, Reported, Row
from eigenrnn.train import Result, fit
from eigenrnn.train.atomic import write_atomically
from eigenrnn.train.run_directory import write_json
from eigenrnn.version import __version__

__all__ = ["Outcome", "reproduce", "to_markdown"]

_NO_LAYER = "not run: this version has no such layer"


@dataclass(frozen=True)
class Outcome:
    """What the runs of one row came to.

    Args:
        label: The row's name.
        place: Where the paper reports its number.
        quantity: What is compared, and by which rule it is chosen.
        reported: The paper's number; None where it prints none.
        note: How that number was come by, or why the row was not run.
        parameters: How many our network trains; None if the row was not run.
        seeds: The seeds of our runs.
        values: Our numbers by the paper's rule, one a seed.
        selected: Our test numbers of the validation-selected models, where there are any.
        seconds: How long each run took.
    Units:
        Losses in those of the task, accuracies as shares, time in seconds.
    """

    label: str
    place: str
    quantity: str
    reported: float | None
    note: str
    parameters: int | None
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    selected: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def mean(self) -> float | None:
        """Our mean over the seeds; None if the row was not run."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def difference(self) -> float | None:
        """Our mean less the paper's number; None where there is no pair."""
        both = self.mean is not None and self.reported is not None
        return self.mean - self.reported if both else None  # type: ignore[operator]


def reproduce(  # noqa: PLR0913, the recipe and what to run of it
    recipe: Recipe,
    directory: str | Path,
    *,
    rows: list[str] | None = None,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    console: Console | None = None,
) -> list[Outcome]:
    """Train the networks of a recipe and write `results.json` and `results.md`.

    Both files are written anew after every run, so that what is done is never lost.

    Args:
        recipe: The published comparison.
        directory: Where the runs and the results go, a folder for each row and seed.
        rows: Parts of the labels of the rows to run; all of them by default.
        seeds: The seeds to run; the recipe's by default.
        quick: Whether to run at a size that shows that it works, not what it reaches.
        resume: Whether to go on with runs that are there.
        overwrite: Whether to delete runs that are there.
        console: Where to show progress.
    Returns:
        What each row came to.
    Raises:
        ValueError: If a row is not in the recipe.
        RunExistsError: If a run is there and neither `resume` nor `overwrite` is set.
    """
    folder = Path(directory)
    chosen = recipe.select(rows)
    outcomes = {row.label: _not_yet(row) for row in chosen}
    for row in chosen:
        for seed in recipe.seeds if seeds is None else seeds:
            if row.layer is None:
                break
            run = (row.quick() if quick else row).with_seed(seed)
            model = run.build(seed)
            result = fit(
                model,
                run.task,
                run.settings,
                folder / _slug(row.label) / f"seed-{seed}",
                resume=resume,
                overwrite=overwrite,
                console=console,
                name=f"{row.label}, seed {seed}",
            )
            if result.interrupted:
                return list(outcomes.values())
            outcome = _with_run(outcomes[row.label], run, seed, result)
            outcomes[row.label] = replace(outcome, parameters=count_parameters(model))
            _write(folder, recipe, list(outcomes.values()), quick=quick)
    _write(folder, recipe, list(outcomes.values()), quick=quick)
    return list(outcomes.values())


def to_markdown(recipe: Recipe, outcomes: Sequence[Outcome], *, quick: bool = False) -> str:
    """Lay the outcomes out as a table: paper, ours, difference."""
    lines = [f"# {recipe.name}", "", recipe.summary, "", f"Source: {recipe.source}.", ""]
    if quick:
        lines += ["**A quick run: it shows that the recipe works, and reaches nothing.**", ""]
    lines += [
        "| network | parameters | quantity | paper | ours | difference | ours, selected on "
        "validation | seconds a run |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for o in outcomes:
        cells = [
            o.label,
            "" if o.parameters is None else f"{o.parameters:,}",
            o.quantity,
            "not printed" if o.reported is None else f"{o.reported:g}",
            _with_error(o.values) or "not run",
            "" if o.difference is None else f"{o.difference:+.4f}",
            _with_error(o.selected),
            f"{statistics.fmean(o.seconds):.0f}" if o.seconds else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- {o.label}, {o.place}: {o.note}." for o in outcomes if o.note]
    rows = {row.label: row for row in recipe.rows}
    ours = [f"- {text}." for text in recipe.departures]
    ours += [f"- {o.label}: {text}." for o in outcomes for text in rows[o.label].departures]
    for title, items in (("Notes", notes), ("Departures", ours)):
        if items:
            lines += ["", f"## {title}", "", *items]
    return "\n".join(lines) + "\n"


def _not_yet(row: Row) -> Outcome:
    reported = row.reported
    notes = [reported.note] if reported.note else []
    notes += [_NO_LAYER] if row.layer is None else []
    return Outcome(
        label=row.label,
        place=reported.place,
        quantity=f"{reported.rule} {reported.split} {reported.quantity}",
        reported=reported.value,
        note="; ".join(notes),
        parameters=None,
        seeds=(),
        values=(),
        selected=(),
        seconds=(),
    )


def _with_run(outcome: Outcome, row: Row, seed: int, result: Result) -> Outcome:
    """Add the numbers of one run."""
    selected = outcome.selected
    if "validation" in result.best and "test" in result.best:
        selected = (*selected, result.best["test"][row.reported.quantity])
    return replace(
        outcome,
        seeds=(*outcome.seeds, seed),
        values=(*outcome.values, _by_the_papers_rule(row.reported, result)),
        selected=selected,
        seconds=(*outcome.seconds, result.seconds),
    )


def _by_the_papers_rule(reported: Reported, result: Result) -> float:
    """Read off a run what the paper would have reported."""
    if reported.rule == "validation":
        return result.best[reported.split][reported.quantity]
    with (result.directory / "metrics.csv").open(newline="") as file:
        column = f"{reported.split}_{reported.quantity}"
        values = [float(row[column]) for row in csv.DictReader(file) if row[column]]
    if reported.rule == "last":
        return values[-1]
    return max(values) if reported.quantity == "accuracy" else min(values)


def _write(folder: Path, recipe: Recipe, outcomes: list[Outcome], *, quick: bool) -> None:
    content: dict[str, Any] = {
        "recipe": recipe.name,
        "source": recipe.source,
        "quick": quick,
        "versions": {
            "eigenrnn": __version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "rows": [{**asdict(o), "mean": o.mean, "difference": o.difference} for o in outcomes],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "results.json", content)
    table = to_markdown(recipe, outcomes, quick=quick)
    write_atomically(folder / "results.md", table.encode())


def _with_error(values: Sequence[float]) -> str:
    """Write mean and standard error."""
    if not values:
        return ""
    mean = f"{statistics.fmean(values):.4f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(values) / len(values) ** 0.5:.4f}"


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
