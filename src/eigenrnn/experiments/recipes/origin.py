"""Which run of a recipe a folder holds: written down, and found again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eigenrnn.experiments.recipes.base import Recipe, Row
from eigenrnn.experiments.recipes.vary import vary

__all__ = ["Origin"]


@dataclass(frozen=True)
class Origin:
    """What names one run among those of all recipes.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        point: That of its grid; empty without one.
        seed: The seed of the run.
        quick: Whether it is of the size of a quick run.
        varied: What is other than in the recipe, by dotted names; the grid does not count then.
    """

    recipe: str
    row: str
    point: str
    seed: int
    quick: bool
    varied: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def facts(self) -> dict[str, Any]:
        """Return what a run writes of it into its configuration."""
        known = {name: value for name, value in vars(self).items() if value or name != "varied"}
        return {"command": "reproduce", **known}

    def find(self, recipe: Recipe) -> Row:
        """Return the row, as this run of it was trained.

        Raises:
            ValueError: If the recipe has no such row or point.
        """
        rows = {row.label: row for row in recipe.rows if isinstance(row, Row) and row.layer}
        if self.row not in rows:
            raise ValueError(
                f"expected a row of {recipe.name} ({', '.join(rows)}), got {self.row!r}"
            )
        row = rows[self.row].quick() if self.quick else rows[self.row]
        if self.varied:
            return vary(row, self.varied).with_seed(self.seed)
        points = row.points()
        if self.point not in points:
            named = ", ".join(map(repr, points))
            raise ValueError(f"expected a point of {self.row} ({named}), got {self.point!r}")
        return points[self.point].with_seed(self.seed)
