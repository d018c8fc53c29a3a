"""Finds and reads the runs for a report, and compares those of recipes with the papers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from eigenrnn_experiments.recipes import Quoted, Recipe
from eigenrnn_experiments.recipes.comparison import Comparison, compare
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.training import RunFolder, runs
from eigenrnn_experiments.training.run import Description, Length

__all__ = ["ComparedRecipe", "Records", "format_description", "read_records", "task_name"]

_MAX_NAMED = 5  # unreadable folders in an error


@dataclass(frozen=True)
class ComparedRecipe:
    """A recipe beside its runs.

    Args:
        recipe: The recipe.
        quick: Whether its runs are quick ones.
        comparisons: The numbers of its paper beside them.
    """

    recipe: Recipe
    quick: bool
    comparisons: Sequence[Comparison]


@dataclass(frozen=True)
class Records:
    """The runs of a report.

    Args:
        runs: The runs that train a network.
        recipes: The registered recipes among them.
        unreadable: Why a run cannot be read, by its folder.
    """

    runs: tuple[RunFolder, ...]
    recipes: tuple[ComparedRecipe, ...] = ()
    unreadable: Mapping[Path, str] = field(default_factory=dict[Path, str])

    def best_point(self, run: RunFolder) -> str | None:
        """Return the point of its search that counts; None for a run of no search."""
        for each in self.recipes:
            for compared in each.comparisons:
                key = run.run.key
                if (each.recipe.name, compared.label) == (key.recipe, key.row):
                    return compared.best_point
        return None


def read_records(folders: Sequence[str | Path]) -> Records:
    """Read all runs below some folders.

    A run with a file that is missing, damaged or of another version is listed as unreadable; the
    others are read.

    Args:
        folders: Folders of runs or recipes, or folders that contain them; each is read once.
    Raises:
        ValueError: If no folder is named, a folder holds no run, or none can be read.
    """
    table = runs(folders)
    read: list[RunFolder] = []
    unreadable: dict[Path, str] = {}
    for line in table.to_dict("records"):
        folder: Path = line["folder"]
        if line["state"] == "unreadable":
            unreadable[folder] = line["message"]
        elif line["state"] != "computed":
            run = RunFolder(folder)
            try:
                # read when they are first used: here, so that a damaged one is reported
                _ = run.run, run.metrics, run.dynamics
                if not run.run.settings:  # as of another program, or of a run that never began
                    raise ValueError(f"expected the record of a training, got {run.run_file}")
                read.append(run)
            except (ValueError, OSError) as error:
                unreadable[folder] = str(error)
    if len(unreadable) == len(table):
        raise ValueError("; ".join(list(unreadable.values())[:_MAX_NAMED]))
    return Records(tuple(read), tuple(_recipes(table)), unreadable)


def _recipes(table: pd.DataFrame) -> list[ComparedRecipe]:
    """Compare the runs of each registered recipe with its paper."""
    kinds: dict[tuple[str, bool, Length | None], None] = {}  # a set that keeps the order
    for line in table.to_dict("records"):
        if line["recipe"] in RECIPES:
            kinds[line["recipe"], line["quick"], line["reduced"]] = None
    found: list[ComparedRecipe] = []
    for name, quick, reduced in kinds:
        recipe = RECIPES[name]
        if reduced is not None:
            recipe = recipe.reduced(reduced)
        quoted = [row.label for row in recipe.rows if isinstance(row, Quoted)]
        comparisons = compare(recipe, table, quick=quick, listed=quoted)
        found.append(ComparedRecipe(recipe, quick, comparisons))
    return found


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
