"""The `.ts` text format of the UCR and UEA archives, as written by aeon and sktime."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from eigenrnn.experiments.data.files import DataFile
from eigenrnn.experiments.data.sequences import (
    Sequences,
    Values,
    as_float32,
    check_sequences,
    is_number,
    numbered_lines,
)

__all__ = ["ARCHIVE", "read_ts"]

_AEON = "https://raw.githubusercontent.com/aeon-toolkit/aeon"
_COMMIT = "a101ddc8b35a65441609b45c9bcce5aeafa0c131"


def _file(name: str, part: str, sha256: str) -> DataFile:
    path = f"{name}/{name}_{part}.ts"
    urls = (
        f"{_AEON}/{_COMMIT}/aeon/datasets/data/{path}",
        f"{_AEON}/main/aeon/datasets/data/{path}",
    )
    return DataFile(f"ucr-uea/{path}", sha256, urls)


def _set(name: str, train: str, test: str) -> tuple[DataFile, DataFile]:
    return _file(name, "TRAIN", train), _file(name, "TEST", test)


ARCHIVE = {
    "ACSF1": _set(
        "ACSF1",
        "0646b90dc4843e02baed6b2ba345c5601a4991b6796565489cef1b2d92a7537b",
        "93e8aaeb44a10af181d24a156e60da7021193cd990ca28f263fccf3b905bfebf",
    ),
    "BasicMotions": _set(
        "BasicMotions",
        "8dc43cc6306cb679c888c01e26f91772ac4441a916da43bac8b79734a538b9d6",
        "79213102bc6fca1a398ad98ce1185dff0208fa3d1465e687f48288946b0ff8dc",
    ),
    "ItalyPowerDemand": _set(
        "ItalyPowerDemand",
        "341269cb7e6cef96846b30e774580beec79addb93848ba360145219115a74b7c",
        "26122451f87dd0387ef90b18bc8a86c041371b8a1c068004922b939971247144",
    ),
    "JapaneseVowels": _set(
        "JapaneseVowels",
        "68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd",
        "b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462",
    ),
}
"""The training file and the test file of data sets of the archives."""


_DIGITS = 18


@dataclass
class _Header:
    """The values of the header lines, which begin with @."""

    words: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def flag(self, name: str) -> bool:
        return self.words.get(name, ["false"])[0].lower() == "true"

    def count(self, name: str) -> int | None:
        word = self.words.get(name, [""])[0]
        if not word.isdecimal():
            return None
        # no series has more steps or channels, and Python rejects numbers of 5,000 digits
        return int(word[:_DIGITS])


def read_ts(path: Path, *, allow_missing: bool = False) -> Sequences:
    """Read a `.ts` file: a header, then one sequence per line.

    In a line, `:` separates the channels and `,` their values; the class or the number is last.

    Args:
        path: The file.
        allow_missing: Whether values may be missing, as `?` or `NaN`; they become NaN.

    Raises:
        ValueError: If the file is truncated, not a text file, or inconsistent with its header;
            the message names the line.

    Source:
        Bagnall et al., 2018. https://arxiv.org/abs/1811.00075; the format is that of
        https://www.aeon-toolkit.org/en/stable/api_reference/data_format.html.
    """
    lines = numbered_lines(path)
    header = _read_header(lines, path)
    labelled = header.flag("classlabel")
    numbered = header.flag("targetlabel")
    if labelled and numbered:
        raise ValueError(
            f"expected either @classLabel true or @targetLabel true in the header of {path}, got "
            "both: set the one that the last value of a line is not to false"
        )
    read: list[Values] = []
    answers: list[str] = []
    at: list[int] = []
    for number, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        place = f"line {number} of {path}"
        channels = line.strip().split(":")
        if labelled or numbered:
            answers.append(channels.pop().strip())
        expected = _expected_channels(header, read)
        read.append(_read_channels(channels, place, expected, allow_missing))
        at.append(number)
    _check_end(path, header, answers, at)
    _check_lengths(path, header, read, at)
    labels: tuple[str, ...] | None = None
    targets: Values | None = None
    if labelled:
        labels = tuple(answers)
    if numbered:
        targets = _numbers(answers, path, at)
    return check_sequences(
        Sequences(
            path=path,
            values=np.concatenate(read),
            lengths=np.array([len(values) for values in read]),
            names=tuple(str(k) for k in range(1, len(read) + 1)),
            channels=tuple(str(k) for k in range(1, read[0].shape[1] + 1)),
            labels=labels,
            targets=targets,
            location=lambda number: f"line {at[number]}",
        ),
        allow_missing=allow_missing,
    )


def _read_header(lines: Iterator[tuple[int, str]], path: Path) -> _Header:
    header = _Header()
    number = 0
    for number, line in lines:
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if not line.startswith("@"):
            raise ValueError(
                f"expected a header with a line @data before the values, got values in line "
                f"{number} of {path}"
            )
        name = words[0].removeprefix("@").lower()
        if name == "data":
            if header.flag("timestamps"):
                raise ValueError(f"expected series without time stamps, got some in {path}")
            return header
        if len(words) < 2:
            raise ValueError(f"expected a value after {words[0]} in line {number} of {path}")
        header.words[name] = words[1:]
    raise ValueError(f"expected a line @data in {path}, got none among its {number} lines")


def _expected_channels(header: _Header, read: list[Values]) -> int | None:
    if header.flag("univariate"):
        return 1
    named = header.count("dimension")
    if "dimensions" in header.words:
        named = header.count("dimensions")
    if named is None and read:  # a header need not state it: as in the first line
        return read[0].shape[1]
    return named


def _read_channels(
    channels: list[str], place: str, expected: int | None, allow_missing: bool
) -> Values:
    if expected is not None and len(channels) != expected:
        raise ValueError(
            f"expected {expected} channels in {place}, got {len(channels)}; the line may be "
            "truncated"
        )
    columns = [
        _read_values(text, f"channel {k} of {place}", allow_missing)
        for k, text in enumerate(channels, 1)
    ]
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise ValueError(
            f"expected channels of equal length in {place}, got {sorted(lengths)} steps"
        )
    return np.stack(columns, axis=1)


def _read_values(text: str, place: str, allow_missing: bool) -> Values:
    words = text.split(",")
    if allow_missing:
        for k, word in enumerate(words):
            if word.strip() == "?":
                words[k] = "nan"
    try:
        return as_float32(np.array(words, np.float64))
    except ValueError:
        pass
    missing = next(word for word in words if not is_number(word))
    raise ValueError(
        f"expected numbers separated by commas in {place}, got {missing.strip()!r}; fill in or "
        "remove missing values, or set missing='mask' or 'forward'"
    )


def _numbers(answers: list[str], path: Path, at: list[int]) -> Values:
    for answer, number in zip(answers, at, strict=True):
        if not is_number(answer):
            raise ValueError(f"expected a number last in line {number} of {path}, got {answer!r}")
    return as_float32(np.array(answers, np.float64))


def _check_end(path: Path, header: _Header, answers: list[str], at: list[int]) -> None:
    if not at:
        raise ValueError(f"expected a series after the line @data of {path}, got none")
    if not header.flag("classlabel"):
        return
    names = header.words["classlabel"][1:]
    for answer, number in zip(answers, at, strict=True):
        if answer not in names:
            raise ValueError(
                f"expected a class among {', '.join(names)} last in line {number} of {path}, "
                f"got {answer[:40]!r}; the line may be truncated"
            )


def _check_lengths(path: Path, header: _Header, read: list[Values], at: list[int]) -> None:
    if not header.flag("equallength"):
        return
    expected = header.count("serieslength")
    if expected is None:
        expected = len(read[0])
    for values, number in zip(read, at, strict=True):
        if len(values) != expected:
            raise ValueError(
                f"expected {expected} steps in line {number} of {path}, as stated in its "
                f"header, got {len(values)}; the line may be truncated"
            )
