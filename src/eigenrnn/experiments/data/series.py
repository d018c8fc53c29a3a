"""Readers of time series in files and folders; those of .ts files are in `ts`."""

import csv
import gzip
import importlib
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from eigenrnn.errors import check_installed
from eigenrnn.experiments.data.archives import read_array, read_arrays, wrap_parser_errors
from eigenrnn.experiments.data.sequences import (
    Sequences,
    as_float32,
    check_sequences,
    is_number,
    numbered_lines,
)
from eigenrnn.experiments.data.tables import (
    LABEL,
    MISSING_WORDS,
    TARGET,
    TIME,
    Coded,
    ReadOptions,
    RowNumbersError,
    TableBuilder,
    TableColumns,
    resolve_columns,
)
from eigenrnn.experiments.data.ts import read_ts

__all__ = [
    "READERS",
    "read_csv",
    "read_folder",
    "read_npy",
    "read_npz",
    "read_parquet",
    "read_series",
]

_OTHER_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'"}
_BLOCK = 2**16  # rows of a table that Python reads at once
_ARROW_BLOCK = 2**20  # bytes of a file that Arrow reads at once
_DEFAULT = ReadOptions()


def read_csv(
    path: Path,
    options: ReadOptions = _DEFAULT,
    stream: BinaryIO | None = None,
    *,
    is_one_sequence: bool = False,
) -> Sequences:
    """Read a table whose first line names its columns; the file may be compressed by gzip.

    pyarrow reads it if it is installed. Without it, or where it finds a fault, Python reads it,
    about ten times slower.

    Args:
        path: The file, named in errors.
        options: The names of the columns and the format of the numbers.
        stream: Read in place of the file.
        is_one_sequence: Whether the table is a single sequence, and needs no column for it.

    Raises:
        ValueError: If the file is empty or not a text file, a row has another number of fields, or
            a value is not a number; the message names the line.
    """
    if options.separator is None:
        separator = ","
        if path.name.removesuffix(".gz").endswith(".tsv"):
            separator = "\t"
        options = replace(options, separator=separator)
    if stream is None and find_spec("pyarrow") is not None:
        # without errors of its own: those of Python name the line and the cause
        read = _read_with_arrow(path, options, is_one_sequence=is_one_sequence)
        if read is not None:
            return read
    return _read_with_python(path, options, stream, is_one_sequence=is_one_sequence)


def _open(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open a file that may be compressed by gzip."""
    if path.suffix.lower() == ".gz":
        return cast("AbstractContextManager[BinaryIO]", gzip.open(path))
    return path.open("rb")


def _read_with_arrow(
    path: Path, options: ReadOptions, *, is_one_sequence: bool
) -> Sequences | None:
    """Read a table in CSV with Arrow; return None if anything is wrong or unusual.

    Raises:
        RowNumbersError: If a channel holds row numbers.
    """
    try:
        with _open(path) as lines:
            reader = csv.reader(
                (line for _, line in numbered_lines(path, lines)),
                delimiter=cast("str", options.separator),
            )
            names = next(reader)
            first = next(reader)
        columns = resolve_columns(names, path, options, is_one_sequence=is_one_sequence)
        word = "0"
        if TIME in columns.roles:
            word = first[names.index(columns.roles[TIME])].strip()
        for kind in _time_kinds(word):
            builder = TableBuilder(
                columns, path, _unknown_row, allow_missing=options.allow_missing
            )
            try:
                for block in _arrow_blocks(path, columns, options, kind):
                    builder.add(block)
            except importlib.import_module("pyarrow").ArrowInvalid:
                continue
            return builder.build()
    except RowNumbersError:  # it names no line
        raise
    except (ValueError, OSError, EOFError, StopIteration, IndexError, csv.Error):
        pass
    return None


def _unknown_row(row: int) -> str:
    return f"row {row + 1}"


def _time_kinds(word: str) -> Sequence[str]:
    """Return the types that a column of times may have, given its first value."""
    if is_number(word):
        return "int64", "float64"
    return "timestamp", "string"


def _arrow_blocks(
    path: Path, columns: TableColumns, options: ReadOptions, time_kind: str
) -> Iterator[Mapping[str, Any]]:
    """Yield blocks of rows of a table in CSV; Arrow's errors are its own."""
    pa: Any = importlib.import_module("pyarrow")  # without types
    arrow_csv: Any = importlib.import_module("pyarrow.csv")
    kinds = {name: pa.float64() for name in columns.read}
    kinds |= dict.fromkeys(columns.texts, pa.dictionary(pa.int32(), pa.string()))
    if TIME in columns.roles:
        times = {"timestamp": pa.timestamp("ns"), "string": pa.string()}
        times |= {"int64": pa.int64(), "float64": pa.float64()}
        kinds[columns.roles[TIME]] = times[time_kind]
    missing: set[str] = {"NaN"}
    for word in MISSING_WORDS:  # Arrow compares case
        missing |= {word, word.upper(), word.title()}
    with _open(path) as file:
        reader = arrow_csv.open_csv(
            file,
            read_options=arrow_csv.ReadOptions(block_size=_ARROW_BLOCK),
            parse_options=arrow_csv.ParseOptions(delimiter=options.separator),
            convert_options=arrow_csv.ConvertOptions(
                column_types=kinds,
                include_columns=list(columns.read),
                null_values=sorted(missing),
                strings_can_be_null=False,
                decimal_point=options.decimal,
            ),
        )
        for batch in reader:
            yield _from_arrow(batch)


def _from_arrow(batch: Any) -> dict[str, Any]:
    """Return the columns of a batch of rows of Arrow as arrays."""
    pa: Any = importlib.import_module("pyarrow")
    found: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            encoded = column.dictionary_encode()
        else:
            encoded = column
        if pa.types.is_dictionary(encoded.type) and not encoded.null_count:
            codes = encoded.indices.to_numpy(zero_copy_only=False)
            found[name] = Coded(encoded.dictionary.to_pylist(), codes)
        else:
            found[name] = column.to_numpy(zero_copy_only=False)
    return found


def _read_with_python(
    path: Path, options: ReadOptions, stream: BinaryIO | None, *, is_one_sequence: bool
) -> Sequences:
    """Read a table in CSV in blocks of rows; the errors name the line.

    Raises:
        ValueError: As `read_csv`.
    """
    with nullcontext(stream) if stream is not None else _open(path) as file:
        lines = (line for _, line in _numbered(path, file))
        reader = csv.reader(lines, delimiter=cast("str", options.separator))
        names = next(_parse_rows(reader, path), None)
        if not names:
            raise ValueError(f"expected a first line with the names of the columns in {path}")
        _check_separator(names, path, options)
        # before the rows, whose errors would be misleading
        columns = resolve_columns(names, path, options, is_one_sequence=is_one_sequence)
        at = array("q")

        def row_location(row: int) -> str:
            return f"line {at[row]}"

        builder = TableBuilder(
            columns,
            path,
            row_location,
            allow_missing=options.allow_missing,
            is_strict=options.is_strict,
        )
        rows: list[list[str]] = []
        for row in _parse_rows(reader, path):
            if not row:
                continue
            if len(row) != len(names):
                raise ValueError(
                    f"expected {len(names)} fields in line {reader.line_num} of {path}, got "
                    f"{len(row)}; the line may be truncated"
                )
            rows.append(row)
            at.append(reader.line_num)
            if len(rows) == _BLOCK:
                builder.add(_from_rows(rows, names, columns, options))
                rows = []
        if not at:
            raise ValueError(f"expected at least one row after the names in {path}, got none")
        if rows:
            builder.add(_from_rows(rows, names, columns, options))
        return builder.build()


def _numbered(path: Path, file: BinaryIO | None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text; errors of a damaged gzip file name it.

    Raises:
        ValueError: If the file is damaged.
    """
    try:
        yield from numbered_lines(path, file)
    except (OSError, EOFError) as error:  # gzip.BadGzipFile is an OSError
        raise ValueError(f"expected a complete file in {path}, got: {error}") from error


def _check_separator(names: Sequence[str], path: Path, options: ReadOptions) -> None:
    """Check that a table is separated as the options say.

    Raises:
        ValueError: If there is one column, whose name seems to be several names.
    """
    for separator, shown in _OTHER_SEPARATORS.items():
        is_other = separator != options.separator and separator in names[0]
        if is_other and options.columns.sequence not in names and len(names) == 1:
            word = separator
            if separator == "\t":  # easier to type on a command line
                word = "tab"
            raise ValueError(
                f"expected values separated by commas in {path}, got a first line that seems to "
                f"be separated by {shown}: set separator={word!r} (on the command line: "
                f"--task.separator '{word}'), and decimal=',' if the numbers have decimal commas"
            )


def _from_rows(
    rows: Sequence[Sequence[str]],
    names: Sequence[str],
    columns: TableColumns,
    options: ReadOptions,
) -> dict[str, np.ndarray]:
    """Return the columns that are read as arrays of texts."""
    block: dict[str, np.ndarray] = {}
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        if name not in columns.read:
            continue
        words = column
        if options.decimal != "." and name not in columns.texts:
            words = [word.replace(options.decimal, ".") for word in column]
        # as objects: in an array of strings each takes as much memory as the longest
        block[name] = np.array(words, object)
    return block


def _parse_rows(reader: Any, path: Path) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(
            f"expected comma-separated values in {path}, got an error in line "
            f"{reader.line_num}: {error}"
        ) from None


def read_parquet(
    path: Path, options: ReadOptions = _DEFAULT, *, is_one_sequence: bool = False
) -> Sequences:
    """Read a Parquet table.

    Args:
        path: The file.
        options: The names of the columns.
        is_one_sequence: Whether the table is a single sequence, and needs no column for it.

    Raises:
        ImportError: If pyarrow is not installed.
        ValueError: If the file is truncated or a value is missing.
    """
    check_installed("series", f"reading {path} (unlike .csv and .npz)", "pyarrow")
    pyarrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    with wrap_parser_errors("Parquet file", path):
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        schema = file.schema_arrow
    if not file.metadata.num_rows:
        raise ValueError(f"expected at least one row in {path}, got none")
    columns = resolve_columns(schema.names, path, options, is_one_sequence=is_one_sequence)
    for name in columns.read:
        kind = schema.field(name).type
        if pyarrow.types.is_nested(kind) or pyarrow.types.is_binary(kind):
            raise ValueError(
                f"expected numbers, strings or times in the column {name!r} of {path}, got {kind}"
            )
    builder = TableBuilder(
        columns,
        path,
        _unknown_row,
        allow_missing=options.allow_missing,
        is_strict=options.is_strict,
    )
    batches = file.iter_batches(columns=list(columns.read))
    while True:
        with wrap_parser_errors("Parquet file", path):
            batch = next(batches, None)
            if batch is None:
                break
            batch.validate(full=True)
            block = _from_arrow(batch)
        builder.add(block)
    return builder.build()


def read_npz(path: Path, options: ReadOptions = _DEFAULT) -> Sequences:
    """Read the arrays `x`, `lengths`, and `label` or `target` of an `.npz` archive.

    The array `x` holds the sequences either padded, (count, steps, channels), or concatenated,
    (sum of lengths, channels). The array `lengths` may be omitted if `x` has no padding. The
    arrays `channels` and `names` may hold the names of the channels and of the sequences, `group`
    their groups. An archive with `X` in place of `x` has the layout of aeon: (count, channels,
    steps), with `y` as classes or numbers.

    Args:
        path: The file.
        options: Whether values may be missing.

    Raises:
        ValueError: If the file is truncated, or an array is missing or has another shape.
    """
    arrays = read_arrays(path)
    if "X" in arrays and "x" not in arrays:
        arrays = _from_aeon(arrays, path)
    elif LABEL in arrays and TARGET in arrays:
        raise ValueError(
            f"expected either {LABEL!r} (classes) or {TARGET!r} (numbers) in {path}, got both: "
            "remove the one that is not to be learnt"
        )
    x = arrays.get("x")
    if x is None or x.ndim not in (2, 3) or x.dtype.kind not in "fiub":
        got = "no such array"
        if x is not None:
            got = f"{x.dtype} of the shape {x.shape}"
        raise ValueError(
            f"expected numbers of the shape (count, steps, channels), or (sum of lengths, "
            f"channels), as x in {path}, or of the shape (count, channels, steps) as X, got {got}"
        )
    lengths = _lengths(x, arrays.get("lengths"), path)
    if x.ndim == 3:
        x = x[np.arange(x.shape[1]) < lengths[:, None]]
    labels = _targets(arrays.get(LABEL), len(lengths), LABEL, path)
    numbers = _targets(arrays.get(TARGET), len(lengths), TARGET, path)
    groups = _targets(arrays.get("group"), len(lengths), "group", path)
    if labels is not None:
        labels = _labels(labels, path)
    if numbers is not None:
        numbers = as_float32(numbers)
    if groups is not None:
        groups = _labels(groups, path)
    return check_sequences(
        Sequences(
            path=path,
            values=as_float32(x),
            lengths=lengths,
            names=_names(arrays.get("names"), len(lengths), "names", path),
            channels=_names(arrays.get("channels"), x.shape[-1], "channels", path),
            labels=labels,
            targets=numbers,
            location=lambda number: f"the sequence with index {number}",
            groups=groups,
        ),
        allow_missing=options.allow_missing,
    )


def _from_aeon(arrays: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the arrays X and y of aeon under our names, with steps before channels.

    Raises:
        ValueError: If X has another number of dimensions.
    """
    X = arrays["X"]
    if X.ndim != 3:
        raise ValueError(
            f"expected X of the shape (count, channels, steps), as aeon has it, in {path}, got "
            f"the shape {X.shape}"
        )
    found: dict[str, Any] = {"x": X.transpose(0, 2, 1)}
    y = arrays.get("y")
    if y is not None:
        found[LABEL] = y
        if y.dtype.kind in "fiu":  # the task tells which of the two they are
            found[TARGET] = y
    return found


def read_npy(path: Path, options: ReadOptions = _DEFAULT) -> Sequences:
    """Read a single array: one sequence (steps, channels) or (steps), or several of equal length.

    Args:
        path: The file, with an array (steps), (steps, channels) or (count, steps, channels).
        options: Whether values may be missing.

    Raises:
        ValueError: If the file is truncated, pickled, or the array has another shape.
    """
    with wrap_parser_errors(".npy file", path):
        x = read_array(path.read_bytes())
    if x.ndim not in (1, 2, 3) or x.dtype.kind not in "fiub" or not x.size:
        raise ValueError(
            "expected numbers of the shape (steps), (steps, channels) or (count, steps, channels) "
            f"in {path}, got {x.dtype} of the shape {x.shape}"
        )
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim == 2:
        x = x[None]
    count, steps, channels = x.shape
    names = tuple(str(k) for k in range(1, count + 1))
    if count == 1:
        names = (path.stem,)
    return check_sequences(
        Sequences(
            path=path,
            values=as_float32(x.reshape(-1, channels)),
            lengths=np.full(count, steps, np.int64),
            names=names,
            channels=tuple(str(k) for k in range(1, channels + 1)),
            labels=None,
            targets=None,
            location=lambda number: f"the sequence with index {number}",
        ),
        allow_missing=options.allow_missing,
    )


def read_folder(path: Path, options: ReadOptions = _DEFAULT) -> Sequences:
    """Read a folder with a file for each sequence: CSV, Parquet or .npy.

    A sequence has the name of its file. If the files are in folders inside, the names of these are
    the classes. Otherwise a column of the files may hold the class or the number.

    Args:
        path: The folder.
        options: The names of the columns and the format of the numbers.

    Raises:
        ValueError: If there is no such file, a file is a link out of the folder, or files have
            different channels.
    """
    readers: dict[str, Callable[[Path], Sequences]] = {
        ".csv": lambda file: read_csv(file, options, is_one_sequence=True),
        ".parquet": lambda file: read_parquet(file, options, is_one_sequence=True),
        ".npy": lambda file: read_npy(file, options),
    }
    readers |= dict.fromkeys((".tsv", ".csv.gz", ".tsv.gz"), readers[".csv"])
    chosen: list[tuple[Path, str]] = []
    for file in sorted(path.rglob("*")):
        ending = _ending(file)
        # hidden files are those of a file system or an editor
        if file.is_file() and not file.name.startswith(".") and ending in readers:
            chosen.append((file, ending))
    if not chosen:
        raise ValueError(
            f"expected files that end in {', '.join(readers)} in the folder {path}, one for each "
            "sequence, got none"
        )
    root = path.resolve()
    for file, _ in chosen:
        # the folder may be a stranger's, and a link in it lead to any file of this machine
        if not file.resolve().is_relative_to(root):
            raise ValueError(
                f"expected files inside the folder {path}, got {file}, which is a link to "
                f"{file.resolve()}: copy that file in its place"
            )
    depths = {len(file.relative_to(path).parts) for file, _ in chosen}
    if depths not in ({1}, {2}):
        raise ValueError(
            f"expected all files of {path} in the folder itself, or all in one folder for each "
            "class, got some of both or deeper ones"
        )
    parts = [readers[ending](file) for file, ending in chosen]
    for part in parts:
        if len(part) > 1:  # perhaps the tables of training and test
            raise ValueError(
                f"expected a file for each sequence in the folder {path}, got {len(part)} "
                f"sequences in {part.path}: name that file"
            )
        if sorted(part.channels) != sorted(parts[0].channels):
            raise ValueError(
                f"expected the channels {', '.join(parts[0].channels)} of {parts[0].path} in "
                f"{part.path}, got {', '.join(part.channels)}"
            )
    classes: list[str] | None = None
    if depths == {2}:  # a folder for each class
        classes = [file.parent.name for file, _ in chosen]
    return _joined(path, parts, classes)


def _joined(path: Path, parts: Sequence[Sequences], classes: Sequence[str] | None) -> Sequences:
    """Return the sequences of several files, one from each file.

    Args:
        path: The folder.
        parts: The sequence of each file.
        classes: The class of each file, if the folders tell it.

    Raises:
        ValueError: If some files have answers or groups and others have none.
    """
    channels = parts[0].channels
    names: list[str] = []
    columns: dict[str, list[Any]] = {"labels": [], "targets": [], "groups": []}
    for number, part in enumerate(parts):
        names.append(str(part.path.relative_to(path).with_suffix("")).removesuffix(".csv"))
        answers = {"labels": part.labels, "targets": part.targets, "groups": part.groups}
        if classes is not None:
            answers["labels"] = (classes[number],)
        for name, values in answers.items():
            if values is not None:
                columns[name] += list(values)
    for name, values in columns.items():
        if values and len(values) != len(names):
            raise ValueError(
                f"expected {name} in every file of {path}, got {len(values)} for {len(names)} "
                "sequences"
            )
    blocks: list[Any] = []
    for part in parts:  # whose columns may have other orders
        order = [part.channels.index(name) for name in channels]
        blocks.append(part.values[:, order])
    targets: Any = None
    if columns["targets"]:
        targets = np.array(columns["targets"], np.float32)
    return Sequences(
        path=path,
        values=np.concatenate(blocks),
        lengths=np.concatenate([part.lengths for part in parts]),
        names=tuple(names),
        channels=channels,
        labels=tuple(columns["labels"]) or None,
        targets=targets,
        location=lambda number: f"{parts[number].path}",
        groups=tuple(columns["groups"]) or None,
    )


def _names(array: Any | None, count: int, name: str, path: Path) -> tuple[str, ...]:
    """Return the names of sequences or channels; by default their numbers from one.

    Raises:
        ValueError: If they are not texts, not one for each, or not different.
    """
    if array is None:
        return tuple(str(k) for k in range(1, count + 1))
    if array.dtype.kind != "U" or array.shape != (count,) or len(set(array.tolist())) != count:
        raise ValueError(
            f"expected {count} different texts as {name} in {path}, got {array.dtype} of the "
            f"shape {array.shape}"
        )
    return tuple(array.tolist())


def _labels(labels: Any, path: Path) -> tuple[str, ...]:
    """Return the labels as text.

    Raises:
        ValueError: If a label is missing.
    """
    words = tuple(map(str, labels.tolist()))
    missing = [number for number, word in enumerate(words) if word.strip() in {"", "nan", "None"}]
    if missing:
        raise ValueError(
            f"expected a label for every sequence in {path}, got none for that with index "
            f"{missing[0]}"
        )
    return words


def _lengths(x: Any, lengths: Any | None, path: Path) -> Any:
    if lengths is None:
        if x.ndim == 2:
            raise ValueError(
                f"expected lengths for the two-dimensional x in {path}, got no such array"
            )
        return np.full(len(x), x.shape[1], np.int64)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise ValueError(
            f"expected lengths as whole numbers in one dimension in {path}, got {lengths.dtype} "
            f"of the shape {lengths.shape}"
        )
    if x.ndim == 2:  # all sequences one after another
        longest = len(x)
        count = len(lengths)
    else:
        longest = x.shape[1]
        count = len(x)
    # check the range of each length before the sum, which could overflow
    fits = len(lengths) == count and ((lengths >= 1) & (lengths <= longest)).all()
    steps: Any = lengths.astype(np.int64)
    if not fits or (x.ndim == 2 and steps.sum() != len(x)):
        raise ValueError(
            f"expected lengths of whole numbers >= 1 that fit x of the shape {x.shape} in {path}, "
            f"got {len(lengths)} of them with the sum {sum(lengths.tolist())}"
        )
    return steps


def _targets(array: Any | None, count: int, name: str, path: Path) -> Any | None:
    if array is None:
        return None
    if array.shape != (count,) or (name == "target" and array.dtype.kind not in "fiu"):
        raise ValueError(
            f"expected {count} of {name} in {path}, got {array.dtype} of the shape {array.shape}"
        )
    return array


def _read_ts(path: Path, options: ReadOptions) -> Sequences:
    return read_ts(path, allow_missing=options.allow_missing)


READERS: dict[str, Callable[[Path, ReadOptions], Sequences]] = {
    ".ts": _read_ts,
    ".npz": read_npz,
    ".npy": read_npy,
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".tsv": read_csv,
    ".tsv.gz": read_csv,
    ".parquet": read_parquet,
}
"""The reader of each file name extension."""


def _ending(path: Path) -> str:
    """Return the extension of a file name, with that before `.gz`."""
    ending = path.suffix.lower()
    if ending == ".gz":
        return path.with_suffix("").suffix.lower() + ending
    return ending


def read_series(path: str | Path, options: ReadOptions = _DEFAULT) -> Sequences:
    """Read a file or a folder of time series.

    Args:
        path: The file, whose extension determines the format, or a folder with a file for each
            sequence. `-` reads CSV from standard input.
        options: The names of the columns, the format of the numbers, and what may be missing.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If there is no reader for the extension, or the file is empty.
    """
    if str(path) == "-":
        return read_csv(Path("standard input"), options, sys.stdin.buffer)
    path = Path(path).expanduser()
    if path.is_dir():
        return read_folder(path, options)
    if not path.is_file():
        raise FileNotFoundError(f"expected a file of series, got {path}, which is not a file")
    reader = READERS.get(_ending(path))
    if reader is None:
        raise ValueError(f"expected a file that ends in {', '.join(READERS)}, got {path}")
    if not path.stat().st_size:
        raise ValueError(f"expected series in {path}, got an empty file")
    return reader(path, options)
