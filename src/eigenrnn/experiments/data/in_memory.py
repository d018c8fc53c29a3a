"""Time series that are in memory already: arrays, and tables of pandas or polars."""

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from eigenrnn.experiments.data.sequences import Sequences, as_float32, check_sequences
from eigenrnn.experiments.data.tables import (
    GROUP,
    LABEL,
    SEQUENCE,
    TARGET,
    TIME,
    TableBuilder,
    TableColumns,
    check_channel_names,
    possible_row_numbers,
)

__all__ = [
    "as_npz",
    "content_hash",
    "from_arrays",
    "from_channels_first",
    "from_table",
    "to_arrays",
]

# in place of a file: "in the arrays", in messages
_ARRAYS = Path("the arrays")
_TABLE = Path("the table")
_MISSING = ("", "nan", "none", "<na>", "nat")


def from_arrays(
    arrays: Sequence[ArrayLike],
    *,
    labels: Iterable[Any] | None = None,
    targets: Iterable[float] | None = None,
    channels: Sequence[str] | None = None,
    groups: Iterable[Any] | None = None,
    allow_missing: bool = False,
) -> Sequences:
    """Return the sequences in a list of arrays, which may differ in length.

    Args:
        arrays: An array for each sequence. With a single channel it may have one dimension.
        labels: The class of each sequence.
        targets: The number of each sequence, in place of a class.
        channels: The name of each channel; by default its number from one.
        groups: The group of each sequence, such as a patient, which folds do not divide.
        allow_missing: Whether values may be NaN, for a task with `missing="mask"` or "forward".

    Shape:
        arrays: :math:`(T, M)` each, or :math:`(T)`.

    Raises:
        ValueError: If a shape or a number of labels is wrong, or a value is not finite.
        TypeError: If `arrays` is no list, or an array does not hold numbers.

    Example:
        >>> short, long = np.zeros((2, 3)), np.ones((5, 3))
        >>> from_arrays([short, long], labels=["still", "moving"])
        <Sequences in the arrays: 2 with 3 channels, of 2 to 5 steps>
    """
    if isinstance(arrays, np.ndarray) or not isinstance(cast("object", arrays), Sequence):
        kind = type(arrays).__name__
        raise TypeError(
            f"expected a list of arrays, one for each sequence, got one {kind}: pass "
            "from_channels_first(x) for an array of shape (count, channels, steps), as aeon has "
            "it, or list(x) for one of shape (count, steps, channels)"
        )
    matrices = [_matrix(array, number) for number, array in enumerate(arrays)]
    if not matrices:
        raise ValueError("expected at least one array, got none")
    widths = [matrix.shape[1] for matrix in matrices]
    for number, width in enumerate(widths):
        if width != widths[0]:
            raise ValueError(
                f"expected the {widths[0]} channels of the first array in all arrays, got "
                f"{width} in the array with index {number}: each has the shape (steps, channels)"
            )
    names = _channel_names(channels, widths[0])
    words, numbers = _answers(labels, targets, len(matrices))
    named_groups = _of_each("groups", groups, len(matrices))
    return check_sequences(
        Sequences(
            path=_ARRAYS,
            values=as_float32(np.concatenate(matrices)),
            lengths=np.array([len(matrix) for matrix in matrices], np.int64),
            names=tuple(str(k) for k in range(1, len(matrices) + 1)),
            channels=names,
            labels=words,
            targets=numbers,
            location=_with_index,
            groups=named_groups,
        ),
        allow_missing=allow_missing,
    )


def from_channels_first(
    x: ArrayLike,
    *,
    labels: Iterable[Any] | None = None,
    targets: Iterable[float] | None = None,
    channels: Sequence[str] | None = None,
    groups: Iterable[Any] | None = None,
    allow_missing: bool = False,
) -> Sequences:
    r"""Return the sequences in an array of three dimensions, in the layout of aeon.

    Args:
        x: The sequences.
        labels: The class of each sequence.
        targets: The number of each sequence, in place of a class.
        channels: The name of each channel; by default its number from one.
        groups: The group of each sequence, such as a patient, which folds do not divide.
        allow_missing: Whether values may be NaN, for a task with `missing="mask"` or "forward".

    Shape:
        x: :math:`(\text{count}, M, T)`, channels before time.

    Raises:
        ValueError: If a shape or a number of labels is wrong, or a value is not finite.
        TypeError: If the array does not hold numbers.

    Example:
        >>> from_channels_first(np.zeros((4, 2, 30)), labels=["a", "b", "a", "b"])
        <Sequences in the arrays: 4 with 2 channels, of 30 to 30 steps>
    """
    array = np.asarray(x)
    if array.ndim != 3:
        raise ValueError(
            f"expected an array of shape (count, channels, steps), got {array.shape}; pass a "
            "list of arrays of shape (steps, channels) to from_arrays"
        )
    steps_first = list(array.transpose(0, 2, 1))
    return from_arrays(
        steps_first,
        labels=labels,
        targets=targets,
        channels=channels,
        groups=groups,
        allow_missing=allow_missing,
    )


def from_table(
    table: Any,
    *,
    sequence: str = SEQUENCE,
    time: str | None = None,
    label: str | None = None,
    target: str | None = None,
    channels: Sequence[str] | str | None = None,
    group: str | None = None,
    ignored: Sequence[str] | str = (),
    allow_missing: bool = False,
) -> Sequences:
    """Return the sequences in a table of pandas or polars, with one row for each time step.

    Args:
        table: The table.
        sequence: The column that names the sequence of a row.
        time: The column that orders the rows of a sequence; by default they are in order.
        label: The column with the class of the sequence, the same in all its rows.
        target: The column with the number of the sequence, in place of a class.
        channels: The columns of the channels, or a single one; all others are ignored. By default,
            the channels are all columns that no other argument names; one that seems to hold row
            numbers, such as the `index` that `reset_index` of pandas makes, is an error.
        group: The column with the group of the sequence, such as a patient, which folds do not
            divide.
        ignored: The columns that are no channels, such as an index, or a single one.
        allow_missing: Whether channels may have missing values, for a task with `missing="mask"`
            or "forward".

    Raises:
        ValueError: If a column is missing or not numeric, or values are missing.
        TypeError: If it is no table.
        RowNumbersError: If a channel that the caller did not list holds row numbers; see
            `eigenrnn.experiments.data.tables.RowNumbersError` for the rule.

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"unit": [7, 7, 9], "x": [0.1, 0.2, 0.3], "ok": [1, 1, 0]})
        >>> from_table(table, sequence="unit", label="ok")
        <Sequences in the table: 2 with 1 channels, of 1 to 2 steps>
    """
    # tables of Arrow and lazy ones of polars have columns too, but no `to_dict`
    if not hasattr(table, "to_dict") or not hasattr(table, "columns"):
        raise TypeError(f"expected a table of pandas or polars, got {type(table).__name__}")
    # pandas has names of any type
    by_name = {str(name): name for name in table.columns}
    available = list(by_name)
    if len(available) < len(table.columns):
        raise ValueError(
            f"expected different names of columns, got {', '.join(map(str, table.columns))}"
        )
    roles = {SEQUENCE: sequence, TIME: time, LABEL: label, TARGET: target, GROUP: group}
    named = {role: str(name) for role, name in roles.items() if name is not None}
    ignored = _column_names(ignored)
    suspects = ()
    if channels is None:
        others = {*named.values(), *ignored}
        channels = [name for name in available if name not in others]
        check_channel_names(available, channels, _TABLE, in_memory=True)
        suspects = possible_row_numbers(available, channels)
    else:
        channels = _column_names(channels)
    if not channels:
        raise ValueError(f"expected at least one channel among {', '.join(available)}, got none")
    for name in (*named.values(), *channels, *ignored):
        if name not in available:
            hint = ""
            if name in getattr(getattr(table, "index", None), "names", ()):
                hint = ", and an index of this name: pass table.reset_index()"
            elif name == SEQUENCE:
                hint = ": name the column that tells the sequence of a row with sequence="
            raise ValueError(
                f"expected a column {name!r} in the table, got {', '.join(available)}{hint}"
            )
    taken = sorted(set(channels) & {*roles, *named.values()})
    if taken:
        raise ValueError(
            f"expected channels other than {', '.join(map(repr, taken))}: name what the column is "
            f"({', '.join(f'{role}=' for role in roles)}), list the channels with channels=, or "
            "rename the column"
        )
    if label is not None and target is not None:
        raise ValueError("expected label (classes) or target (numbers), got both")
    block = {name: np.asarray(table[by_name[name]]) for name in (*named.values(), *channels)}
    for role in (SEQUENCE, LABEL, GROUP):
        if role in named:
            block[named[role]] = _words(block[named[role]], named[role])
    columns = TableColumns(named, tuple(channels), suspects)
    builder = TableBuilder(columns, _TABLE, _row, allow_missing=allow_missing, in_memory=True)
    if len(table):
        builder.add(block)
    return builder.build()


def _column_names(names: Sequence[Any] | str) -> list[str]:
    """Return the texts of one or several names, which pandas has of any type."""
    if isinstance(names, str):
        return [names]
    return [str(name) for name in names]


def to_arrays(sequences: Sequences) -> dict[str, Any]:
    """Return the arrays of an `.npz` file from which `read_npz` returns the sequences."""
    arrays: dict[str, Any] = {
        "x": sequences.values,
        "lengths": sequences.lengths,
        "channels": np.array(sequences.channels, np.str_),
        "names": np.array(sequences.names, np.str_),
    }
    if sequences.labels is not None:
        arrays["label"] = np.array(sequences.labels, np.str_)
    if sequences.targets is not None:
        arrays["target"] = sequences.targets
    if sequences.groups is not None:
        arrays["group"] = np.array(sequences.groups, np.str_)
    return arrays


def as_npz(arrays: Mapping[str, Any]) -> bytes:
    """Return the content of an `.npz` file with these arrays."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def content_hash(arrays: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the names, types, shapes and values of arrays.

    That of a file would also depend on when it was written.
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _matrix(array: ArrayLike, number: int) -> Any:
    """Return an array as (steps, channels).

    Raises:
        ValueError: If it has another number of dimensions.
        TypeError: If it does not hold numbers.
    """
    matrix = np.asarray(array)
    if matrix.dtype.kind not in "fiub":
        remedy = ""
        if matrix.dtype == object:
            remedy = ": pass an array of numbers, for example array.astype(float)"
        raise TypeError(
            f"expected numbers in the array with index {number}, got {matrix.dtype}{remedy}"
        )
    if matrix.ndim == 1:
        return matrix[:, None]
    if matrix.ndim != 2:
        raise ValueError(
            f"expected the shape (steps, channels) of the array with index {number}, got "
            f"{matrix.shape}"
        )
    return matrix


def _channel_names(channels: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Return the names of the channels.

    Raises:
        ValueError: If there are more or fewer names than channels, or one occurs twice.
    """
    if channels is None:
        return tuple(str(k) for k in range(1, count + 1))
    if len(channels) != count or len(set(channels)) != count:
        raise ValueError(
            f"expected {count} different names of channels, got {', '.join(map(str, channels))}"
        )
    return tuple(map(str, channels))


def _answers(
    labels: Iterable[Any] | None, targets: Iterable[float] | None, count: int
) -> tuple[tuple[str, ...] | None, Any | None]:
    """Return the labels as text and the targets as numbers.

    Raises:
        ValueError: If there are both, or not one for each sequence.
    """
    if labels is not None and targets is not None:
        raise ValueError("expected labels (classes) or targets (numbers), got both")
    words = _of_each("labels", labels, count)
    if targets is None:
        return words, None
    numbers = as_float32(np.asarray(list(targets)))
    _check_one_of_each("targets", numbers, count)
    return words, numbers


def _of_each(name: str, values: Iterable[Any] | None, count: int) -> tuple[str, ...] | None:
    """Return the labels or groups of all sequences as texts."""
    if values is None:
        return None
    words = tuple(_words(np.asarray(list(values)), name))
    _check_one_of_each(name, words, count)
    return words


def _check_one_of_each(name: str, values: Any, count: int) -> None:
    """Check that there is one value for each sequence.

    Raises:
        ValueError: If there are more or fewer.
    """
    if np.shape(values) != (count,):
        raise ValueError(
            f"expected one of {name} for each of the {count} sequences, got the shape "
            f"{np.shape(values)}"
        )


def _words(column: Any, name: str) -> Any:
    """Return a column as an array of texts.

    Raises:
        ValueError: If a value is missing.
    """
    words = [str(value) for value in column.tolist()]
    for row, word in enumerate(words):
        if word.strip().lower() in _MISSING:
            raise ValueError(
                f"expected a value in each row of {name!r}, got {word!r} in the row with index "
                f"{row}"
            )
    return np.array(words, object)


def _with_index(number: int) -> str:
    return f"the sequence with index {number}"


def _row(row: int) -> str:
    return f"the row with index {row}"
