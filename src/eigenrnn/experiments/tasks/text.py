"""Language modelling of a text file of the user."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from eigenrnn.experiments.data.files import missing_file
from eigenrnn.experiments.data.text import TINY_SHAKESPEARE, Corpus, read_text, split_text
from eigenrnn.experiments.tasks.base import check_choices
from eigenrnn.experiments.tasks.next_symbol import NextSymbol

__all__ = ["Text"]

Unit = Literal["characters", "words"]


@dataclass(frozen=True)
class Text(NextSymbol):
    r"""Predict each character, or each word, of a text file from those before it.

    The symbols are those that occur in the file, and the end of a line. For the text `ab|cab|`,
    one stream and windows of three steps, each row is a batch; `|` is the end of a line::

        carry=False    input   a b |    target  b | c
        carry=True     input   c a b    target  a b |

    The end of the text is held out. The chance-level baseline is the entropy of the symbol
    frequencies in the rest.

    Args:
        path: The file, in UTF-8, optionally compressed by gzip; by default Tiny Shakespeare, which
            is located or downloaded like the other data sets.
        unit: Whether the symbols are `characters`, or `words` separated by white space.
        held_out: The fractions at the end of the text for validation and for the test.
        window: The number of steps of a batch, or the base length of random windows.
        cut: Windows of `fixed` length; of `random` length, which also scales the learning rate (as
            in AWD-LSTM); or separate `lines`. Each line starts from a zero state and excludes the
            end-of-line symbol. The lines are shuffled in every epoch.
        validation_streams: The number of streams in validation; None takes the batch size.
        test_streams: The number of streams in the test; None takes the batch size.
        eval_symbols: The number of symbols of the validation and test texts that are used, from
            the first on; None takes all, as in every paper.
        data_root: The only folder to search for Tiny Shakespeare; see
            `eigenrnn.experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B)`, indices of symbols.
        targets: :math:`(T, B)`, likewise; -100 after the end of a line.

    Units:
        Loss and baseline in nats, `bits` in bits per symbol.

    Raises:
        ValueError: If an option is out of range; when the file is read, if it is
            empty, not in UTF-8 or an incomplete gzip file.

    Source:
        Karpathy, 2015, for Tiny Shakespeare. https://github.com/karpathy/char-rnn (departures: of
        the last tenth, half is for validation and half for the test).

    Example:
        >>> Text("my.txt", unit="words").metric_names
        ('loss', 'bits', 'accuracy', 'perplexity')
    """

    path: str | Path | None = field(default=None, compare=False)
    unit: Unit = "characters"
    held_out: tuple[float, float] = (0.05, 0.05)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choices(self, unit=Unit)
        if not all(0 < fraction < 1 for fraction in self.held_out) or sum(self.held_out) >= 1:
            raise ValueError(
                f"expected held_out to be two fractions of the text, got {self.held_out}"
            )

    @property
    def metric_names(self) -> tuple[str, ...]:
        perplexity = ("perplexity",) if self.unit == "words" else ()
        return *super().metric_names, *perplexity

    def missing_data(self) -> str | None:
        if self.path is not None:
            return None if Path(self.path).expanduser().is_file() else str(self.path)
        return missing_file([TINY_SHAKESPEARE], self.data_root)

    def _read(self) -> Corpus:
        return split_text(read_text(self.path, self.data_root), self.unit, self.held_out)
