"""Tables with one row for each time step: what their columns are, and how rows become sequences.

A table is read in blocks of rows. A block is turned into numbers at once, so that the text of a
large file is never in memory as a whole.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eigenrnn.experiments.data.sequences import (
    Sequences,
    as_float32,
    check_sequences,
    is_number,
)

__all__ = [
    "GROUP",
    "LABEL",
    "MISSING_WORDS",
    "ROLES",
    "SEQUENCE",
    "TARGET",
    "TIME",
    "Coded",
    "Columns",
    "ReadOptions",
    "RowNumbersError",
    "TableBuilder",
    "TableColumns",
    "check_channel_names",
    "possible_row_numbers",
    "resolve_columns",
]

SEQUENCE = "sequence"
TIME = "time"
LABEL = "label"
TARGET = "target"
GROUP = "group"
ROLES = (SEQUENCE, TIME, LABEL, TARGET, GROUP)
_TEXTS = (SEQUENCE, LABEL, GROUP)

MISSING_WORDS = ("", "-", "?", "na", "n/a", "nan", "null", "none")
"""What stands for a missing number, in any case."""

_ROW_NUMBERS = re.compile(r"Unnamed: \d+|__index_level_\d+__")
"""The names that pandas gives a column of row numbers, besides none."""

_INDEX_NAMES = ("index", "level_0")
"""The names that `reset_index` of pandas gives row numbers; polars has the first one too."""

_FEWEST_ROWS = 3
"""In a shorter table, a channel may equal the row numbers by chance."""

_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_SHOWN = 40  # characters of a text that is not a number
_TAB = "tab"  # easier to type on a command line than a tab itself


class RowNumbersError(ValueError):
    """A channel holds the row numbers of the table.

    A column counts as row numbers if pandas named it so (no name in the first column, or
    `Unnamed: 0` or `__index_level_0__` in any); if it is called `index` or `level_0` and holds
    another whole number in each row; or if it is the first column and counts all rows of a table
    of several sequences from 0 or 1. It may still be what the user means, so it is never dropped:
    the user ignores it, or lists it among the channels.
    """


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table with one row for each time step.

    Args:
        sequence: Names the sequence of a row. In a folder with a file for each sequence it may be
            absent.
        time: Orders the rows of a sequence; without it they are in order. With None, here and
            below, a column of this name is a channel.
        label: The class of the sequence, the same in all its rows.
        target: The number of the sequence, in place of a class.
        group: The group of the sequence, such as a patient. Folds and the validation part never
            divide a group.
        channels: The channels, one or a list; all other columns are then ignored. By default,
            every column without another meaning is a channel; one that seems to hold row numbers
            is an error, see `RowNumbersError`.
        ignored: A column that is not read, or a list of them.

    Raises:
        ValueError: If a name occurs twice.
    """

    sequence: str = SEQUENCE
    time: str | None = TIME
    label: str | None = LABEL
    target: str | None = TARGET
    group: str | None = GROUP
    channels: tuple[str, ...] | str | None = None
    ignored: tuple[str, ...] | str = ()

    def __post_init__(self) -> None:
        # a command line and a JSON file have lists
        for option in ("channels", "ignored"):
            value = getattr(self, option)
            if isinstance(value, str):
                object.__setattr__(self, option, (value,))
            elif value is not None:
                object.__setattr__(self, option, tuple(value))
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

    Raises:
        ValueError: If the separator or the decimal point is no single character, or both are the
            same.
    """

    columns: Columns = field(default_factory=Columns)
    separator: str | None = None
    decimal: str = "."
    allow_missing: bool = False
    is_strict: bool = True

    def __post_init__(self) -> None:
        separator = self.separator
        if separator == _TAB:
            separator = "\t"
        object.__setattr__(self, "separator", separator)
        for name, value in (("separator", separator or ","), ("decimal", self.decimal)):
            if len(value) != 1 or value in '"\r\n':
                raise ValueError(f"expected {name} to be one character, got {value!r}")
        if separator == self.decimal:
            raise ValueError(f"expected separator and decimal to differ, got {separator!r} twice")


@dataclass(frozen=True)
class TableColumns:
    """What the columns of one table are.

    Args:
        roles: The name of the column of each role that the table has.
        channels: The names of the columns of the channels.
        possible_row_numbers: Those channels whose values decide whether they are row numbers.
    """

    roles: Mapping[str, str]
    channels: tuple[str, ...]
    possible_row_numbers: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*self.roles.values(), *self.channels)

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that hold names rather than numbers or times."""
        return tuple(name for role, name in self.roles.items() if role in _TEXTS)


@dataclass(frozen=True)
class Coded:
    """A column of texts: the different texts, and the index of that of each row."""

    texts: Sequence[Any]
    codes: np.ndarray


def resolve_columns(
    names: Sequence[str], path: Path, options: ReadOptions, *, is_one_sequence: bool = False
) -> TableColumns:
    """Tell what the columns of a table are.

    Args:
        names: The names of all columns, in order.
        path: The file.
        options: Names the columns.
        is_one_sequence: Whether the file holds a single sequence, and needs no column for it.

    Raises:
        ValueError: If a name is missing or occurs twice, or there is no such column, no channel,
            or both a label and a target.
        RowNumbersError: If a column that pandas names so would be a channel.
    """
    columns = options.columns
    present = [name for name in names if name not in columns.ignored]
    if len(set(present)) < len(present):
        raise ValueError(
            f"expected different names of columns in {path}, got {', '.join(present)}"
        )
    roles = {role: name for role, name in columns.roles().items() if name in present}
    available = ", ".join(names)
    if options.is_strict:
        named = [name for role, name in columns.roles().items() if name != role]
        for name in (*named, *columns.ignored):
            if name not in names:
                raise ValueError(
                    f"expected a column {name!r} in {path}, got the columns {available}"
                )
    elif TIME not in roles and columns.time not in (TIME, None):
        raise ValueError(
            f"expected a column {columns.time!r}, which orders the rows, in {path}, got the "
            f"columns {available}"
        )
    if columns.channels is None:
        others = {*columns.roles().values(), *columns.ignored}
        channels = tuple(name for name in names if name not in others)
        if options.is_strict:
            check_channel_names(names, channels, path)
    else:
        channels = tuple(columns.channels)
        absent = [name for name in channels if name not in names]
        if absent:
            raise ValueError(
                f"expected a column {absent[0]!r} in {path}, got the columns {available}"
            )
    if (SEQUENCE not in roles and not is_one_sequence) or not channels:
        hint = ""
        if options.is_strict and SEQUENCE not in roles and columns.sequence == SEQUENCE:
            hint = (
                ": name the column that tells the sequence of a row with columns.sequence "
                "(on the command line: --task.columns.sequence NAME)"
            )
        raise ValueError(
            f"expected a column {columns.sequence!r} and at least one channel in {path}, got the "
            f"columns {available}{hint}"
        )
    if LABEL in roles and TARGET in roles:
        raise ValueError(
            f"expected either {roles[LABEL]!r} (classes) or {roles[TARGET]!r} (numbers) in "
            f"{path}, got both: remove or ignore the one that is not to be learnt"
        )
    for name in channels:
        role = name.strip().lower()
        # unless the options say that the file has no such role, or that this is a channel
        is_role = role in ROLES and getattr(columns, role) is not None
        if is_role and columns.channels is None:
            raise ValueError(
                f"expected {role!r} in lower case in {path}, got the column "
                f"{name!r}, which would be a channel: rename or remove it, or name it in "
                f"columns.{role} or columns.ignored"
            )
    # a file to predict must have the channels of the training file, whatever they hold
    suspects = ()
    if options.is_strict and columns.channels is None:
        suspects = possible_row_numbers(names, channels)
    return TableColumns(roles, channels, suspects)


def possible_row_numbers(names: Sequence[str], channels: Sequence[str]) -> tuple[str, ...]:
    """Return the channels that are row numbers if their values count rows.

    Args:
        names: The names of all columns, in order.
        channels: Those of the channels, which the user did not list.
    """
    suspects = (*names[:1], *_INDEX_NAMES)
    return tuple(name for name in channels if name in suspects)


def check_channel_names(
    names: Sequence[str], channels: Sequence[str], path: Path, *, in_memory: bool = False
) -> None:
    """Check the names of channels that the user did not list.

    Args:
        names: The names of all columns, in order.
        channels: Those of the channels.
        path: The file.
        in_memory: Whether the table is no file, but in memory.

    Raises:
        ValueError: If one has no name.
        RowNumbersError: If pandas names row numbers so.
    """
    for name in channels:
        number = names.index(name) + 1
        is_unnamed_index = number == 1 and not name.strip()
        if is_unnamed_index or _ROW_NUMBERS.fullmatch(name):
            raise RowNumbersError(
                f"expected a name for each column of {path}, got {name!r} for column {number}, "
                "which seems to hold the row numbers that pandas writes: write the table with "
                f"index=False, {_row_numbers_remedy(name, in_memory=in_memory)}"
            )
        if not name.strip():
            raise ValueError(
                f"expected a name for each column of {path}, got {name!r} for column {number}: "
                "name the column or remove it"
            )


def _row_numbers_remedy(name: str, *, in_memory: bool) -> str:
    """Return how to ignore a column, or to keep it as a channel."""
    how = f"columns.ignored, on the command line --task.columns.ignored {shlex.quote(name)}"
    if in_memory:
        how = f"ignored={name!r}"
    listed = _option("channels", in_memory=in_memory)
    return f"ignore the column ({how}), or list it among the channels ({listed})"


def _option(name: str, *, in_memory: bool) -> str:
    """Return an option of the columns as the user writes it: for a file, or for `from_table`."""
    if in_memory:
        return f"{name}="
    return f"columns.{name}"


class _Texts:
    """A column of texts as whole numbers, which count the texts in the order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.rows = _Rows()

    def add(self, values: Any) -> None:
        """Add the values of a block of rows."""
        if not isinstance(values, Coded):
            values = _coded(np.asarray(values))
        # in the order of the rows, which need not be that of the texts
        _, first = np.unique(values.codes, return_index=True)
        table = np.zeros(len(values.texts), np.int32)
        for row in np.sort(first):
            code = int(values.codes[row])
            text = str(values.texts[code])
            table[code] = self.numbers.setdefault(text, len(self.numbers))
        self.rows.add(table[values.codes])

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of each number."""
        return tuple(self.numbers)

    def codes(self) -> np.ndarray:
        """Return the number of each row."""
        return self.rows.join()


def _coded(values: np.ndarray) -> Coded:
    if values.dtype.kind != "O":
        texts, codes = np.unique(values, return_inverse=True)
        return Coded(texts.tolist(), codes)
    numbers: dict[Any, int] = {}
    codes = np.fromiter(
        (numbers.setdefault(value, len(numbers)) for value in values), np.int32, len(values)
    )
    return Coded(tuple(numbers), codes)


class TableBuilder:
    """Collects the rows of a table, and groups them into sequences.

    Sequences are in the order of their first rows.

    Args:
        columns: What the columns are.
        path: The file.
        row_location: Describes the location of a row in the file, for error messages.
        allow_missing: Whether channels may have missing values, which become NaN.
        in_memory: Whether the table is no file, but in memory: errors then name the arguments of
            `from_table`.
        is_strict: As of `ReadOptions`; without it, errors name no options of a training.

    Raises:
        ValueError: If a value is not a number or missing, or the columns are inconsistent.
    """

    def __init__(
        self,
        columns: TableColumns,
        path: Path,
        row_location: Callable[[int], str],
        *,
        allow_missing: bool = False,
        in_memory: bool = False,
        is_strict: bool = True,
    ) -> None:
        self._columns = columns
        self._is_strict = is_strict
        self._path = path
        self._row_location = row_location
        self._allow_missing = allow_missing
        self._in_memory = in_memory
        self._rows = 0
        self._values = _Rows()
        self._times = _Rows()
        self._targets = _Rows()
        self._texts = {role: _Texts() for role in columns.roles if role in _TEXTS}
        # the last value of each channel that has counted the rows so far; None before the first
        self._counts: dict[str, float | None] = {}
        # the values of each channel that has held different whole numbers so far
        self._indices: dict[str, _Rows] = {}
        for name in columns.possible_row_numbers:
            if name in _INDEX_NAMES:
                self._indices[name] = _Rows()
            else:
                self._counts[name] = None

    def add(self, block: Mapping[str, Any]) -> None:
        """Add a block of rows.

        Args:
            block: The column of each name: an array, or for texts also `Coded`.

        Raises:
            ValueError: If a value is not a number or missing.
        """
        roles = self._columns.roles
        count = len(_decoded(block[self._columns.channels[0]]))
        values = np.empty((count, len(self._columns.channels)), np.float32)
        for number, name in enumerate(self._columns.channels):
            numbers = self._numbers(block[name], name, allow_missing=self._allow_missing)
            values[:, number] = as_float32(numbers)
            if name in self._counts and len(numbers):
                self._follow_count(name, numbers)
            if name in self._indices:
                self._follow_index(name, numbers)
        self._values.add(values)
        for role, texts in self._texts.items():
            texts.add(block[roles[role]])
        if TIME in roles:
            self._times.add(_decoded(block[roles[TIME]]))
        if TARGET in roles:
            name = roles[TARGET]
            self._targets.add(self._numbers(block[name], name, allow_missing=False))
        self._rows += count

    def _follow_count(self, name: str, numbers: np.ndarray) -> None:
        """Forget a channel that does not count the rows."""
        last = self._counts[name]
        if last is None:
            start = numbers[0]
            is_count = start in (0, 1)
        else:
            start = last + 1
            is_count = True
        if is_count and (numbers == start + np.arange(len(numbers))).all():
            self._counts[name] = float(numbers[-1])
        else:
            del self._counts[name]

    def _follow_index(self, name: str, numbers: np.ndarray) -> None:
        """Forget a channel that does not hold different whole numbers."""
        # sorted rows change their order, and filtered ones leave gaps
        is_whole = (numbers == np.floor(numbers)).all()
        if is_whole and _all_differ(numbers):
            self._indices[name].add(numbers)
        else:
            del self._indices[name]

    def _check_row_numbers(self, sequence_count: int) -> None:
        """Check that no channel holds row numbers.

        Raises:
            RowNumbersError: If one does.
        """
        if self._rows < _FEWEST_ROWS:
            return
        found = [name for name, rows in self._indices.items() if _all_differ(rows.join())]
        # in a single sequence, a channel may well rise by one from step to step
        if sequence_count > 1:
            found.extend(self._counts)
        if found:
            remedy = _row_numbers_remedy(found[0], in_memory=self._in_memory)
            time = _option(TIME, in_memory=self._in_memory)
            raise RowNumbersError(
                f"expected channels without row numbers in {self._path}, got the column "
                f"{found[0]!r}, whose values number the rows: {remedy}, or name it as the column "
                f"of times ({time})"
            )

    def build(self) -> Sequences:
        """Return the sequences.

        Raises:
            ValueError: If there is no row, a time is missing or occurs twice in a sequence, or
                the label, the target or the group differs between the rows of a sequence.
            RowNumbersError: If a channel that the user did not list numbers the rows.
        """
        if not self._rows:
            raise ValueError(f"expected at least one row in {self._path}, got none")
        roles = self._columns.roles
        for role, texts in self._texts.items():
            self._check_texts(texts, roles[role])
        which = np.zeros(self._rows, np.int32)
        names = (self._path.stem,)
        if SEQUENCE in self._texts:
            which = self._texts[SEQUENCE].codes()
            names = self._texts[SEQUENCE].texts
        self._check_row_numbers(len(names))
        order = self._order(which)
        values = self._values.join()
        del self._values
        if order is not None:
            values = values[order]
        # sequences are numbered in the order of their first rows
        is_first = np.ones(self._rows, bool)
        highest = np.maximum.accumulate(which)
        is_first[1:] = highest[1:] > highest[:-1]
        del highest
        first = np.flatnonzero(is_first)
        labels = self._constant_texts(LABEL, which, first)
        groups = self._constant_texts(GROUP, which, first)
        targets = None
        if TARGET in roles:
            numbers = self._targets.join()
            self._check_constant(numbers, which, first, TARGET, numbers)
            targets = as_float32(numbers[first])
        is_whole_file = SEQUENCE not in roles
        return check_sequences(
            Sequences(
                path=self._path,
                values=values,
                lengths=_occurrences(which, len(names)),
                names=names,
                channels=self._columns.channels,
                labels=labels,
                targets=targets,
                location=lambda number: (
                    "its only sequence" if is_whole_file else f"the sequence {names[number]}"
                ),
                groups=groups,
            ),
            allow_missing=self._allow_missing,
        )

    def _numbers(self, column: Any, name: str, *, allow_missing: bool) -> np.ndarray:
        """Return a column of a block as numbers.

        Raises:
            ValueError: If one is a text, missing or not finite.
        """
        values = _decoded(column)
        if values.dtype.kind in "Mm":
            remedy = ""
            if self._is_strict:
                remedy = (
                    f"; name it in {_option(TIME, in_memory=self._in_memory)} or "
                    f"{_option('ignored', in_memory=self._in_memory)}"
                )
            raise ValueError(
                f"expected numbers in the column {name!r} of {self._path}, got "
                f"{values.dtype}{remedy}"
            )
        try:
            # texts, and numbers that are objects, too
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            numbers = np.array([_number(value) for value in values])
        bad = np.flatnonzero(~np.isfinite(numbers))
        if allow_missing and len(bad) and values.dtype.kind == "f":
            bad = bad[~np.isnan(values[bad])]
        for row in bad:
            if not (allow_missing and _is_missing(values[row])):
                self._raise_wrong_number(values[row], name, int(row))
        return numbers

    def _raise_wrong_number(self, value: Any, name: str, row: int) -> None:
        """Say what is wrong with a value.

        Raises:
            ValueError: In any case.
        """
        word = str(value)
        location = self._row_location(self._rows + row)
        place = f"the column {name!r} in {location} of {self._path}"
        if _DECIMAL_COMMA.fullmatch(word.strip()):
            remedy = "write numbers with a decimal point"
            if self._is_strict and not self._in_memory:
                remedy += ", or set decimal=',' and a separator"
            raise ValueError(f"expected a number in {place}, got the text {word!r}: {remedy}")
        if _is_missing(value):
            remedy = "set missing='mask' or 'forward' (on the command line: --task.missing mask)"
            if not self._is_strict:
                remedy = "train on a file with some, too, and missing='mask' or 'forward'"
            elif self._in_memory:
                remedy = "pass allow_missing=True for a task with missing='mask' or 'forward'"
            raise ValueError(
                f"expected a finite number in {place}, got {word!r}; fill in or remove missing "
                f"values, or {remedy}"
            )
        if is_number(word):
            raise ValueError(f"expected a finite number in {place}, got {word!r}")
        if not self._is_strict:
            raise ValueError(f"expected a number in {place}, got the text {word[:_SHOWN]!r}")
        raise ValueError(
            f"expected a number in {place}, got the text {word[:_SHOWN]!r}: remove or ignore the "
            f"column ({_option('ignored', in_memory=self._in_memory)}), write its values as "
            f"numbers, or name it in {_option(LABEL, in_memory=self._in_memory)} if it is the "
            "class of the sequence"
        )

    def _check_texts(self, texts: _Texts, name: str) -> None:
        """Check that each row has a text.

        Raises:
            ValueError: If one has none.
        """
        for text, number in texts.numbers.items():
            if not text.strip() or text in ("None", "<NA>"):
                row = int(np.flatnonzero(texts.codes() == number)[0])
                raise ValueError(
                    f"expected a value in each row of {self._path}, got {text!r} in the column "
                    f"{name!r} of {self._row_location(row)}"
                )

    def _order(self, which: np.ndarray) -> np.ndarray | None:
        """Return the order of the rows by sequence and time; None if they are in order.

        Raises:
            ValueError: If a time is missing or occurs twice in a sequence.
        """
        # comparisons of neighbours take an eighth of the memory of their differences
        is_grouped = (which[1:] >= which[:-1]).all()
        if TIME not in self._columns.roles:
            if is_grouped:
                return None
            return np.argsort(which, kind="stable")
        times = self._ranked_times()
        if is_grouped and ((times[1:] > times[:-1]) | (which[1:] > which[:-1])).all():
            return None
        order = np.lexsort((times, which))
        sorted_times = times[order]
        sorted_which = which[order]
        twice = np.flatnonzero(
            (np.diff(sorted_which) == 0) & (sorted_times[1:] == sorted_times[:-1])
        )
        if len(twice):
            one = self._row_location(int(order[twice[0]]))
            other = self._row_location(int(order[twice[0] + 1]))
            raise ValueError(
                f"expected each time once in a sequence of {self._path}, got one in {one} and in "
                f"{other}"
            )
        return order

    def _ranked_times(self) -> np.ndarray:
        """Return the times as numbers, or as the ranks of texts.

        Raises:
            ValueError: If one is missing.
        """
        times = self._times.join()
        if times.dtype.kind in "OU":  # numbers, or dates, which are sorted as text
            try:
                times = times.astype(np.float64)
            except (TypeError, ValueError):
                return np.unique(times, return_inverse=True)[1]
        if times.dtype.kind in "Mm":
            missing = np.flatnonzero(np.isnat(times))
        else:
            missing = np.flatnonzero(~np.isfinite(times))
        if len(missing):
            raise ValueError(
                f"expected a time in each row of {self._path}, got {times[missing[0]]} in "
                f"{self._row_location(int(missing[0]))}"
            )
        return times

    def _constant_texts(
        self, role: str, which: np.ndarray, first: np.ndarray
    ) -> tuple[str, ...] | None:
        if role not in self._texts:
            return None
        texts = self._texts[role].texts
        codes = self._texts[role].codes()
        self._check_constant(codes, which, first, role, texts)
        return tuple(texts[code] for code in codes[first])

    def _check_constant(
        self, values: np.ndarray, which: np.ndarray, first: np.ndarray, role: str, shown: Any
    ) -> None:
        """Check that all rows of a sequence have the same label, target or group.

        Raises:
            ValueError: If two rows differ.
        """
        differs = np.flatnonzero(values != values[first][which])
        if len(differs):
            row = int(differs[0])
            got = values[row]
            expected = values[first[which[row]]]
            if role != TARGET:  # numbers of texts
                got = shown[got]
                expected = shown[expected]
            what = "label or target"
            if role == GROUP:
                what = "group"
            raise ValueError(
                f"expected one {what} in all rows of a sequence of {self._path}, got {got!s} and "
                f"{expected!s} in {self._row_location(row)}"
            )


def _occurrences(which: np.ndarray, size: int) -> np.ndarray:
    """Return how often each number below `size` occurs."""
    counts = np.zeros(size, np.int64)
    for start in range(0, len(which), _BLOCK):  # numpy makes a copy of eight bytes a number
        counts += np.bincount(which[start : start + _BLOCK], minlength=size)
    return counts


def _decoded(column: Any) -> np.ndarray:
    """Return a column as an array."""
    if isinstance(column, Coded):
        return np.array(column.texts, object)[column.codes]
    return np.asarray(column)


_BUFFER = 2**26  # bytes
_BLOCK = 2**20  # rows


class _Rows:
    """Rows of numbers, collected in buffers.

    The memory of a large buffer returns to the system when it is freed, that of small blocks need
    not. The rows are therefore in memory once, also while they are joined.
    """

    def __init__(self) -> None:
        self._buffers: list[np.ndarray] = []
        self._used = 0  # rows of the last buffer

    def add(self, rows: np.ndarray) -> None:
        """Add a block of rows."""
        # integers that are missing in one block of Parquet make it one of floating numbers
        is_same_type = bool(self._buffers) and self._buffers[-1].dtype == rows.dtype
        if not is_same_type or self._used + len(rows) > len(self._buffers[-1]):
            self._trim()
            capacity = len(rows)
            if self._buffers:  # a small table is a single block, which needs no room for more
                capacity = max(capacity, _BUFFER * len(rows) // max(1, rows.nbytes))
            self._buffers.append(np.empty((capacity, *rows.shape[1:]), rows.dtype))
            self._used = 0
        self._buffers[-1][self._used : self._used + len(rows)] = rows
        self._used += len(rows)

    def join(self) -> np.ndarray:
        """Return all rows, which are then in a single buffer."""
        self._trim()
        if len(self._buffers) > 1:
            count = sum(map(len, self._buffers))
            kind = np.result_type(*self._buffers)
            joined = np.empty((count, *self._buffers[0].shape[1:]), kind)
            end = count
            while self._buffers:
                buffer = self._buffers.pop()
                joined[end - len(buffer) : end] = buffer
                end -= len(buffer)
            self._buffers.append(joined)
            self._used = count
        return self._buffers[0]

    def _trim(self) -> None:
        if self._buffers:
            self._buffers[-1] = self._buffers[-1][: self._used]


def _all_differ(numbers: np.ndarray) -> bool:
    return len(np.unique(numbers)) == len(numbers)


def _is_missing(value: Any) -> bool:
    return value is None or str(value).strip().lower() in (*MISSING_WORDS, "<na>")


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
