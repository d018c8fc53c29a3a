"""Collects the folders written by `reproduce` into the archive."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eigenrnn import __version__
from eigenrnn.errors import MissingDataError
from eigenrnn.experiments.recipes import Computed, Recipe, Row
from eigenrnn.experiments.recipes.outcome import (
    deciding_loss,
    measured_value,
    validated_test_value,
)
from eigenrnn.experiments.report.rounding import rounded, spaced_indices
from eigenrnn.experiments.results.archive import Archive, ArchivedRun, Curve
from eigenrnn.experiments.results.jobs import Job, SharedRuns
from eigenrnn.experiments.results.outcomes import changes_since_run, describe_task
from eigenrnn.experiments.results.recipe_folder import RecipeFolder, latest_result
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Result
from eigenrnn.experiments.training.files import Columns, read_json, read_table
from eigenrnn.experiments.training.run_folder import locked

__all__ = ["MAX_POINTS", "CollectResult", "collect", "evaluated_curve", "training_curve"]


@dataclass
class CollectResult:
    """The files that `collect` wrote, kept and skipped.

    Args:
        archived: The files that were written.
        unchanged: The files that the archive already had.
        skipped: The reason for each file or folder that was skipped.
        other_versions: The version that trained each archived run, if it is not this one.
    """

    archived: list[Path] = field(default_factory=list[Path])
    unchanged: list[Path] = field(default_factory=list[Path])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    other_versions: dict[Path, str] = field(default_factory=dict[Path, str])


def collect(
    folders: Sequence[str | Path],
    archive: str | Path,
    recipes: Mapping[str, Recipe],
    *,
    overwrite: bool = False,
    unfinished: bool = False,
) -> CollectResult:
    """Archive the runs of recipes.

    A run is archived for every row, of any recipe, that shares it.

    Args:
        folders: Folders of recipes, or folders that contain them.
        archive: The folder of the archive.
        recipes: All recipes, by name.
        overwrite: Whether a run replaces a different one in the archive.
        unfinished: Whether unfinished runs are archived too, marked as unfinished.
    Raises:
        ValueError: If a folder holds no recipe or quick runs, or a file is damaged or of another
            version; files archived before the error stay.
        FolderInUseError: If another process is writing to the archive.
    """
    target, collected = Archive(archive), CollectResult()
    shared = SharedRuns(recipes)
    recipe_folders = _recipe_folders(folders, recipes, collected)
    with locked(target.folder):
        for folder in recipe_folders:
            for run in _runs(folder, shared, collected, unfinished=unfinished):
                _add(run, target, collected, overwrite=overwrite)
    return collected


def _add(run: ArchivedRun, archive: Archive, collected: CollectResult, *, overwrite: bool) -> None:
    action = archive.add(run, overwrite=overwrite)
    version = run.versions.get("eigenrnn", "of unknown version")
    if action != "kept" and version != __version__:
        collected.other_versions[run.relative_path] = version
    if action == "archived":
        collected.archived.append(run.relative_path)
    elif action == "unchanged":
        collected.unchanged.append(run.relative_path)
    else:
        collected.skipped[str(archive.folder / run.relative_path)] = (
            "holds a different run of the same name, which is kept (--overwrite replaces it)"
        )


def _recipe_folders(
    folders: Sequence[str | Path], recipes: Mapping[str, Recipe], collected: CollectResult
) -> list[RecipeFolder]:
    """Find the folders of recipes; an unsuitable one is an error only if it is named directly.

    Raises:
        ValueError: If a folder holds no recipe, or holds quick runs or an unknown recipe.
    """
    found: list[RecipeFolder] = []
    for path in map(Path, folders):
        if (path / "results.json").is_file():
            found.append(RecipeFolder.read(path, recipes))
            continue
        subfolders = sorted(file.parent for file in path.glob("*/results.json"))
        if not subfolders:
            raise ValueError(
                "expected the folder of a recipe that was run, or a folder of such folders, got "
                f"{path}, which has no results.json"
            )
        for subfolder in subfolders:
            try:
                found.append(RecipeFolder.read(subfolder, recipes))
            except ValueError as error:
                collected.skipped[str(subfolder)] = str(error)
    return found


def _runs(
    folder: RecipeFolder, shared: SharedRuns, collected: CollectResult, *, unfinished: bool
) -> Iterator[ArchivedRun]:
    """Yield the runs of a folder that belong in the archive."""
    for row in folder.recipe.rows:
        if isinstance(row, Computed):
            yield from _computed(folder, row)
        for job in folder.jobs(row) if isinstance(row, Row) else ():
            path, state = folder.path / job.run_folder, "ended"
            config = read_json(path / "config.json", ("task", "settings", "versions"))
            changed = changes_since_run(job.row, config["task"], config["settings"])
            if changed:
                collected.skipped[str(path)] = f"differs from its recipe: {'; '.join(changed)}"
                continue
            if folder.has_ended(job):
                result = folder.result(job)
            else:
                state = "diverged" if folder.has_diverged(job) else "unfinished"
                result = latest_result(path, job.row.task)
            if state == "unfinished" and not (unfinished and result):
                collected.skipped[str(path)] = "has not ended"
                continue
            run = _archived(folder, job, config, result, state)
            yield run
            yield from (
                _for_other_row(run, job, other, result) for other in shared.jobs_served_by(job)
            )


def _computed(folder: RecipeFolder, row: Computed) -> Iterator[ArchivedRun]:
    outcome = folder.outcome(row.label)
    for value, seconds in zip(outcome.get("values", ()), outcome.get("seconds", ()), strict=True):
        yield ArchivedRun(
            recipe=folder.recipe.name,
            row=row.label,
            point="",
            seed=None,
            state="computed",
            versions=folder.content["versions"],
            seconds=seconds,
            value=value,
        )


def _archived(
    folder: RecipeFolder, job: Job, config: Mapping[str, Any], result: Result | None, state: Any
) -> ArchivedRun:
    """Return the archived record of a run."""
    path, task = folder.path / job.run_folder, job.row.task
    training = training_curve(path / "metrics.csv")
    steps = int((training["step"] or [0])[-1] or 0)
    run = ArchivedRun(
        recipe=job.recipe.name,
        row=job.row.label,
        point=job.point,
        seed=job.seed,
        state=state,
        parameters=config["parameters"],
        task=describe_task(task),
        baseline=_baseline(task),
        settings=config["settings"],
        versions=config["versions"],
        steps=steps,
        all_steps=_all_steps(job.row) or (steps if state == "ended" else None),
        scores=_scores(folder, job),
        training=training,
        evaluated=evaluated_curve(path / "metrics.csv"),
    )
    if result is None:
        return run
    shared = {f.name for f in fields(ArchivedRun)} & {f.name for f in fields(Result)}
    run = replace(run, **{name: value for name, value in asdict(result).items() if name in shared})
    return run if state == "diverged" else replace(run, **_numbers(job.row, result))


def _numbers(row: Row, result: Result) -> dict[str, float | None]:
    return {
        "value": measured_value(row, result),
        "selected": validated_test_value(row, result),
        "deciding": deciding_loss(row, result),
    }


def _for_other_row(run: ArchivedRun, job: Job, other: Job, result: Result | None) -> ArchivedRun:
    """Return the record of a shared run for a row of another recipe, by its paper's rule."""
    numbers = {} if result is None or run.state == "diverged" else _numbers(other.row, result)
    return replace(
        run,
        recipe=other.recipe.name,
        row=other.row.label,
        point=other.point,
        trained_for=f"{job.recipe.name}: {job.row.label}",
        scores={} if other.row.score is None else run.scores,
        **numbers,
    )


def _scores(folder: RecipeFolder, job: Job) -> dict[str, float]:
    """Return the further scores of the best model of a run."""
    outcome = folder.outcome(job.row.label)
    runs = list(zip(outcome.get("points", ()), outcome.get("seeds", ()), strict=True))
    scores = outcome.get("scores", ())
    has_scores = (job.point, job.seed) in runs and len(scores) == len(runs)
    return dict(scores[runs.index((job.point, job.seed))]) if has_scores else {}


@cache
def _baseline(task: Task) -> float | None:
    return task.baseline() if task.missing_data() is None else None


def _all_steps(row: Row) -> int | None:
    try:
        return row.settings.total_steps(row.task) if row.task.missing_data() is None else None
    except MissingDataError:
        return None


MAX_POINTS = 120
_DIGITS = 5


def training_curve(metrics: Path) -> Curve:
    """Read the training loss; its mean over the logged steps is preferred."""
    columns = read_table(metrics)
    means = columns.get("train_loss_mean")
    name = "train_loss" if means is None or np.isnan(means).all() else "train_loss_mean"
    return _thin(columns, [name])


def evaluated_curve(metrics: Path) -> Curve:
    """Read the evaluations on the validation and test sets."""
    columns = read_table(metrics)
    return _thin(columns, [n for n in columns if n.startswith(("validation_", "test_"))])


def _thin(columns: Columns, names: list[str]) -> Curve:
    """Return evenly spaced rows that have one of these numbers, with the first and the last."""
    if not names:
        return {}
    present = np.flatnonzero(np.any([~np.isnan(columns[name]) for name in names], axis=0))
    kept = present[spaced_indices(len(present), MAX_POINTS)]
    steps: list[float | None] = [int(step) for step in columns["step"][kept]]
    return {"step": steps, **{name: rounded(columns[name][kept], _DIGITS) for name in names}}
