"""The archive of runs: one JSON lines file per paper, and which of its runs count."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

from eigenrnn_experiments.atomic import write_atomically
from eigenrnn_experiments.recipes import Entry, Outcome, Recipe, Reference, Reported, Row
from eigenrnn_experiments.training import Settings
from eigenrnn_experiments.training.description import describe_defaults, differences
from eigenrnn_experiments.training.files import read_text
from eigenrnn_experiments.training.result import Metrics
from eigenrnn_experiments.training.run_key import Length, slug
from eigenrnn_experiments.training.settings import IGNORED_SETTINGS

__all__ = [
    "ARCHIVE",
    "FORMAT",
    "Archive",
    "ArchivedRun",
    "CurveColumns",
    "RunName",
    "changes_since_run",
    "current_runs",
    "outcome_of",
    "paper_of",
    "rows_by_name",
    "runs_by_row",
]

ARCHIVE = Path(__file__).parent / "runs"
"""The archive of this repository."""

FORMAT = 8

CurveColumns = dict[str, list[float | None]]
"""Columns of numbers by name, `step` first; None for a missing value."""

State = Literal["ended", "diverged", "computed"]


class RunName(NamedTuple):
    """What names a run in the archive.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        point: The point of the row's grid; empty without a grid.
        seed: The seed of the run; None for a number without training.
        reduced: The length of a reduced run; None for a full run.
    """

    recipe: str
    row: str
    point: str
    seed: int | None
    reduced: Length | None

    def __str__(self) -> str:
        """Return it in words, such as `scornn/table1, scoRNN 170, seed 0`."""
        parts = [self.recipe, self.row]
        if self.point:
            parts.append(self.point)
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        if self.reduced is not None:
            parts.append(str(self.reduced))
        return ", ".join(parts)


@dataclass(frozen=True)
class ArchivedRun:
    """The archived record of one run, or of one number without training.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        point: The point of the row's grid; empty without a grid.
        seed: The seed of the run; None for a number without training.
        state: `ended`, `diverged`, or `computed` for a number without training.
        reduced: The length of a reduced run; None for a full run.
        parameters: The number of trained parameters.
        task: The description of the task.
        network: The description of the network: its layer, size and options.
        settings: The training settings.
        baseline: The chance-level loss; None if unknown.
        revision: The commit of the source tree, and whether it was modified; None if unknown.
        versions: The versions of the software, and the machine.
        ended: When the run ended, or was first archived if that is not known; ISO 8601.
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
        others: Both for the row's other reported numbers, by their `measure`.
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
    state: State
    reduced: Length | None = None
    parameters: int | None = None
    task: Mapping[str, Any] = field(default_factory=dict[str, Any])
    network: Mapping[str, Any] = field(default_factory=dict[str, Any])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    baseline: float | None = None
    revision: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    ended: str | None = None
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
    others: Mapping[str, Mapping[str, float | None]] = field(
        default_factory=dict[str, dict[str, float | None]]
    )
    deciding: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    training: CurveColumns = field(default_factory=dict[str, list[float | None]])
    evaluated: CurveColumns = field(default_factory=dict[str, list[float | None]])

    @property
    def name(self) -> RunName:
        """What names the run in the archive."""
        return RunName(self.recipe, self.row, self.point, self.seed, self.reduced)

    def beside(self, reported: Reported, row: Entry) -> Mapping[str, float | None]:
        """Return `value` and `selected` beside one of the reported numbers of the row."""
        if reported.measure == row.reported[0].measure:
            return {"value": self.value, "selected": self.selected}
        return self.others.get(reported.measure, {"value": None, "selected": None})

    def to_line(self) -> str:
        """Return the record as one line of strict JSON, without the line break."""
        content = _finite({"format": FORMAT, **vars(self)})
        return json.dumps(content, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Read the record that `to_line` has written.

        Raises:
            ValueError: If it is another kind of line, or has another format.
        """
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is damaged: {error}") from None
        found_format = None
        if isinstance(content, dict):
            found_format = content.pop("format", None)
        if not isinstance(found_format, int):
            raise ValueError("expected an archived run, got something else")
        names = {f.name for f in fields(cls)}
        if found_format != FORMAT:
            raise ValueError(
                f"expected format {FORMAT}, got {found_format}: archive its run again"
            )
        if set(content) != names:
            keys = ", ".join(sorted(set(content) ^ names))
            raise ValueError(f"expected the keys of format {FORMAT}, got others: {keys}")
        if content["reduced"] is not None:
            content["reduced"] = Length(*content["reduced"])
        return cls(**content)


def _finite(value: Any) -> Any:
    """Replace numbers that are not finite by None, because JSON cannot hold them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in cast("Iterable[Any]", value)]
    return value


class Archive:
    """A folder with one JSON lines file of archived runs per paper, read at once.

    Args:
        folder: The folder; it need not exist yet.
    Raises:
        ValueError: If a line is no archived run, has another format, or is in another file.
    """

    def __init__(self, folder: str | Path = ARCHIVE) -> None:
        self.folder = Path(folder)
        self._runs: dict[RunName, ArchivedRun] = {}
        self._changed: set[str] = set()
        for path in sorted(self.folder.glob("*.jsonl")):
            for number, line in enumerate(read_text(path).splitlines(), start=1):
                try:
                    run = ArchivedRun.from_line(line)
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None
                if self._file(run.recipe) != path:
                    raise ValueError(
                        f"{path}, line {number}: a run of {run.recipe} is in its file"
                    )
                self._runs[run.name] = run

    def runs(self) -> list[ArchivedRun]:
        """Return all runs, sorted by name."""
        return sorted(self._runs.values(), key=_order)

    def add(
        self, run: ArchivedRun, *, overwrite: bool = False
    ) -> Literal["archived", "unchanged", "kept"]:
        """Add a run, unless the archive holds a different one under its name.

        `save` writes what was added.

        Returns:
            `archived` if it was added, `unchanged` if the archive has it already, `kept` if the
            archive keeps a different run.
        """
        existing = self._runs.get(run.name)
        if existing is not None:
            if existing.to_line() == run.to_line():
                return "unchanged"
            if not overwrite:
                return "kept"
        self._runs[run.name] = run
        self._changed.add(run.recipe)
        return "archived"

    def save(self) -> None:
        """Write the files of the papers whose runs have changed."""
        lines: dict[Path, list[str]] = {self._file(recipe): [] for recipe in self._changed}
        for run in self.runs():
            path = self._file(run.recipe)
            if path in lines:
                lines[path].append(f"{run.to_line()}\n")
        for path, its in sorted(lines.items()):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, "".join(its).encode())
        self._changed.clear()

    def _file(self, recipe: str) -> Path:
        """Return the file of the paper that a recipe belongs to."""
        return self.folder / f"{paper_of(recipe)}.jsonl"


def paper_of(recipe: str) -> str:
    """Return the folder of the paper that a recipe belongs to."""
    return recipe.partition("/")[0]


def _order(run: ArchivedRun) -> tuple[Any, ...]:
    seed = run.seed
    if seed is None:  # a number that was computed
        seed = -1
    is_full = run.reduced is None
    return run.recipe, slug(run.row), slug(run.point), seed, is_full, run.reduced or ()


def current_runs(
    recipes: Mapping[str, Recipe], runs: Iterable[ArchivedRun]
) -> tuple[list[ArchivedRun], dict[RunName, str]]:
    """Separate the runs of the current rows from those whose row has changed since.

    Returns:
        The runs that count, and the reason for each other run, by its name.
    """
    rows = rows_by_name(recipes)
    found: list[ArchivedRun] = []
    changed: dict[RunName, str] = {}
    for run in runs:
        row = rows.get((run.recipe, run.row))
        reason = "there is no such row"
        if row is not None:
            reason = _mismatch(row, run)
        if reason:
            changed[run.name] = reason
        else:
            found.append(run)
    return found, changed


def _mismatch(row: Entry, run: ArchivedRun) -> str:
    """Say how a run differs from its row; empty if it matches."""
    if run.reduced is not None and isinstance(row, Row):
        row = row.shortened(run.reduced)
    if not isinstance(row, Row) or run.seed is None:
        if run.state == "computed":
            return ""
        return "the row is not trained"
    points = row.points()
    if run.point not in points:
        return f"there is no point {run.point!r}"
    return "; ".join(changes_since_run(points[run.point].with_seed(run.seed), vars(run)))


def changes_since_run(row: Row, recorded: Mapping[str, Any]) -> list[str]:
    """List the options in which a run differs from its current row, each by its path.

    Options that did not exist when the run was recorded must have their default in the row. The
    defaults of options that the row leaves out are compared where the run has recorded them.

    Args:
        row: The row at one point of its grid, with a seed.
        recorded: The descriptions of task, network and settings that the run has recorded.
    """
    task = dict(recorded["task"])
    if task.get("class") == type(row.task).__name__:
        task["options"] = describe_defaults(type(row.task)) | task["options"]
    settings = describe_defaults(Settings) | dict(recorded["settings"])
    then = {"task": task, "network": dict(recorded["network"]), "settings": settings}
    now = row.describe()
    recorded_defaults = then["network"].get("defaults", {})
    current_defaults = now["network"]["defaults"]
    then["network"]["defaults"] = _restricted(recorded_defaults, current_defaults)
    now["network"]["defaults"] = _restricted(current_defaults, recorded_defaults)
    for options in (settings, now["settings"]):
        for name in IGNORED_SETTINGS:
            options.pop(name, None)
    return differences(then, now)


def _restricted(
    defaults: Mapping[str, Mapping[str, Any]], others: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Keep the defaults, by class and option, that the other description has too."""
    kept: dict[str, dict[str, Any]] = {}
    for owner in sorted(defaults.keys() & others.keys()):
        names = sorted(defaults[owner].keys() & others[owner].keys())
        kept[owner] = {name: defaults[owner][name] for name in names}
    return kept


def rows_by_name(recipes: Mapping[str, Recipe]) -> dict[tuple[str, str], Entry]:
    """Return the rows of recipes by the names of their recipes and their labels."""
    rows: dict[tuple[str, str], Entry] = {}
    for recipe in recipes.values():
        for row in recipe.rows:
            if not isinstance(row, Reference):  # whose runs are those of another recipe
                rows[recipe.name, row.label] = row
    return rows


def runs_by_row(
    recipes: Mapping[str, Recipe], runs: Iterable[ArchivedRun]
) -> dict[tuple[str, str], list[ArchivedRun]]:
    """Group current full runs by recipe and row, sorted by the recipe's points and seeds."""
    rows = rows_by_name(recipes)
    found: dict[tuple[str, str], list[ArchivedRun]] = {}
    for run in runs:
        if run.reduced is None:
            found.setdefault((run.recipe, run.row), []).append(run)
    for name, row_runs in found.items():
        row = rows[name]
        points = [""]
        if isinstance(row, Row):
            points = list(row.points())
        row_runs.sort(key=lambda run: (points.index(run.point), run.seed or 0))
    return found


def outcome_of(row: Entry, reported: Reported, runs: Sequence[ArchivedRun]) -> Outcome:
    """Return the outcome of the archived runs of a row."""
    outcome = Outcome.not_run(row, reported)
    for run in runs:
        if run.state == "computed":
            value = run.value
            if value is None:  # JSON has no NaN
                value = math.nan
            outcome = outcome.with_value(value, run.seconds)
        else:
            outcome = _with_run(outcome, row, reported, run)
    return outcome


_LOSSES = ("loss", "loss_mean")  # the quantities that the chance-level loss is of


def _with_run(outcome: Outcome, row: Entry, reported: Reported, run: ArchivedRun) -> Outcome:
    baseline: float | None = None
    if reported.quantity in _LOSSES:
        baseline = run.baseline
    outcome = replace(outcome, baseline=baseline)
    point = run.point
    seed = run.seed or 0
    if run.state == "diverged":
        return outcome.with_failure(reported, point, seed, run.parameters)
    numbers: dict[str, Any] = {**run.beside(reported, row), "deciding": run.deciding}
    return outcome.with_run(point, seed, run.parameters, run.seconds, run.scores, **numbers)
