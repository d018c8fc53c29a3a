"""Archives the runs in the folders written by `reproduce`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np

from eigenrnn import __version__
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.recipes import Computed, Recipe, Reference, Row
from eigenrnn_experiments.recipes.outcome import numbers_by_rule
from eigenrnn_experiments.recipes.results_files import read_computed, recipe_of_folder
from eigenrnn_experiments.recipes.runs import Run, runs_in
from eigenrnn_experiments.report.rounding import rounded, spaced_indices
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.training import Result
from eigenrnn_experiments.training.description import describe_options
from eigenrnn_experiments.training.files import Columns
from eigenrnn_experiments.training.run_folder import RunFolder, locked
from reproduction.archive import Archive, ArchivedRun, CurveColumns, RunName, changes_since_run

__all__ = [
    "FRACTIONS",
    "MAX_POINTS",
    "ArchiveChanges",
    "archive_runs",
    "evaluated_curve",
    "training_curve",
]


@dataclass
class ArchiveChanges:
    """The runs that `archive_runs` added, kept and skipped.

    Args:
        archived: The runs that were added.
        unchanged: The runs that the archive already had.
        skipped: The reason for each run or folder that was skipped.
        other_versions: The version that trained each archived run, if it is not this one.
    """

    archived: list[RunName] = field(default_factory=list[RunName])
    unchanged: list[RunName] = field(default_factory=list[RunName])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    other_versions: dict[RunName, str] = field(default_factory=dict[RunName, str])


def archive_runs(
    folders: Sequence[str | Path],
    archive: str | Path,
    recipes: Mapping[str, Recipe],
    *,
    overwrite: bool = False,
) -> ArchiveChanges:
    """Archive the runs of recipes.

    Args:
        folders: Folders of recipes, or folders that contain them.
        archive: The folder of the archive.
        recipes: All recipes, by name.
        overwrite: Whether a run replaces a different one in the archive.
    Raises:
        ValueError: If a folder holds no recipe or quick runs, or a file is damaged or of another
            version; files archived before the error stay.
        FolderInUseError: If another process is writing to the archive.
    """
    changes = ArchiveChanges()
    recipe_folders = _recipe_folders(folders, recipes, changes)
    with locked(Path(archive), patience=60.0):  # another process archives in seconds
        target = Archive(archive)
        try:
            for folder, recipe in recipe_folders.items():
                for run in _runs(folder, recipe, changes):
                    _add(run, target, changes, overwrite=overwrite)
        finally:
            target.save()
    return changes


def _add(run: ArchivedRun, archive: Archive, changes: ArchiveChanges, *, overwrite: bool) -> None:
    action = archive.add(run, overwrite=overwrite)
    version = run.versions.get("eigenrnn", "of unknown version")
    if action != "kept" and version != __version__:
        changes.other_versions[run.name] = version
    if action == "archived":
        changes.archived.append(run.name)
    elif action == "unchanged":
        changes.unchanged.append(run.name)
    else:
        changes.skipped[str(run.name)] = (
            "the archive keeps a different run of the same name (--overwrite replaces it)"
        )


def _recipe_folders(
    folders: Sequence[str | Path], recipes: Mapping[str, Recipe], changes: ArchiveChanges
) -> dict[Path, Recipe]:
    """Find the folders of recipes; an unsuitable one is an error only if it is named directly.

    Raises:
        ValueError: If a folder holds no runs, or holds quick runs or runs of an unknown recipe.
    """
    found: dict[Path, Recipe] = {}
    for path in map(Path, folders):
        inside = [path]
        if not recipe_of_folder(path):
            folders_in = sorted(filter(Path.is_dir, path.glob("*")))
            inside = [each for each in folders_in if recipe_of_folder(each)]
        if not inside:
            raise ValueError(
                "expected the folder of a recipe that was run, or a folder of such folders, got "
                f"{path}, which holds no run of a recipe"
            )
        for folder in inside:
            try:
                found[folder] = _suitable_recipe(folder, recipes)
            except ValueError as error:
                if folder == path:
                    raise
                changes.skipped[str(folder)] = str(error)
    return found


def _suitable_recipe(folder: Path, recipes: Mapping[str, Recipe]) -> Recipe:
    """Return the recipe whose full or reduced runs a folder holds.

    Raises:
        ValueError: If it holds quick runs, or runs of an unknown recipe.
    """
    name, quick, reduced_to = recipe_of_folder(folder) or ("", False, None)
    if quick:
        raise ValueError(
            f"expected full runs in {folder}, got quick ones, whose numbers are not comparable: "
            "run eigenrnn reproduce without --quick"
        )
    if name not in recipes:
        raise ValueError(f"expected a recipe of this version in {folder}, got {name!r}")
    if reduced_to is None:
        return recipes[name]
    return recipes[name].reduced(reduced_to)


def _runs(
    folder: Path,
    recipe: Recipe,
    changes: ArchiveChanges,
) -> Iterator[ArchivedRun]:
    """Yield the runs of a folder that belong in the archive."""
    for entry in recipe.rows:
        row = entry
        if isinstance(row, Computed):
            yield from _computed(folder, recipe, row)
        if isinstance(row, Reference):  # with all its numbers, not only those of this recipe
            row = replace(row, row=row.recipe.row(row.label))
        for run in runs_in(folder, recipe, row):  # none of a row that is not trained
            if folder not in run.files.path.parents:  # a run of another recipe
                continue
            archived, reason = _archived(run)
            if archived is None:
                changes.skipped[str(run.files.path)] = reason
            else:
                yield archived


def _computed(folder: Path, recipe: Recipe, row: Computed) -> Iterator[ArchivedRun]:
    number = read_computed(folder, row.label)
    if number is not None:
        yield ArchivedRun(
            recipe.name,
            row.label,
            "",
            None,
            "computed",
            value=number.value,
            seconds=number.seconds,
            revision=number.revision,
            versions=number.versions,
        )


def _archived(run: Run) -> tuple[ArchivedRun | None, str]:
    """Return the archived record of a run, or the reason why it is not archived."""
    files = run.files
    try:
        config = files.config
    except ValueError as error:
        return None, str(error)
    state = files.state
    recorded: dict[str, Any] = {
        "task": {"class": config.task.kind, "options": config.task.options},
        "settings": describe_options(config.settings),
        "network": config.network,
    }
    changed = changes_since_run(run.row, recorded)
    if changed:
        return None, f"differs from its recipe: {'; '.join(changed)}"
    if state == "unfinished":
        return None, "has not ended"
    columns = files.metrics
    baseline = _baseline(run.row.task)
    training = training_curve(columns, baseline)
    steps = int((training["step"] or [0])[-1] or 0)
    all_steps = _all_steps(run.row)
    if not all_steps:  # of a task whose data is not here
        all_steps = None
        if state == "ended":
            all_steps = steps
    key = run.key
    archived = ArchivedRun(
        recipe=key.recipe,
        row=key.row,
        point=key.point,
        seed=key.seed,
        reduced=key.reduced,
        state=cast("Any", state),
        **recorded,
        parameters=config.parameters,
        baseline=baseline,
        revision=config.revision,
        ended=_ended(files),
        versions=config.versions,
        steps=steps,
        all_steps=all_steps,
        scores=files.read_status().scores or {},
        seconds=files.trained_seconds(),
        training=training,
        evaluated=evaluated_curve(columns, baseline),
    )
    result = files.result
    if result is None:  # it diverged
        return archived, ""
    of_result = {each.name for each in fields(Result)}
    measured: dict[str, Any] = {}
    for each in fields(ArchivedRun):
        if each.name in of_result:
            measured[each.name] = getattr(result, each.name)
    first, *others = run.row.reported
    measured |= numbers_by_rule(run.row, first, result)
    found: dict[str, dict[str, float | None]] = {}
    for reported in others:
        if reported.measure != first.measure:
            found[reported.measure] = numbers_by_rule(run.row, reported, result)
            del found[reported.measure]["deciding"]  # the same for all
    measured["others"] = found
    return replace(archived, **measured), ""


def _ended(files: RunFolder) -> str:
    """Return when the last numbers of a run were written, in UTC."""
    seconds = files.metrics_file.stat().st_mtime
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@cache
def _baseline(task: Task) -> float | None:
    if task.missing_data() is not None:
        return None
    return task.baseline()


def _all_steps(row: Row) -> int | None:
    if row.task.missing_data() is not None:
        return None
    try:
        return row.settings.total_steps(row.task)
    except MissingDataError:
        return None


MAX_POINTS = 120
FRACTIONS = (0.9, 0.5, 0.2, 0.1)
"""Of the chance-level loss, below which the first update is kept in a curve."""
_DIGITS = 5


def training_curve(columns: Columns, baseline: float | None = None) -> CurveColumns:
    """Return the training loss; its mean over the logged steps is preferred."""
    means = columns.get("train_loss_mean")
    if means is None or np.isnan(means).all():
        return _thin(columns, ["train_loss"], baseline)
    return _thin(columns, ["train_loss_mean"], baseline)


def evaluated_curve(columns: Columns, baseline: float | None = None) -> CurveColumns:
    """Return the evaluations on the validation and test sets, and what callbacks measured then."""
    others = ("step", "seconds", "train_")
    return _thin(columns, [name for name in columns if not name.startswith(others)], baseline)


def _thin(columns: Columns, names: list[str], baseline: float | None) -> CurveColumns:
    """Return evenly spaced rows that have one of these numbers, with the first and the last.

    So do the rows at which a loss first falls below a fraction of the chance-level loss.
    """
    if not names:
        return {}
    present = np.flatnonzero(np.any([~np.isnan(columns[name]) for name in names], axis=0))
    kept = {*present[spaced_indices(len(present), MAX_POINTS)].tolist()}
    for name, fraction in product(names, FRACTIONS):
        if "loss" in name and baseline is not None:
            kept.update(np.flatnonzero(columns[name] < fraction * baseline)[:1].tolist())
    rows = np.array(sorted(kept), int)
    thinned: CurveColumns = {"step": [int(step) for step in columns["step"][rows]]}
    for name in names:
        thinned[name] = rounded(columns[name][rows], _DIGITS)
    return thinned
