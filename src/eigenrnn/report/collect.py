"""Finds runs and results of recipes in folders, and reads them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eigenrnn.report.files import Columns, read_json, read_lines, read_table, remarks

__all__ = ["RecipeRecord", "Records", "RunRecord", "collect", "slug", "task_name"]

_CONFIG = ("task", "model", "parameters", "settings", "versions")
_RESULT = ("steps", "seconds", "last", "best")
_RECIPE = ("recipe", "source", "rows", "versions")
_ROW = ("label", "quantity", "reported", "values")


@dataclass(frozen=True)
class RunRecord:
    """What a run has left in its folder.

    Args:
        folder: The folder.
        config: Task, model, settings and versions.
        metrics: The journal, by column.
        result: What came out; None if the run has not ended.
        dynamics: What was seen of the recurrent matrices while it was trained; empty if nobody
            watched.
    """

    folder: Path
    config: Mapping[str, Any]
    metrics: Columns
    result: Mapping[str, Any] | None = None
    dynamics: Sequence[Mapping[str, Any]] = ()

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.config["settings"].get("seed", 0))

    @property
    def network(self) -> str:
        """The class of the recurrent layer, as far as the model says."""
        for line in self.config["model"][1:] or self.config["model"]:
            found = re.match(r"\s*\((?:layer|layers|0)\): (\w+)\(", line)
            if found and found[1] != "ModuleList":
                return found[1]
        return re.split(r"\W", self.config["model"][0], maxsplit=1)[0]


@dataclass(frozen=True)
class RecipeRecord:
    """What the runs of a published comparison came to.

    Args:
        folder: The folder of the recipe.
        content: `results.json`: name, source, versions and rows.
        remarks: What `results.md` says below its table, by heading.
    """

    folder: Path
    content: Mapping[str, Any]
    remarks: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])

    def row_of(self, run: RunRecord) -> tuple[Mapping[str, Any], str] | None:
        """Find the row of a run and the name of its point's folder; None if it is no run of it."""
        if not run.folder.is_relative_to(self.folder):
            return None
        parts = run.folder.relative_to(self.folder).parts
        rows = (row for row in self.content["rows"] if slug(row["label"]) == parts[0])
        row = next(rows, None) if len(parts) > 1 else None
        return None if row is None else (row, "/".join(parts[1:-1]))


@dataclass(frozen=True)
class Records:
    """All that a page is made of."""

    runs: tuple[RunRecord, ...]
    recipes: tuple[RecipeRecord, ...]

    def recipe_row(self, run: RunRecord) -> tuple[Mapping[str, Any], str] | None:
        """Find the row of whichever recipe a run belongs to, and its point's folder."""
        found = (recipe.row_of(run) for recipe in self.recipes)
        return next((pair for pair in found if pair is not None), None)


def collect(folders: Sequence[str | Path]) -> Records:
    """Read all runs and results that are in folders, however deep.

    Args:
        folders: Folders of runs, of recipes, or of many of them; each is read once.
    Raises:
        ValueError: If there is none, one holds neither, or a file is damaged or of another
            version; names it.
    """
    if not folders:
        raise ValueError("expected the folder of a run or a recipe, got none")
    runs: dict[Path, RunRecord] = {}
    recipes: dict[Path, RecipeRecord] = {}
    for given in map(Path, folders):
        found_runs, found_recipes = _search(given)
        for folder in found_runs:
            runs.setdefault(folder.resolve(), _read_run(folder))
        for folder in found_recipes:
            recipes.setdefault(folder.resolve(), _read_recipe(folder))
    return Records(tuple(runs.values()), tuple(recipes.values()))


def slug(label: str) -> str:
    """Write a label as the name of a folder."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def task_name(task: str) -> str:
    """Shorten the text of a task to its name and the options that say most."""
    name, _, options = task.partition("(")
    said = dict(re.findall(r"(\w+)=('[^']*'|[^,()]+)", options))
    most = [f"{k} {said[k]}" for k in ("delay", "length", "steps", "permuted") if k in said]
    return f"{name} ({', '.join(most)})" if most else name


def _search(given: Path) -> tuple[list[Path], list[Path]]:
    """List the folders of runs and of recipes.

    Raises:
        ValueError: If there are none.
    """
    if not given.is_dir():
        raise ValueError(f"expected a folder of runs, got {given}, which is none")
    runs = [path.parent for path in given.rglob("metrics.csv")]
    recipes = [path.parent for path in given.rglob("results.json")]
    if not runs and not recipes:
        begun = (given / "config.json").exists()
        why = "a config.json without metrics.csv: it ended before its first row" if begun else ""
        raise ValueError(
            f"expected a run or a recipe in {given} or below, got "
            f"{why or 'neither a metrics.csv nor a results.json'}"
        )
    return sorted(runs, key=_in_order), sorted(recipes, key=_in_order)


def _in_order(path: Path) -> list[tuple[int, str]]:
    # "seed-10" comes after "seed-9"
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _read_run(folder: Path) -> RunRecord:
    """Read a run.

    Raises:
        ValueError: If a file is missing or damaged.
    """
    config, result = folder / "config.json", folder / "result.json"
    dynamics = folder / "dynamics.jsonl"
    if not config.exists():
        raise ValueError(f"expected a config.json beside {folder / 'metrics.csv'}, got none")
    metrics = read_table(folder / "metrics.csv")
    if "step" not in metrics:
        raise ValueError(f"expected a column step in {folder / 'metrics.csv'}, got none")
    return RunRecord(
        folder,
        read_json(config, _CONFIG),
        metrics,
        read_json(result, _RESULT) if result.exists() else None,
        read_lines(dynamics) if dynamics.exists() else (),
    )


def _read_recipe(folder: Path) -> RecipeRecord:
    """Read the results of a recipe.

    Raises:
        ValueError: If they are damaged or of another version.
    """
    path = folder / "results.json"
    content = read_json(path, _RECIPE)
    for row in content["rows"]:
        missing = [key for key in _ROW if key not in row]
        if missing:
            raise ValueError(
                f"expected {', '.join(missing)} in each row of {path}, got a row without: it is "
                "of another version; make the results again with this one"
            )
    return RecipeRecord(folder, content, remarks(folder / "results.md"))
