"""Time series that are in memory already: arrays, and tables of pandas or polars."""

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from eigenrnn_experiments.data.sequences import Sequences, check_sequences
from eigenrnn_experiments.data.tables import (
    ROLES,
    SEQUENCE,
    Columns,
    ReadOptions,
    Table,
    codes_of,
    sequences_of,
)

__all__ = [
    "as_npz",
    "concatenate",
    "content_hash",
    "from_arrays",
    "from_channels_first",
    "from_table",
    "to_arrays",
]


class ArrayOptions(TypedDict, total=False):
    """The options of `from_arrays`."""

    labels: Iterable[Any] | None
    targets: Iterable[float] | None
    channels: Sequence[str] | None
    groups: Iterable[Any] | None
    allow_missing: bool


class ColumnOptions(TypedDict, total=False):
    """The options of `Columns` that `from_table` takes as they are."""

    time: str | None
    label: str | None
    target: str | None
    group: str | None
    channels: Sequence[Any] | str | None
    ignored: Sequence[Any] | str
    time_format: str | None


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
        arrays: An array for each sequence, or a frame of pandas or polars, whose columns are the
            channels. With a single channel it may have one dimension.
        labels: The class of each sequence.
        targets: The number of each sequence, in place of a class.
        channels: The name of each channel; by default that of its column, or its number from one.
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
        raise TypeError(
            f"expected a list of arrays of shape (steps, channels), got {type(arrays).__name__}: "
            "pass list(x), or from_channels_first(x) for (count, channels, steps), as in aeon"
        )
    matrices: list[Any] = []
    for number, array in enumerate(cast("Sequence[Any]", arrays)):
        place = f"the array with index {number}"
        matrix = array
        if hasattr(array, "columns"):  # a frame, whose columns may be in another order
            columns = {str(name): array[name] for name in array.columns}
            channels = channels or list(columns)
            if sorted(channels) != sorted(columns):
                raise ValueError(
                    f"expected the columns {', '.join(channels)} of the first frame in {place}, "
                    f"got {', '.join(columns)}"
                )
            matrix = np.stack([np.asarray(columns[name]) for name in channels], 1)
        matrix = np.asarray(matrix)
        if matrix.dtype.kind not in "fiub":
            raise TypeError(
                f"expected numbers in {place}, got {matrix.dtype}: pass array.astype(float)"
            )
        if matrix.ndim == 1:
            matrix = matrix[:, None]
        if matrix.ndim != 2:
            raise ValueError(
                f"expected the shape (steps, channels) of {place}, got {matrix.shape}"
            )
        matrices.append(matrix)
    return concatenate(
        Path("the arrays"),
        matrices,
        lambda number: f"the sequence with index {number}",
        channels=channels,
        labels=labels,
        targets=targets,
        groups=groups,
        allow_missing=allow_missing,
    )


def from_channels_first(x: ArrayLike, **options: Unpack[ArrayOptions]) -> Sequences:
    r"""Return the sequences in an array of three dimensions, in the layout of aeon.

    Args:
        x: The sequences.
        options: The options of `from_arrays`.

    Shape:
        x: :math:`(\text{count}, M, T)`, channels before time.

    Raises:
        ValueError: If a shape is wrong, or as `from_arrays`.

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
    return from_arrays(list(array.transpose(0, 2, 1)), **options)


def from_table(
    table: Any,
    *,
    sequence: str = SEQUENCE,
    allow_missing: bool = False,
    **columns: Unpack[ColumnOptions],
) -> Sequences:
    """Return the sequences in a table of pandas or polars, with one row for each time step.

    Args:
        table: The table.
        sequence: The column that names the sequence of a row.
        allow_missing: Whether channels may have missing values, for a task with `missing="mask"`
            or "forward".
        columns: The options `time`, `label`, `target`, `group`, `channels`, `ignored` and
            `time_format` of `eigenrnn_experiments.data.tables.Columns`. Unlike in a file, a column
            has a role only if it is named here; without `time` the rows are in order.

    Raises:
        ValueError: If a column is missing or not numeric, or values are missing.
        TypeError: If it is no table, or there is no such option.

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"unit": [7, 7, 9], "x": [0.1, 0.2, 0.3], "ok": [1, 1, 0]})
        >>> from_table(table, sequence="unit", label="ok")
        <Sequences in the table: 2 with 1 channels, of 1 to 2 steps>
    """
    import pandas as pd

    # tables of Arrow and lazy ones of polars have columns too, but no `to_dict`
    if not hasattr(table, "to_dict") or not hasattr(table, "columns"):
        raise TypeError(f"expected a table of pandas or polars, got {type(table).__name__}")
    names = [str(name) for name in table.columns]  # pandas has names of any type
    options: dict[str, Any] = {"sequence": sequence, **columns}
    for role in ROLES:
        name = options.get(role)
        options[role] = None if name is None else str(name)
    how = ReadOptions(Columns(**options), allow_missing=allow_missing)
    columns_of = Table(names, Path("the table"), how, in_memory=True)
    if isinstance(table, pd.DataFrame):
        frame = table.set_axis(names, axis=1).reset_index(drop=True)
    else:
        frame = pd.DataFrame({name: table[name].to_numpy() for name in names})
    return sequences_of([frame], columns_of)


def concatenate(
    path: Path,
    arrays: Sequence[Any],  # (T, M) each
    location: Callable[[int], str],
    *,
    names: Sequence[Any] | None = None,
    channels: Sequence[Any] | None = None,
    labels: Iterable[Any] | None = None,
    targets: Iterable[float] | None = None,
    groups: Iterable[Any] | None = None,
    allow_missing: bool = False,
) -> Sequences:
    """Return arrays as sequences, as all readers but those of tables do.

    The arguments are those of `from_arrays`, and for errors the file and the location in it of a
    sequence with a given index. By default, sequences and channels are numbered from one.

    Raises:
        ValueError: If the arrays differ in width, there is not one name, class, number or group
            for each, or one is missing.
    """
    if not len(arrays):
        raise ValueError(f"expected at least one array in {path}, got none")
    if labels is not None and targets is not None:
        raise ValueError(f"expected labels (classes) or targets (numbers) of {path}, got both")
    width = arrays[0].shape[1]
    for number, array in enumerate(arrays):
        if array.shape[1] != width:
            raise ValueError(
                f"expected the {width} channels of {location(0)} in all of {path}, got "
                f"{array.shape[1]} in {location(number)}: each has the shape (steps, channels)"
            )
    parts: dict[str, Any] = {"names": names, "channels": channels}
    for what, size in (("names", len(arrays)), ("channels", width)):
        texts = range(1, size + 1) if parts[what] is None else parts[what]
        parts[what] = tuple(map(str, texts))
        if len(parts[what]) != size or len(set(parts[what])) != size:
            raise ValueError(
                f"expected {size} different {what} of {path}, got {', '.join(parts[what])}"
            )
    for what, values in (("labels", labels), ("groups", groups), ("targets", targets)):
        parts[what] = None
        if values is None:
            continue
        given = list(values)
        if len(given) != len(arrays):
            raise ValueError(f"expected {len(arrays)} {what} of {path}, got {len(given)}")
        if what == "targets":
            numbers = np.array(given)
            if numbers.dtype.kind not in "fiub" or numbers.ndim != 1:
                raise ValueError(f"expected numbers as targets of {path}, got {given[0]!r}, ...")
            parts[what] = numbers.astype(np.float64)
        else:
            pd: Any = import_module("pandas")
            found: dict[str, int] = {}
            # as they are: not as numbers, which would make 1.0 of 1
            codes = codes_of(pd.Series(given, dtype=object, name=what), found, path)
            words = list(found)
            parts[what] = tuple(words[code] for code in codes)
    kind: Any = np.float64
    if all(array.dtype == np.float32 for array in arrays):
        kind = np.float32
    lengths = np.array([len(array) for array in arrays], np.int64)
    values = np.concatenate(arrays, dtype=kind)
    read = Sequences(path=path, values=values, lengths=lengths, location=location, **parts)
    return check_sequences(read, allow_missing=allow_missing)


def to_arrays(sequences: Sequences) -> dict[str, Any]:
    """Return the arrays of an `.npz` file from which `read_npz` returns the sequences."""
    arrays: dict[str, Any] = {"x": sequences.values, "lengths": sequences.lengths}
    if sequences.targets is not None:
        arrays["target"] = sequences.targets
    texts = {"channels": sequences.channels, "names": sequences.names}
    texts |= {"label": sequences.labels or (), "group": sequences.groups or ()}
    return arrays | {name: np.array(words, np.str_) for name, words in texts.items() if words}


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
