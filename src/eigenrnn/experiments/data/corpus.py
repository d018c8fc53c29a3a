"""A text as numbers, one for each symbol."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["END_OF_LINE", "Corpus", "number_codes", "number_words"]

END_OF_LINE = "<eos>"
"""How the end of a line is written among the symbols."""

_CHUNK = 2**16
_NEWLINE = ord("\n")


@dataclass(frozen=True)
class Corpus:
    """A text in parts, each a stream of symbols.

    Args:
        symbols: What each number stands for; the end of a line, if there are lines, is the last.
        parts: The codes of the symbols of each part, by its name.
        table: The number of the symbol of each code; None where codes are numbers.

    Shape:
        parts: :math:`(L)`, integers; a memory map where a text is large.
        table: :math:`(C)`.
    """

    symbols: tuple[str, ...]
    parts: Mapping[str, NDArray[Any]]
    table: NDArray[np.int64] | None = None

    @property
    def has_lines(self) -> bool:
        """Whether a symbol stands for the end of a line."""
        return self.symbols[-1] == END_OF_LINE

    def numbers(self, codes: NDArray[Any]) -> NDArray[np.int64]:
        """Write codes as the numbers of their symbols, in new memory."""
        return codes.astype(np.int64) if self.table is None else self.table[codes]

    def counts(self, part: str) -> NDArray[np.int64]:  # (symbols)
        """Count each symbol of a part, reading little of it at a time."""
        counts = np.zeros(len(self.symbols), np.int64)
        for chunk in _chunks(self.parts[part]):
            counts += np.bincount(self.numbers(chunk), minlength=len(counts))
        return counts


def number_codes(
    parts: Iterable[NDArray[Any]], kinds: int
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Number the characters that occur, in the order of their codes, newlines last.

    Args:
        parts: The codes of all characters.
        kinds: The number of codes that there are.

    Returns:
        The symbols, and the number of each code.
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


def number_words(text: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Number the words of a text, the most frequent first, and the ends of its lines, last.

    Returns:
        The symbols, and the text in numbers.
    """
    words = text.replace("\n", f" {END_OF_LINE} ").split()
    counted = Counter(words)
    del counted[END_OF_LINE]
    symbols = (*(word for word, _ in counted.most_common()), END_OF_LINE)
    numbers = {word: number for number, word in enumerate(symbols)}
    return symbols, np.fromiter((numbers[word] for word in words), np.int32, len(words))


def _chunks(codes: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (codes[first : first + _CHUNK] for first in range(0, len(codes), _CHUNK))
