"""Trains the rows of a recipe and compares the published numbers with ours."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from eigenrnn.errors import check_positive_integer
from eigenrnn_experiments.atomic import write_atomically
from eigenrnn_experiments.errors import NonFiniteLossError, RunExistsError, StoppedError
from eigenrnn_experiments.recipes.comparison import Comparison, compare, to_markdown
from eigenrnn_experiments.recipes.panels import draw_panels
from eigenrnn_experiments.recipes.recipe import Computed, Entry, Recipe, Reference, Row
from eigenrnn_experiments.recipes.runs import compute, download_data, folder_name, row_of, train
from eigenrnn_experiments.training import Callback, Dynamics
from eigenrnn_experiments.training.progress import plain_console
from eigenrnn_experiments.training.run import RunKey
from eigenrnn_experiments.training.run_folder import locked
from eigenrnn_experiments.training.table import read_below

__all__ = ["reproduce", "write_page"]


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
) -> list[Comparison]:
    """Train the networks of a recipe, draw its pictures and write `results.md`.

    Each run has its own folder. The page is written again after every run from all runs in the
    folder, also those of earlier calls. A picture is drawn from
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
        Each number of the paper beside the runs of its row, also those of earlier calls.
    Raises:
        StoppedError: If Ctrl-C or another signal ended a run; the runs before it stay.
        ValueError: If a row or a point is not in the recipe, or `dynamics_every` is not positive.
        MissingDataError: If a row's data is missing and cannot be downloaded.
        RunExistsError: If runs exist and neither `resume` nor `overwrite` is set.
        FolderInUseError: If another process is writing to the folder.
    """
    if dynamics_every is not None:
        check_positive_integer("dynamics_every", dynamics_every)
    folder = Path(directory)
    chosen = recipe.select(rows)
    _check_points(points, chosen)
    labels = [row.label for row in chosen]
    trained = [row for row in chosen if isinstance(row, Row)]
    computed = [row for row in chosen if isinstance(row, Computed)]
    is_new = not (resume or overwrite)
    if is_new and (trained or computed) and any(folder.glob("**/run.json")):
        # before any training: the first rows may take days
        raise RunExistsError(
            f"{folder} already holds runs: continue them with resume=True (on the command line: "
            "--resume), or delete those of the selected rows with overwrite=True (--overwrite)"
        )
    if quick:
        trained = [row.quick() for row in trained]
    download_data(trained)
    with locked(folder):
        for row in computed:
            key = RunKey(recipe.name, row.label, quick=quick, reduced=recipe.reduced_to)
            compute(row, key, folder / key.path)
        found = write_page(folder, recipe, quick=quick, listed=labels)
        for row in chosen:
            if not isinstance(row, Row):
                continue
            for key in recipe.plan(row, seeds, quick=quick).keys:
                if points is not None and key.point not in points:
                    continue
                callbacks: list[Callback] = []
                if dynamics_every is not None:
                    callbacks.append(Dynamics(dynamics_every))
                signal = _train(
                    key,
                    recipe,
                    folder,
                    callbacks=callbacks,
                    resume=resume,
                    overwrite=overwrite,
                    console=console,
                    max_minutes=max_minutes,
                )
                found = write_page(folder, recipe, quick=quick, listed=labels)
                if signal is not None:
                    raise StoppedError(signal)
        if recipe.panels:
            found = write_page(folder, recipe, quick=quick, listed=labels, draws=True)
    return found


def _train(key: RunKey, recipe: Recipe, folder: Path, **options: Any) -> int | None:
    """Train a run; return the signal that ended it, if one did. A run may diverge."""
    name = f"{key.network}, seed {key.seed}"
    try:
        return train(row_of(key, recipe), key, folder / key.path, name=name, **options).signal
    except NonFiniteLossError as error:
        console = options["console"] or plain_console(stderr=True)
        console.print(f"{name} diverged: {error}", markup=False, emoji=False, soft_wrap=True)
        return None


def write_page(
    folder: Path,
    recipe: Recipe,
    *,
    quick: bool,
    listed: Collection[str] | None = None,
    draws: bool = False,
) -> list[Comparison]:
    """Write `results.md` from the runs in a folder, and return the comparisons.

    Args:
        folder: The folder. The rows of another recipe are in its folder beside this one.
        recipe: The recipe.
        quick: Whether quick runs are compared.
        listed: The labels of the rows that are listed without runs too; all by default.
        draws: Whether the pictures are drawn, too.
    Raises:
        ValueError: If the record of a run is damaged.
    """
    beside = [row.recipe for row in recipe.rows if isinstance(row, Reference)]
    names = dict.fromkeys(folder_name(each, quick=quick) for each in beside)
    folders = [folder, *(folder.absolute().with_name(name) for name in names)]
    table = read_below(folders)
    for message in table[table["state"] == "unreadable"]["message"]:
        raise ValueError(message)
    found = compare(recipe, table, quick=quick, listed=listed)
    drawn = draw_panels(recipe, folder, table, quick=quick) if draws else None
    page = to_markdown(recipe, found, quick=quick, drawn=drawn)
    write_atomically(folder / "results.md", page.encode())
    return found


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
