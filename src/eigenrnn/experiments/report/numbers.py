"""Numbers as a page carries them: few digits, no more than an eye can tell apart."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["by_blocks", "in_powers", "listed", "positive", "thinned"]


def listed(values: ArrayLike, digits: int) -> list[float | None]:
    """Round to significant digits; what is not finite becomes None, as JSON has no word for it."""
    array = np.asarray(values, dtype=np.float64).ravel()
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in array]


def thinned(count: int, most: int) -> list[int]:
    """Choose at most so many of some indices, evenly, with the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(i) for i in np.linspace(0, count - 1, most)})


def by_blocks(
    values: ArrayLike,  # (rows, columns)
    most: int,
) -> tuple[NDArray[np.float64], int, int]:
    """Shrink a map to at most so many rows and columns, each block to its largest number.

    Returns:
        The map, and the rows and columns that went into a block.
    """
    table = np.asarray(values, dtype=np.float64)
    rows, columns = (-(-n // most) or 1 for n in table.shape)
    table = np.fmax.reduceat(table, np.arange(0, table.shape[0], rows), axis=0)
    return np.fmax.reduceat(table, np.arange(0, table.shape[1], columns), axis=1), rows, columns


def in_powers(
    values: ArrayLike,  # (rows, columns)
    floor: float,
) -> list[list[float | None]]:
    """Take decimal logarithms; what is below this share of the largest becomes None."""
    table = np.asarray(values, dtype=np.float64)
    powers = np.full_like(table, np.nan)
    np.log10(table, where=_above(table, floor), out=powers)
    return [[None if np.isnan(v) else round(float(v), 2) for v in row] for row in powers]


def positive(values: ArrayLike, floor: float) -> list[float | None]:
    """Round what a logarithmic axis can show; below this share of the largest becomes None."""
    array = np.asarray(values, dtype=np.float64)
    return listed(np.where(_above(array, floor), array, np.nan), 4)


def _above(values: NDArray[np.float64], floor: float) -> NDArray[np.bool_]:
    finite = np.isfinite(values)
    top = values.max(where=finite, initial=0.0)
    return finite & (values > floor * top)
