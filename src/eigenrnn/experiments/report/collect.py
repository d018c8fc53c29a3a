"""Finds runs and results of recipes in folders, and reads them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eigenrnn.experiments.report.files import (
    Columns,
    check_kinds,
    read_json,
    read_lines,
    read_table,
    remarks,
)

__all__ = ["RecipeRecord", "Records", "RunRecord", "collect", "slug", "task_name"]

_METRICS = dict[str, dict[str, float]]
_CONFIG: dict[str, Any] = {
    **{"task": str, "model": list[str], "parameters": int},
    **{"settings": dict, "versions": dict},
}
_CONFIG_TOO: dict[str, Any] = {
    "name": str | None,
    "best_by": str | None,
    "config": dict[str, object] | None,
}
_RESULT = {"steps": int, "seconds": float, "last": _METRICS, "best": _METRICS}
_RECIPE = {"recipe": str, "source": str, "rows": list[dict[str, object]], "versions": dict}
_ROW = {"label": str, "quantity": str, "reported": float | None, "values": list[float]}
_ROW_TOO = {
    **{"place": str, "note": str | None, "parameters": int | None, "failed": list},
    **{"seconds": list[float], "selected": list[float], "points": list[str]},
    **{"best_point": str | None, "error": float | None, "at_most": float | None},
    "decimals": int | None,
}
_WRITTEN_BY_RUNS = ("result.json", "last.pt", "best.pt")
_MOST_NAMED = 5


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
    """All that a page is made of.

    Args:
        runs: What runs have left.
        recipes: What recipes came to.
        unreadable: Why a run or a recipe cannot be shown, by its folder.
    """

    runs: tuple[RunRecord, ...]
    recipes: tuple[RecipeRecord, ...]
    unreadable: Mapping[Path, str] = field(default_factory=dict[Path, str])

    def recipe_row(self, run: RunRecord) -> tuple[Mapping[str, Any], str] | None:
        """Find the row of whichever recipe a run belongs to, and its point's folder."""
        found = (recipe.row_of(run) for recipe in self.recipes)
        return next((pair for pair in found if pair is not None), None)


def collect(folders: Sequence[str | Path]) -> Records:
    """Read all runs and results that are in folders, however deep.

    A run or a recipe of which a file is missing, damaged or of another version is listed as
    unreadable, and the others are read.

    Args:
        folders: Folders of runs, of recipes, or of many of them; each is read once.
    Raises:
        ValueError: If there is none, one holds neither, or none can be read; names the files.
    """
    if not folders:
        raise ValueError("expected the folder of a run or a recipe, got none")
    runs: dict[Path, RunRecord] = {}
    recipes: dict[Path, RecipeRecord] = {}
    unreadable: dict[Path, str] = {}
    for given in map(Path, folders):
        found_runs, found_recipes = _search(given)
        for folder in found_runs:
            _keep(runs, unreadable, folder, _read_run)
        for folder in found_recipes:
            _keep(recipes, unreadable, folder, _read_recipe)
    if not runs and not recipes:
        raise ValueError("; ".join(list(unreadable.values())[:_MOST_NAMED]))
    return Records(tuple(runs.values()), tuple(recipes.values()), unreadable)


def _keep(
    found: dict[Path, Any], unreadable: dict[Path, str], folder: Path, read: Callable[[Path], Any]
) -> None:
    """Read a folder that was not read yet, or note why it cannot be read."""
    try:
        if folder.resolve() not in found:
            found[folder.resolve()] = read(folder)
    except (ValueError, OSError) as error:
        unreadable[folder] = str(error)


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
        raise ValueError(f"expected a folder that holds runs, got {given}, which is not a folder")
    runs = [path.parent for path in given.rglob("metrics.csv")]
    runs += [path.parent for path in given.rglob("config.json") if _has_lost_its_metrics(path)]
    recipes = [path.parent for path in given.rglob("results.json")]
    if not runs and not recipes:
        raise ValueError(
            f"expected a run or a recipe in {given} or its subfolders, got neither a "
            "metrics.csv nor a results.json"
        )
    return sorted(runs, key=_in_order), sorted(recipes, key=_in_order)


def _has_lost_its_metrics(config: Path) -> bool:
    """Whether a configuration is that of a run without metrics, and not of something else."""
    if (config.parent / "metrics.csv").exists():
        return False
    if any((config.parent / name).exists() for name in _WRITTEN_BY_RUNS):
        return True
    try:
        read_json(config, _CONFIG)
    except (ValueError, OSError):
        return False
    return True


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
    if not (folder / "metrics.csv").exists():
        raise ValueError(
            f"{folder} has no metrics.csv: it ended before its first row, or the file is lost"
        )
    if not config.exists():
        raise ValueError(f"expected a config.json beside {folder / 'metrics.csv'}, got none")
    metrics = read_table(folder / "metrics.csv")
    if "step" not in metrics:
        raise ValueError(f"expected a column step in {folder / 'metrics.csv'}, got none")
    known = read_json(config, _CONFIG)
    check_kinds(config, known, _CONFIG | _CONFIG_TOO)
    check_kinds(config, known["settings"], {"seed": int})
    if not known["model"]:
        raise ValueError(f"{config} is damaged: expected model to be lines of text, got none")
    ended = read_json(result, _RESULT) if result.exists() else None
    check_kinds(result, ended or {}, _RESULT)
    seen = read_lines(dynamics) if dynamics.exists() else ()
    return RunRecord(folder, known, metrics, ended, seen)


def _read_recipe(folder: Path) -> RecipeRecord:
    """Read the results of a recipe.

    Raises:
        ValueError: If they are damaged or of another version.
    """
    path = folder / "results.json"
    content = read_json(path, _RECIPE)
    check_kinds(path, content, _RECIPE)
    for row in content["rows"]:
        missing = [key for key in _ROW if key not in row]
        if missing:
            raise ValueError(
                f"expected {', '.join(missing)} in each row of {path}, got a row without: "
                "another version wrote it; run the recipe again with this one"
            )
        check_kinds(path, row, _ROW | _ROW_TOO)
    return RecipeRecord(folder, content, remarks(folder / "results.md"))
