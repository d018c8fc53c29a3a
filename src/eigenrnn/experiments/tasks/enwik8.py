"""A hundred million bytes of Wikipedia."""

from dataclasses import dataclass
from typing import Self

from eigenrnn.experiments.data.corpus import Corpus
from eigenrnn.experiments.data.enwik8 import FILE, ZIP, open_enwik8
from eigenrnn.experiments.data.files import absent
from eigenrnn.experiments.tasks.next_symbol import NextSymbol

__all__ = ["Enwik8"]

_WHOLE = 100_000_000
_FEWEST = 1_000


@dataclass(frozen=True, kw_only=True)
class Enwik8(NextSymbol):
    r"""Guess each byte of a Wikipedia dump from those before it.

    The first 90 % of the bytes are trained on, then come 5 % to validate and 5 % to test. The
    symbols are the bytes that occur, in the order of their codes, and the end of a line, here
    `|`, as the last; two streams and windows of six steps::

        batch 1, carry=False    input   [ [ A n a r     input   = = H i s t
                                target  [ A n a r c     target  = H i s t o

        batch 2, carry=True     input   c h i s m ]     input   o r y = = |
                                target  h i s m ] ]     target  r y = = | T

    The text stays on the disk and is mapped into memory. A guess by the frequencies of the bytes
    scores their entropy.

    Args:
        window: The number of steps of a batch, or the base of the random ones.
        cut: Whether windows have a `fixed` length or a `random` one whose rate is scaled by it
            (AWD-LSTM's).
        validation_streams: The number of streams to validate on; None takes the size of a batch.
        test_streams: The number of streams to test on, likewise.
        eval_symbols: How many of the first symbols of the validation and test texts are read; None
            takes all, as every paper does.
        data_root: The only folder to look for the file in; see `eigenrnn.experiments.data.locate`.
        length: The number of bytes, from the first on, that are used.

    Shape:
        inputs: :math:`(T, B)`, the numbers of bytes.
        targets: :math:`(T, B)`, likewise.

    Units:
        Loss and baseline in nats, `bits` in bits a byte.

    Raises:
        ValueError: If an option is out of its range.

    Source:
        Mahoney, 2006, https://mattmahoney.net/dc/textdata.html; the cuts of Merity, Keskar and
        Socher, ICLR 2018. https://arxiv.org/abs/1803.08240 (departures: a part that ends within a
        line gets no end of line; random lengths are stretched until they fill the text, see
        `eigenrnn.experiments.tasks.windows.random`).

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
        """Orhan and Pitkow, ICLR 2020, with the lengths that AWD-LSTM has by default."""
        return cls(window=200, cut="random", validation_streams=10, test_streams=1)

    def missing_data(self) -> str | None:
        return absent([(FILE, ZIP)], self.data_root)

    def _read(self) -> Corpus:
        return open_enwik8(self.data_root, self.length)

    def _text_length(self, split: str) -> int:
        train, held_out = self.length * 9 // 10, self.length // 20
        rest = self.length - train - held_out
        return {"train": train, "validation": held_out, "test": rest}[split]
