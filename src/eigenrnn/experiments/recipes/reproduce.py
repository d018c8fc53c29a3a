"""Runs a recipe and sets the published numbers beside ours."""

import time
from collections.abc import Container, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import filterfalse
from pathlib import Path

from rich.console import Console

from eigenrnn.errors import RunExistsError, check_positive_integer
from eigenrnn.experiments.recipes.base import Computed, Recipe, Row
from eigenrnn.experiments.recipes.drawing import draw_panels
from eigenrnn.experiments.recipes.outcome import Outcome
from eigenrnn.experiments.recipes.runs import fetch, runs_of
from eigenrnn.experiments.recipes.written import write_results
from eigenrnn.experiments.report.files import read_json
from eigenrnn.experiments.training import Dynamics
from eigenrnn.experiments.training.processes import is_first
from eigenrnn.experiments.training.run_directory import locked

__all__ = ["reproduce"]


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
    dynamics_every: int | None = None,
    without: Container[Path] = (),
    max_minutes: float | None = None,
) -> list[Outcome]:
    """Train the networks of a recipe, draw its pictures and write `results.json` and `results.md`.

    Both files are written anew after every run, so that what is done is never lost; rows of an
    earlier call that are not run again stay in them. A picture is drawn from the runs that are
    there: `NAME.png`, and its numbers as `NAME.csv`.

    Args:
        recipe: The published comparison.
        directory: Where the runs and the results go, a folder for each row and seed.
        rows: Parts of the labels of the rows to run; all of them by default.
        seeds: The seeds to run; the recipe's by default, the first of them if `quick`.
        quick: Whether to run at a size that shows that it works, not what it reaches.
        resume: Whether to go on with what is there: runs that have ended are not repeated.
        overwrite: Whether to delete the runs of these rows that are there.
        console: Where to show progress.
        dynamics_every: The number of steps between two looks of `Dynamics` at each run; None
            takes none.
        without: Runs that are left out, by their places in the folder.
        max_minutes: How long each run may train, see `fit`; one that has not ended by then does
            not count, and the next one begins.
    Returns:
        What each row came to, those of earlier calls included.
    Raises:
        ValueError: If a row is not in the recipe, or `dynamics_every` is not positive.
        MissingDataError: If a row's data is not there and cannot be downloaded.
        RunExistsError: If there are runs and neither `resume` nor `overwrite` is set.
        FolderInUseError: If another process is writing to the folder.
    """
    if dynamics_every is not None:
        check_positive_integer("dynamics_every", dynamics_every)
    folder = Path(directory)
    chosen = recipe.select(rows)
    if not (resume or overwrite):
        _refuse_what_is_there(folder)
    fetch([row.quick() if quick else row for row in chosen if isinstance(row, Row)])
    options = {
        "resume": resume,
        "overwrite": overwrite,
        "console": console,
        "max_minutes": max_minutes,
    }
    # the other processes of a run share the lock of the first
    with locked(folder) if is_first() else nullcontext():
        outcomes = _earlier(folder, recipe, quick=quick)
        outcomes |= {row.label: Outcome.before(row) for row in chosen}
        for row in chosen:
            if isinstance(row, Computed):
                outcomes[row.label] = _computed(row, outcomes[row.label])
            runs = runs_of(recipe, row, seeds, quick=quick) if isinstance(row, Row) else ()
            for run in filterfalse(lambda run: run.place in without, runs):
                watching = [] if dynamics_every is None else [Dynamics(dynamics_every)]
                outcomes[row.label] = run.train(folder, outcomes[row.label], watching, **options)
                in_order = write_results(folder, recipe, outcomes, quick=quick)
                if outcomes[row.label].interrupted:
                    return in_order
        in_order = write_results(folder, recipe, outcomes, quick=quick)
        drawn = draw_panels(recipe, folder, quick=quick)
        if not recipe.panels:
            return in_order
        return write_results(folder, recipe, outcomes, quick=quick, drawn=drawn)


def _computed(row: Computed, outcome: Outcome) -> Outcome:
    began = time.monotonic()
    value = row.compute()
    return outcome.with_value(value, time.monotonic() - began)


def _refuse_what_is_there(folder: Path) -> None:
    # At once, and not when the first rows have trained for days.
    if (folder / "results.json").exists() or any(folder.glob("**/seed-*/config.json")):
        raise RunExistsError(
            f"{folder} already holds runs: go on with them with resume=True (on the command line: "
            "--resume), or delete those of these rows with overwrite=True (--overwrite)"
        )


def _earlier(folder: Path, recipe: Recipe, *, quick: bool) -> dict[str, Outcome]:
    """Read the outcomes of an earlier call.

    Raises:
        ValueError: If its results are damaged.
    """
    path = folder / "results.json"
    if not path.exists():
        return {}
    content = read_json(path, ("recipe", "quick", "rows"))
    if (content["recipe"], content["quick"]) != (recipe.name, quick):
        return {}
    known = {row.label for row in recipe.rows}
    try:
        outcomes = [Outcome.from_json(row) for row in content["rows"]]
    except (TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged: {error}; delete it: resume=True (--resume) writes it again from "
            "the runs"
        ) from None
    return {o.label: replace(o, signal=None) for o in outcomes if o.label in known}
