"""The `.ts` text format of the UCR and UEA archives, as written by aeon and sktime."""

from pathlib import Path

import numpy as np

from eigenrnn_experiments.data.files import DataFile
from eigenrnn_experiments.data.in_memory import concatenate
from eigenrnn_experiments.data.sequences import Sequences, Values, numbered_lines
from eigenrnn_experiments.data.tables import ReadOptions

__all__ = ["ARCHIVE", "read_ts"]

_AEON = "https://raw.githubusercontent.com/aeon-toolkit/aeon"
_COMMIT = "a101ddc8b35a65441609b45c9bcce5aeafa0c131"


_SHA256 = {
    "ACSF1": {
        "TRAIN": "0646b90dc4843e02baed6b2ba345c5601a4991b6796565489cef1b2d92a7537b",
        "TEST": "93e8aaeb44a10af181d24a156e60da7021193cd990ca28f263fccf3b905bfebf",
    },
    "BasicMotions": {
        "TRAIN": "8dc43cc6306cb679c888c01e26f91772ac4441a916da43bac8b79734a538b9d6",
        "TEST": "79213102bc6fca1a398ad98ce1185dff0208fa3d1465e687f48288946b0ff8dc",
    },
    "ItalyPowerDemand": {
        "TRAIN": "341269cb7e6cef96846b30e774580beec79addb93848ba360145219115a74b7c",
        "TEST": "26122451f87dd0387ef90b18bc8a86c041371b8a1c068004922b939971247144",
    },
    "JapaneseVowels": {
        "TRAIN": "68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd",
        "TEST": "b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462",
    },
}


def _file(name: str, part: str, sha256: str) -> DataFile:
    path = f"{name}/{name}_{part}.ts"
    urls = [f"{_AEON}/{version}/aeon/datasets/data/{path}" for version in (_COMMIT, "main")]
    return DataFile(f"ucr-uea/{path}", sha256, tuple(urls))


ARCHIVE = {
    name: tuple(_file(name, part, sha256) for part, sha256 in parts.items())
    for name, parts in _SHA256.items()
}
"""The training file and the test file of data sets of the archives."""


_CUT = "it is not as the header of the file says, and may be truncated"


def read_ts(path: Path, options: ReadOptions) -> Sequences:
    """Read a `.ts` file: a header, then one sequence per line.

    In a line, `:` separates the channels and `,` their values; the class or the number is last. A
    missing value is `?` or `NaN`.

    Raises:
        ValueError: If the file is no text or unlike its header; the message names the line.

    Source:
        Bagnall et al., 2018. https://arxiv.org/abs/1811.00075; the format is that of
        https://www.aeon-toolkit.org/en/stable/api_reference/data_format.html.
    """
    lines = numbered_lines(path)
    header: dict[str, list[str]] = {}
    for number, line in lines:
        first, *words = line.split() or ["#"]
        if first.lower() == "@data":
            break
        if first[0] not in "@#":
            raise ValueError(f"expected a line @data before the values in line {number} of {path}")
        header[first[1:].lower()] = [*words, ""]
    else:
        raise ValueError(f"expected a line @data in {path}, got none")
    flags = {name for name, words in header.items() if words[0].lower() == "true"}
    if "timestamps" in flags or {"classlabel", "targetlabel"} <= flags:
        raise ValueError(
            f"expected no @timeStamps, and @classLabel or @targetLabel in {path}, got {flags}"
        )
    sizes = {"steps": None, "channels": header.get("dimensions", [None])[0]}
    if "univariate" in flags:
        sizes["channels"] = "1"
    if "equallength" in flags:
        sizes["steps"] = header.get("serieslength", [None])[0]
    arrays: list[Values] = []
    answers: list[str] = []
    at: list[str] = []
    for number, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        place = f"line {number} of {path}"
        channels = line.strip().split(":")
        if flags & {"classlabel", "targetlabel"}:
            answers.append(channels.pop().strip())
        if "classlabel" in flags and answers[-1] not in header["classlabel"][1:-1]:
            raise ValueError(f"expected a class last in {place}, got {answers[-1][:40]!r}: {_CUT}")
        columns = [_numbers(text, f"channel {k} of {place}") for k, text in enumerate(channels, 1)]
        if len({len(column) for column in columns}) != 1:
            raise ValueError(f"expected channels of equal length in {place}, got others")
        arrays.append(np.stack(columns, axis=1))
        at.append(f"line {number}")
        for (what, size), found in zip(sizes.items(), arrays[-1].shape, strict=True):
            if size not in (None, str(found)):
                raise ValueError(f"expected {size} {what} in {place}, got {found}: {_CUT}")
    labels = targets = None
    if "classlabel" in flags:
        labels = answers
    if "targetlabel" in flags:
        targets = [_numbers(answers[k], f"{where} of {path}")[0] for k, where in enumerate(at)]
    return concatenate(
        path,
        arrays,
        lambda number: at[number],
        labels=labels,
        targets=targets,
        allow_missing=options.allow_missing,
    )


def _numbers(text: str, place: str) -> Values:
    try:
        return np.array(text.replace("?", "nan").split(","), np.float64)
    except ValueError:
        raise ValueError(f"expected numbers in {place}, got {text[:40]!r}") from None
