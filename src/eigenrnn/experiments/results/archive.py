"""The archive of runs: one small JSON file per run, and which of them count."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.recipes import Entry, Outcome, Recipe, Row
from eigenrnn.experiments.training import Settings
from eigenrnn.experiments.training.archived_run import ArchivedRun
from eigenrnn.experiments.training.description import describe_defaults, differences
from eigenrnn.experiments.training.settings import IGNORED_SETTINGS

__all__ = [
    "Archive",
    "changes_since_run",
    "current_runs",
    "outcome_of",
    "runs_by_row",
]


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
    if run.reduced is not None and isinstance(row, Row):
        row = row.shortened(run.reduced)
    if not isinstance(row, Row) or run.seed is None:
        return "" if run.state == "computed" else "the row is not trained"
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
    then["network"]["defaults"], now["network"]["defaults"] = _in_both(
        then["network"].get("defaults", {}), now["network"]["defaults"]
    )
    for options in (settings, now["settings"]):
        for name in IGNORED_SETTINGS:
            options.pop(name, None)
    return differences(then, now)


def _in_both(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keep the defaults of options that both have, by class and option."""
    names = {owner: then[owner].keys() & now[owner].keys() for owner in then.keys() & now.keys()}
    kept = [
        {o: {n: of[o][n] for n in sorted(names[o])} for o in sorted(names)} for of in (then, now)
    ]
    return kept[0], kept[1]


def runs_by_row(
    recipes: Mapping[str, Recipe], runs: Iterable[ArchivedRun]
) -> dict[tuple[str, str], list[ArchivedRun]]:
    """Group current full runs by recipe and row, sorted by the recipe's points and seeds."""
    rows = {(r.name, row.label): row for r in recipes.values() for row in r.rows}
    found: dict[tuple[str, str], list[ArchivedRun]] = {}
    for run in (run for run in runs if run.reduced is None):
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
    outcome = replace(outcome, baseline=run.baseline if is_loss else None)
    point, seed = run.point, run.seed or 0
    if run.state == "diverged" and isinstance(row, Row):
        return outcome.with_failure(row, point, seed, run.parameters)
    numbers = {"value": run.value, "selected": run.selected, "deciding": run.deciding}
    return outcome.with_run(point, seed, run.parameters, run.seconds, run.scores, **numbers)
