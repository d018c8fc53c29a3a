"""What a sweep tries: the points of a grid, or the space of a search."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex

from eigenrnn.errors import check_positive_integer
from eigenrnn.experiments.training.result import is_number

__all__ = [
    "Choice",
    "Grid",
    "Range",
    "Search",
    "check_bool",
    "check_distinct",
    "check_gpus",
    "check_non_negative_integer",
]


@dataclass(frozen=True)
class Grid:
    """Points that are all tried.

    Args:
        points: The parameters of each point.
    Raises:
        ValueError: If there are no points.
    """

    points: tuple[Mapping[str, Any], ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("expected a grid of one point or more, got none")

    @property
    def examples(self) -> tuple[Mapping[str, Any], ...]:
        """The points to validate before the sweep starts."""
        return self.points


@dataclass(frozen=True)
class Range:
    """A closed interval; with integer ends and an integer step it contains integers only.

    Args:
        low: The lower end.
        high: The upper end.
        log: Whether to sample uniformly on a logarithmic scale.
        step: The distance between the values to try; None means a continuous range.
    Raises:
        ValueError: If the range is invalid.
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
        check_bool("log", self.log)
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
    def is_integer(self) -> bool:
        """Whether the range contains integers only."""
        numbers = (self.low, self.high, self.step or 1)
        return all(isinstance(number, int) for number in numbers)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to validate before the search starts."""
        return self.low, self.high


@dataclass(frozen=True)
class Choice:
    """A set of values without an order.

    Args:
        values: Numbers, strings, booleans or None.
    Raises:
        ValueError: If there are no values, one has another type, or one occurs twice.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("expected choices, got none")
        for value in self.values:
            if value is not None and not isinstance(value, bool | int | float | str):
                raise ValueError(f"expected choices to be numbers or texts, got {value!r}")
        check_distinct("choices", self.values)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to validate before the search starts."""
        return self.values


@dataclass(frozen=True)
class Search:
    """Points that Optuna proposes, each from the results of the previous ones.

    Args:
        space: The domain of each parameter.
        trials: The number of points.
        metric: The metric to optimise, such as `test loss`. A point scores its best value at any
            evaluation of a run, averaged over seeds. None means the metric of the task.
        mode: Whether to minimise or to maximise the metric.
        seed: The seed of the proposals.
    Raises:
        ValueError: If the space is empty, or a number is invalid.
    """

    space: Mapping[str, Range | Choice]
    trials: int = 20
    metric: str | None = None
    mode: Literal["min", "max"] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.space:
            raise ValueError("expected a search with one parameter or more, got none")
        check_positive_integer("trials", self.trials)
        check_non_negative_integer("seed", self.seed)
        if self.mode not in (None, "min", "max"):
            raise ValueError(f"expected mode to be min or max, got {self.mode!r}")

    @property
    def examples(self) -> tuple[Mapping[str, Any], ...]:
        """The points to validate before the sweep starts: each end of each domain."""
        first = {name: domain.ends[0] for name, domain in self.space.items()}
        examples: list[Mapping[str, Any]] = [first]
        # one parameter at a time: all combinations would be too many
        for name, domain in self.space.items():
            examples.extend({**first, name: value} for value in domain.ends[1:])
        return tuple(examples)


def check_non_negative_integer(name: str, value: object) -> None:
    """Check that a value is an integer of at least 0.

    Raises:
        ValueError: If it is not.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or value.__index__() < 0:
        raise ValueError(f"expected {name} to be a whole number >= 0, got {value!r}")


def check_bool(name: str, value: object) -> None:
    """Check that a value is a boolean, not merely truthy.

    Raises:
        ValueError: If it is not.
    """
    if not isinstance(value, bool):
        raise ValueError(f"expected {name} to be true or false, got {value!r}")


def check_gpus(name: str, value: Any) -> None:
    """Check that a value is a number of GPUs, or a fraction of one.

    Raises:
        ValueError: If it is not.
    """
    is_valid = is_number(value) and 0 <= value < math.inf
    if not is_valid or (value > 1 and value != int(value)):  # no trial can have 1.5 GPUs
        raise ValueError(
            f"expected {name} to be a whole number >= 0, or a fraction below 1, got {value!r}"
        )


def check_distinct(name: str, values: Sequence[Any]) -> None:
    """Check that all values differ.

    Raises:
        ValueError: If two are equal.
    """
    for index, value in enumerate(values):
        # in Python True == 1, but as options they differ
        comparable = (v for v in values[:index] if isinstance(v, bool) == isinstance(value, bool))
        if value in comparable:
            raise ValueError(f"expected {name} to have each value once, got {value!r} twice")
