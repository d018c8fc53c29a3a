"""What a sweep tries: the points of a grid, or those that a search proposes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from eigenrnn.errors import check_positive_integer
from eigenrnn.experiments.sweep.values import check_differ, check_true_or_false, check_whole
from eigenrnn.experiments.training.result import is_number

__all__ = ["Choice", "Grid", "Range", "Search"]


@dataclass(frozen=True)
class Grid:
    """Points that are all tried.

    Args:
        points: The parameters of each.
    Raises:
        ValueError: If there are none.
    """

    points: tuple[Mapping[str, Any], ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("expected a grid of one point or more, got none")


@dataclass(frozen=True)
class Range:
    """The numbers between two, both included; whole ones if both are whole.

    Args:
        low: The lowest.
        high: The highest.
        log: Whether their logarithms are alike probable.
        step: The distance between those that are tried; None tries all.
    Raises:
        ValueError: If there is no such range.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            number: object = getattr(self, name)
            if not is_number(number) and (name, number) != ("step", None):
                raise ValueError(f"expected {name} to be a number, got {number!r}")
        check_true_or_false("log", self.log)
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"expected finite low < high, got {self.low} and {self.high}")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError(
                "expected 0 < low and no step in a range with log: true, "
                f"got low {self.low} and step {self.step}"
            )
        if self.step is not None and not 0 < self.step <= self.high - self.low:
            raise ValueError(f"expected 0 < step <= high - low, got {self.step}")

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are meant."""
        numbers = (self.low, self.high, self.step or 1)
        return all(isinstance(number, int) for number in numbers)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to look at before the search begins."""
        return self.low, self.high


@dataclass(frozen=True)
class Choice:
    """A few values, in no order.

    Args:
        values: Numbers, texts, true, false or null.
    Raises:
        ValueError: If there are none, or others, or one twice.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("expected choices, got none")
        for value in self.values:
            if value is not None and not isinstance(value, bool | int | float | str):
                raise ValueError(f"expected choices to be numbers or texts, got {value!r}")
        check_differ("choices", self.values)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to look at before the search begins."""
        return self.values


@dataclass(frozen=True)
class Search:
    """Points that Optuna proposes, each from what came of those before.

    Args:
        space: Where each parameter is looked for.
        trials: How many points are tried.
        metric: What decides between them, such as `test loss`: the best that it was at any
            evaluation of a run, and the mean over seeds. None takes what the task decides by.
        mode: Whether the metric should be small or large.
        seed: That of the proposals.
    Raises:
        ValueError: If there is nothing to look for, or no trial.
    """

    space: Mapping[str, Range | Choice]
    trials: int = 20
    metric: str | None = None
    mode: Literal["min", "max"] | None = None
    seed: int = 0
    corners: tuple[Mapping[str, Any], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.space:
            raise ValueError("expected a search with one parameter or more, got none")
        check_positive_integer("trials", self.trials)
        check_whole("seed", self.seed)
        if self.mode not in (None, "min", "max"):
            raise ValueError(f"expected mode to be min or max, got {self.mode!r}")
        first = {name: domain.ends[0] for name, domain in self.space.items()}
        others = ({**first, n: v} for n, d in self.space.items() for v in d.ends[1:])
        object.__setattr__(self, "corners", (first, *others))
