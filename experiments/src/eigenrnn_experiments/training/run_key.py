"""The name of a run among the runs of all recipes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

__all__ = ["Length", "RunKey", "run_path", "slug"]


class Length(NamedTuple):
    """The length of a reduced run, which is shorter than the paper's.

    Args:
        unit: What is counted.
        number: How many.
    """

    unit: Literal["epochs", "steps"]
    number: int

    def __str__(self) -> str:
        """Return it in words, such as `5 epochs`."""
        if self.number == 1:
            return f"1 {self.unit.removesuffix('s')}"
        return f"{self.number:,} {self.unit}"


@dataclass(frozen=True)
class RunKey:
    """The name of one run among the runs of all recipes; its `config.json` stores it.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        point: The point of the row's grid; empty without a grid.
        seed: The seed of the run.
        quick: Whether it is a quick run.
        reduced: The length of a reduced run; None for a full run.
        varied: Hyperparameters that differ from the recipe, by dotted names. With them the run
            belongs to no point of the grid.
    """

    recipe: str
    row: str
    point: str
    seed: int
    quick: bool = False
    reduced: Length | None = None
    varied: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def path(self) -> Path:
        """The folder of the run, relative to that of its recipe."""
        return run_path(self.row, self.point, self.seed)

    @property
    def kind(self) -> tuple[str, bool, Length | None]:
        """The recipe, whether the run is quick, and the length of a reduced run."""
        return self.recipe, self.quick, self.reduced

    @property
    def name(self) -> str:
        """The name of the run on the console, without its seed."""
        name = ", ".join(part for part in (self.row, self.point) if part)
        if self.varied:
            return f"{name} (not comparable with the paper)"
        return name


def run_path(row: str, point: str, seed: int) -> Path:
    """Return the folder of a run, relative to that of its recipe."""
    return Path(slug(row), slug(point), f"seed-{seed}")


def slug(label: str) -> str:
    """Return the folder name of a label."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
