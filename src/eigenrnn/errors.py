"""The exceptions of eigenrnn besides `ValueError` and `TypeError`, and common checks."""

import math
import operator
from importlib.util import find_spec
from numbers import Real
from typing import cast

__all__ = [
    "NoInverseError",
    "NotInSetError",
    "check_installed",
    "check_not_negative",
    "check_not_negative_integer",
    "check_positive",
    "check_positive_integer",
]


class NotInSetError(ValueError):
    """A matrix does not lie in the set of the constraint."""

    def __init__(self, set_name: str, residual: float, tolerance: float, hint: str = "") -> None:
        message = (
            f"expected a matrix in {set_name}, got one with residual {residual:.3g} "
            f"(tolerance {tolerance:.3g})"
        )
        super().__init__(f"{message}; {hint}" if hint else message)
        self.residual = residual
        self.tolerance = tolerance


class NoInverseError(ValueError):
    """The map of a constraint has no computable inverse, so no matrix can be assigned to it."""


def check_installed(requirement: str, purpose: str, *packages: str) -> None:
    """Check that packages are installed, without importing them.

    Args:
        requirement: What pip installs the packages with, such as ``"eigenrnn[analysis]"``.
        purpose: What needs the packages; the subject of the message.
        packages: Their import names.
    Raises:
        ImportError: If a package is not installed. The message has the command that installs it.
    Example:
        >>> check_installed("eigenrnn[analysis]", "eigenrnn.analysis", "scipy")
    """
    absent = [package for package in packages if find_spec(package) is None]
    if absent:
        raise ImportError(
            f"{purpose} needs {' and '.join(absent)}: pip install '{requirement}'",
            name=absent[0],
        )


def check_not_negative(name: str, value: float) -> None:
    """Check a weight, rate or margin.

    Raises:
        ValueError: If `value` is negative, infinite or NaN.
    """
    if not 0 <= value < math.inf:
        raise ValueError(f"expected {name} to be finite and not negative, got {value}")


def check_not_negative_integer(name: str, value: object) -> None:
    """Check a number of steps that may be zero.

    Raises:
        ValueError: If `value` is not an integer, or is negative.
    """
    if _integer(value, otherwise=-1) < 0:
        raise ValueError(f"expected {name} to be an integer >= 0, got {value!r}")


def check_positive(name: str, value: float) -> None:
    """Check a size or a scale.

    Raises:
        TypeError: If `value` is not a number.
        ValueError: If it is not above zero, or not finite.
    """
    number = cast("object", value)
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"expected {name} to be a number, got {type(value).__name__}")
    if not 0 < value < math.inf:
        raise ValueError(f"expected a finite {name} > 0, got {value!r}")


def check_positive_integer(name: str, value: object) -> None:
    """Check a count.

    Raises:
        ValueError: If `value` is not an integer above zero.
    """
    if _integer(value, otherwise=0) < 1:
        raise ValueError(f"expected {name} to be a positive integer, got {value!r}")


def _integer(value: object, *, otherwise: int) -> int:
    """Return an integer of any type, and a default for anything else."""
    if isinstance(value, bool):
        return otherwise
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # for example an array of several numbers
        return otherwise
