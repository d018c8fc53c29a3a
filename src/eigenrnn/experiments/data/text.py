"""Texts as indices of symbols: any text file, and Tiny Shakespeare."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenrnn.experiments.data.archives import read_gzip
from eigenrnn.experiments.data.files import DataFile, locate
from eigenrnn.memory import check_memory

__all__ = [
    "END_OF_LINE",
    "TINY_SHAKESPEARE",
    "Corpus",
    "decode",
    "index_characters",
    "index_words",
    "read_text",
    "split_text",
]


END_OF_LINE = "<eos>"
"""The symbol of the end of a line."""

_CHUNK = 2**16
_NEWLINE = ord("\n")


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

    @property
    def has_lines(self) -> bool:
        """Whether the end of a line is a symbol."""
        return self.symbols[-1] == END_OF_LINE

    def to_indices(self, codes: NDArray[Any]) -> NDArray[np.int64]:
        """Return the symbol indices of codes, as a new array."""
        return codes.astype(np.int64) if self.table is None else self.table[codes]

    def counts(self, part: str) -> NDArray[np.int64]:  # (symbols)
        """Count each symbol of a split, in small chunks."""
        counts = np.zeros(len(self.symbols), np.int64)
        for chunk in _chunks(self.parts[part]):
            counts += np.bincount(self.to_indices(chunk), minlength=len(counts))
        return counts


def index_characters(
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
    has_lines, seen[_NEWLINE] = bool(seen[_NEWLINE]), False
    codes = np.flatnonzero(seen)
    symbols = [chr(code) for code in codes.tolist()]
    table = np.zeros(kinds, np.int64)
    table[codes] = np.arange(len(codes))
    if has_lines:
        table[_NEWLINE] = len(codes)
        symbols.append(END_OF_LINE)
    return tuple(symbols), table


def index_words(text: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Index the words of a text, the most frequent first and the end of a line last.

    Returns:
        The symbols, and the text as symbol indices.
    """
    words = text.replace("\n", f" {END_OF_LINE} ").split()
    counted = Counter(words)
    del counted[END_OF_LINE]
    symbols = (*(word for word, _ in counted.most_common()), END_OF_LINE)
    numbers = {word: number for number, word in enumerate(symbols)}
    return symbols, np.fromiter((numbers[word] for word in words), np.int32, len(words))


def _chunks(codes: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (codes[first : first + _CHUNK] for first in range(0, len(codes), _CHUNK))


_CHAR_RNN = "https://raw.githubusercontent.com/karpathy/char-rnn"

TINY_SHAKESPEARE = DataFile(
    "tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    (
        f"{_CHAR_RNN}/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt",
        f"{_CHAR_RNN}/master/data/tinyshakespeare/input.txt",
    ),
)
"""40,000 lines from plays of Shakespeare, in the public domain."""

_CODES = 0x110000  # of Unicode
_GZIP = b"\x1f\x8b"
_PEAK = 20  # bytes of memory per byte of text while it is indexed
_SMALLER = "train on a part of it"


def read_text(
    path: str | Path | None = None,
    data_root: str | Path | None = None,
) -> str:
    """Read a text file in UTF-8, optionally compressed by gzip; by default Tiny Shakespeare.

    Args:
        path: The file.
        data_root: The only folder to search for Tiny Shakespeare.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is empty, too large for the memory, not in UTF-8, or an incomplete
            gzip file.
    """
    path = locate(TINY_SHAKESPEARE, data_root) if path is None else Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"expected a file of text, got {path}, which is not a file")
    with path.open("rb") as stream:
        packed = stream.read(len(_GZIP)) == _GZIP
    if packed:
        content = read_gzip(path, "the text", _PEAK, _SMALLER)
    else:
        check_memory(_PEAK * path.stat().st_size, f"the text in {path}", _SMALLER)
        content = path.read_bytes()
    text = decode(content, path)
    if not text:
        raise ValueError(f"expected a text in {path}, got an empty file")
    return text


def decode(content: bytes, path: Path) -> str:
    """Decode UTF-8, with newlines as line ends.

    Raises:
        ValueError: If the bytes are not UTF-8; the message names the file, the byte and its line.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"expected text in UTF-8 in {path}, got the byte 0x{content[error.start]:02x} at "
            f"offset {error.start}, in line {line} ({error.reason}); convert the file, for "
            "example with iconv -f latin1 -t utf-8, or correct that byte"
        ) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


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
        symbols, numbers = index_words(text)
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        symbols, table = index_characters([codes], _CODES)
        numbers = table.astype(np.int32).take(codes)
    validation, test = (int(fraction * len(numbers)) for fraction in held_out)
    cuts = [len(numbers) - validation - test, len(numbers) - test]
    names = ("train", "validation", "test")
    return Corpus(symbols, dict(zip(names, np.split(numbers, cuts), strict=True)))
