"""Runs a recipe and sets the published numbers beside ours."""

import json
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from eigenrnn.atomic import write_atomically
from eigenrnn.errors import (
    MissingDataError,
    NonFiniteLossError,
    RunExistsError,
    check_positive_integer,
)
from eigenrnn.models import count_parameters
from eigenrnn.recipes.base import Computed, Recipe, Row
from eigenrnn.recipes.drawing import draw_panels, run_place
from eigenrnn.recipes.origin import Origin
from eigenrnn.recipes.outcome import Outcome
from eigenrnn.recipes.panel import Panel
from eigenrnn.recipes.table import to_markdown
from eigenrnn.train import Callback, Dynamics, checkpoint, fit
from eigenrnn.train.run_directory import write_json
from eigenrnn.version import __version__

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
    Returns:
        What each row came to, those of earlier calls included.
    Raises:
        ValueError: If a row is not in the recipe, or `dynamics_every` is not positive.
        MissingDataError: If a row's data is not there and cannot be downloaded.
        RunExistsError: If there are runs and neither `resume` nor `overwrite` is set.
    """
    if dynamics_every is not None:
        check_positive_integer("dynamics_every", dynamics_every)
    folder = Path(directory)
    chosen = recipe.select(rows)
    if not (resume or overwrite):
        _refuse_what_is_there(folder)
    _fetch([row.quick() if quick else row for row in chosen if isinstance(row, Row)])
    outcomes = _earlier(folder, recipe, quick=quick)
    outcomes |= {row.label: Outcome.before(row) for row in chosen}
    for row in chosen:
        if isinstance(row, Computed):
            outcomes[row.label] = _computed(row, outcomes[row.label])
        for run in _runs(recipe, row, seeds, quick=quick) if isinstance(row, Row) else ():
            options = {"resume": resume, "overwrite": overwrite, "console": console}
            watching = [] if dynamics_every is None else [Dynamics(dynamics_every)]
            outcomes[row.label] = run.train(folder, outcomes[row.label], watching, **options)
            in_order = _write(folder, recipe, outcomes, quick=quick)
            if outcomes[row.label].interrupted:
                return in_order
    in_order = _write(folder, recipe, outcomes, quick=quick)
    drawn = draw_panels(recipe, folder, quick=quick)
    if not recipe.panels:
        return in_order
    return _write(folder, recipe, outcomes, quick=quick, drawn=drawn)


def _computed(row: Computed, outcome: Outcome) -> Outcome:
    began = time.monotonic()
    value = row.compute()
    return outcome.with_value(value, time.monotonic() - began)


@dataclass(frozen=True)
class _Run:
    """One training of a row: which point of its grid, from which seed, and where it goes."""

    row: Row
    point: str
    seed: int
    place: Path
    origin: Origin

    def train(
        self, folder: Path, outcome: Outcome, watching: Sequence[Callback], **options: Any
    ) -> Outcome:
        """Train it and add its numbers to the row's; of a run that diverges there are none."""
        row, place = self.row, folder / self.place
        model = row.build(self.seed)
        count = count_parameters(model)
        # "lr-0-1, seed 3"
        said = ", ".join(self.place.parts[1:]).replace("seed-", "seed ")
        options |= {
            "callbacks": watching if row.watch is None else [*watching, row.watch(place)],
            "name": (name := f"{row.label}, {said}"),
            "config": self.origin.facts(),
        }
        try:
            result = fit(model, row.task, row.settings, place, **options)
        except NonFiniteLossError as error:
            console = options["console"] or Console(stderr=True)
            console.print(f"{name} diverged: {error}", markup=False, soft_wrap=True)
            return outcome.with_failure(row, self.seed, count, self.point)
        if result.interrupted:
            return replace(outcome, interrupted=True)
        outcome = outcome.with_run(row, self.seed, count, result, self.point)
        if row.score is None:
            return outcome
        model.load_state_dict(checkpoint.load(place / "best.pt")["model"])
        scores = row.score(model.eval(), row.task, place / "scores")
        return replace(outcome, scores=(*outcome.scores, dict(scores)))


def _runs(recipe: Recipe, row: Row, seeds: Sequence[int] | None, *, quick: bool) -> Iterator[_Run]:
    """Yield what is trained for a row."""
    if row.layer is None:
        return
    if seeds is None:
        seeds = (row.seeds or recipe.seeds)[: 1 if quick else None]
    for name, point in (row.quick() if quick else row).points().items():
        for seed in seeds:
            origin = Origin(recipe.name, row.label, name, seed, quick)
            place = run_place(row.label, name, seed)
            yield _Run(point.with_seed(seed), name, seed, place, origin)


def _fetch(rows: list[Row]) -> None:
    """Get all data before the first row is trained, perhaps for days.

    Raises:
        MissingDataError: If some cannot be had.
    """
    for task in dict.fromkeys(row.task for row in rows):
        if task.missing_data() is None:
            continue
        try:
            next(task.batches("train", 1))  # downloads it, or says what to do
        except MissingDataError as error:
            labels = ", ".join(row.label for row in rows if row.task == task)
            raise MissingDataError(f"{error}; or choose other rows than {labels}") from None


def _refuse_what_is_there(folder: Path) -> None:
    # At once, and not when the first rows have trained for days.
    if (folder / "results.json").exists() or any(folder.glob("**/seed-*/config.json")):
        raise RunExistsError(
            f"{folder} already holds runs: go on with them with resume=True (on the command line: "
            "--resume), or delete those of these rows with overwrite=True (--overwrite)"
        )


def _earlier(folder: Path, recipe: Recipe, *, quick: bool) -> dict[str, Outcome]:
    """Read the outcomes of an earlier call."""
    path = folder / "results.json"
    content = json.loads(path.read_text()) if path.exists() else {}
    if (content.get("recipe"), content.get("quick")) != (recipe.name, quick):
        return {}
    known = {row.label for row in recipe.rows}
    outcomes = [Outcome.from_json(row) for row in content["rows"]]
    return {o.label: replace(o, interrupted=False) for o in outcomes if o.label in known}


def _write(
    folder: Path,
    recipe: Recipe,
    outcomes: dict[str, Outcome],
    *,
    quick: bool,
    drawn: Sequence[Panel] | None = None,
) -> list[Outcome]:
    """Write both files; return the outcomes in the recipe's order."""
    in_order = [outcomes[row.label] for row in recipe.rows if row.label in outcomes]
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
        "rows": [outcome.to_json() for outcome in in_order],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "results.json", content)
    page = to_markdown(recipe, in_order, quick=quick, drawn=drawn)
    write_atomically(folder / "results.md", page.encode())
    return in_order
