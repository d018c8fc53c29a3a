"""Finds and reads the runs, and the results of recipes, in folders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eigenrnn_experiments.training import records
from eigenrnn_experiments.training.records import Description, RecipeResults
from eigenrnn_experiments.training.run_folder import RunFolder

__all__ = [
    "RecipeRecord",
    "Records",
    "format_description",
    "read_records",
    "task_name",
]

_MAX_NAMED = 5  # unreadable folders in an error


@dataclass(frozen=True)
class RecipeRecord:
    """The results of a recipe.

    Args:
        folder: The folder of the recipe.
        content: The content of `results.json`: name, source, versions, rows and notes.
    """

    folder: Path
    content: Mapping[str, Any]

    def row_of(self, run: RunFolder) -> Mapping[str, Any] | None:
        """Return the row of a run; None for a run of another recipe or folder."""
        key = run.config.key
        if key is None or key.recipe != self.content["recipe"]:
            return None
        if not run.path.is_relative_to(self.folder):
            return None
        rows = (row for row in self.content["rows"] if row["label"] == key.row)
        return next(rows, None)


@dataclass(frozen=True)
class Records:
    """The runs and recipes of a report.

    Args:
        runs: The runs.
        recipes: The results of recipes.
        unreadable: Why a run or a recipe cannot be read, by its folder.
    """

    runs: tuple[RunFolder, ...]
    recipes: tuple[RecipeRecord, ...]
    unreadable: Mapping[Path, str] = field(default_factory=dict[Path, str])

    def recipe_row(self, run: RunFolder) -> Mapping[str, Any] | None:
        """Return the row of a run in any of the recipes."""
        found = (recipe.row_of(run) for recipe in self.recipes)
        return next((row for row in found if row is not None), None)


def read_records(folders: Sequence[str | Path]) -> Records:
    """Read all runs and results of recipes below some folders.

    A run or a recipe with a file that is missing, damaged or of another version is listed as
    unreadable; the others are read.

    Args:
        folders: Folders of runs or recipes, or folders that contain them; each is read once.
    Raises:
        ValueError: If no folder is named, a folder holds no run or recipe, or none can be read.
    """
    if not folders:
        raise ValueError("expected the folder of a run or a recipe, got none")
    runs: dict[Path, RunFolder] = {}
    recipes: dict[Path, RecipeRecord] = {}
    unreadable: dict[Path, str] = {}
    for root in map(Path, folders):
        found_runs, found_recipes = _search(root)
        for folder in found_runs:
            _read_into(runs, unreadable, folder, _read_run)
        for folder in found_recipes:
            _read_into(recipes, unreadable, folder, _read_recipe)
    if not runs and not recipes:
        raise ValueError("; ".join(list(unreadable.values())[:_MAX_NAMED]))
    return Records(tuple(runs.values()), tuple(recipes.values()), unreadable)


def _read_into(
    found: dict[Path, Any], unreadable: dict[Path, str], folder: Path, read: Callable[[Path], Any]
) -> None:
    """Read a folder unless it has been read, or record why it cannot be read."""
    try:
        if folder.resolve() not in found:
            found[folder.resolve()] = read(folder)
    except (ValueError, OSError) as error:
        unreadable[folder] = str(error)


def task_name(task: Description) -> str:
    """Return the name of a task and its main options, from its description."""
    options = task.options
    main = [f"{k} {options[k]}" for k in ("delay", "length", "steps", "permuted") if k in options]
    if not main:
        return task.kind
    return f"{task.kind} ({', '.join(main)})"


def format_description(content: Description) -> str:
    """Write a description as a call: "Copying(delay=4)"."""
    options = [f"{name}={value}" for name, value in content.options.items()]
    return f"{content.kind}({', '.join(options)})"


def _search(root: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders of runs and of recipes below a folder.

    Raises:
        ValueError: If there are none.
    """
    if not root.is_dir():
        raise ValueError(f"expected a folder that holds runs, got {root}, which is not a folder")
    runs = [path.parent for path in root.rglob("metrics.csv")]
    recipes = [path.parent for path in root.rglob("results.json")]
    if not runs and not recipes:
        raise ValueError(
            f"expected a run or a recipe in {root} or its subfolders, got neither a "
            "metrics.csv nor a results.json"
        )
    return sorted(runs), sorted(recipes)


def _read_run(folder: Path) -> RunFolder:
    """Read all files of a run.

    Raises:
        ValueError: If a file is missing or damaged.
    """
    run = RunFolder(folder)
    if not run.config_file.exists():
        raise ValueError(f"expected a config.json beside {run.metrics_file}, got none")
    # properties that read their file when they are first used: here, so a damaged one is reported
    _ = run.metrics, run.config, run.result, run.dynamics
    return run


def _read_recipe(folder: Path) -> RecipeRecord:
    """Read the results of a recipe.

    Raises:
        ValueError: If they are damaged or of another version.
    """
    content = records.read(folder / "results.json", RecipeResults)
    return RecipeRecord(folder, content)
