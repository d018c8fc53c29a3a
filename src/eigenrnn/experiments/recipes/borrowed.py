"""A row of a table again, for what its network looks like."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from eigenrnn.experiments.recipes.base import Recipe, Reported, Row

__all__ = ["borrowed"]

Rule = Literal["best", "last"]
_NOTE = "the figure shows what was learned and prints no number; here is the loss of its run"


def borrowed(recipes: Sequence[Recipe], name: str, label: str, place: str, rule: Rule) -> Row:
    """Take the row of a recipe, to look at its matrix for the figure at the place."""
    recipe = next(recipe for recipe in recipes if recipe.name == name)
    row = next(row for row in recipe.rows if isinstance(row, Row) and row.label == label)
    return replace(row, reported=Reported(None, place, row.reported.split, "loss", rule, _NOTE))
