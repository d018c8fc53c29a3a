"""Readers of time series in files and folders; those of .ts files are in `ts`."""

import csv
import io
import logging
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from eigenrnn.errors import check_installed
from eigenrnn_experiments.data.archives import (
    read_arrays,
    read_gzip,
    wrap_parser_errors,
)
from eigenrnn_experiments.data.in_memory import concatenate
from eigenrnn_experiments.data.sequences import Sequences, numbered_lines
from eigenrnn_experiments.data.tables import (
    LABEL,
    MISSING_WORDS,
    TARGET,
    TIME,
    ReadOptions,
    Table,
    sequences_of,
)
from eigenrnn_experiments.data.ts import read_ts

__all__ = ["READERS", "read_npz", "read_series"]

_BLOCK = 2**16  # rows of a table that are read at once
_DEFAULT = ReadOptions()

_logger = logging.getLogger(__name__)


def _read_csv(path: Path, options: ReadOptions, stream: BinaryIO | None = None) -> Sequences:
    # the first line names the columns; a stream is read in place of the file
    separator = options.separator or ","
    if options.separator is None and path.name.lower().removesuffix(".gz").endswith(".tsv"):
        separator = "\t"
    options = replace(options, separator=separator)  # which must not be the decimal point
    if stream is None and path.suffix.lower() == ".gz":
        stream = io.BytesIO(read_gzip(path))
    with stream or path.open("rb") as file:
        lines = (line for _, line in numbered_lines(path, file))
        try:
            names = next(filter(None, csv.reader(lines, delimiter=separator)), [])
        except csv.Error as error:
            raise ValueError(f"expected names of columns in {path}, got: {error}") from None
        if not names:
            raise ValueError(f"expected a first line with the names of the columns in {path}")
        found = re.search(r"[;\t|]", names[0])
        if len(names) == 1 and found and names[0] not in (options.columns.channels or ()):
            raise ValueError(
                f"expected columns separated by {separator!r} in {path}, got {names[0]!r} alone: "
                f"set separator={found[0]!r} ({options.prefix}separator), or also decimal=','"
            )
        table = Table(names, path, options)
        numbers = {TARGET}
        if options.columns.time_format is None:
            numbers.add(TIME)
        texts = [name for role, name in table.roles.items() if role not in numbers]

        def frames() -> Iterator[Any]:
            import pandas as pd

            file.seek(0)
            with wrap_parser_errors("CSV table", path):
                reader: Any = pd.read_csv(
                    file,
                    sep=separator,
                    decimal=options.decimal,
                    header=0,
                    names=names,
                    dtype=dict.fromkeys(texts, str),
                    keep_default_na=False,
                    na_values=dict.fromkeys(table.channels, MISSING_WORDS),
                    low_memory=False,
                    chunksize=_BLOCK,
                )
                for frame in reader:
                    if not isinstance(frame.index, pd.RangeIndex):
                        raise ValueError(f"more values in a row than the {len(names)} names")
                    yield frame

        try:
            return sequences_of(frames(), table)
        except ValueError as error:
            if isinstance(error.__cause__, UnicodeDecodeError):
                file.seek(0)
                list(numbered_lines(path, file))  # whose error names the line
            raise


def _read_parquet(path: Path, options: ReadOptions) -> Sequences:
    check_installed(
        "eigenrnn-experiments[series]", f"reading {path} (unlike .csv and .npz)", "pyarrow"
    )
    from pyarrow.parquet import ParquetFile

    with wrap_parser_errors("Parquet file", path):
        file = ParquetFile(path, page_checksum_verification=True)
        names = file.schema_arrow.names
    table = Table(names, path, options)

    def frames() -> Iterator[Any]:
        rows = 0
        with wrap_parser_errors("Parquet file", path):
            # not with `pandas.read_parquet`, which holds the texts of all rows at once
            columns = [*table.roles.values(), *table.channels]
            for batch in file.iter_batches(_BLOCK, columns=columns):
                batch.validate(full=True)
                frame = batch.to_pandas(ignore_metadata=True)
                frame.index += rows
                rows += len(frame)
                yield frame

    return sequences_of(frames(), table)


def read_npz(path: Path, options: ReadOptions = _DEFAULT) -> Sequences:
    """Read the arrays `x`, `lengths`, and `label` or `target` of an `.npz` archive.

    The array `x` holds the sequences either padded, (count, steps, channels), or concatenated,
    (sum of lengths, channels). The array `lengths` may be omitted if `x` has no padding. The
    arrays `channels` and `names` may hold the names of the channels and of the sequences, `group`
    their groups. An archive with `X` in place of `x` has the layout of aeon: (count, channels,
    steps), with `y` as classes or numbers.

    Raises:
        ValueError: If the file is truncated, or an array is missing or has another shape.
    """
    return _from_arrays(path, read_arrays(path), options)


def _read_npy(path: Path, options: ReadOptions) -> Sequences:
    # one sequence, (steps, channels) or (steps), or several, (count, steps, channels)
    with wrap_parser_errors(".npy file", path), path.open("rb") as file:
        x = np.lib.format.read_array(file)
    if x.ndim == 1:
        x = x[:, None]
    arrays = {"x": x}
    if x.ndim == 2:
        arrays = {"x": x[None], "names": [path.stem]}
    return _from_arrays(path, arrays, options)


def _from_arrays(path: Path, arrays: dict[str, Any], options: ReadOptions) -> Sequences:
    x = arrays.get("x")
    labels = arrays.get(LABEL)
    numbers = arrays.get(TARGET)
    is_of_aeon = x is None and "X" in arrays and arrays["X"].ndim == 3
    if is_of_aeon:
        x = arrays["X"].transpose(0, 2, 1)
        labels = arrays.get("y")
    if x is None or x.ndim not in (2, 3) or x.dtype.kind not in "fiub":
        got = "none" if x is None else f"{x.dtype} of the shape {x.shape}"
        raise ValueError(
            "expected numbers of the shape (count, steps, channels) or (sum of lengths, channels) "
            f"as x in {path}, or (count, channels, steps) as X, got {got}"
        )
    steps = x.shape[-2]
    lengths = arrays.get("lengths", np.full(len(x), steps))
    fits = lengths.ndim == 1 and lengths.dtype.kind in "iu"
    if fits and x.ndim == 3:
        fits = len(lengths) == len(x)
    elif fits:  # in Python, where the sum cannot overflow
        fits = sum(lengths.tolist()) == steps
    if not fits or not ((lengths >= 1) & (lengths <= steps)).all():
        raise ValueError(
            f"expected lengths of whole numbers >= 1 that fit x of the shape {x.shape} in {path}, "
            f"got {lengths.tolist()} (only an x of three dimensions needs none)"
        )
    if x.ndim == 3:
        x = [sequence[:length] for sequence, length in zip(x, lengths, strict=True)]
    else:
        x = np.split(x, np.cumsum(lengths[:-1].astype(np.int64)))
    read = concatenate(
        path,
        x,
        lambda number: f"the sequence with index {number}",
        names=arrays.get("names"),
        channels=arrays.get("channels"),
        labels=labels,
        targets=numbers,
        groups=arrays.get("group"),
        allow_missing=options.allow_missing,
    )
    if is_of_aeon and labels is not None and labels.dtype.kind in "fiu":
        # the task tells whether y are classes or numbers
        return replace(read, targets=labels.astype(np.float64))
    return read


_TABLES: dict[str, Callable[[Path, ReadOptions], Sequences]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), _read_csv),
    ".parquet": _read_parquet,
}

READERS: dict[str, Callable[[Path, ReadOptions], Sequences]] = {
    **{".ts": read_ts, ".npz": read_npz, ".npy": _read_npy},
    **_TABLES,
}
"""The reader of each file name extension."""


def _ending(path: Path) -> str:
    """Return the extension of a file name, with that before `.gz`."""
    ending = path.suffix.lower()
    if ending == ".gz":
        return path.with_suffix("").suffix.lower() + ending
    return ending


def _read_folder(path: Path, options: ReadOptions) -> Sequences:
    # A sequence has the name of its file. If the files are in folders inside, the names of these
    # are the classes. Otherwise a column of the files may hold the class or the number.
    endings = (*_TABLES, ".npy")
    options = replace(options, may_be_one_sequence=True)
    files = [
        file
        for file in sorted(path.rglob("*"))
        # hidden files are those of a file system or an editor
        if file.is_file() and not file.name.startswith(".") and _ending(file) in endings
    ]
    depths = {len(file.relative_to(path).parts) for file in files}
    if depths not in ({1}, {2}):
        raise ValueError(
            f"expected a file for each sequence in the folder {path}, or in one folder for each "
            f"class, that ends in {', '.join(endings)}, got {len(files)} files at {len(depths)} "
            "depths"
        )
    parts: list[Sequences] = []
    values: list[Any] = []
    for file in files:
        part = READERS[_ending(file)](file, options)
        parts.append(part)
        channels = parts[0].channels
        if len(part) > 1 or sorted(part.channels) != sorted(channels):
            raise ValueError(
                f"expected one sequence of the channels {', '.join(channels)} in {file}, like "
                f"{files[0]}, got {len(part)} of {', '.join(part.channels)}: name a file of "
                "several sequences by itself"
            )
        # the columns may have another order
        values.append(part.values[:, [part.channels.index(name) for name in channels]])
    answers: dict[str, Any] = {}
    for name in ("labels", "targets", "groups"):
        found: list[Any] = []
        for part in parts:
            found.extend(getattr(part, name) or ())
        answers[name] = found or None
    if depths == {2}:  # a folder for each class
        answers["labels"] = [file.parent.name for file in files]
    read = concatenate(
        path,
        values,
        lambda number: str(files[number]),
        names=[file.relative_to(path).as_posix().removesuffix(_ending(file)) for file in files],
        channels=parts[0].channels,
        allow_missing=options.allow_missing,
        **answers,
    )
    return replace(read, time=parts[0].time)


def read_series(path: str | Path, options: ReadOptions = _DEFAULT) -> Sequences:
    """Read a file or a folder of time series.

    Args:
        path: The file, whose extension determines the format, or a folder with a file for each
            sequence. `-` reads CSV from standard input.
        options: The names of the columns, the format of the numbers, and what may be missing.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If there is no reader for the extension, or the file is empty or damaged.
    """
    source = Path(path).expanduser()
    if str(path) == "-":
        stream = io.BytesIO(sys.stdin.buffer.read())
        read = _read_csv(Path("standard input"), options, stream)
    elif source.is_dir():
        read = _read_folder(source, options)
    elif not source.is_file():
        raise FileNotFoundError(f"expected a file of series, got {source}, which is not a file")
    elif _ending(source) not in READERS:
        raise ValueError(f"expected a file that ends in {', '.join(READERS)}, got {source}")
    elif not source.stat().st_size:
        raise ValueError(f"expected series in {source}, got an empty file")
    else:
        read = READERS[_ending(source)](source, options)
    if read.time == TIME:  # perhaps without the user's knowledge
        _logger.warning("the column %r orders the rows of %s", TIME, read.path)
    return read
