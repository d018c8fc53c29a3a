"""Series as people give them to the forecaster, and their dates."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigenrnn.errors import check_installed
from eigenrnn.values import (
    Array,
    check_size,
    column_names,
    is_index,
    parts_of_panel,
    with_columns,
)

check_installed("eigenrnn[estimators]", "eigenrnn.forecasting", "sklearn")

from sklearn.utils import check_array  # noqa: E402

__all__ = [
    "Calendar",
    "Form",
    "check_same_dates",
    "check_same_steps",
    "deviation",
    "given",
    "is_rounding",
    "known_ahead",
    "read",
    "split",
]


class Calendar(NamedTuple):
    """The index of a series of pandas: its last entry, and what follows it.

    Args:
        kind: The entries: times, durations, periods, numbers or floats; counted where numbers are
            not equally far apart, which only name rows.
        last: The last one.
        frequency: The alias of pandas for the distance of two entries; of numbers, the distance.
        timezone: The time zone of times, if they have one.
        name: The name of the index.
    """

    kind: str
    last: str
    frequency: str
    timezone: str | None
    name: Any

    def after(self, steps: int) -> Any:
        """Return the index of the steps after the last one."""
        return self._range(1, steps)

    def until(self, steps: int) -> Any:
        """Return the index of as many steps up to the last one."""
        return self._range(1 - steps, 0)

    def seconds(self) -> float | None:
        """Return how long a step lasts on average; None of numbers, which have no unit."""
        if self.kind in ("numbers", "floats", "counted"):
            return None
        # months and business days differ in length; not each day exists in each time zone
        following = self._replace(timezone=None).after(29)
        if self.kind == "periods":
            following = following.to_timestamp()
        return (following[-1] - following[0]).total_seconds() / 28

    def _range(self, first: int, last: int) -> Any:
        import pandas as pd

        if self.kind in ("numbers", "counted"):
            step = int(self.frequency)
            end = int(self.last)
            return pd.RangeIndex(end + first * step, end + (last + 1) * step, step, name=self.name)
        if self.kind == "floats":
            values = float(self.last) + float(self.frequency) * np.arange(first, last + 1)
            return pd.Index(values, name=self.name)
        count = last - first + 1
        if self.kind == "periods":
            period: Any = pd.Period(self.last, self.frequency)
            return pd.period_range(
                period + first, periods=count, freq=self.frequency, name=self.name
            )
        entries: Any = pd.timedelta_range
        start: Any = self.last
        if self.kind == "times":
            entries = pd.date_range
            start = pd.Timestamp(self.last)
        if self.timezone is not None:
            start = start.tz_convert(self.timezone)
        if first <= 0:
            return entries(end=start, periods=count, freq=self.frequency, name=self.name)
        following = entries(start, periods=last + 1, freq=self.frequency, name=self.name)
        return following[first:]


class Form(NamedTuple):
    """The form of series, in which forecasts are returned.

    Args:
        is_flat: Whether they have no axis of columns.
        is_several: Whether they are a list.
        keys: The names of the series of a panel, and of the levels of its index.
        columns: The names of the columns of frames, or the name of each series of pandas.
        calendars: The index of each series of pandas; none for arrays.
    """

    is_flat: bool
    is_several: bool
    keys: tuple[list[Any], list[Any]] | None
    columns: list[Any]
    calendars: list[Calendar]

    def filled(self, arrays: list[Array], *, ahead: bool) -> Any:
        """Return values in this form, with the dates that follow it or its own.

        Args:
            arrays: The values of each series, (S, K).
            ahead: Whether they are those after the end of the series.
        """
        found: list[Any] = []
        # many series have the same dates, which pandas takes long to make
        index_of = cache(Calendar.after if ahead else Calendar.until)
        for number, values in enumerate(arrays):
            index: Any = None
            if self.calendars:
                # a copy, as the caller may rename the index of one series
                index = index_of(self.calendars[number], len(values)).copy()
            found.append(self._one(number, values, index))
        if self.keys is not None:
            import pandas as pd

            names, levels = self.keys
            return pd.concat(found, keys=names, names=levels)
        if self.is_several:
            return found
        return found[0]

    def _one(self, number: int, values: Array, index: Any) -> Any:
        """Return a series as an array, or as one of pandas with an index."""
        flat = values[:, 0]
        if index is None:
            return flat if self.is_flat else values
        import pandas as pd

        if self.is_flat:
            return pd.Series(flat, index, name=self.columns[number])
        columns: Any = self.columns
        return pd.DataFrame(values, index, columns=columns)


def split(series: Any) -> tuple[list[Any], bool, tuple[list[Any], list[Any]] | None]:
    """Return the parts of series, whether they are several, and the names of a panel."""
    panel = parts_of_panel(series)
    if panel is not None:
        keys, parts = panel
        return parts, True, (keys, list(series.index.names))
    # a list of numbers is one series
    if isinstance(series, list | tuple) and (len(series) == 0 or np.ndim(series[0]) > 0):
        return list(series), True, None
    return [series], False, None


def given(y: Any, targets: Any, columns: Any) -> tuple[list[Any], list[Any] | None, Form]:
    """Return the series, what else their frames hold, and their form.

    Args:
        y: The series.
        targets: The columns of frames to forecast; None for all, and nothing else is held.
        columns: The order of the columns of frames; None for that of the first one.
    Raises:
        ValueError: If a column is missing, only some series are of pandas, or the dates of one are
            too few, not in order or not equally far apart.
    """
    parts, is_several, keys = split(y)
    if not parts:
        raise ValueError("expected some series in y, got 0")
    others: list[Any] | None = None
    if targets is not None:
        is_one = isinstance(targets, tuple) or np.ndim(targets) == 0  # a tuple is a name
        wanted = [targets] if is_one else list(targets)
        left = [name for name in getattr(parts[0], "columns", []) if name not in wanted]
        for part in parts:
            names = list(getattr(part, "columns", []))
            if not set(wanted) <= set(names):
                raise ValueError(f"expected columns {wanted} in frames as y, got {names}")
        if left:
            others = [part[left] for part in parts]
        parts = [part[targets if is_one else wanted] for part in parts]
    calendars: list[Calendar] = []
    before: Any = None
    for number, part in enumerate(parts):
        index: Any = getattr(part, "index", None)
        if not is_index(index):
            continue
        if before is not None and index.identical(before):  # often, and a check takes long
            calendars.append(calendars[-1])
        else:
            calendars.append(_calendar(index, f"y, series {number}"))
        before = index
    if len(calendars) not in (0, len(parts)):
        raise ValueError(
            f"expected all series of pandas in y or none, got {len(calendars)} of {len(parts)}: "
            "pass .to_numpy() of each"
        )
    is_flat = np.ndim(parts[0]) == 1
    if is_flat:
        columns = [getattr(part, "name", None) for part in parts]
    elif columns is None:
        columns = column_names(parts[0])
    if columns is None:
        columns = []
    return parts, others, Form(is_flat, is_several, keys, list(columns), calendars)


def known_ahead(X: Any, form: Form) -> list[Any]:
    """Return the parts of X, of panels in the order of the names of the series.

    Raises:
        ValueError: If both are panels, and the names differ.
    """
    parts, _, keys = split(X)
    if keys is None or form.keys is None:
        return parts
    by_name = dict(zip(keys[0], parts, strict=True))
    names = form.keys[0]
    if set(by_name) != set(names):
        raise ValueError(f"expected the series {names} of y in X, got {[*by_name]}")
    return [by_name[name] for name in names]


def _calendar(index: Any, place: str) -> Calendar:
    """Describe an index.

    Raises:
        ValueError: If it has other entries than a `Calendar`, too few, or dates that are not in
            order or not equally far apart.
    """
    import pandas as pd

    if len(index) < 3:
        raise ValueError(f"expected at least 3 steps in {place}, got {len(index)}")
    if isinstance(index, pd.PeriodIndex):
        expected = pd.period_range(index[0], periods=len(index), freq=index.freq)
        _check_dates(index, expected, place)
        return Calendar("periods", str(index[-1]), index.freqstr, None, index.name)
    if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex):
        kind = "times" if isinstance(index, pd.DatetimeIndex) else "durations"
        frequency = _frequency(index, place)
        last = str(index[-1])
        timezone: str | None = None
        if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
            timezone = str(index.tz)
        calendar = Calendar(kind, last, frequency, timezone, index.name)
        _check_rebuilt(index, calendar, place)
        return calendar
    if not pd.api.types.is_numeric_dtype(index.dtype):
        raise ValueError(
            f"expected an index of dates, durations, periods or numbers in {place}, got "
            f"{index[0]!r}: frame.index = pd.to_datetime(frame.index), or pass .to_numpy() for "
            "rows as they stand"
        )
    step = 0
    if pd.api.types.is_integer_dtype(index.dtype):
        steps = np.unique(np.diff(np.asarray(index, dtype=np.int64)))
        if len(steps) == 1:
            step = int(steps[0])
    if step > 0:
        return Calendar("numbers", str(int(index[-1])), str(step), None, index.name)
    if pd.api.types.is_float_dtype(index.dtype):
        values = index.to_numpy("float64", na_value=np.nan)
        distance = (values[-1] - values[0]) / (len(values) - 1)
        rounding = 4 * np.finfo(getattr(index.dtype, "numpy_dtype", index.dtype)).eps
        is_next = np.abs(np.diff(values) - distance) < rounding * np.abs(values).max()
        if distance > 0 and is_next.all():
            last = str(float(values[-1]))
            return Calendar("floats", last, str(float(distance)), None, index.name)
    return Calendar("counted", str(len(index) - 1), "1", None, index.name)


_REMEDY = (
    "give each step a row, as frame.asfreq({!r}) does, and fill in what is missing; or pass "
    ".to_numpy() for rows as they stand"
)


def _frequency(index: Any, place: str) -> str:
    """Return the distance of two times or durations, by pandas' alias.

    Raises:
        ValueError: If they are not in order, or not equally far apart.
    """
    import pandas as pd

    _check_order(index, place)
    kind: Any = type(index)
    between = pd.date_range if kind is pd.DatetimeIndex else pd.timedelta_range
    found: Any = index.freqstr or kind(index, freq="infer").freqstr
    if found:
        return found
    # that of ten times without a gap tells where the first gap is
    for first in range(max(len(index) - 9, 0)):
        usual = kind(index[first : first + 10], freq="infer").freqstr
        if usual:
            _check_dates(index, between(index[0], index[-1], freq=usual), place)
    distances = np.diff(np.asarray(index.as_unit("ns").asi8))
    other = int((distances != distances[0]).argmax())
    raise ValueError(
        f"expected times that are equally far apart in {place}, got {index[other]} before "
        f"{index[other + 1]}: frame.resample('h').mean() has one row an hour; or pass .to_numpy() "
        "for rows as they stand"
    )


def _check_order(index: Any, place: str) -> None:
    """Check that each entry is later than the one before.

    Raises:
        ValueError: If one is not, or is missing.
    """
    later = np.asarray(index[1:] > index[:-1])
    if later.all() and not index.hasnans:
        return
    first = int((~later).argmax())
    raise ValueError(
        f"expected times in order, each once, in {place}, got {index[first]} before "
        f"{index[first + 1]}: sort_index(), and join what is there twice"
    )


def _check_dates(index: Any, expected: Any, place: str) -> None:
    """Check that no step is missing.

    Raises:
        ValueError: If entries are not in order, or one is missing.
    """
    _check_order(index, place)
    missing = expected[~expected.isin(index)]
    if len(index) != len(expected) or len(missing):
        first = [*missing, expected[-1]][0]
        raise ValueError(
            f"expected each step of frequency {expected.freqstr} in {place}, got none for {first}"
            f": {_REMEDY.format(expected.freqstr)}"
        )


def _check_rebuilt(index: Any, calendar: Calendar, place: str) -> None:
    """Check that a calendar, which has texts alone, tells what was before it and what follows.

    Raises:
        ValueError: If it does not, as with holidays of one's own.
    """
    try:
        known = index.freq is None or calendar.after(1).freq == index.freq
        if known and (calendar.until(len(index)) == index).all():
            return
    except (ValueError, LookupError):  # of a frequency, or of a time zone
        pass
    raise ValueError(
        f"expected a frequency and a time zone that pandas finds by their names in {place}, got "
        f"{calendar.frequency} and {calendar.timezone}: frame.asfreq('B'), 'D' or 'MS' has a row "
        "for each step, to fill in; or pass .to_numpy() for rows as they stand"
    )


def check_same_steps(calendars: Sequence[Calendar], of_fit: Sequence[Calendar]) -> None:
    """Check that the steps of series last about as long as those of `fit`.

    Raises:
        ValueError: If those of a series do not, such as months after days.
    """
    known = {each.frequency: each.seconds() for each in of_fit}
    lengths = [seconds for seconds in known.values() if seconds is not None]
    if not lengths:
        return
    of_each_frequency = {each.frequency: each for each in calendars}
    for each in of_each_frequency.values():
        seconds = each.seconds()
        if each.frequency in known or seconds is None:
            continue
        # as long under another name: MS and ME are both months
        if not any(0.9 < seconds / length < 1.1 for length in lengths):
            raise ValueError(
                f"expected steps of frequency {' or '.join(known)} in y, as in fit, got "
                f"{each.frequency}: give y that frequency by frame.asfreq or frame.resample, or "
                "pass .to_numpy() for rows as they stand"
            )


def check_same_dates(known: Any, expected: Any, name: str) -> None:
    """Check that what is known ahead has the dates or the numbers of its steps.

    The numbers 0, 1, 2, ... only count rows, and other entries, such as texts, are not compared.

    Raises:
        ValueError: If one is another, or their kinds differ, as of times and of periods.
    """
    index: Any = getattr(known, "index", None)
    if not (is_index(index) and is_index(expected)) or len(index) != len(expected):
        return
    if index.dtype.kind in "iu" and (index == np.arange(len(index))).all():
        return
    both = (index, expected)
    if all(each.dtype.kind in "iuf" for each in both):
        is_same = _are_close(index, expected)
    elif all(hasattr(each, "freqstr") for each in both):
        if type(index) is not type(expected):
            raise ValueError(
                f"expected a {type(expected).__name__} as {name}, as y has, got a "
                f"{type(index).__name__}: convert one of them"
            )
        is_same = np.asarray(index == expected)
    else:
        return
    if not is_same.all():
        first = int(is_same.argmin())
        raise ValueError(
            f"expected {expected[first]} in {name}, as in y, got {index[first]}: sort or cut X, "
            "or pass X.to_numpy() for rows as they stand"
        )


def _are_close(index: Any, expected: Any) -> NDArray[np.bool_]:
    """Whether numbers are the same to rounding, or to a twentieth of a step."""
    numbers = np.asarray(index, dtype=np.float64)
    others = np.asarray(expected, dtype=np.float64)
    precisions = [np.finfo(each.dtype).eps for each in (index, expected) if each.dtype.kind == "f"]
    rounding = 32 * max(precisions, default=0.0) * np.abs(others).max()
    step = abs(others[-1] - others[0]) / max(len(others) - 1, 1)
    return np.abs(numbers - others) <= max(rounding, step / 20)


def read(
    parts: list[Any], name: str, columns: Any, count: int | None = None
) -> tuple[list[Array], Any]:  # each (T, K)
    """Return series in double precision, and the names of their columns.

    Raises:
        ValueError: If a shape, a column or a value is wrong, or there are not so many of them.
    """
    if count is not None and len(parts) != count:
        raise ValueError(f"expected {count} series in {name}, got {len(parts)}")
    found: list[Array] = []
    for number, part in enumerate(parts):
        place = f"{name}, series {number}"
        array, columns = with_columns(part, columns, place)
        values = np.asarray(array)
        if values.ndim == 1:
            values = values[:, None]
        if values.dtype.kind == "f" and np.isnan(values).any():
            step = int(np.isnan(values).any(1).argmax())
            raise ValueError(
                f"expected no missing value in {place}, got NaN in step {step}: fill it in, as "
                "frame.interpolate() does"
            )
        found.append(check_array(values, dtype="float64", copy=True, input_name=name))
        check_size(found[-1], name)
    if len({values.shape[1] for values in found}) > 1:
        raise ValueError(f"expected series of the same columns in {name}, got others")
    return found, columns


def deviation(rows: Sequence[Any] | NDArray[Any]) -> Array:
    """Return the standard deviation of each column, or one where it is only rounding."""
    array = np.asarray(rows)
    found = array.std(0)
    return np.where(is_rounding(found, array), 1.0, found)


def is_rounding(
    differences: Array,  # (K,)
    rows: NDArray[Any],  # (T, K)
) -> NDArray[np.bool_]:  # (K,)
    """Whether differences between the entries of columns are only their rounding."""
    rounding = np.finfo(rows.dtype).eps * np.abs(rows).max(0, initial=0.0)
    return differences <= 8 * rounding
