"""Maps the user's texts to the inputs of a network, and its outputs to texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eigenrnn_experiments.data.corpora import END_OF_LINE, read_text, split_words

__all__ = ["TextPreprocessing", "Unit"]

Unit = Literal["characters", "words"]


@dataclass(frozen=True)
class TextPreprocessing:
    r"""The symbols of a text.

    Args:
        symbols: The symbol of each index; the end of a line is a newline.
        unit: Whether the symbols are `characters`, or `words` separated by white space.

    Example:
        >>> TextPreprocessing(("a", "b", "\n"), "characters").encode("ab").tolist()
        [0, 1]
    """

    symbols: tuple[str, ...]
    unit: Unit

    @property
    def vocabulary(self) -> int:
        """The number of symbols."""
        return len(self.symbols)

    def read(self, path: str | Path) -> str:
        """Read a text in UTF-8, whose symbols are those of the training text.

        Args:
            path: The file, or `-` for standard input.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is empty, not in UTF-8, or has an unknown symbol.
        """
        text = read_text(path)
        source = str(path)
        if source == "-":
            source = "standard input"
        self._check_known(self._split(text), source)
        return text

    def encode(self, text: str) -> NDArray[np.int64]:
        """Return the index of each symbol of a text.

        Raises:
            ValueError: If a symbol is unknown; names its line.
        """
        found = self._split(text)
        self._check_known(found, "the text")
        index = {symbol: number for number, symbol in enumerate(self.symbols)}
        return np.array([index[symbol] for symbol in found], np.int64)

    def decode(self, numbers: NDArray[np.int64]) -> str:
        """Return the text of some symbol indices."""
        symbols = [self.symbols[number] for number in numbers.tolist()]
        if self.unit == "characters":
            return "".join(symbols)
        lines = " ".join(symbols).split(END_OF_LINE)
        return "\n".join(line.strip(" ") for line in lines)

    def _split(self, text: str) -> list[str]:
        if self.unit == "words":
            return split_words(text)
        return list(text)

    def _check_known(self, found: list[str], source: str) -> None:
        """Check that all symbols are known.

        Raises:
            ValueError: If one is not; names its line.
        """
        unknown = set(found) - set(self.symbols)
        if not unknown:
            return
        place = next(place for place, symbol in enumerate(found) if symbol in unknown)
        shown = repr(found[place])
        if found[place] == END_OF_LINE:
            shown = "a line end"
        raise ValueError(
            f"expected the {len(self.symbols)} {self.unit} of the training text in {source}, got "
            f"{shown} in line {1 + found[:place].count(END_OF_LINE)}; replace it, or train on a "
            "text that contains it"
        )
