"""A hundred million bytes of Wikipedia."""

from dataclasses import dataclass
from typing import Self

from eigenrnn.experiments.data.enwik8 import FILE, ZIP, open_enwik8
from eigenrnn.experiments.data.files import missing_file
from eigenrnn.experiments.data.text import Corpus
from eigenrnn.experiments.tasks.next_symbol import NextSymbol

__all__ = ["Enwik8"]

_WHOLE = 100_000_000
_FEWEST = 1_000


@dataclass(frozen=True, kw_only=True)
class Enwik8(NextSymbol):
    r"""Predict each byte of a Wikipedia dump from those before it.

    The first 90 % of the bytes are for training, the next 5 % for validation and the last 5 %
    for the test. The symbols are the bytes that occur, in the order of their codes, and last the
    end of a line. With two streams and windows of six steps, where `|` is the end of a line::

        batch 1, carry=False    input   [ [ A n a r     input   = = H i s t
                                target  [ A n a r c     target  = H i s t o

        batch 2, carry=True     input   c h i s m ]     input   o r y = = |
                                target  h i s m ] ]     target  r y = = | T

    The text is memory-mapped from the disk. The chance-level baseline is the entropy of the byte
    frequencies.

    Args:
        window: The number of steps of a batch, or the base length of random windows.
        cut: Windows of `fixed` length, or of `random` length, which also scales the learning rate
            (as in AWD-LSTM).
        validation_streams: The number of streams in validation; None takes the batch size.
        test_streams: The number of streams in the test; None takes the batch size.
        eval_symbols: The number of symbols of the validation and test texts that are used, from
            the first on; None takes all, as in every paper.
        data_root: The only folder to search for the file; see `eigenrnn.experiments.data.locate`.
        length: The number of bytes that are used, from the first on.

    Shape:
        inputs: :math:`(T, B)`, indices of bytes.
        targets: :math:`(T, B)`, likewise.

    Units:
        Loss and baseline in nats, `bits` in bits per byte.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Mahoney, 2006, https://mattmahoney.net/dc/textdata.html; the cuts of Merity, Keskar and
        Socher, ICLR 2018. https://arxiv.org/abs/1803.08240 (departures: a split that ends within a
        line gets no end of line; random lengths are scaled to fill the text, see
        `eigenrnn.experiments.tasks.next_symbol.random_windows`).

    Example:
        >>> Enwik8.orhan().steps_per_epoch(128)
        3615
    """

    window: int = 200
    length: int = _WHOLE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cut == "lines":
            raise ValueError("expected cut to be 'fixed' or 'random', got 'lines'")
        if not _FEWEST <= self.length <= _WHOLE:
            raise ValueError(f"expected {_FEWEST} <= length <= {_WHOLE}, got {self.length}")

    @classmethod
    def orhan(cls) -> Self:
        """Orhan and Pitkow, ICLR 2020, with the default window lengths of AWD-LSTM."""
        return cls(window=200, cut="random", validation_streams=10, test_streams=1)

    def missing_data(self) -> str | None:
        return missing_file([(FILE, ZIP)], self.data_root)

    def _read(self) -> Corpus:
        return open_enwik8(self.data_root, self.length)

    def _text_length(self, split: str) -> int:
        train, held_out = self.length * 9 // 10, self.length // 20
        rest = self.length - train - held_out
        return {"train": train, "validation": held_out, "test": rest}[split]
