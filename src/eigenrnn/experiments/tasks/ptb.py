"""The Penn Treebank, by characters and by words."""

from dataclasses import dataclass
from typing import Self

from eigenrnn.experiments.data.files import missing_file
from eigenrnn.experiments.data.ptb import (
    CHARACTER_FILES,
    PACKED_CHARACTER_FILES,
    WORD_FILES,
    read_characters,
    read_words,
)
from eigenrnn.experiments.data.text import Corpus
from eigenrnn.experiments.tasks.next_symbol import NextSymbol

__all__ = ["CharPTB", "WordPTB"]


_CHARACTERS = {"train": 5_017_482, "validation": 393_042, "test": 442_423}


@dataclass(frozen=True, kw_only=True)
class CharPTB(NextSymbol):
    r"""Predict each character of the Penn Treebank from those before it.

    The 50 symbols are 49 characters and the end of a line. With two streams and windows of five
    steps, where `_` is a space and `|` the end of a line::

        batch 1, carry=False    input   n o _ i t     input   w o u l d
                                target  o _ i t _     target  o u l d _

        batch 2, carry=True     input   _ w a s _     input   _ b e | t
                                target  w a s _ n     target  b e | t h

    The chance-level baseline is the entropy of the frequencies of the characters.

    Args:
        window: The number of steps of a batch, or the base length of random windows.
        cut: Windows of `fixed` length; of `random` length, which also scales the learning rate (as
            in AWD-LSTM); or separate `lines`. Each line starts from a zero state and excludes the
            end-of-line symbol. The lines are shuffled in every epoch.
        validation_streams: The number of streams in validation; None takes the batch size.
        test_streams: The number of streams in the test; None takes the batch size.
        eval_symbols: The number of symbols of the validation and test texts that are used, from
            the first on; None takes all, as in every paper.
        data_root: The only folder to search for the files; see
            `eigenrnn.experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B)`, indices of symbols.
        targets: :math:`(T, B)`, likewise; -100 after the end of a line.

    Units:
        Loss and baseline in nats, `bits` and `line_bits` (the mean over lines of the mean of each
        line) in bits per character.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Mikolov et al., 2012, http://www.fit.vutbr.cz/~imikolov/rnnlm/char.pdf; the cuts of Kerg et
        al., NeurIPS 2019, Merity, Keskar and Socher, ICLR 2018, and Mhammedi et al., ICML 2017
        (departures: random lengths are scaled to fill the text, see
        `eigenrnn.experiments.tasks.next_symbol.random_windows`; lines of one character, which
        have no target, are left out).

    Example:
        >>> CharPTB.nnrnn(300).vocabulary
        50
    """

    @classmethod
    def nnrnn(cls, window: int = 150) -> Self:
        """Kerg et al., NeurIPS 2019, published for 150 and 300 steps."""
        return cls(window=window, validation_streams=10, test_streams=10)

    @classmethod
    def enrnn(cls) -> Self:
        """Helfrich and Ye, AAAI 2020, from the text; it does not state the test streams."""
        return cls(window=50)

    @classmethod
    def orhan(cls) -> Self:
        """Orhan and Pitkow, ICLR 2020, with the default window lengths of AWD-LSTM."""
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
        return missing_file(either, self.data_root)

    def _read(self) -> Corpus:
        return read_characters(self.data_root)

    def _text_length(self, split: str) -> int:
        return _CHARACTERS[split]


_WORDS = {"train": 929_589, "validation": 73_760, "test": 82_430}


@dataclass(frozen=True, kw_only=True)
class WordPTB(NextSymbol):
    r"""Predict each word of the Penn Treebank from those before it.

    The 10,000 symbols are 9,999 words, among them `<unk>` for all rarer ones, and the end of a
    line. With two streams and windows of three steps::

        batch 1, carry=False    input   no it was       input   he would not
                                target  it was n't      target  would not say

        batch 2, carry=True     input   n't black <eos>    input   say so <eos>
                                target  black <eos> the    target  so <eos> in

    The chance-level baseline is the entropy of the frequencies of the words.

    Args:
        window: The number of steps of a batch, or the base length of random windows.
        cut: Windows of `fixed` length; of `random` length, which also scales the learning rate (as
            in AWD-LSTM); or separate `lines`. Each line starts from a zero state and excludes the
            end-of-line symbol. The lines are shuffled in every epoch.
        validation_streams: The number of streams in validation; None takes the batch size.
        test_streams: The number of streams in the test; None takes the batch size.
        eval_symbols: The number of symbols of the validation and test texts that are used, from
            the first on; None takes all, as in every paper.
        data_root: The only folder to search for the files; see
            `eigenrnn.experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B)`, indices of words.
        targets: :math:`(T, B)`, likewise; -100 after the end of a line.

    Units:
        Loss and baseline in nats, `bits` in bits per word.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Mikolov et al., Interspeech 2011; the cuts of Merity, Keskar and Socher, ICLR 2018.
        https://arxiv.org/abs/1708.02182 (departures: random lengths are scaled to fill
        the text, see `eigenrnn.experiments.tasks.next_symbol.random_windows`).

    Example:
        >>> WordPTB.orhan().vocabulary
        10000
    """

    window: int = 70

    @classmethod
    def orhan(cls) -> Self:
        """Orhan and Pitkow, ICLR 2020, with the default window lengths of AWD-LSTM."""
        return cls(window=70, cut="random", validation_streams=10, test_streams=1)

    @classmethod
    def nc_gru(cls) -> Self:
        """Mucllari et al., 2022, who do not state the window lengths; those of AWD-LSTM."""
        return cls.orhan()

    @property
    def vocabulary(self) -> int:
        return 9_999 if self.cut == "lines" else 10_000

    @property
    def metric_names(self) -> tuple[str, ...]:
        return *super().metric_names, "perplexity"

    def missing_data(self) -> str | None:
        return missing_file(WORD_FILES.values(), self.data_root)

    def _read(self) -> Corpus:
        return read_words(self.data_root)

    def _text_length(self, split: str) -> int:
        return _WORDS[split]
