"""The command `forecast`, which continues the series of a file."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from jsonargparse import Namespace
from rich.console import Console

from eigenrnn.estimators import SequenceForecaster
from eigenrnn_experiments.atomic import write_atomically
from eigenrnn_experiments.cli.predict import check_output
from eigenrnn_experiments.data.sequences import Sequences
from eigenrnn_experiments.data.series import read_series
from eigenrnn_experiments.data.tables import Columns, ReadOptions
from eigenrnn_experiments.training.files import spreadsheet_text

__all__ = ["forecast"]


def forecast(options: Namespace, console: Console) -> int:
    """Write the forecasts to a file or to standard output, and return the exit status.

    Raises:
        ValueError: If the output cannot be written, or an option or a series is wrong.
    """
    if options.out is not None:
        check_output(Path(options.out), options.input)
    # a column of such a name is to be forecast
    columns = Columns(**options.columns.as_dict(), label=None, target=None, group=None)
    read_options = ReadOptions(
        columns, options.separator, options.decimal, may_be_one_sequence=True, of_task=False
    )
    sequences = read_series(options.input, read_options)
    forecaster = SequenceForecaster(season=options.season, random_state=options.seed)
    series = np.split(sequences.values, np.cumsum(sequences.lengths)[:-1])
    forecaster.fit(series)
    values = forecaster.predict(options.horizon)
    lower, upper = forecaster.predict_interval(options.horizon, options.coverage)
    table = _to_csv(sequences, np.stack([values, lower, upper], axis=-1))
    if options.out is None:
        sys.stdout.write(table)
        return 0
    write_atomically(Path(options.out), table.encode())
    console.print(f"wrote {options.out}", soft_wrap=True, highlight=False, markup=False)
    return 0


def _to_csv(
    sequences: Sequences,
    forecasts: np.ndarray,  # (n, S, K, 3)
) -> str:
    """Return one row for each step of each series, counted from its end."""
    series_count, horizon, _, _ = forecasts.shape
    headings: list[str] = []
    for name in sequences.channels:
        headings += [name, f"{name} lower", f"{name} upper"]
    rows = forecasts.reshape(series_count * horizon, len(headings))
    table = pd.DataFrame(rows, columns=pd.Index(headings, dtype=object))
    steps = np.tile(np.arange(1, horizon + 1), series_count)
    # a column of the file may also be called sequence or step
    table.insert(0, "step", steps, allow_duplicates=True)
    names = np.repeat([*map(spreadsheet_text, sequences.names)], horizon)
    table.insert(0, "sequence", names, allow_duplicates=True)
    table.columns = [*map(spreadsheet_text, table.columns)]
    return table.to_csv(index=False)
