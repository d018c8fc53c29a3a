"""Shrinks and rescales numbers for a chart."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigenrnn_experiments.statistics import rounded

__all__ = ["block_maxima", "log10_or_none", "rounded_positive"]


def block_maxima(
    values: ArrayLike,  # (rows, columns)
    maximum: int,
) -> tuple[NDArray[np.float64], int, int]:
    """Shrink a matrix to at most `maximum` rows and columns by taking block maxima.

    Returns:
        The smaller matrix, and the numbers of rows and columns of a block.
    """
    table = np.asarray(values, dtype=np.float64)
    # rounded up; at least one, also for an empty table
    rows = max(1, math.ceil(table.shape[0] / maximum))
    columns = max(1, math.ceil(table.shape[1] / maximum))
    # fmax ignores NaN, which marks cells without a number
    table = np.fmax.reduceat(table, np.arange(0, table.shape[0], rows), axis=0)
    table = np.fmax.reduceat(table, np.arange(0, table.shape[1], columns), axis=1)
    return table, rows, columns


def log10_or_none(
    values: ArrayLike,  # (rows, columns)
    floor: float,
) -> list[list[float | None]]:
    """Return decimal logarithms; values below `floor` times the largest become None."""
    table = np.asarray(values, dtype=np.float64)
    powers = np.full_like(table, np.nan)
    np.log10(table, where=_above_floor(table, floor), out=powers)
    return [list(map(_rounded_power, row)) for row in powers.tolist()]


def rounded_positive(values: ArrayLike, floor: float) -> list[float | None]:
    """Round for a logarithmic axis; values below `floor` times the largest become None."""
    array = np.asarray(values, dtype=np.float64)
    return rounded(np.where(_above_floor(array, floor), array, np.nan), 4)


def _rounded_power(power: float) -> float | None:
    if math.isnan(power):  # below the floor; JSON has no NaN
        return None
    return round(power, 2)


def _above_floor(values: NDArray[np.float64], floor: float) -> NDArray[np.bool_]:
    finite = np.isfinite(values)
    top = values.max(where=finite, initial=0.0)
    return finite & (values > floor * top)
