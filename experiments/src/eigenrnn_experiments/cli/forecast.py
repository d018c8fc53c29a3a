"""The command `forecast`, which continues the series of a table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from eigenrnn.errors import check_positive_integer
from eigenrnn.estimators import Forecast, SequenceForecaster
from eigenrnn_experiments.cli.own_tables import read_table, sequences_of, with_times
from eigenrnn_experiments.cli.predict import check_output, write_output
from eigenrnn_experiments.console import plain_console, say

__all__ = ["forecast"]


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
    names: list[Any] = [None]
    parts = [with_times(table, time)]
    if sequence is not None:
        roles = {"sequence": sequence, "time": time, "target": None, "group": None, "ignore": ()}
        names, _, parts = sequences_of(table, roles)
    targets = [*target] or [name for name in table if name not in (sequence, time)]
    if time is not None:
        parts = [part.set_index(time) for part in parts]
    forecaster = SequenceForecaster(season=season, random_state=seed)
    with plain_console(stderr=True).status(f"training on {len(table)} rows"):
        forecaster.fit([part[targets] for part in parts])
    found = forecaster.forecast(horizon, coverage)
    if found.note is not None:
        say(found.note, stderr=True)
    text = _table(names, time or "step", found).to_csv(index=False, float_format="%.12g")
    write_output(text, out)
    return 0


def _table(names: list[Any], time: str, found: Forecast) -> pd.DataFrame:
    """Return one row for each step of each series."""
    tables: list[pd.DataFrame] = []
    for number, (name, values) in enumerate(zip(names, found.values, strict=True)):
        columns: dict[str, Any] = {}
        if name is not None:
            columns["sequence"] = name
        columns[time] = values.index
        if time == "step":
            columns[time] = np.arange(1, len(values) + 1)
        for target in values:
            columns[target] = values[target].to_numpy()
            columns[f"{target} lower"] = found.lower[number][target].to_numpy()
            columns[f"{target} upper"] = found.upper[number][target].to_numpy()
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables)
