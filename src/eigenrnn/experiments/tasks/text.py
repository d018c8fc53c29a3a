"""A text of the user's own."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from eigenrnn.experiments.data.corpus import Corpus
from eigenrnn.experiments.data.files import absent
from eigenrnn.experiments.data.text import TINY_SHAKESPEARE, read_text, split_text
from eigenrnn.experiments.tasks.next_symbol import NextSymbol
from eigenrnn.experiments.tasks.options import check_choices

__all__ = ["Text"]

Unit = Literal["characters", "words"]


@dataclass(frozen=True)
class Text(NextSymbol):
    r"""Guess each character, or each word, of a file of text from those before it.

    The symbols are all that occur in the file, and the end of a line, here `|`. Of `ab|cab|` with
    one stream and windows of three steps, each row is a batch::

        carry=False    input   a b |    target  b | c
        carry=True     input   c a b    target  a b |

    The end of the text is held out. A guess by the frequencies of the symbols in the rest scores
    their entropy.

    Args:
        path: The file, in UTF-8, packed by gzip or not; Tiny Shakespeare by default, which is
            looked for and downloaded as other data are.
        unit: What a symbol is: one of the `characters`, or of the `words` between white space.
        held_out: The shares, at the end, that are for validation and for test.
        window: The number of steps of a batch, or the base of the random ones.
        cut: Whether windows have a `fixed` length, or a `random` one whose rate is scaled by it
            (AWD-LSTM's), or all `lines` are read each from a state of zero, in a new order in
            every epoch, without their ends.
        validation_streams: The number of streams to validate on; None takes the size of a batch.
        test_streams: The number of streams to test on, likewise.
        eval_symbols: How many of the first symbols of the validation and test texts are read; None
            takes all, as every paper does.
        data_root: The only folder to look for Tiny Shakespeare in; see
        `eigenrnn.experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B)`, the numbers of symbols.
        targets: :math:`(T, B)`, likewise, and -100 past the end of a line.

    Units:
        Loss and baseline in nats, `bits` in bits a symbol.

    Raises:
        ValueError: If an option is out of its range; when it is read, if the file is empty, no
            UTF-8 or no complete gzip file.

    Source:
        Karpathy, 2015, for Tiny Shakespeare. https://github.com/karpathy/char-rnn (departures: of
        the last tenth half is for validation and half for test).

    Example:
        >>> Text("my.txt", unit="words").figure_names
        ('loss', 'bits', 'accuracy', 'perplexity')
    """

    path: str | Path | None = field(default=None, compare=False)
    unit: Unit = "characters"
    held_out: tuple[float, float] = (0.05, 0.05)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choices(self, unit=Unit)
        if not all(0 < share < 1 for share in self.held_out) or sum(self.held_out) >= 1:
            raise ValueError(
                f"expected held_out to be two shares of the text, got {self.held_out}"
            )

    @property
    def figure_names(self) -> tuple[str, ...]:
        perplexity = ("perplexity",) if self.unit == "words" else ()
        return *super().figure_names, *perplexity

    def missing_data(self) -> str | None:
        if self.path is not None:
            return None if Path(self.path).expanduser().is_file() else str(self.path)
        return absent([TINY_SHAKESPEARE], self.data_root)

    def _read(self) -> Corpus:
        return split_text(read_text(self.path, self.data_root), self.unit, self.held_out)
