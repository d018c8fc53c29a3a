"""Makes the archive from the folders that `reproduce` has written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from eigenrnn import __version__
from eigenrnn.errors import MissingDataError
from eigenrnn.experiments.recipes import Computed, Recipe, Row
from eigenrnn.experiments.recipes.outcome import (
    deciding_loss,
    measured_value,
    validated_test_value,
)
from eigenrnn.experiments.report.files import read_json
from eigenrnn.experiments.results.archive import Archive, Archived
from eigenrnn.experiments.results.curves import evaluated_curve, training_curve
from eigenrnn.experiments.results.recorded import departs, task_text
from eigenrnn.experiments.results.same_runs import Job, SameRuns
from eigenrnn.experiments.results.stored import RecipeFolder, result_so_far
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Result
from eigenrnn.experiments.training.run_directory import locked

__all__ = ["Collected", "collect"]


@dataclass
class Collected:
    """What became of the runs.

    Args:
        archived: The files that were written.
        there: Those that were there already.
        skipped: Why others were left out, by what they are.
        other_versions: The versions that made those that are in the archive now, where it was not
            this one, by their files.
    """

    archived: list[Path] = field(default_factory=list[Path])
    there: list[Path] = field(default_factory=list[Path])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    other_versions: dict[Path, str] = field(default_factory=dict[Path, str])


def collect(
    folders: Sequence[str | Path],
    archive: str | Path,
    recipes: Mapping[str, Recipe],
    *,
    overwrite: bool = False,
    unfinished: bool = False,
) -> Collected:
    """Archive the runs of recipes.

    A run counts for every row of all recipes that asks for the same one.

    Args:
        folders: Those of recipes, or of many of them.
        archive: The folder to write to.
        recipes: All of them, by name.
        overwrite: Whether a run takes the place of another one.
        unfinished: Whether runs that have not ended are archived too, as such.
    Raises:
        ValueError: If a folder holds no recipe or quick runs, or a file is damaged or of another
            version; what is archived by then stays.
        FolderInUseError: If another process is writing to the archive.
    """
    kept, collected = Archive(archive), Collected()
    same = SameRuns(recipes)
    found = _recipe_folders(folders, recipes, collected)
    with locked(kept.folder):
        for folder in found:
            for run in _runs(folder, same, collected, unfinished=unfinished):
                _add(run, kept, collected, overwrite=overwrite)
    return collected


def _add(run: Archived, kept: Archive, collected: Collected, *, overwrite: bool) -> None:
    verdict = kept.add(run, overwrite=overwrite)
    made_by = run.versions.get("eigenrnn", "of unknown version")
    if verdict != "kept" and made_by != __version__:
        collected.other_versions[run.place] = made_by
    if verdict == "archived":
        collected.archived.append(run.place)
    elif verdict == "there":
        collected.there.append(run.place)
    else:
        collected.skipped[str(kept.folder / run.place)] = (
            "holds another run of the same name, which is kept (--overwrite replaces it)"
        )


def _recipe_folders(
    folders: Sequence[str | Path], recipes: Mapping[str, Recipe], collected: Collected
) -> list[RecipeFolder]:
    """Find the folders of recipes; quick runs are refused where they are named.

    Raises:
        ValueError: If a folder holds no recipe, or one that is refused.
    """
    found: list[RecipeFolder] = []
    for given in map(Path, folders):
        if (given / "results.json").is_file():
            found.append(RecipeFolder.read(given, recipes))
            continue
        below = sorted(path.parent for path in given.glob("*/results.json"))
        if not below:
            raise ValueError(
                f"expected the folder of a recipe that was run, or of many of them, got {given}, "
                "which has no results.json"
            )
        for path in below:
            try:
                found.append(RecipeFolder.read(path, recipes))
            except ValueError as error:
                collected.skipped[str(path)] = str(error)
    return found


def _runs(
    folder: RecipeFolder, same: SameRuns, collected: Collected, *, unfinished: bool
) -> Iterator[Archived]:
    """Yield what is to be archived of a folder."""
    for row in folder.recipe.rows:
        if isinstance(row, Computed):
            yield from _computed(folder, row)
        for job in folder.jobs(row) if isinstance(row, Row) else ():
            place, state = folder.path / job.place, "ended"
            config = read_json(place / "config.json", ("task", "settings", "versions"))
            changed = departs(job.row, config["task"], config["settings"])
            if changed:
                collected.skipped[str(place)] = f"is of another recipe: {'; '.join(changed)}"
                continue
            if folder.has_ended(job):
                result = folder.result(job)
            else:
                state = "diverged" if folder.has_diverged(job) else "unfinished"
                result = result_so_far(place, job.row.task)
            if state == "unfinished" and not (unfinished and result):
                collected.skipped[str(place)] = "has not ended"
                continue
            run = _archived(folder, job, config, result, state)
            yield run
            yield from (_for_another(run, job, other, result) for other in same.that_take(job))


def _computed(folder: RecipeFolder, row: Computed) -> Iterator[Archived]:
    outcome = folder.outcome(row.label)
    for value, seconds in zip(outcome.get("values", ()), outcome.get("seconds", ()), strict=True):
        yield Archived(
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
) -> Archived:
    """Keep what is worth it of a run."""
    place, task = folder.path / job.place, job.row.task
    training = training_curve(place / "metrics.csv")
    steps = int((training["step"] or [0])[-1] or 0)
    run = Archived(
        recipe=job.recipe.name,
        row=job.row.label,
        point=job.point,
        seed=job.seed,
        state=state,
        parameters=config["parameters"],
        task=task_text(task),
        baseline=_baseline(task),
        settings=config["settings"],
        versions=config["versions"],
        steps=steps,
        all_steps=_all_steps(job.row) or (steps if state == "ended" else None),
        scores=_scores(folder, job),
        training=training,
        evaluated=evaluated_curve(place / "metrics.csv"),
    )
    if result is None:
        return run
    known = {f.name for f in fields(Archived)} & {f.name for f in fields(Result)}
    run = replace(run, **{name: value for name, value in asdict(result).items() if name in known})
    return run if state == "diverged" else replace(run, **_numbers(job.row, result))


def _numbers(row: Row, result: Result) -> dict[str, float | None]:
    return {
        "value": measured_value(row, result),
        "selected": validated_test_value(row, result),
        "deciding": deciding_loss(row, result),
    }


def _for_another(run: Archived, job: Job, other: Job, result: Result | None) -> Archived:
    """Let a run count for a row of another recipe, by the rule of that one's paper."""
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
    """Find what else the best model of a run was measured by."""
    outcome = folder.outcome(job.row.label)
    runs = list(zip(outcome.get("points", ()), outcome.get("seeds", ()), strict=True))
    scores = outcome.get("scores", ())
    known = (job.point, job.seed) in runs and len(scores) == len(runs)
    return dict(scores[runs.index((job.point, job.seed))]) if known else {}


@cache
def _baseline(task: Task) -> float | None:
    return task.baseline() if task.missing_data() is None else None


def _all_steps(row: Row) -> int | None:
    try:
        return row.settings.total_steps(row.task) if row.task.missing_data() is None else None
    except MissingDataError:
        return None
