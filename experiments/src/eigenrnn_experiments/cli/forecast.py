"""The command `forecast`, which continues the series of a table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from eigenrnn.errors import check_positive_integer
from eigenrnn.estimators import Forecast, SequenceForecaster
from eigenrnn_experiments.cli.own_tables import (
    check_named,
    check_roles,
    read_table,
    sequences_of,
    with_times,
)
from eigenrnn_experiments.cli.predict import check_output, write_output
from eigenrnn_experiments.console import plain_console, say

__all__ = ["forecast"]

_ROUNDING = 0.05
"""By which share of a step two steps may differ, as times with few decimals do."""

_STEP = "step"
"""The column of the numbers of the steps, where no column has the times."""


def forecast(
    input: str,
    *,
    horizon: int,
    target: Sequence[str] = (),
    time: str | None = None,
    sequence: str | None = None,
    season: int = 1,
    coverage: float = 0.9,
    seed: int = 0,
    out: str | None = None,
) -> int:
    """Continue the series of a table.

    Trains a recurrent network on them, and writes forecasts as CSV, with lower and upper ends as
    far as the series is long enough for them. Needs: pip install 'eigenrnn-experiments[series]'.

    Args:
        input: Table in CSV or Parquet, with a row for each step; - for standard input.
        horizon: Number of steps to continue by.
        target: Columns to forecast; without it all others.
        time: Column of the times, whose steps must be equal.
        sequence: Column that tells several series apart.
        season: Steps in a season, such as 12 for months.
        coverage: Share of the values between the ends.
        seed: Seed of the training.
        out: Output file, replaced if it exists; without it they are printed.
    Raises:
        ValueError: If the output cannot be written, or an option or a series is wrong.
    """
    check_positive_integer("horizon", horizon)
    check_output(out, input)
    table = read_table(input, time, sequence, *target, sequence=sequence)
    check_roles(target=target, time=time, sequence=sequence)
    names: list[Any] = [None]
    parts = [with_times(table, time)]
    if sequence is not None:
        roles = {"sequence": sequence, "time": time, "target": None, "group": None, "ignore": ()}
        names, _, parts = sequences_of(table, roles)
    targets = [*target] or [name for name in table if name not in (sequence, time)]
    check_named(targets)
    _check_headings(sequence, time, targets)
    if time is not None:
        parts = [part.set_index(time) for part in parts]
        parts = [part.set_axis(_evenly_spaced(part.index)) for part in parts]
    forecaster = SequenceForecaster(season=season, random_state=seed)
    with plain_console(stderr=True).status(f"training on {len(table)} rows"):
        forecaster.fit([part[targets] for part in parts])
    found = forecaster.forecast(horizon, coverage)
    if found.note is not None:
        say(found.note, stderr=True)
    text = _table(names, sequence, time, found).to_csv(index=False, float_format="%.12g")
    write_output(text, out)
    return 0


def _headings(target: str) -> list[str]:
    return [target, f"{target} lower", f"{target} upper"]


def _check_headings(sequence: str | None, time: str | None, targets: list[str]) -> None:
    """Check that the columns of the forecasts have different names.

    Raises:
        ValueError: If two would have the same.
    """
    headings = [sequence, time or _STEP]
    for target in targets:
        headings += _headings(target)
    for heading in headings:
        if headings.count(heading) > 1:
            raise ValueError(
                f"expected names that differ for the columns of the forecasts, got {heading} "
                "twice: rename that column of the table"
            )


def _evenly_spaced(times: Any) -> Any:
    """Return times; numbers that were rounded, such as those of 30 Hz, at equal distances.

    Raises:
        ValueError: If numbers are not equally far apart: those of the forecasts would be made up.
            The forecaster checks dates.
    """
    if len(times) < 3 or not is_numeric_dtype(times.dtype):
        return times
    values = times.to_numpy(float)
    distances = np.diff(values)
    usual = np.median(distances)
    apart = np.abs(distances - usual)
    if usual > 0 and apart.max() < _ROUNDING * usual:
        if not apart.any():
            return times
        return pd.Index(np.linspace(values[0], values[-1], len(values)), name=times.name)
    other = int(apart.argmax())
    raise ValueError(
        f"expected times that are equally far apart in column {times.name}, got {times[other]} "
        f"before {times[other + 1]}: give each step a row; write dates as 2026-11-30; or leave "
        "--time out, which takes the rows as they stand"
    )


def _table(
    names: list[Any], sequence: str | None, time: str | None, found: Forecast
) -> pd.DataFrame:
    """Return one row for each step of each series."""
    tables: list[pd.DataFrame] = []
    for number, (name, values) in enumerate(zip(names, found.values, strict=True)):
        columns: dict[str, Any] = {}
        if sequence is not None:
            columns[sequence] = name
        if time is None:
            columns[_STEP] = np.arange(1, len(values) + 1)
        else:
            columns[time] = values.index
        for target in values:
            ends = (values, found.lower[number], found.upper[number])
            for heading, each in zip(_headings(target), ends, strict=True):
                columns[heading] = each[target].to_numpy()
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables)
