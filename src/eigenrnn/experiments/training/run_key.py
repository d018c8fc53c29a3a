"""The name of a run among the runs of all recipes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from eigenrnn.experiments.training.files import check_types

__all__ = ["Length", "RunKey", "run_path", "slug"]


class Length(NamedTuple):
    """The length of a reduced run, which is shorter than the paper's.

    Args:
        unit: What is counted.
        number: How many.
    """

    unit: Literal["epochs", "steps"]
    number: int

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        """Read the list that JSON makes of it.

        Raises:
            ValueError: If it is another list.
        """
        if len(value) != 2 or value[0] not in ("epochs", "steps") or type(value[1]) is not int:
            raise ValueError(f'expected ["epochs", N] or ["steps", N] as reduced, got {value!r}')
        return cls(*value)

    def __str__(self) -> str:
        """Return it in words, such as `5 epochs`."""
        if self.number == 1:
            return f"1 {self.unit.removesuffix('s')}"
        return f"{self.number:,} {self.unit}"


_OPTIONAL = ("reduced", "varied")

_TYPES: dict[str, Any] = {
    "recipe": str,
    "row": str,
    "point": str,
    "seed": int,
    "quick": bool,
    "reduced": list[object],
    "varied": dict[str, object],
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
    def name(self) -> str:
        """The name of the run on the console, without its seed."""
        name = ", ".join(part for part in (self.row, self.point) if part)
        if self.varied:
            return f"{name} (not comparable with the paper)"
        return name

    def to_config(self) -> dict[str, Any]:
        """Return the entries of `config.json` from which the key can be read back."""
        config: dict[str, Any] = {"command": "reproduce", **vars(self)}
        for name in _OPTIONAL:
            if not config[name]:
                del config[name]
        return config

    @classmethod
    def from_config(cls, entry: Mapping[str, Any]) -> Self:
        """Read the key that `to_config` has written.

        Raises:
            ValueError: If an entry is missing or has another type or content.
        """
        missing = [name for name in _TYPES if name not in (*entry, *_OPTIONAL)]
        if missing:
            raise ValueError(f"its config.json is damaged: {', '.join(missing)} is missing")
        check_types(Path("config.json"), entry, _TYPES)
        values = {name: entry[name] for name in _TYPES if name in entry}
        if "reduced" in values:
            values["reduced"] = Length.from_json(values["reduced"])
        return cls(**values)


def run_path(row: str, point: str, seed: int) -> Path:
    """Return the folder of a run, relative to that of its recipe."""
    return Path(slug(row), slug(point), f"seed-{seed}")


def slug(label: str) -> str:
    """Return the folder name of a label."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
