"""Tables with one row a step: a column that names the sequence, and one for each channel."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eigenrnn.experiments.data.sequences import Sequences, as_values, checked

__all__ = ["from_columns"]

SEQUENCE, TIME, LABEL, TARGET = "sequence", "time", "label", "target"


def from_columns(
    columns: Mapping[str, Any], path: Path, row_place: Callable[[int], str]
) -> Sequences:
    """Gather the rows of each sequence.

    The columns are `sequence`; `time`, by which the rows of a sequence are ordered, if there is
    one, else they stay as they are; `label` or `target`, the same in all rows of a sequence, or
    neither; and every other column is a channel. Sequences are in the order of their first rows.

    Args:
        columns: An array of one dimension for each name; texts are objects.
        path: The file that they are from.
        row_place: Says where in the file a row stands.

    Raises:
        ValueError: If a column is missing, holds no numbers, or does not fit the others.
    """
    channels = tuple(name for name in columns if name not in (SEQUENCE, TIME, LABEL, TARGET))
    if SEQUENCE not in columns or not channels:
        raise ValueError(
            f"expected a column {SEQUENCE!r} and at least one channel in {path}, got the columns "
            f"{', '.join(columns)}"
        )
    names, first, which = np.unique(columns[SEQUENCE], return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))  # of each name, by its first row
    which = rank[which]
    keys = (which,) if TIME not in columns else (_times(columns[TIME], path, row_place), which)
    order = np.lexsort(keys)
    if TIME in columns:
        _check_times(keys[0][order], which[order], order, path, row_place)
    values = as_values([columns[name] for name in channels], path, channels)[order]
    labels, numbers = (
        _constant(columns.get(name), which, first, rank, path, row_place)
        for name in (LABEL, TARGET)
    )
    ordered = names[np.argsort(first)].tolist()
    return checked(
        Sequences(
            path=path,
            values=values,
            lengths=np.bincount(which, minlength=len(names)),
            channels=channels,
            labels=None if labels is None else tuple(map(str, labels.tolist())),
            numbers=None if numbers is None else as_values([numbers], path, [TARGET])[:, 0],
            place=lambda number: f"the sequence {ordered[number]}",
        )
    )


def _times(column: Any, path: Path, row_place: Callable[[int], str]) -> Any:
    times = np.asarray(column)
    if times.dtype.kind == "O":  # texts: numbers, or dates, which sort as they are
        try:
            times = times.astype(np.float64)
        except (TypeError, ValueError):
            return np.unique(times, return_inverse=True)[1]
    missing = np.flatnonzero(np.isnat(times) if times.dtype.kind in "Mm" else ~np.isfinite(times))
    if len(missing):
        raise ValueError(
            f"expected a time in each row of {path}, got {times[missing[0]]} in "
            f"{row_place(int(missing[0]))}"
        )
    return times


def _check_times(
    times: Any, which: Any, order: Any, path: Path, row_place: Callable[[int], str]
) -> None:
    """Refuse two rows of a sequence with the same time.

    Raises:
        ValueError: If there are two.
    """
    twice = np.flatnonzero((np.diff(which) == 0) & (times[1:] == times[:-1]))
    if len(twice):
        one, other = (row_place(int(order[twice[0] + k])) for k in (0, 1))
        raise ValueError(
            f"expected each time once in a sequence of {path}, got one in {one} and in {other}"
        )


def _constant(
    column: Any | None,
    which: Any,
    first: Any,
    rank: Any,
    path: Path,
    row_place: Callable[[int], str],
) -> Any | None:
    """Return the one answer of each sequence, in the order of the sequences.

    Raises:
        ValueError: If a sequence has two.
    """
    if column is None:
        return None
    column = np.asarray(column)
    answers: Sequence[Any] = column[first[np.argsort(rank)]]
    differs = np.flatnonzero(column != np.asarray(answers)[which])
    if len(differs):
        row = int(differs[0])
        raise ValueError(
            f"expected one answer in all rows of a sequence of {path}, got {column[row]!s} and "
            f"{answers[int(which[row])]!s} in {row_place(row)}"
        )
    return answers
