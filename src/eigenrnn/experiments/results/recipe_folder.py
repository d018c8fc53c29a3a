"""Reads the folders written by `reproduce`: which runs they hold, and their progress."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eigenrnn.errors import CheckpointError
from eigenrnn.experiments.recipes import Recipe, Row
from eigenrnn.experiments.recipes.runs import run_path
from eigenrnn.experiments.results.jobs import Job
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Result, checkpoint
from eigenrnn.experiments.training.files import read_json, read_table
from eigenrnn.experiments.training.result import is_better, selection_metric, selection_split
from eigenrnn.experiments.training.run_folder import RunFolder

__all__ = ["RecipeFolder", "latest_result"]

_KEYS = ("recipe", "quick", "versions", "rows")


@dataclass(frozen=True)
class RecipeFolder:
    """The folder of a recipe that was run.

    Args:
        path: The folder.
        recipe: The recipe.
        content: The content of its `results.json`.
    """

    path: Path
    recipe: Recipe
    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, recipes: Mapping[str, Recipe]) -> "RecipeFolder":
        """Open a folder.

        Raises:
            ValueError: If it holds no known recipe, quick runs, or files of another version.
        """
        content = read_json(path / "results.json", _KEYS)
        if content["quick"]:
            raise ValueError(
                f"expected full runs in {path}, got quick ones, whose numbers are not comparable: "
                "run eigenrnn reproduce without --quick"
            )
        if content["recipe"] not in recipes:
            raise ValueError(
                f"expected a recipe of this version in {path}, got {content['recipe']!r}"
            )
        return cls(path, recipes[content["recipe"]], content)

    def outcome(self, label: str) -> Mapping[str, Any]:
        """Return the entry of a row in `results.json`; empty if it has none."""
        return next((row for row in self.content["rows"] if row["label"] == label), {})

    def jobs(self, row: Row) -> Iterator[Job]:
        """Yield the runs of a row that have been started."""
        for name, point in row.points().items() if row.layer else ():
            first = self.path / run_path(row.label, name, 0)
            seeds = [f.parent.name for f in first.parent.glob("seed-*/config.json")]
            for seed in sorted(int(name.removeprefix("seed-")) for name in seeds):
                yield Job(self.recipe, point.with_seed(seed), name, seed)

    def has_ended(self, job: Job) -> bool:
        """Whether a run has finished."""
        return RunFolder(self.path / job.run_folder).result.exists()

    def has_diverged(self, job: Job) -> bool:
        """Whether a run without a result has diverged."""
        failed = self.outcome(job.row.label).get("failed", ())
        return f"{job.point} seed {job.seed}".strip() in failed

    def trained_seconds(self, job: Job) -> float:
        """Return the training time of a run so far, in seconds."""
        return _trained_seconds(self.path / job.run_folder)

    def result(self, job: Job) -> Result:
        """Read the result of a finished run.

        Raises:
            ValueError: If it is damaged, or of another version.
        """
        path = self.path / job.run_folder
        content = read_json(path / "result.json", ("steps", "seconds", "last", "best"))
        return Result.from_json(content, path)


def _trained_seconds(folder: Path) -> float:
    # metrics.csv may lag behind the checkpoint; a damaged checkpoint leaves only metrics.csv
    with suppress(FileNotFoundError, CheckpointError, KeyError):
        return float(checkpoint.load(RunFolder(folder).last)["course"]["seconds"])
    return 0.0


def latest_result(folder: Path, task: Task) -> Result | None:
    """Return the result so far of an unfinished run; None before its first evaluation.

    Raises:
        ValueError: If its metrics.csv is damaged.
    """
    path = folder / "metrics.csv"
    if not path.is_file() or not path.read_bytes().endswith(b"\n"):
        return None  # not started, or being written
    columns = read_table(path)
    split, best, best_step = selection_split(task), dict[str, dict[str, float]](), None
    last: dict[str, dict[str, float]] = {}
    for i in range(len(columns["step"])):
        found = _evaluation(task, {name: float(column[i]) for name, column in columns.items()})
        if split not in found:
            continue
        last = found
        if best_step is None or is_better(task, found[split], best[split]):
            best, best_step = found, int(columns["step"][i])
    if best_step is None:
        return None
    return Result(
        steps=int(columns["step"][-1]),
        seconds=max(float(columns["seconds"][-1]), _trained_seconds(folder)),
        train_loss=float(columns["train_loss"][-1]),
        last=last,
        best=best,
        best_step=best_step,
        best_by=selection_metric(task),
        directory=folder,
        interrupted=True,
    )


def _evaluation(task: Task, numbers: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the loss and metrics of each split that was evaluated at a step."""
    found: dict[str, dict[str, float]] = {}
    for split in task.splits:
        measured = {
            name.removeprefix(f"{split}_"): number
            for name, number in numbers.items()
            if split != "train" and name.startswith(f"{split}_") and not np.isnan(number)
        }
        if measured:
            found[split] = measured
    return found
