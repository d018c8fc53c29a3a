"""The Penn Treebank by characters, with the published protocols."""

from dataclasses import dataclass
from typing import Self

from eigenrnn.experiments.data.corpus import Corpus
from eigenrnn.experiments.data.files import absent
from eigenrnn.experiments.data.ptb import CHARACTER_FILES, PACKED_CHARACTER_FILES, read_characters
from eigenrnn.experiments.tasks.next_symbol import NextSymbol

__all__ = ["CharPTB"]

_LENGTHS = {"train": 5_017_482, "validation": 393_042, "test": 442_423}


@dataclass(frozen=True, kw_only=True)
class CharPTB(NextSymbol):
    r"""Guess each character of the Penn Treebank from those before it.

    The 50 symbols are 49 characters, here `_` is the space, and the end of a line, here `|`; two
    streams and windows of five steps::

        batch 1, carry=False    input   n o _ i t     input   w o u l d
                                target  o _ i t _     target  o u l d _

        batch 2, carry=True     input   _ w a s _     input   _ b e | t
                                target  w a s _ n     target  b e | t h

    A guess by the frequencies of the characters scores their entropy.

    Args:
        window: The number of steps of a batch, or the base of the random ones.
        cut: Whether windows have a `fixed` length, or a `random` one whose rate is scaled by it
            (AWD-LSTM's), or all `lines` are read each from a state of zero, in a new order in
            every epoch, without their ends.
        validation_streams: The number of streams to validate on; None takes the size of a batch.
        test_streams: The number of streams to test on, likewise.
        eval_symbols: How many of the first symbols of the validation and test texts are read; None
            takes all, as every paper does.
        data_root: The only folder to look for the files in; see
        `eigenrnn.experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B)`, the numbers of symbols.
        targets: :math:`(T, B)`, likewise, and -100 past the end of a line.

    Units:
        Loss and baseline in nats, `bits` and `line_bits` (the mean over lines of their means) in
        bits a character.

    Raises:
        ValueError: If an option is out of its range.

    Source:
        Mikolov et al., 2012, http://www.fit.vutbr.cz/~imikolov/rnnlm/char.pdf; the cuts of Kerg et
        al., NeurIPS 2019, Merity, Keskar and Socher, ICLR 2018, and Mhammedi et al., ICML 2017
        (departures: random lengths are stretched until they fill the text, see
        `eigenrnn.experiments.tasks.windows.random`; lines of one character, of which nothing can
        be guessed,
        are left out).

    Example:
        >>> CharPTB.nnrnn(300).vocabulary
        50
    """

    @classmethod
    def nnrnn(cls, window: int = 150) -> Self:
        """Kerg et al., NeurIPS 2019, of which 150 and 300 steps are published."""
        return cls(window=window, validation_streams=10, test_streams=10)

    @classmethod
    def enrnn(cls) -> Self:
        """Helfrich and Ye, AAAI 2020, text only: how the test set is streamed is not stated."""
        return cls(window=50)

    @classmethod
    def orhan(cls) -> Self:
        """Orhan and Pitkow, ICLR 2020, with the lengths that AWD-LSTM has by default."""
        return cls(window=150, cut="random", validation_streams=10, test_streams=1)

    @classmethod
    def nc_gru(cls) -> Self:
        """Mucllari et al., 2022."""
        return cls(window=100, cut="random", validation_streams=10, test_streams=1)

    @classmethod
    def ornn(cls) -> Self:
        """Mhammedi et al., ICML 2017, who validate by `line_bits` and report `bits`."""
        return cls(cut="lines")

    @property
    def vocabulary(self) -> int:
        return 49 if self.cut == "lines" else 50

    def missing_data(self) -> str | None:
        either = zip(CHARACTER_FILES.values(), PACKED_CHARACTER_FILES.values(), strict=True)
        return absent(either, self.data_root)

    def _read(self) -> Corpus:
        return read_characters(self.data_root)

    def _text_length(self, split: str) -> int:
        return _LENGTHS[split]
