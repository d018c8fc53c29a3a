"""The name of a run among the runs of all recipes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from eigenrnn.experiments.training.files import check_types

__all__ = ["RunKey", "run_path", "slug"]

_OPTIONAL = ("reduced_epochs", "varied")

_TYPES: dict[str, Any] = {
    **{"recipe": str, "row": str, "point": str, "seed": int},
    **{"quick": bool, "reduced_epochs": int, "varied": dict[str, object]},
}


@dataclass(frozen=True)
class RunKey:
    """The name of one run among the runs of all recipes; its `config.json` stores it.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        point: The point of the row's grid; empty without a grid.
        seed: The seed of the run.
        quick: Whether it is a quick run.
        reduced_epochs: The number of epochs of a reduced run; None for a full run.
        varied: Hyperparameters that differ from the recipe, by dotted names. With them the run
            belongs to no point of the grid.
    """

    recipe: str
    row: str
    point: str
    seed: int
    quick: bool = False
    reduced_epochs: int | None = None
    varied: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def path(self) -> Path:
        """The folder of the run, relative to that of its recipe."""
        return run_path(self.row, self.point, self.seed)

    @property
    def name(self) -> str:
        """The name of the run on the console, without its seed."""
        return ", ".join(part for part in (self.row, self.point) if part)

    def to_config(self) -> dict[str, Any]:
        """Return the entries of `config.json` from which the key can be read back."""
        entries = {
            name: value for name, value in vars(self).items() if value or name not in _OPTIONAL
        }
        return {"command": "reproduce", **entries}

    @classmethod
    def from_config(cls, entry: Mapping[str, Any]) -> Self:
        """Read the key that `to_config` has written.

        Raises:
            ValueError: If an entry is missing or has another type.
        """
        missing = [name for name in _TYPES if name not in (*entry, *_OPTIONAL)]
        if missing:
            raise ValueError(f"its config.json is damaged: {', '.join(missing)} is missing")
        check_types(Path("config.json"), entry, _TYPES)
        return cls(**{name: entry[name] for name in _TYPES if name in entry})


def run_path(row: str, point: str, seed: int) -> Path:
    """Return the folder of a run, relative to that of its recipe."""
    return Path(slug(row), slug(point), f"seed-{seed}")


def slug(label: str) -> str:
    """Return the folder name of a label."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
