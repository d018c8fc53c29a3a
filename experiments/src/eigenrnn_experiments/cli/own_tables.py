"""Tables of the user, as sequences for the estimators."""

import sys
import warnings
import zlib
from collections.abc import Sequence
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.errors import ParserWarning

from eigenrnn_experiments.errors import unknown_name

__all__ = ["check_named", "check_roles", "read_table", "sequences_of", "with_times"]


def read_table(
    path: str,
    *columns: str | None,
    sequence: str | None = None,
    labels: Sequence[str | None] = (),
) -> pd.DataFrame:
    """Read a CSV or Parquet file; - is CSV on standard input.

    Args:
        path: The file.
        columns: The names of columns that it must have; None for none.
        sequence: The column of the names of sequences, which are texts in CSV.
        labels: The columns of classes, groups or numbers. Labels such as 01 stay texts in CSV.
    Raises:
        ValueError: If it is empty or damaged, or lacks a column.
    """
    try:
        if Path(path).suffix == ".parquet":
            table = pd.read_parquet(path)
            # pandas writes the index of a series or a panel, which often is its time
            wanted = {sequence, *columns, *labels} - {None, *table.columns}
            table = table.reset_index([name for name in table.index.names if name in wanted])
            table = table.reset_index(drop=True)
        else:
            table = _read_csv(path, {sequence, *labels})
            for name in dict.fromkeys(labels):
                if name in table and len(table):
                    table[name] = _numbers_or_labels(table[name])
    except (ValueError, EOFError, zlib.error) as error:  # pandas' own are ValueErrors
        raise ValueError(f"{path} cannot be read: {error}") from None
    table.columns = [str(name) for name in table.columns]
    for name in columns:
        if name is not None and name not in table:
            raise ValueError(f"{path}: {unknown_name('column', name, list(table))}")
    if table.empty:
        raise ValueError(f"expected rows in {path}, got none")
    return table


def _read_csv(path: str, texts: set[str | None]) -> pd.DataFrame:
    """Read a CSV file with some columns as the texts that they are, such as 01 and NA.

    Raises:
        ValueError: If it is damaged, or a row has more cells than the header.
    """
    source: Any = path
    if path == "-":
        source = StringIO(sys.stdin.read())
    elif Path(path).is_fifo():  # such as <(zcat table.csv.gz) in a shell; it cannot be read twice
        source = StringIO(Path(path).read_text(encoding="utf-8"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ParserWarning)
            # else pandas takes the first column for an index if all rows end with a comma
            table = pd.read_csv(source, index_col=False)
    except ParserWarning:
        raise ValueError("expected a name in the header for each cell of a row") from None
    for name in [*table]:
        column: Any = table[name]
        if _has_no_name(name) and column.isna().all():
            table = table.drop(columns=name)  # the header ends with a comma too
    texts = texts & set(table)
    if texts:
        if source is not path:
            source.seek(0)
        # pandas takes NA, None and the like for missing in every column or in none
        read: Any = pd.read_csv(
            source, usecols=[*texts], dtype="str", na_filter=False, index_col=False
        )
        for name in texts:
            table[name] = read[name].replace("", None)
    return table


def _numbers_or_labels(texts: Any) -> Any:
    """Return the numbers that pandas reads in texts, or the texts, such as 01 and NA."""
    known = texts.dropna()
    if known.empty:
        return texts
    csv = StringIO(known.to_csv(index=False, header=False))
    read: Any = pd.read_csv(csv, header=None, skip_blank_lines=False)[0].set_axis(known.index)
    # numbers, or True and False; NA alone is no number
    if not pd.api.types.is_numeric_dtype(read) or read.isna().all():
        return texts
    if pd.api.types.is_integer_dtype(read) and (read.astype(str) != known.str.strip()).any():
        return texts
    if len(known) < len(texts):  # integers stay integers, and True stays True
        return read.astype(object).reindex(texts.index)
    return read


def check_roles(**columns: str | Sequence[str] | None) -> None:
    """Check that each column has one role: a column of times, for example, is no target.

    Raises:
        ValueError: If one has.
    """
    role_of: dict[str, str] = {}
    for role, given in columns.items():
        names = [given] if isinstance(given, str) else given or ()
        for name in names:
            if role_of.setdefault(name, role) != role:
                raise ValueError(
                    f"expected one role for each column, got {name} as --{role_of[name]} and as "
                    f"--{role}"
                )


def _has_no_name(column: str) -> bool:
    return column.startswith("Unnamed: ")  # so pandas calls it


def check_named(columns: Sequence[str]) -> None:
    """Check that columns which are to be learned from have names in the header.

    Raises:
        ValueError: If one has none, such as the number of the row that pandas writes.
    """
    for name in columns:
        if _has_no_name(name):
            raise ValueError(
                f"expected a name for each column, got none for that which pandas calls {name!r}: "
                "name it or leave it out, as DataFrame.to_csv(index=False) does"
            )


def with_times(table: pd.DataFrame, time: str | None) -> pd.DataFrame:
    """Return a table in the order of its times: numbers, durations or ISO dates.

    Raises:
        ValueError: If the times are none of these, or one is missing.
    """
    if time is None:
        return table
    column: Any = table[time]
    if column.isna().any():
        raise ValueError(f"expected a time in each row of column {time}, got none in one")
    if column.dtype.kind == "O":  # a text
        column = _parsed(column, time)
    timed = table.copy()
    timed[time] = column
    return timed.sort_values(time, kind="stable")


def _parsed(texts: Any, time: str) -> Any:
    """Return texts as numbers, durations or dates.

    Raises:
        ValueError: If they are none of these.
    """
    dates = partial(pd.to_datetime, format="ISO8601")
    # of several offsets, as in a country with summer time, only those of UTC are one column
    for read in (pd.to_numeric, dates, partial(dates, utc=True), _durations):
        try:
            return read(texts)
        except (ValueError, TypeError):
            continue
    raise ValueError(
        f"expected numbers, durations or ISO dates such as 2026-11-28 in column {time}, got "
        f"{texts.iloc[0]!r}"
    )


def _durations(texts: Any) -> Any:
    """Return texts as durations.

    Raises:
        ValueError: If one has neither a colon nor a unit: pandas reads 2000-13 as a duration too.
    """
    if not texts.astype(str).str.contains("[:A-Za-z]").all():
        raise ValueError("expected durations with a unit")
    return pd.to_timedelta(texts)


def sequences_of(
    table: pd.DataFrame, names: dict[str, Any], channels: Sequence[str] | None = None
) -> tuple[list[str], list[Any], list[Any]]:
    """Return the names of the sequences, their channels and all their columns.

    Args:
        table: The table.
        names: The columns by role: `sequence`, `time`, `target`, `group`, `ignore`.
        channels: The columns of the channels; by default those without a role.
    Raises:
        ValueError: If there is no column of sequences, a row is of none, or there is no channel.
    """
    sequence = names["sequence"]
    if sequence not in table:
        raise ValueError(
            f"expected a column {sequence} that tells which sequence a row is of, got none: name "
            "yours with --sequence"
        )
    nameless = table[sequence].isna().to_numpy()
    if nameless.any():
        row = int(nameless.argmax())
        raise ValueError(
            f"expected the name of a sequence in each row of column {sequence}, got none in row "
            f"{row + 1} below the header"
        )
    ordered = with_times(table, names["time"])
    others = {sequence, names["time"], names["target"], names["group"], *names["ignore"]}
    if channels is None:
        channels = [name for name in table if name not in others]
        check_named(channels)
    if not channels:
        raise ValueError(f"expected a column of a channel beside {list(table)}, got none")
    numbers, labels = pd.factorize(ordered[sequence])
    # rows side by side are a slice, which takes a tenth of the time of choosing rows or columns
    ordered = ordered.iloc[np.argsort(numbers, kind="stable")]
    of_channels = ordered[list(channels)]
    ends = np.bincount(numbers).cumsum().tolist()
    slices = [slice(start, end) for start, end in pairwise([0, *ends])]
    parts = [ordered.iloc[rows] for rows in slices]
    return [*map(str, labels)], [of_channels.iloc[rows] for rows in slices], parts
