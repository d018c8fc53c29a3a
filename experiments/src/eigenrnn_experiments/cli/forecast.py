"""The command `forecast`, which continues the series of a file."""

import csv
import io
import sys
from pathlib import Path

import numpy as np
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
    columns = Columns(**options.columns.as_dict())
    sequences = read_series(options.input, ReadOptions(columns))
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
    sink = io.StringIO()
    table = csv.writer(sink, lineterminator="\n")
    headings = [f"{name}{end}" for name in sequences.channels for end in ("", " lower", " upper")]
    table.writerow(map(spreadsheet_text, ["sequence", "step", *headings]))
    for name, of_series in zip(sequences.names, forecasts, strict=True):
        for step, numbers in enumerate(of_series.reshape(len(of_series), -1), start=1):
            row = [f"{number:.7g}" for number in numbers]
            table.writerow([spreadsheet_text(name), step, *row])
    return sink.getvalue()
