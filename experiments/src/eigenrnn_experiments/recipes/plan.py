"""The plan of the runs of a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from eigenrnn_experiments.training.run import Length, RunKey

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """The runs of a row: the points of its grid, or of a sweep's, each with all seeds.

    `reproduce` trains them one after another, a sweep in parallel.

    Args:
        recipe: The name of the recipe; empty without one.
        row: The label of the row.
        grid: The values of each hyperparameter, by its name.
        seeds: The seeds.
        quick: Whether the runs are quick ones.
        reduced: The length of reduced runs; None for full runs.
        varies: Whether the hyperparameters are a sweep's, which change the row.
    Example:
        >>> plan = Plan("", "LSTM 8", {"lr": (0.1, 0.01)}, seeds=(0, 1))
        >>> [str(key) for key in plan.keys]
        ['LSTM 8, lr=0.1, seed 0', 'LSTM 8, lr=0.1, seed 1', 'LSTM 8, lr=0.01, seed 0', \
'LSTM 8, lr=0.01, seed 1']
    """

    recipe: str = ""
    row: str = ""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Any])
    seeds: Sequence[int] = (0,)
    quick: bool = False
    reduced: Length | None = None
    varies: bool = False

    @property
    def points(self) -> list[dict[str, Any]]:
        """Every combination of the values; one point without names if there is no grid."""
        return [dict(zip(self.grid, v, strict=True)) for v in product(*self.grid.values())]

    @property
    def keys(self) -> list[RunKey]:
        """The keys of all runs, point by point."""
        found: list[RunKey] = []
        for number, point in enumerate(self.points):
            found += self.keys_at(point, number)
        return found

    def keys_at(self, point: Mapping[str, Any], number: int) -> list[RunKey]:
        """Return the keys of a point, one for each seed."""
        changes: dict[str, Any] = {}
        if self.varies:
            changes = {"varied": point, "number": number}
        return [
            RunKey(
                recipe=self.recipe,
                row=self.row,
                point=self.name(point),
                seed=seed,
                quick=self.quick,
                reduced=self.reduced,
                **changes,
            )
            for seed in self.seeds
        ]

    @staticmethod
    def name(point: Mapping[str, Any]) -> str:
        """Return the name of a point, such as `lr=0.01 units=4`."""
        parts: list[str] = []
        for name, value in point.items():
            text = str(value)
            if isinstance(value, float):
                text = f"{value:g}"
            parts.append(f"{name}={text}")
        return " ".join(parts)
