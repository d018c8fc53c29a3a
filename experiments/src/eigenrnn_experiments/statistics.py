"""Means over seeds with their errors, and numbers rounded for a file."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Mean", "counted", "mean_of", "rounded", "spaced_indices"]


@dataclass(frozen=True)
class Mean:
    """A mean over runs.

    Args:
        value: The mean; NaN without runs.
        error: Its standard error; None for fewer than two runs, or infinite numbers.
        count: The number of runs.
    """

    value: float
    error: float | None
    count: int


def mean_of(numbers: Iterable[float]) -> Mean:
    r"""Return the mean of a number over runs, with its standard error.

    .. math:: \bar x = \frac{1}{n} \sum_i x_i, \qquad
        e = \sqrt{\frac{\sum_i (x_i - \bar x)^2}{n (n - 1)}}

    Example:
        >>> mean_of([1.0, 3.0])
        Mean(value=2.0, error=1.0, count=2)
    """
    values = list(numbers)
    if not values:
        return Mean(math.nan, None, 0)
    error: float | None = None
    if len(values) > 1 and all(map(math.isfinite, values)):
        error = statistics.stdev(values) / len(values) ** 0.5
    return Mean(statistics.fmean(values), error, len(values))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 run` or `2,000 runs`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def rounded(values: ArrayLike, digits: int) -> list[float | None]:
    """Round to significant digits; values that are not finite become None, for JSON."""
    found: list[float | None] = []
    for value in np.asarray(values, dtype=np.float64).ravel():
        if np.isfinite(value):
            found.append(float(f"{value:.{digits}g}"))
        else:
            found.append(None)
    return found


def spaced_indices(count: int, maximum: int) -> list[int]:
    """Return at most `maximum` evenly spaced indices, including the first and the last."""
    if count <= maximum:
        return list(range(count))
    return sorted({round(i) for i in np.linspace(0, count - 1, maximum)})
