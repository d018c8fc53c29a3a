"""Writes what the runs of a recipe came to: `results.json` and `results.md`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.recipes.base import Recipe
from eigenrnn.experiments.recipes.outcome import Outcome
from eigenrnn.experiments.recipes.panel import Panel
from eigenrnn.experiments.recipes.table import to_markdown
from eigenrnn.experiments.training.identity import versions
from eigenrnn.experiments.training.run_directory import write_json

__all__ = ["write_results"]


def write_results(
    folder: Path,
    recipe: Recipe,
    outcomes: Mapping[str, Outcome],
    *,
    quick: bool,
    drawn: Sequence[Panel] | None = None,
) -> list[Outcome]:
    """Write both files; return the outcomes in the recipe's order."""
    in_order = [outcomes[row.label] for row in recipe.rows if row.label in outcomes]
    content: dict[str, Any] = {
        "recipe": recipe.name,
        "source": recipe.source,
        "quick": quick,
        "versions": versions(),
        "rows": [outcome.to_json() for outcome in in_order],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "results.json", content)
    page = to_markdown(recipe, in_order, quick=quick, drawn=drawn)
    write_atomically(folder / "results.md", page.encode())
    return in_order
