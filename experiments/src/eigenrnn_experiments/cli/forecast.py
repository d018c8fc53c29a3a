"""The command `forecast`, which continues the series of a table."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jsonargparse import Namespace
from rich.console import Console

from eigenrnn.estimators import Forecast, SequenceForecaster
from eigenrnn_experiments.atomic import write_atomically
from eigenrnn_experiments.cli.own_tables import read_table, sequences_of, to_csv, with_times
from eigenrnn_experiments.cli.predict import check_output
from eigenrnn_experiments.training.progress import plain_console

__all__ = ["forecast"]


def forecast(options: Namespace, console: Console) -> int:
    """Write the forecasts to a file or to standard output, and return the exit status.

    Raises:
        ValueError: If the output cannot be written, or an option or a series is wrong.
    """
    if options.out is not None:
        check_output(Path(options.out), options.input)
    table = read_table(options.input, options.time, options.sequence, *options.target)
    roles = {"sequence": options.sequence, "time": options.time}
    names: list[Any] = [None]
    parts = [with_times(table, options.time)]
    if options.sequence is not None:
        names, _, parts = sequences_of(
            table, {**roles, "target": None, "group": None, "ignore": ()}
        )
    left = [name for name in table if name not in roles.values()]
    targets: list[str] = options.target or left
    if options.time is not None:
        parts = [part.set_index(options.time) for part in parts]
    forecaster = SequenceForecaster(season=options.season, random_state=options.seed)
    notes = plain_console(stderr=True)
    with notes.status(f"training on {len(table)} rows"):
        forecaster.fit([part[targets] for part in parts])
    found = forecaster.forecast(options.horizon, options.coverage)
    if found.note is not None:
        notes.print(found.note, soft_wrap=True, highlight=False)
    text = to_csv(_table(names, options.time or "step", found))
    if options.out is None:
        sys.stdout.write(text)
        return 0
    write_atomically(Path(options.out), text.encode())
    console.print(f"wrote {options.out}", soft_wrap=True, highlight=False, markup=False)
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
