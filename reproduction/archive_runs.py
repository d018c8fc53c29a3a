"""Archives the runs in the folders written by `reproduce`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from eigenrnn_experiments.files import Columns
from eigenrnn_experiments.recipes import Recipe
from eigenrnn_experiments.recipes.recipe import row_of
from eigenrnn_experiments.statistics import rounded, spaced_indices
from eigenrnn_experiments.training import Run, RunFolder, RunKey
from eigenrnn_experiments.training.run import locked
from reproduction.archive import Archive, CurveColumns, changes_since_run

__all__ = ["MAX_POINTS", "ArchiveChanges", "archive_runs", "evaluated_curve", "training_curve"]


@dataclass
class ArchiveChanges:
    """The runs that `archive_runs` added, kept and skipped.

    Args:
        archived: The runs that were added.
        unchanged: The runs that the archive already had.
        skipped: The reason for each run that was skipped, by its folder or name.
    """

    archived: list[RunKey] = field(default_factory=list[RunKey])
    unchanged: list[RunKey] = field(default_factory=list[RunKey])
    skipped: dict[str, str] = field(default_factory=dict[str, str])


def archive_runs(
    folders: Sequence[str | Path],
    archive: str | Path,
    recipes: Mapping[str, Recipe],
    *,
    overwrite: bool = False,
) -> ArchiveChanges:
    """Archive the runs of recipes: the record of each, with thinned curves.

    Args:
        folders: Folders of recipes, or folders that contain them.
        archive: The folder of the archive.
        recipes: All recipes, by name.
        overwrite: Whether a run replaces a different one in the archive.
    Raises:
        ValueError: If a folder holds no run, or the archive is damaged or of another version.
        FolderInUseError: If another process is writing to the archive.
    """
    changes = ArchiveChanges()
    with locked(Path(archive), patience=60.0):  # another process archives in seconds
        target = Archive(archive)
        try:
            for folder in map(Path, folders):
                for run in _runs(folder, recipes, changes):
                    _add(run, target, changes, overwrite=overwrite)
        finally:
            target.save()
    return changes


def _add(run: Run, archive: Archive, changes: ArchiveChanges, *, overwrite: bool) -> None:
    action = archive.add(run, overwrite=overwrite)
    if action == "archived":
        changes.archived.append(run.key)
    elif action == "unchanged":
        changes.unchanged.append(run.key)
    else:
        changes.skipped[str(run.key)] = (
            "the archive keeps a different run of the same name (--overwrite replaces it)"
        )


def _runs(folder: Path, recipes: Mapping[str, Recipe], changes: ArchiveChanges) -> Iterator[Run]:
    """Yield the runs below a folder that belong in the archive.

    Raises:
        ValueError: If it holds no run.
    """
    found = sorted(file.parent for file in folder.rglob("run.json"))
    if not found:
        raise ValueError(f"expected runs in {folder} or its subfolders, got none")
    for path in found:
        try:
            yield _to_archive(RunFolder(path), recipes)
        except ValueError as error:
            changes.skipped[str(path)] = str(error)


def _to_archive(files: RunFolder, recipes: Mapping[str, Recipe]) -> Run:
    """Return the record of a run with its curves, without what is there for other commands.

    Raises:
        ValueError: If it is damaged, has not ended, or is not a run of a current row.
    """
    run = files.run
    key = run.key
    if key.recipe not in recipes:
        raise ValueError(f"expected a recipe of this version, got {key.recipe!r}")
    if key.quick or key.varied:
        raise ValueError("a quick run, or one of a sweep: its numbers are not the paper's")
    if run.state == "computed":
        return run
    changed = changes_since_run(row_of(key, recipes[key.recipe]), run)
    if changed:
        raise ValueError(f"differs from its recipe: {'; '.join(changed)}")
    if run.state not in ("ended", "diverged") or (run.state == "ended" and run.numbers is None):
        raise ValueError("has not ended")
    columns = files.metrics
    if run.state == "ended" and not len(columns["step"]):
        raise ValueError("has no row in metrics.csv")
    curves = {"training": training_curve(columns), "evaluated": evaluated_curve(columns)}
    return replace(run, curves=curves, name="", modules="", layer="", message="", files={})


MAX_POINTS = 120
_DIGITS = 5


def training_curve(columns: Columns) -> CurveColumns:
    """Return the training loss; its mean over the logged steps is preferred."""
    means = columns.get("train_loss_mean")
    if means is None or np.isnan(means).all():
        return _thin(columns, ["train_loss"])
    return _thin(columns, ["train_loss_mean"])


def evaluated_curve(columns: Columns) -> CurveColumns:
    """Return the evaluations on the validation and test sets, and what callbacks measured then."""
    others = ("step", "seconds", "train_")
    return _thin(columns, [name for name in columns if not name.startswith(others)])


def _thin(columns: Columns, names: list[str]) -> CurveColumns:
    """Return evenly spaced rows that have one of these numbers, with the first and the last."""
    if not names:
        return {}
    present = np.flatnonzero(np.any([~np.isnan(columns[name]) for name in names], axis=0))
    rows = present[spaced_indices(len(present), MAX_POINTS)]
    thinned: CurveColumns = {"step": [int(step) for step in columns["step"][rows]]}
    for name in names:
        thinned[name] = rounded(columns[name][rows], _DIGITS)
    return thinned
