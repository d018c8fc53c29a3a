"""Tables with one row for each time step: their columns, and how rows become sequences."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn_experiments.data.sequences import Sequences, check_sequences

__all__ = [
    "GROUP",
    "LABEL",
    "MISSING_WORDS",
    "ROLES",
    "SEQUENCE",
    "TARGET",
    "TIME",
    "Columns",
    "ReadOptions",
    "Table",
    "codes_of",
    "sequences_of",
]

SEQUENCE = "sequence"
TIME = "time"
LABEL = "label"
TARGET = "target"
GROUP = "group"
ROLES = (SEQUENCE, TIME, LABEL, TARGET, GROUP)

_WORDS = ("", "-", "?", "na", "n/a", "nan", "null", "none", "<na>")
MISSING_WORDS = sorted({"NaN"}.union(*((word, word.upper(), word.title()) for word in _WORDS)))
"""What stands for a missing number. Case counts for pandas."""

# what pandas, its `reset_index` and polars call row numbers
_ROW_NUMBERS = re.compile(r"\s*|Unnamed: \d+|__index_level_\d+__|index|level_0")
_HAS_ZONE = r"[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)$"
_BLOCK = 2**16  # rows, so that few texts are in memory beside those of the table
_SHOWN = 40  # characters of a text that is not a number


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table with one row for each time step.

    Args:
        sequence: Names the sequence of a row; None if a file is one sequence. In a folder with a
            file for each sequence, and for a forecast, it may be absent.
        time: Orders the rows of a sequence; without it they are in order. With None, here and
            below, a column of this name is a channel.
        label: The class of the sequence, the same in all its rows.
        target: The number of the sequence, in place of a class.
        group: The group of the sequence, such as a patient. Folds and the validation part never
            divide a group.
        channels: The channels, one or a list; all other columns are then ignored. By default,
            every column without another meaning is a channel; one that seems to hold row numbers
            is an error.
        ignored: A column that is not read, or a list of them.
        time_format: How times are written, such as ``%d.%m.%Y %H:%M``, in the codes of
            `datetime.strptime`; by default they are numbers, or dates as in ISO 8601.

    Raises:
        ValueError: If a name occurs twice.
    """

    sequence: str | None = SEQUENCE
    time: str | None = TIME
    label: str | None = LABEL
    target: str | None = TARGET
    group: str | None = GROUP
    channels: tuple[str, ...] | str | None = None
    ignored: tuple[str, ...] | str = ()
    time_format: str | None = None

    def __post_init__(self) -> None:
        # a command line and a JSON file have lists
        for option in ("channels", "ignored"):
            value = getattr(self, option)
            if isinstance(value, str):
                object.__setattr__(self, option, (value,))
            elif value is not None:
                object.__setattr__(self, option, tuple(map(str, value)))
        channels = self.channels or ()
        named = [*self.roles().values(), *channels]
        named += [name for name in self.ignored if name in channels]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(
                f"expected one meaning of each column, got several for {', '.join(twice)}"
            )

    def roles(self) -> dict[str, str]:
        """Return the name of the column of each role."""
        names = {role: getattr(self, role) for role in ROLES}
        return {role: name for role, name in names.items() if name is not None}


@dataclass(frozen=True)
class ReadOptions:
    """How files of series are read.

    Args:
        columns: The names of the columns of a table.
        separator: The character between the values of a line of CSV, or ``"tab"``; by default a
            comma, and a tab in a file `.tsv`.
        decimal: The character before the decimals of a number in CSV.
        allow_missing: Whether channels may have missing values, which become NaN.
        is_strict: Whether columns that `columns` names must exist. A file to predict may lack
            answers and ignored columns.
        may_be_one_sequence: Whether a table without a column `sequence` is one sequence.
        of_task: Whether they are options of a task, as which errors name them, or of a command.

    Raises:
        ValueError: If the separator or the decimal point is no character, or both are equal.
    """

    columns: Columns = field(default_factory=Columns)
    separator: str | None = None
    decimal: str = "."
    allow_missing: bool = False
    is_strict: bool = True
    may_be_one_sequence: bool = False
    of_task: bool = True

    def __post_init__(self) -> None:
        separator = self.separator
        if separator == "tab":  # easier to type on a command line than a tab itself
            separator = "\t"
        object.__setattr__(self, "separator", separator)
        for name, value in (("separator", separator or ","), ("decimal", self.decimal)):
            if len(value) != 1 or value in '"\r\n':
                raise ValueError(f"expected {name} to be one character, got {value!r}")
        if separator == self.decimal:
            raise ValueError(f"expected separator and decimal to differ, got {separator!r} twice")

    @property
    def prefix(self) -> str:
        """The beginning of these options on the command line."""
        return "--task." if self.of_task else "--"

    @property
    def to_ignore(self) -> str:
        """What to do with a column that is no channel."""
        return f"ignore it (ignored, {self.prefix}columns.ignored) or list it in channels"


class Table:
    """What the columns of one table are.

    Args:
        names: The names of all columns, in order.
        path: The file, named in errors.
        options: Names the columns.
        in_memory: Whether roles have no default names.

    Raises:
        ValueError: If a name is missing or occurs twice, there is no such column, no channel, both
            a label and a target, or a column of row numbers would be a channel.
    """

    def __init__(
        self,
        names: Sequence[str],
        path: Path,
        options: ReadOptions,
        *,
        in_memory: bool = False,
    ) -> None:
        columns = options.columns
        available = ", ".join(names)
        if len(set(names)) < len(names):
            raise ValueError(f"expected different names of columns in {path}, got {available}")
        of_roles = columns.roles()
        wanted = list(columns.channels or ())
        for role, name in of_roles.items():
            # a file to predict may lack answers, but the order of its rows must be known
            is_named = (name != role or in_memory) and (options.is_strict or role == TIME)
            if is_named or (role == SEQUENCE and not options.may_be_one_sequence):
                wanted.append(name)
        if options.is_strict:
            wanted += columns.ignored
        for name in wanted:
            if name not in names:
                remedy = f"name yours in columns ({options.prefix}columns.sequence NAME)"
                if in_memory:
                    remedy = "name yours; an index of pandas is one after table.reset_index()"
                raise ValueError(
                    f"expected a column {name!r} in {path}, got the columns {available}: {remedy}"
                )
        of_table = {*names} - {*columns.ignored}
        roles = {role: name for role, name in of_roles.items() if name in of_table}
        if LABEL in roles and TARGET in roles:
            raise ValueError(
                f"expected either {roles[LABEL]!r} (classes) or {roles[TARGET]!r} (numbers) in "
                f"{path}, got both: remove or ignore the one that is not to be learnt"
            )
        channels = columns.channels
        if channels is None:
            others = {*of_roles.values(), *columns.ignored}
            channels = tuple(name for name in names if name not in others)
            for name in channels if options.is_strict else ():
                role = name.strip().lower()  # a column "Label" would be learnt from
                is_role = role in ROLES and (in_memory or getattr(columns, role) is not None)
                if is_role or _ROW_NUMBERS.fullmatch(name):
                    raise ValueError(
                        f"expected channels in {path}, got the column {name!r}, number "
                        f"{names.index(name) + 1}, which seems to hold row numbers or a role: "
                        f"name it, write the table with index=False, or {options.to_ignore}"
                    )
        if not channels:
            raise ValueError(
                f"expected at least one channel in {path}, got the columns {available}"
            )
        self.path = path
        self.options = options
        self.first = names[0]
        self.roles = roles
        self.channels = tuple(channels)


def sequences_of(frames: Iterable[Any], table: Table) -> Sequences:
    """Return the sequences of a table, in the order of their first rows.

    Args:
        frames: The rows, in one frame of pandas or in several, whose indices count all rows.
        table: What its columns are, as its names tell.

    Raises:
        ValueError: If a value is missing or not a number, a time is none or occurs twice in a
            sequence, or the label, the target or the group differs within a sequence.
    """
    pd: Any = import_module("pandas")

    path = table.path
    roles = table.roles
    allow_missing = table.options.allow_missing
    # one frame at a time is in memory as it was read, the others are numbers
    pieces: dict[str, list[Any]] = {name: [] for name in (*roles.values(), *table.channels)}
    texts: dict[str, dict[str, int]] = {role: {} for role in roles}
    for frame in chain.from_iterable(map(_blocks, frames)):
        for name in table.channels:
            pieces[name].append(_numbers(frame[name], table, allow_missing))
        for role, name in roles.items():
            if role == TIME:
                pieces[name].append(_times(frame[name], table))
            elif role == TARGET:
                pieces[name].append(_numbers(frame[name], table, False))
            else:
                pieces[name].append(codes_of(frame[name], texts[role], path))
    count = sum(map(len, pieces[table.channels[0]]))
    if not count:
        raise ValueError(f"expected at least one row in {path}, got none")
    names = [path.stem]
    which = np.zeros(count, np.int32)
    if SEQUENCE in roles:
        names = list(texts[SEQUENCE])
        which = np.concatenate(pieces.pop(roles[SEQUENCE]))
    order = np.argsort(which, kind="stable")
    if TIME in roles:
        times = _times(pd.concat(pieces.pop(roles[TIME]), ignore_index=True), table)
        if times.dtype.kind in "Mm":
            times = times.astype("int64")
        kinds = {"i": np.int64, "u": np.uint64, "f": np.float64}
        times = times.to_numpy(kinds[times.dtype.kind])
        order = np.lexsort((times, which))
        times = times[order]
        twice = times[1:] == times[:-1]
        twice &= which[order[1:]] == which[order[:-1]]
        if twice.any():
            row = int(np.flatnonzero(twice)[0])
            raise ValueError(
                f"expected each time once in a sequence of {path}, got one of the column "
                f"{roles[TIME]!r} in row {order[row] + 1} and in row {order[row + 1] + 1}"
            )
    # sequences are numbered in the order of their first rows
    first = np.searchsorted(np.maximum.accumulate(which), np.arange(len(names)))
    answers: dict[str, Any] = {}
    for role in (LABEL, TARGET, GROUP):
        if role not in roles:
            continue
        values = np.concatenate(pieces.pop(roles[role]))
        differs = np.flatnonzero(values != values[first][which])
        if len(differs):
            row = int(differs[0])
            raise ValueError(
                f"expected one {role} of each sequence in {path}, got others in the column "
                f"{roles[role]!r} of row {row + 1} and of row {first[which[row]] + 1}"
            )
        answers[role] = values[first]
        if role != TARGET:
            words = list(texts[role])
            answers[role] = tuple(words[code] for code in values[first])
    values = np.empty((count, len(table.channels)))
    for number, name in enumerate(table.channels):
        column = np.concatenate(pieces.pop(name))
        # in a single sequence, a channel may well rise by one from step to step
        is_suspect = table.options.is_strict and table.options.columns.channels is None
        is_suspect = is_suspect and name == table.first and len(names) > 1 and count > 2
        if is_suspect and column[0] in (0, 1) and (np.diff(column) == 1).all():
            raise ValueError(
                f"expected channels without row numbers in {path}, got the column {name!r}, whose "
                f"values number the rows: {table.options.to_ignore}, or name it as the time"
            )
        values[:, number] = column[order]
    return check_sequences(
        Sequences(
            path=path,
            values=values,
            lengths=np.bincount(which),
            names=tuple(names),
            channels=table.channels,
            labels=answers.get(LABEL),
            targets=answers.get(TARGET),
            location=lambda number: f"the sequence {names[number]}",
            groups=answers.get(GROUP),
            time=roles.get(TIME),
        ),
        allow_missing=allow_missing,
    )


def _blocks(frame: Any) -> Iterator[Any]:
    for start in range(0, len(frame), _BLOCK):
        yield frame[start : start + _BLOCK]


def _place(column: Any, row: int, path: Path) -> str:
    value = str(column.iloc[row])[:_SHOWN]
    return f"the column {column.name!r} in row {column.index[row] + 1} of {path}, got {value!r}"


def codes_of(column: Any, numbers: dict[str, int], path: Path) -> NDArray[np.int32]:
    """Return the number of the text of each row; new texts get the next numbers.

    Raises:
        ValueError: If a text is missing or blank, or the values are no texts or numbers.
    """
    pd: Any = import_module("pandas")
    try:
        codes, different = pd.factorize(column)
    except TypeError:  # lists have no hash
        raise ValueError(f"expected a text in {_place(column, 0, path)}") from None
    is_wrong = [isinstance(value, bytes) or not str(value).strip() for value in different]
    wrong = np.flatnonzero(np.array([*is_wrong, True])[codes])  # a missing value has the code -1
    if len(wrong):
        raise ValueError(f"expected a text in {_place(column, int(wrong[0]), path)}")
    found = [numbers.setdefault(str(value), len(numbers)) for value in different]
    return np.array(found, np.int32)[codes]


def _with_points(words: Any, decimal: str) -> Any:
    """Write numbers with decimal points; one that has a point already, for thousands, is none."""
    return words.str.translate(str.maketrans({".": decimal, decimal: "."}))


def _numbers(column: Any, table: Table, allow_missing: bool) -> NDArray[np.float64]:
    # NaN for missing ones
    pd: Any = import_module("pandas")

    if column.dtype.kind in "iufb":
        numbers = np.asarray(column, np.float64)
        is_missing = np.isnan(numbers)
    else:
        words = column.astype(str).str.strip()
        is_missing = np.asarray(column.isna() | words.str.lower().isin(_WORDS), bool)
        words = _with_points(words, table.options.decimal)
        numbers = np.array(pd.to_numeric(words, errors="coerce"), np.float64)
        numbers[is_missing] = np.nan
    is_wrong = ~np.isfinite(numbers)
    if allow_missing:
        is_wrong &= ~is_missing
    if is_wrong.any():
        row = int(np.flatnonzero(is_wrong)[0])
        text = str(column.iloc[row])
        decimal = table.options.decimal
        remedy = "correct it"
        if table.options.is_strict:
            role = "label" if table.options.of_task else "sequence"
            remedy += f", name the column as {role} or time, or {table.options.to_ignore}"
        if is_missing[row]:
            remedy = "fill it in"
            if column.name == table.roles.get(TARGET):
                remedy += ", or remove the sequence"
            elif table.options.of_task:
                remedy += (
                    ", or train with missing='mask' or 'forward' (in memory: allow_missing=True)"
                )
        elif "." in text and ("," in text or decimal != "."):
            remedy = f"write it without thousands, and {decimal!r} before the decimals"
        elif "," in text:
            remedy = "write a decimal point, or set decimal=',' and a separator"
        raise ValueError(f"expected a number in {_place(column, row, table.path)}: {remedy}")
    return numbers


def _times(column: Any, table: Table) -> Any:
    # as numbers, dates or durations
    pd: Any = import_module("pandas")
    form = table.options.columns.time_format
    times: Any = column
    expected = "a number, or a date as in ISO 8601 (2024-01-31T09:00), as in the other rows"
    if column.dtype.kind not in "iufMm":
        words = column.astype(str).str.strip()
        points = _with_points(words, table.options.decimal)
        if form is not None:
            times = pd.to_datetime(words, format=form, errors="coerce", utc="%z" in form)
        elif pd.to_numeric(points[:1], errors="coerce").count():
            times = pd.to_numeric(points, errors="coerce")
        else:  # all with a time zone, or all without; pandas reads the word "now", too
            has_zone = words.str.contains(_HAS_ZONE, na=False)
            is_date = words.str.match(r"\d{4}", na=False) & (has_zone | ~has_zone.any())
            times = pd.to_datetime(
                words.where(is_date), format="ISO8601", errors="coerce", utc=bool(has_zone.any())
            )
    elif form is not None and column.dtype.kind in "iuf":  # they have lost their first zeros
        times = column * np.nan
    is_wrong = np.asarray(times.isna(), bool)
    if times.dtype.kind == "f":
        is_wrong = ~np.isfinite(np.asarray(times, np.float64))
    if is_wrong.any():
        row = int(np.flatnonzero(is_wrong)[0])
        if form is not None:
            expected = f"a time in the format {form!r}"
        raise ValueError(
            f"expected {expected} in {_place(column, row, table.path)}: correct it, or set "
            "time_format, for example to '%d.%m.%Y %H:%M' "
            f"({table.options.prefix}columns.time_format)"
        )
    return times
