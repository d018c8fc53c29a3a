"""The archive of runs: one JSON lines file per paper, and which of its runs count."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from eigenrnn_experiments.files import read_text, write_atomically
from eigenrnn_experiments.recipes import Comparison, Entry, Recipe, Reference, Reported, Row
from eigenrnn_experiments.training import Run, RunKey, Settings
from eigenrnn_experiments.training.description import (
    describe_defaults,
    differences,
)
from eigenrnn_experiments.training.run import slug
from eigenrnn_experiments.training.settings import IGNORED_SETTINGS
from eigenrnn_experiments.training.table import table_of

__all__ = [
    "ARCHIVE",
    "FORMAT",
    "Archive",
    "CurveColumns",
    "changes_since_run",
    "comparison_of",
    "current_runs",
    "from_line",
    "paper_of",
    "rows_by_name",
    "runs_by_row",
    "to_line",
]

ARCHIVE = Path(__file__).parent / "runs"
"""The archive of this repository."""

FORMAT = 9

CurveColumns = dict[str, list[float | None]]
"""Columns of numbers by name, `step` first; None for a missing value."""

_NOTHING: Mapping[str, Any] = msgspec.to_builtins(Run())


def to_line(run: Run) -> str:
    """Return a run as one line of strict JSON, without the line break; defaults are left out."""
    content = {k: v for k, v in msgspec.to_builtins(run).items() if v != _NOTHING[k]}
    line = _finite({"format": FORMAT, **content})
    return json.dumps(line, allow_nan=False, separators=(",", ":"))


def from_line(line: str) -> Run:
    """Read the run that `to_line` has written.

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
    if found_format != FORMAT:
        raise ValueError(f"expected format {FORMAT}, got {found_format}: archive its run again")
    others = set(content) - {each.name for each in fields(Run)}
    if others:
        raise ValueError(f"expected the keys of format {FORMAT}, got {', '.join(sorted(others))}")
    try:
        return msgspec.convert(_with_nan(content), Run)
    except msgspec.ValidationError as error:
        raise ValueError(f"it is damaged: {error}") from None


def _finite(value: Any) -> Any:
    """Replace numbers that are not finite by None, because JSON cannot hold them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in cast("Iterable[Any]", value)]
    return value


def _with_nan(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a line with NaN for the numbers that JSON cannot hold."""
    tables = [content.get("scores", {})]
    for name in ("last", "best", "numbers"):
        tables += [each for each in (content.get(name) or {}).values() if each is not None]
    for table in tables:
        for name, number in table.items():
            if number is None and name != "selected":
                table[name] = math.nan
    return content


class Archive:
    """A folder with one JSON lines file of archived runs per paper, read at once.

    Args:
        folder: The folder; it need not exist yet.
    Raises:
        ValueError: If a line is no archived run, has another format, or is in another file.
    """

    def __init__(self, folder: str | Path = ARCHIVE) -> None:
        self.folder = Path(folder)
        self._runs: dict[RunKey, Run] = {}
        self._changed: set[str] = set()
        for path in sorted(self.folder.glob("*.jsonl")):
            for number, line in enumerate(read_text(path).splitlines(), start=1):
                try:
                    run = from_line(line)
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None
                if self._file(run.key.recipe) != path:
                    raise ValueError(
                        f"{path}, line {number}: a run of {run.key.recipe} is in its file"
                    )
                self._runs[run.key] = run

    def runs(self) -> list[Run]:
        """Return all runs, sorted by name."""
        return sorted(self._runs.values(), key=_order)

    def add(
        self, run: Run, *, overwrite: bool = False
    ) -> Literal["archived", "unchanged", "kept"]:
        """Add a run, unless the archive holds a different one under its name.

        `save` writes what was added.

        Returns:
            `archived` if it was added, `unchanged` if the archive has it already, `kept` if the
            archive keeps a different run.
        """
        run = from_line(to_line(run))  # as it will be read again
        existing = self._runs.get(run.key)
        if existing is not None:
            if to_line(existing) == to_line(run):
                return "unchanged"
            if not overwrite:
                return "kept"
        self._runs[run.key] = run
        self._changed.add(run.key.recipe)
        return "archived"

    def save(self) -> None:
        """Write the files of the papers whose runs have changed."""
        lines: dict[Path, list[str]] = {self._file(recipe): [] for recipe in self._changed}
        for run in self.runs():
            path = self._file(run.key.recipe)
            if path in lines:
                lines[path].append(f"{to_line(run)}\n")
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


def _order(run: Run) -> tuple[Any, ...]:
    key = run.key
    seed = -1 if key.seed is None else key.seed  # of a number that was computed
    place = (key.recipe, slug(key.row), slug(key.point))
    return *place, seed, key.reduced is None, key.reduced or ()


def current_runs(
    recipes: Mapping[str, Recipe], runs: Iterable[Run]
) -> tuple[list[Run], dict[RunKey, str]]:
    """Separate the runs of the current rows from those whose row has changed since.

    Returns:
        The runs that count, and the reason for each other run, by its name.
    """
    rows = rows_by_name(recipes)
    found: list[Run] = []
    changed: dict[RunKey, str] = {}
    for run in runs:
        row = rows.get((run.key.recipe, run.key.row))
        reason = "there is no such row"
        if row is not None:
            reason = _mismatch(row, run)
        if reason:
            changed[run.key] = reason
        else:
            found.append(run)
    return found, changed


def _mismatch(row: Entry, run: Run) -> str:
    """Say how a run differs from its row; empty if it matches."""
    key = run.key
    if key.reduced is not None and isinstance(row, Row):
        row = row.shortened(key.reduced)
    if not isinstance(row, Row) or key.seed is None:
        if run.state == "computed":
            return ""
        return "the row is not trained"
    points = row.points()
    if key.point not in points:
        return f"there is no point {key.point!r}"
    return "; ".join(changes_since_run(points[key.point].with_seed(key.seed), run))


def changes_since_run(row: Row, run: Run) -> list[str]:
    """List the options in which a run differs from its current row, each by its path.

    Options that did not exist when the run was recorded must have their default in the row. The
    defaults of options that the row leaves out are compared where the run has recorded them.

    Args:
        row: The row at one point of its grid, with a seed.
        run: The run.
    """
    options = run.task.options
    if run.task.kind == type(row.task).__name__:
        options = describe_defaults(type(row.task)) | options
    task = {"class": run.task.kind, "options": options}
    settings = describe_defaults(Settings) | dict(run.settings)
    then: dict[str, Any] = {
        "task": task,
        "network": dict(run.network or {}),
        "settings": settings,
    }
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
    recipes: Mapping[str, Recipe], runs: Iterable[Run]
) -> dict[tuple[str, str], list[Run]]:
    """Group current full runs by recipe and row, sorted by the recipe's points and seeds."""
    rows = rows_by_name(recipes)
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.key.reduced is None:
            found.setdefault((run.key.recipe, run.key.row), []).append(run)
    for name, row_runs in found.items():
        row = rows[name]
        points = [""]
        if isinstance(row, Row):
            points = list(row.points())
        row_runs.sort(key=lambda run: (points.index(run.key.point), run.key.seed or 0))
    return found


def comparison_of(row: Entry, reported: Reported, runs: Iterable[Run]) -> Comparison:
    """Return one number of a paper beside the archived runs of its row."""
    return Comparison(row, reported, table_of(runs))
