"""The values that people give to estimators, as arrays in double precision."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LARGEST",
    "Array",
    "check_order",
    "check_size",
    "column_names",
    "is_index",
    "numbers",
    "parts_of_panel",
    "with_columns",
]

Array = NDArray[np.float64]

LARGEST = float(np.finfo(np.float32).max)
"""The largest value of a series. The square of one, in its deviation, is finite in float64."""

_DROP = "leave the column out, or make it numbers"
_LONG = "leave the column out, or divide a long table: [part for _, part in frame.groupby(column)]"


def check_size(values: Array, name: str) -> None:
    """Check that no value is too large for float32.

    Raises:
        ValueError: If one is.
    """
    largest = np.abs(values).max(initial=0.0)
    if largest > LARGEST:
        raise ValueError(f"expected values up to {LARGEST:.3g} in {name}, got {largest:.3g}")


def numbers(values: Any, place: str) -> Any:
    """Return an array in which NaN stands for what a mask hides and for pandas' missing values.

    Args:
        values: What numpy makes an array of.
        place: Names the values in errors.
    Raises:
        ValueError: If they are times, texts, complex numbers or other objects.
    """
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        raise ValueError(
            f"expected numbers in {place}, got times, whose missing ones are no NaN: pass "
            "differences in a unit, such as times / np.timedelta64(1, 's')"
        )
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: expected real numbers in {place}")
    if np.ma.isMaskedArray(values):
        return np.where(np.ma.getmaskarray(values), np.nan, array)
    if array.dtype.kind in "OUS":
        is_text = np.array([isinstance(each, str) for each in array.ravel()])
        if is_text.any():
            text = str(array.ravel()[is_text.argmax()])
            raise ValueError(f"expected numbers in {place}, got the text {text!r}; {_LONG}")
        if hasattr(values, "isna"):  # of pandas, whose times with a zone are objects
            is_missing = np.asarray(values.isna())
            for value in array[~is_missing]:
                if not hasattr(value, "__float__"):
                    kind = type(value).__name__
                    raise ValueError(f"expected numbers in {place}, got a {kind}; {_DROP}")
            if is_missing.any():  # pd.NA is no float
                return values.to_numpy(dtype="float64", na_value=np.nan)
            return array
        is_missing = np.array([type(each).__name__ == "NAType" for each in array.ravel()])
        if is_missing.any():
            return np.where(is_missing.reshape(array.shape), np.nan, array)
    return array


def is_index(index: Any) -> bool:
    """Whether something is an index of pandas; of a list it is a method."""
    return hasattr(index, "is_monotonic_increasing")


def column_names(part: Any) -> NDArray[Any] | None:
    """Return the names of the columns of a frame, or None of anything else."""
    names = np.asarray(getattr(part, "columns", None), dtype=object)
    if names.ndim != 1:  # no frame, or a table of Arrow, whose columns are arrays
        return None
    return names


def with_columns(part: Any, names: Any, place: str) -> tuple[Any, Any]:
    """Return the columns of these names, in their order, as an array, and the names.

    Args:
        part: A frame, or anything else that numpy makes an array of.
        names: The names of the columns; None for those of the frame.
        place: Names the frame in errors.
    Raises:
        ValueError: If the frame has not each of these columns once and no others, or one has no
            numbers.
    """
    found = column_names(part)
    if found is None:
        return numbers(part, place), names
    if names is None:
        names = found
    if set(found) != set(names) or len(found) != len(set(found)):
        expected = ", ".join(map(str, dict.fromkeys(names)))
        got = ", ".join(map(str, found))
        raise ValueError(f"expected each of the columns {expected} once in {place}, got {got}")
    columns = [numbers(part[name], f"column {name} of {place}") for name in names]
    return np.stack(columns, 1).astype(np.float64), names


def check_order(panel: Any, **given: Any) -> None:
    """Check that what names the sequences of a panel in its index has them in their order.

    Args:
        panel: The sequences; all but a panel is in order.
        given: What belongs to each sequence, by argument. The index that pandas makes by itself,
            0, 1, 2, ..., names none.
    Raises:
        ValueError: If the names have another order.
    """
    index: Any = getattr(panel, "index", None)
    if getattr(index, "nlevels", 1) != 2:
        return
    names = list(index.unique(0))
    for argument, values in given.items():
        own: Any = getattr(values, "index", None)
        if not is_index(own) or len(own) != len(names):
            continue
        its = list(own)
        if type(own).__name__ == "RangeIndex" and its == list(range(len(its))):
            continue
        if its != names and set(its) == set(names):
            place = next(k for k, name in enumerate(names) if its[k] != name)
            raise ValueError(
                f"expected {argument} in the order of the sequences in X, got {its[place]} in "
                f"place of {names[place]}: pass {argument}.loc[X.index.unique(0)]"
            )


def parts_of_panel(table: Any) -> tuple[list[Any], list[Any]] | None:
    """Return the names and the tables of a panel, a table of pandas with two levels of index.

    The first level tells which sequence a row is of, as in sktime. An index of one level, or none,
    gives None.

    Raises:
        ValueError: If the index has more levels, or a row has no name of its sequence.
    """
    levels = getattr(getattr(table, "index", None), "nlevels", 1)
    if levels > 2:
        raise ValueError(
            f"expected an index of one or two levels, the sequence and the time, got {levels}: "
            "[part.droplevel([0, 1]) for _, part in frame.groupby(level=[0, 1])] is a list of them"
        )
    if levels == 1:
        return None
    has_no_name = table.index.get_level_values(0).isna()
    if has_no_name.any():
        raise ValueError(
            "expected the name of a sequence in the first level of the index, got none in row "
            f"{has_no_name.argmax()}: name it, as in frame.rename(index={{np.nan: 'a'}}, level=0)"
        )
    groups = list(table.groupby(level=0, sort=False))
    return [name for name, _ in groups], [part.droplevel(0) for _, part in groups]
