"""What the values of a sweep may be, whoever gives them."""

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

from eigenrnn.experiments.training.result import is_number

__all__ = ["check_differ", "check_gpus", "check_true_or_false", "check_whole"]


def check_whole(name: str, value: object) -> None:
    """Refuse what is no whole number of at least 0.

    Raises:
        ValueError: If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or value.__index__() < 0:
        raise ValueError(f"expected {name} to be a whole number >= 0, got {value!r}")


def check_true_or_false(name: str, value: object) -> None:
    """Refuse texts and numbers that only count as true or false.

    Raises:
        ValueError: If it is neither.
    """
    if not isinstance(value, bool):
        raise ValueError(f"expected {name} to be true or false, got {value!r}")


def check_gpus(name: str, value: Any) -> None:
    """Refuse what is no number of graphics processors, nor a part of one.

    Raises:
        ValueError: If it is none.
    """
    known = is_number(value) and 0 <= value < math.inf
    if not known or (value > 1 and value != int(value)):  # no trial can have one and a half
        raise ValueError(
            f"expected {name} to be a whole number >= 0, or a fraction below 1, got {value!r}"
        )


def check_differ(name: str, values: Sequence[Any]) -> None:
    """Refuse values of which two are the same.

    Raises:
        ValueError: If two are.
    """
    for place, value in enumerate(values):
        # to Python, true is 1
        alike = (v for v in values[:place] if isinstance(v, bool) == isinstance(value, bool))
        if value in alike:
            raise ValueError(f"expected {name} to have each value once, got {value!r} twice")
