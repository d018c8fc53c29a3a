"""The Penn Treebank by words."""

from dataclasses import dataclass
from typing import Self

from eigenrnn.experiments.data.corpus import Corpus
from eigenrnn.experiments.data.files import absent
from eigenrnn.experiments.data.ptb import WORD_FILES, read_words
from eigenrnn.experiments.tasks.next_symbol import NextSymbol

__all__ = ["WordPTB"]

_LENGTHS = {"train": 929_589, "validation": 73_760, "test": 82_430}


@dataclass(frozen=True, kw_only=True)
class WordPTB(NextSymbol):
    r"""Guess each word of the Penn Treebank from those before it.

    The 10,000 symbols are 9,999 words, `<unk>` for all rarer ones among them, and the end of a
    line; two streams and windows of three steps::

        batch 1, carry=False    input   no it was       input   he would not
                                target  it was n't      target  would not say

        batch 2, carry=True     input   n't black <eos>    input   say so <eos>
                                target  black <eos> the    target  so <eos> in

    A guess by the frequencies of the words scores their entropy.

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
        inputs: :math:`(T, B)`, the numbers of words.
        targets: :math:`(T, B)`, likewise, and -100 past the end of a line.

    Units:
        Loss and baseline in nats, `bits` in bits a word.

    Raises:
        ValueError: If an option is out of its range.

    Source:
        Mikolov et al., Interspeech 2011; the cuts of Merity, Keskar and Socher, ICLR 2018.
        https://arxiv.org/abs/1708.02182 (departures: random lengths are stretched until they fill
        the text, see `eigenrnn.experiments.tasks.windows.random`).

    Example:
        >>> WordPTB.orhan().vocabulary
        10000
    """

    window: int = 70

    @classmethod
    def orhan(cls) -> Self:
        """Orhan and Pitkow, ICLR 2020, with the lengths that AWD-LSTM has by default."""
        return cls(window=70, cut="random", validation_streams=10, test_streams=1)

    @classmethod
    def nc_gru(cls) -> Self:
        """Mucllari et al., 2022, who do not state the lengths: those of AWD-LSTM."""
        return cls.orhan()

    @property
    def vocabulary(self) -> int:
        return 9_999 if self.cut == "lines" else 10_000

    @property
    def figure_names(self) -> tuple[str, ...]:
        return *super().figure_names, "perplexity"

    def missing_data(self) -> str | None:
        return absent(WORD_FILES.values(), self.data_root)

    def _read(self) -> Corpus:
        return read_words(self.data_root)

    def _text_length(self, split: str) -> int:
        return _LENGTHS[split]
