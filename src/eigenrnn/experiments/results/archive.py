"""The archive of runs: one small JSON file per run, and which of them count."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, cast

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.recipes import Entry, Outcome, Recipe, Row
from eigenrnn.experiments.training import Settings
from eigenrnn.experiments.training.description import describe_defaults, differences
from eigenrnn.experiments.training.files import read_json
from eigenrnn.experiments.training.result import Metrics
from eigenrnn.experiments.training.run_key import run_path
from eigenrnn.experiments.training.settings import IGNORED_SETTINGS

__all__ = [
    "FORMAT",
    "Archive",
    "ArchivedRun",
    "Curve",
    "archive_path",
    "changes_since_run",
    "current_runs",
    "outcome_of",
    "runs_by_row",
]

FORMAT = 4

Curve = dict[str, list[float | None]]
"""Columns of numbers by name, `step` first; None for a missing value."""


@dataclass(frozen=True)
class ArchivedRun:
    """The archived record of one run, or of one number without training.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        point: The point of the row's grid; empty without a grid.
        seed: The seed of the run; None for a number without training.
        state: `ended`, `diverged`, `unfinished`, or `computed` for a number without training.
        reduced_epochs: The number of epochs of a reduced run; None for a full run.
        trained_for: The recipe and row that trained the run, if it is shared; else None.
        parameters: The number of trained parameters.
        task: The description of the task.
        network: The description of the network: its layer, size and options.
        settings: The training settings.
        baseline: The chance-level loss; None if unknown.
        revision: The commit of the source tree, and whether it was modified; None if unknown.
        versions: The versions of the software, and the machine.
        steps: The number of optimiser steps taken.
        all_steps: The number of optimiser steps of the full run; None if unknown.
        seconds: The wall-clock time.
        processor_seconds: The processor time of all threads; None if unknown.
        last: Loss and metric of each split at the last evaluation.
        best: The same at the best evaluation.
        best_step: The step of the best evaluation.
        best_by: The quantity that selects the best evaluation.
        value: Our number by the paper's rule; None if the run does not count.
        selected: The test number of the model selected on the validation set.
        deciding: The loss that selects the best point of a search.
        scores: Further scores of the best model.
        training: The curve of the training loss.
        evaluated: The curves of the evaluations.
    Units:
        Times in seconds; losses and metrics in the units of the task.
    """

    recipe: str
    row: str
    point: str
    seed: int | None
    state: Literal["ended", "diverged", "unfinished", "computed"]
    reduced_epochs: int | None = None
    trained_for: str | None = None
    parameters: int | None = None
    task: Mapping[str, Any] = field(default_factory=dict[str, Any])
    network: Mapping[str, Any] = field(default_factory=dict[str, Any])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    baseline: float | None = None
    revision: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    steps: int = 0
    all_steps: int | None = None
    seconds: float = 0.0
    processor_seconds: float | None = None
    last: Metrics = field(default_factory=dict[str, dict[str, float]])
    best: Metrics = field(default_factory=dict[str, dict[str, float]])
    best_step: int | None = None
    best_by: str | None = None
    value: float | None = None
    selected: float | None = None
    deciding: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    training: Curve = field(default_factory=dict[str, list[float | None]])
    evaluated: Curve = field(default_factory=dict[str, list[float | None]])

    @property
    def relative_path(self) -> Path:
        """The file of the run, relative to the archive."""
        return archive_path(
            self.recipe, self.row, self.point, self.seed, reduced_epochs=self.reduced_epochs
        )

    def to_text(self) -> str:
        """Return the record as strict JSON, one key per line."""
        content = {"format": FORMAT, **vars(self)}
        lines = (f"{json.dumps(k)}: {_json(v)}" for k, v in content.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an archived run.

        Raises:
            ValueError: If it is another kind of file, or has another format; it is not changed.
        """
        names = [f.name for f in fields(cls)]
        content = read_json(path, ())
        found_format = content.pop("format", None)
        if not isinstance(found_format, int):
            raise ValueError(
                f"expected a run archived by `eigenrnn results collect` in {path}, got another "
                "file: move it out of the archive"
            )
        if found_format != FORMAT or set(content) != set(names):
            version = (content.get("versions") or {}).get("eigenrnn", "of unknown version")
            keys = ", ".join(sorted(set(content) ^ set(names)))
            got = str(found_format) if found_format != FORMAT else f"different keys ({keys})"
            raise ValueError(
                f"expected format {FORMAT} in {path}, got {got}, written by eigenrnn {version}; "
                "it is not changed: collect its run again into another folder (--archive)"
            )
        return cls(**content)


def archive_path(
    recipe: str, row: str, point: str, seed: int | None, *, reduced_epochs: int | None = None
) -> Path:
    """Return the file of a run, relative to the archive."""
    name = "computed" if seed is None else f"seed-{seed}"
    kind = "" if reduced_epochs is None else f"-epochs-{reduced_epochs}"
    place = run_path(row, point, seed or 0)
    return Path(recipe.replace("/", "-"), place.with_name(f"{name}{kind}.json"))


class Archive:
    """A folder of archived runs.

    Args:
        folder: The folder; it need not exist yet.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def runs(self) -> list[ArchivedRun]:
        """Read all runs, sorted by name.

        Raises:
            ValueError: If a file is not an archived run, has another format, or has been moved.
        """
        found: list[ArchivedRun] = []
        for path in sorted(self.paths()):
            run = ArchivedRun.read(self.folder / path)
            if run.relative_path != path:
                raise ValueError(
                    f"expected the file {run.relative_path} in {self.folder}, got it as {path}"
                )
            found.append(run)
        return sorted(found, key=lambda run: (str(run.relative_path.parent), run.seed or 0))

    def paths(self) -> set[Path]:
        """Return the files of all runs relative to the folder, without reading them."""
        return {path.relative_to(self.folder) for path in self.folder.glob("*/**/*.json")}

    def add(
        self, run: ArchivedRun, *, overwrite: bool = False
    ) -> Literal["archived", "unchanged", "kept"]:
        """Write a run, unless the archive holds a different one under its name.

        A run of the row itself replaces a shared run of another recipe. An unfinished run is
        replaced by a later state of the same run.

        Returns:
            `archived` if it was written, `unchanged` if the archive has it already, `kept` if the
            archive keeps a different run.
        Raises:
            ValueError: If the existing file has another format, or is not a run.
        """
        path = self.folder / run.relative_path
        if path.exists():
            existing = ArchivedRun.read(path)
            if existing.to_text() == run.to_text():
                return "unchanged"
            if not (overwrite or _is_replaced(existing, run)):
                return "unchanged" if run.trained_for and existing.trained_for is None else "kept"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, run.to_text().encode())
        return "archived"


def _is_replaced(existing: ArchivedRun, new: ArchivedRun) -> bool:
    if existing.trained_for is not None and new.trained_for is None:
        return True
    continues = existing.settings == new.settings and new.steps >= existing.steps
    return existing.state == "unfinished" and continues


def current_runs(
    recipes: Mapping[str, Recipe], runs: Iterable[ArchivedRun]
) -> tuple[list[ArchivedRun], dict[Path, str]]:
    """Separate the runs of the current rows from those whose row has changed since.

    Returns:
        The runs that count, and the reason for each other run, by its file.
    """
    rows = {(r.name, row.label): row for r in recipes.values() for row in r.rows}
    found: list[ArchivedRun] = []
    changed: dict[Path, str] = {}
    for run in runs:
        row = rows.get((run.recipe, run.row))
        reason = "there is no such row" if row is None else _mismatch(row, run)
        if reason:
            changed[run.relative_path] = reason
        else:
            found.append(run)
    return found, changed


def _mismatch(row: Entry, run: ArchivedRun) -> str:
    """Say how a run differs from its row; empty if it matches."""
    if run.reduced_epochs is not None and isinstance(row, Row):
        row = replace(row, settings=replace(row.settings, epochs=run.reduced_epochs))
    if not isinstance(row, Row) or run.seed is None:
        return "" if run.state == "computed" else "the row is not trained"
    points = row.points()
    if run.point not in points:
        return f"there is no point {run.point!r}"
    return "; ".join(changes_since_run(points[run.point].with_seed(run.seed), vars(run)))


def changes_since_run(row: Row, recorded: Mapping[str, Any]) -> list[str]:
    """List the options in which a run differs from its current row, each by its path.

    Options that did not exist when the run was recorded must have their default in the row.

    Args:
        row: The row at one point of its grid, with a seed.
        recorded: The descriptions of task, network and settings that the run has recorded.
    """
    task = dict(recorded["task"])
    if task.get("class") == type(row.task).__name__:
        task["options"] = describe_defaults(type(row.task)) | task["options"]
    settings = describe_defaults(Settings) | dict(recorded["settings"])
    then = {"task": task, "network": recorded["network"], "settings": settings}
    now = row.describe()
    for options in (settings, now["settings"]):
        for name in IGNORED_SETTINGS:
            options.pop(name, None)
    return differences(then, now)


def runs_by_row(
    recipes: Mapping[str, Recipe], runs: Iterable[ArchivedRun]
) -> dict[tuple[str, str], list[ArchivedRun]]:
    """Group current full runs by recipe and row, sorted by the recipe's points and seeds."""
    rows = {(r.name, row.label): row for r in recipes.values() for row in r.rows}
    found: dict[tuple[str, str], list[ArchivedRun]] = {}
    for run in (run for run in runs if run.reduced_epochs is None):
        found.setdefault((run.recipe, run.row), []).append(run)
    for name, row_runs in found.items():
        row = rows[name]
        order = {point: i for i, point in enumerate(row.points() if isinstance(row, Row) else ())}
        row_runs.sort(key=lambda run: (order.get(run.point, 0), run.seed or 0))
    return found


def outcome_of(row: Entry, runs: Sequence[ArchivedRun]) -> Outcome:
    """Return the outcome of the archived runs of a row; unfinished runs do not count."""
    outcome = Outcome.not_run(row)
    for run in runs:
        if run.state == "computed":
            outcome = outcome.with_value(math.nan if run.value is None else run.value, run.seconds)
        elif run.state != "unfinished":
            outcome = _with_run(outcome, row, run)
    return outcome


_LOSSES = ("loss", "loss_mean")  # the quantities that the chance-level loss is of


def _with_run(outcome: Outcome, row: Entry, run: ArchivedRun) -> Outcome:
    is_loss = row.reported.quantity in _LOSSES
    outcome = replace(
        outcome, parameters=run.parameters, baseline=run.baseline if is_loss else None
    )
    if run.state == "diverged":
        if isinstance(row, Row):
            return outcome.with_failure(row, run.seed or 0, run.parameters or 0, run.point)
        return outcome
    if run.scores:
        outcome = replace(outcome, scores=(*outcome.scores, dict(run.scores)))
    if run.value is None:
        return outcome
    return replace(
        outcome,
        seeds=(*outcome.seeds, run.seed or 0),
        values=(*outcome.values, run.value),
        selected=outcome.selected if run.selected is None else (*outcome.selected, run.selected),
        points=(*outcome.points, run.point),
        deciding=(*outcome.deciding, math.inf if run.deciding is None else run.deciding),
        seconds=(*outcome.seconds, run.seconds),
    )


def _json(value: Any) -> str:
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    """Replace numbers that are not finite by None, because JSON cannot hold them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in cast("Iterable[Any]", value)]
    return value
