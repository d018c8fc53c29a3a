"""Trains the rows of a recipe and compares the published numbers with ours."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from eigenrnn.errors import check_positive_integer
from eigenrnn_experiments.errors import NonFiniteLossError, RunExistsError
from eigenrnn_experiments.recipes.outcome import Outcome, not_run
from eigenrnn_experiments.recipes.panels import draw_panels
from eigenrnn_experiments.recipes.recipe import Computed, Entry, Recipe, Reference, Row
from eigenrnn_experiments.recipes.results_files import read_outcomes, write_computed, write_results
from eigenrnn_experiments.recipes.runs import Run, download_data, runs_in, runs_of
from eigenrnn_experiments.training import Callback, Dynamics
from eigenrnn_experiments.training.progress import plain_console
from eigenrnn_experiments.training.run_folder import locked

__all__ = ["reproduce"]


def reproduce(
    recipe: Recipe,
    directory: str | Path,
    *,
    rows: list[str] | None = None,
    points: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    console: Console | None = None,
    dynamics_every: int | None = None,
    max_minutes: float | None = None,
) -> list[Outcome]:
    """Train the networks of a recipe, draw its pictures and write `results.json` and `results.md`.

    Both files are rewritten after every run, so finished runs are never lost. Rows of an earlier
    call that are not run again are read from the folders of their runs. A picture is drawn from
    the finished runs as `NAME.png`, and its numbers are written to `NAME.csv`. The rows of another
    recipe are not trained: their runs are read from the folder of that recipe, beside this one.

    Args:
        recipe: The published comparison.
        directory: The folder of the results; each run has its own folder in it.
        rows: Parts of the labels of the rows to run; all rows by default.
        points: The points to run of the grids of the rows; all points by default.
        seeds: The seeds to run; the recipe's by default, the first of them if `quick`.
        quick: Whether to run a smoke test, too short for the reported numbers.
        resume: Whether to continue unfinished runs; finished runs are not repeated.
        overwrite: Whether to delete the existing runs of these rows.
        console: The console that shows the progress.
        dynamics_every: The number of steps between two measurements by `Dynamics`; None for none.
        max_minutes: The time limit of each run, see `fit`. A run that exceeds it does not count,
            and the next run begins.
    Returns:
        The outcome of each compared number, including the rows of earlier calls.
    Raises:
        ValueError: If a row or a point is not in the recipe, or `dynamics_every` is not positive.
            If the folder has an unfinished run of a row that another recipe trains.
        MissingDataError: If a row's data is missing and cannot be downloaded.
        RunExistsError: If runs exist and neither `resume` nor `overwrite` is set.
        FolderInUseError: If another process is writing to the folder.
    """
    if dynamics_every is not None:
        check_positive_integer("dynamics_every", dynamics_every)
    folder = Path(directory)
    chosen = recipe.select(rows)
    _check_points(points, chosen)
    writes_runs = not all(isinstance(row, Reference) for row in chosen)
    if writes_runs and not (resume or overwrite):
        _reject_existing_runs(folder)
    for row in chosen:
        if isinstance(row, Reference):
            _reject_unfinished_runs(folder, recipe, row, quick=quick)
    trained = [row for row in chosen if isinstance(row, Row)]
    if quick:
        trained = [row.quick() for row in trained]
    download_data(trained)
    options = {
        "resume": resume,
        "overwrite": overwrite,
        "console": console,
        "max_minutes": max_minutes,
    }
    with ExitStack() as stack:
        stack.enter_context(locked(folder))
        labels = {row.label for row in chosen}
        others = [
            row for row in recipe.rows if row.label not in labels or isinstance(row, Reference)
        ]
        outcomes = {row.label: not_run(row) for row in chosen}
        outcomes |= read_outcomes(folder, replace(recipe, rows=tuple(others)), quick=quick)
        for row in chosen:
            if isinstance(row, Computed):
                outcomes[row.label] = write_computed(folder, recipe, row, quick=quick)
            for run in runs_of(recipe, row, seeds, quick=quick, root=folder):
                if points is not None and run.key.point not in points:
                    continue
                callbacks: list[Callback] = []
                if dynamics_every is not None:
                    callbacks.append(Dynamics(dynamics_every))
                outcomes[row.label] = _train(run, outcomes[row.label], callbacks, **options)
                in_order = write_results(folder, recipe, outcomes, quick=quick)
                if outcomes[row.label][0].signal is not None:
                    return in_order
        in_order = write_results(folder, recipe, outcomes, quick=quick)
        drawn = draw_panels(recipe, folder, quick=quick)
        if not recipe.panels:
            return in_order
        return write_results(folder, recipe, outcomes, quick=quick, drawn=drawn)


def _train(
    run: Run, outcomes: list[Outcome], callbacks: Sequence[Callback], **options: Any
) -> list[Outcome]:
    """Train a run and add its numbers to the outcomes of its row; a diverged run has none."""
    name = f"{run.key.name}, seed {run.key.seed}"
    try:
        result = run.train(callbacks=callbacks, name=name, **options)
    except NonFiniteLossError as error:
        console = options["console"] or plain_console(stderr=True)
        console.print(f"{name} diverged: {error}", markup=False, emoji=False, soft_wrap=True)
    else:
        if result.interrupted:
            # no signal if the time was over
            return [replace(outcome, signal=result.signal) for outcome in outcomes]
    return run.add_to(outcomes)


def _check_points(points: Sequence[str] | None, rows: Sequence[Entry]) -> None:
    """Check that every point belongs to the grid of a row.

    Raises:
        ValueError: If one does not.
    """
    known: set[str] = set()
    for row in rows:
        if isinstance(row, Row):
            known.update(row.points())
        else:  # a number without training has no grid, like a row with the single point ""
            known.add("")
    for point in points or ():
        if point not in known:
            named = ", ".join(map(repr, sorted(known)))
            raise ValueError(f"expected points of these rows ({named}), got {point!r}")


def _reject_unfinished_runs(folder: Path, recipe: Recipe, row: Reference, *, quick: bool) -> None:
    """Check that no run that an earlier version began here waits for its end.

    Raises:
        ValueError: If one does: this recipe no longer trains its row.
    """
    for run in runs_in(folder, recipe, row, quick=quick):
        if run.files.state == "unfinished" and folder in run.files.path.parents:
            raise ValueError(
                f"expected finished runs, got {run.files.path}: delete it, and train the row by "
                f"eigenrnn reproduce {row.recipe.name}"
            )


def _reject_existing_runs(folder: Path) -> None:
    # Before any training: the first rows may take days.
    if (folder / "results.json").exists() or any(folder.glob("**/seed-*/config.json")):
        raise RunExistsError(
            f"{folder} already holds runs: continue them with resume=True (on the command line: "
            "--resume), or delete those of the selected rows with overwrite=True (--overwrite)"
        )
