"""Data sets of the UCR and UEA archives in the text format `.ts`, for the benchmarks."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eigenrnn_experiments.data.files import DataFile, locate

__all__ = ["read_archive", "read_ts"]

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


def read_archive(name: str, part: str) -> tuple[list[NDArray[np.float64]], list[str]]:
    """Return the sequences (T, M) and the classes of a part, ``"TRAIN"`` or ``"TEST"``."""
    path = f"{name}/{name}_{part}.ts"
    urls = [f"{_AEON}/{version}/aeon/datasets/data/{path}" for version in (_COMMIT, "main")]
    return read_ts(locate(DataFile(f"ucr-uea/{path}", _SHA256[name][part], tuple(urls))))


def read_ts(path: Path) -> tuple[list[NDArray[np.float64]], list[str]]:
    """Read a file: a header, then a sequence a line; `:` separates channels, the class is last."""
    _, _, lines = path.read_text(encoding="utf-8").partition("@data")
    X: list[NDArray[np.float64]] = []
    y: list[str] = []
    for line in lines.split("\n")[1:]:
        if not line.strip():
            continue
        *channels, label = line.strip().split(":")
        columns = [np.array(text.replace("?", "nan").split(","), float) for text in channels]
        X.append(np.stack(columns, axis=1))
        y.append(label)
    return X, y
