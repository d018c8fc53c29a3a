"""Language modelling: the next character, word or byte of a text."""

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn_experiments.data import corpora
from eigenrnn_experiments.data.files import missing_file
from eigenrnn_experiments.tasks.base import (
    Batch,
    Task,
    check_at_least,
    check_choices,
    generator_for,
)
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing, Unit

__all__ = ["CharPTB", "Enwik8", "NextSymbol", "Text", "WordPTB", "random_windows"]

Cut = Literal["fixed", "random"]

# of windows of random length
_SHORTEST_BASE = 20
_HALVED = 0.05  # the fraction of windows with half the length
_SPREAD = 5.0
_SHORTEST = 5

_BYTES = 100_000_000
_FEWEST_BYTES = 1_000


@dataclass(frozen=True, kw_only=True)
class NextSymbol(Task):
    """Predict each symbol of a text from those before it.

    The text is cut into streams of equal length, one per row of a batch; the remainder is not
    used. A batch is one window of all streams. It begins where the previous window ended, and the
    network continues from its final state. A subclass defines how the text is read.

    Args:
        window: The number of steps of a batch, or the base length of random windows.
        cut: Windows of `fixed` length, or of `random` length, which also scales the learning rate
            (as in AWD-LSTM).
        validation_streams: The number of streams in validation; None takes the batch size.
        test_streams: The number of streams in the test; None takes the batch size.
        eval_symbols: The number of symbols at the beginning of the validation and test texts that
            are used; None takes all, as in every paper.
        data_root: The only folder to search for the files; see
            `eigenrnn_experiments.data.locate`.
    """

    readout: ClassVar[Literal["all", "last"]] = "all"
    metric_name: ClassVar[str] = "bits"
    higher_is_better: ClassVar[bool] = False
    carries: ClassVar[bool] = True
    # stated for published texts, so that an epoch and a network are known without their files
    _symbol_count: ClassVar[int | None] = None
    _lengths: ClassVar[dict[str, int]] = {}

    window: int = 150
    cut: Cut = "fixed"
    validation_streams: int | None = None
    test_streams: int | None = None
    eval_symbols: int | None = None
    data_root: str | Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_choices(self, cut=Cut)
        check_at_least(self, 1, "window", "validation_streams", "test_streams", "eval_symbols")
        if self.cut == "random" and self.window < _SHORTEST_BASE:
            raise ValueError(
                f"expected window >= {_SHORTEST_BASE} with random lengths, got {self.window}"
            )

    @abstractmethod
    def _read(self) -> corpora.Corpus: ...

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbol of each index."""
        return self._corpus.symbols

    @property
    def vocabulary(self) -> int:
        return self._symbol_count or len(self._corpus.symbols)

    @property
    def input_size(self) -> int:
        return self.vocabulary

    @property
    def output_size(self) -> int:
        return self.vocabulary

    @property
    def metric_names(self) -> tuple[str, ...]:
        return "loss", "bits", "accuracy"

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        codes = self._corpus.parts["train"]
        steps = min(self.window, len(codes) - 1)
        begins = torch.randint(len(codes) - steps, (size,), generator=generator)
        return self._collate(codes[begins.numpy() + np.arange(steps + 1)[:, None]])

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_split(split)
        return self._window_batches(split, size, seed, start)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets) / math.log(2)

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (3,)
        nats = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        correct = (outputs.argmax(-1) == targets).sum()
        count = torch.tensor(targets.numel(), device=nats.device)
        return torch.stack([nats.sum(), correct, count]).to(nats)

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        nats, correct, count = sums.tolist()
        loss = nats / count
        # `math.exp` raises an OverflowError if the training has diverged
        metrics = {
            "loss": loss,
            "bits": loss / math.log(2),
            "accuracy": correct / count,
            "perplexity": torch.tensor(loss, dtype=torch.float64).exp().item(),
        }
        return {name: metrics[name] for name in self.metric_names}

    def baseline(self) -> float:
        """The entropy of the symbol frequencies in the training text."""
        counts = self._corpus.counts("train")
        frequencies = counts[counts > 0] / counts.sum()
        return float(-(frequencies * np.log(frequencies)).sum())

    def steps_per_epoch(self, size: int) -> int | None:
        length = self._stream_length("train", size) - 1
        if self.cut == "random":
            return _expected_count(length, self.window)
        return math.ceil(length / self.window)

    def _text_length(self, split: str) -> int:
        return self._lengths.get(split) or len(self._corpus.parts[split])

    @cached_property
    def _corpus(self) -> corpora.Corpus:
        return self._read()

    def _stream_length(self, split: str, size: int) -> int:
        """Return the number of symbols of each stream.

        Raises:
            ValueError: If the text is too short for `size` streams.
        """
        total = self._text_length(split)
        if split != "train":
            total = min(total, self.eval_symbols or total)
        if total < 2 * size:
            raise ValueError(
                f"expected at least {2 * size} symbols in the {split} text for {size} streams, "
                f"got {total}; take a smaller batch or a longer text"
            )
        return total // size

    def _window_batches(self, split: str, size: int, seed: int, start: int) -> Iterator[Batch]:
        streams_of = {"validation": self.validation_streams, "test": self.test_streams}
        size = streams_of.get(split) or size
        drawn = split == "train" and self.cut == "random"
        length = self._stream_length(split, size)
        streams = self._corpus.parts[split][: size * length].reshape(size, length)

        def bounds(number: int) -> NDArray[np.int64]:
            """The first step of each window of a pass, followed by the end of the text."""
            if drawn:
                return random_windows(length - 1, self.window, seed, number)
            return np.append(np.arange(0, length - 1, self.window), length - 1)

        # all passes have as many windows, see `random_windows`
        first_pass, skipped = divmod(start, len(bounds(0)) - 1)
        passes: Iterable[int] = itertools.count(first_pass)
        if split != "train":  # read once
            passes = range(first_pass, 1)
        for number in passes:
            places = bounds(number).tolist()
            for k in range(skipped, len(places) - 1):
                begin = places[k]
                end = places[k + 1]
                scale = 1.0
                if drawn:  # as in AWD-LSTM, or the symbols of short windows would count more
                    scale = (end - begin) / self.window
                yield self._collate(streams[:, begin : end + 1].T, carry=k > 0, lr_scale=scale)
            skipped = 0

    def _collate(
        self,
        codes: NDArray[Any],  # (T + 1, B)
        *,
        carry: bool = False,
        lr_scale: float = 1.0,
    ) -> Batch:
        # a batch at a time: a large text stays in its compact codes, or on the disk
        numbers = self._corpus.to_indices(np.ascontiguousarray(codes))
        text = torch.from_numpy(numbers)
        return Batch(text[:-1], text[1:], carry=carry, lr_scale=lr_scale)


@dataclass(frozen=True, kw_only=True)
class CharPTB(NextSymbol):
    r"""Predict each character of the Penn Treebank from those before it.

    The 50 symbols are 49 characters and the end of a line. With two streams and windows of five
    steps, where `_` is a space and `|` the end of a line::

        batch 1, carry=False    input   n o _ i t     input   w o u l d
                                target  o _ i t _     target  o u l d _

        batch 2, carry=True     input   _ w a s _     input   _ b e | t
                                target  w a s _ n     target  b e | t h

    The chance-level baseline is the entropy of the frequencies of the characters. See
    `NextSymbol` for the options.

    Shape:
        inputs: :math:`(T, B)`, indices of symbols.
        targets: :math:`(T, B)`, likewise.

    Units:
        Loss and baseline in nats, `bits` in bits per character.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Mikolov et al., 2012, http://www.fit.vutbr.cz/~imikolov/rnnlm/char.pdf; the windows of Kerg
        et al., NeurIPS 2019, Merity, Keskar and Socher, ICLR 2018, and Mhammedi et al., ICML 2017
        (departures: random lengths are scaled to fill the text, see
        `eigenrnn_experiments.tasks.text.random_windows`).

    Example:
        >>> CharPTB.nnrnn(300).vocabulary
        50
    """

    _symbol_count: ClassVar[int | None] = 50
    _lengths: ClassVar[dict[str, int]] = {
        "train": 5_017_482,
        "validation": 393_042,
        "test": 442_423,
    }

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

    def missing_data(self) -> str | None:
        either = zip(
            corpora.PTB_CHARACTER_FILES.values(),
            corpora.PACKED_PTB_CHARACTER_FILES.values(),
            strict=True,
        )
        return missing_file(either, self.data_root)

    def _read(self) -> corpora.Corpus:
        return corpora.read_ptb_characters(self.data_root)


@dataclass(frozen=True, kw_only=True)
class WordPTB(NextSymbol):
    r"""Predict each word of the Penn Treebank from those before it.

    The 10,000 symbols are 9,999 words, among them `<unk>` for all rarer ones, and the end of a
    line. With two streams and windows of three steps::

        batch 1, carry=False    input   no it was       input   he would not
                                target  it was n't      target  would not say

        batch 2, carry=True     input   n't black |    input   say so |
                                target  black | the    target  so | in

    The chance-level baseline is the entropy of the frequencies of the words. See
    `NextSymbol` for the options.

    Shape:
        inputs: :math:`(T, B)`, indices of words.
        targets: :math:`(T, B)`, likewise.

    Units:
        Loss and baseline in nats, `bits` in bits per word.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Mikolov et al., Interspeech 2011; the windows of Merity, Keskar and Socher, ICLR 2018.
        https://arxiv.org/abs/1708.02182 (departures: random lengths are scaled to fill
        the text, see `eigenrnn_experiments.tasks.text.random_windows`).

    Example:
        >>> WordPTB.orhan().vocabulary
        10000
    """

    _symbol_count: ClassVar[int | None] = 10_000
    _lengths: ClassVar[dict[str, int]] = {"train": 929_589, "validation": 73_760, "test": 82_430}

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
    def metric_names(self) -> tuple[str, ...]:
        return *super().metric_names, "perplexity"

    def missing_data(self) -> str | None:
        return missing_file(corpora.PTB_WORD_FILES.values(), self.data_root)

    def _read(self) -> corpora.Corpus:
        return corpora.read_ptb_words(self.data_root)


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
    frequencies. See `NextSymbol` for the other options.

    Args:
        length: The number of bytes used, from the beginning of the file.

    Shape:
        inputs: :math:`(T, B)`, indices of bytes.
        targets: :math:`(T, B)`, likewise.

    Units:
        Loss and baseline in nats, `bits` in bits per byte.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Mahoney, 2006, https://mattmahoney.net/dc/textdata.html; the windows of Merity, Keskar and
        Socher, 2018. https://arxiv.org/abs/1803.08240 (departures: a split that ends within a
        line gets no end of line; random lengths are scaled to fill the text, see
        `eigenrnn_experiments.tasks.text.random_windows`).

    Example:
        >>> Enwik8.orhan().steps_per_epoch(128)
        3615
    """

    window: int = 200
    length: int = _BYTES

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _FEWEST_BYTES <= self.length <= _BYTES:
            raise ValueError(f"expected {_FEWEST_BYTES} <= length <= {_BYTES}, got {self.length}")

    @classmethod
    def orhan(cls) -> Self:
        """Orhan and Pitkow, ICLR 2020, with the default window lengths of AWD-LSTM."""
        return cls(window=200, cut="random", validation_streams=10, test_streams=1)

    def missing_data(self) -> str | None:
        return missing_file([(corpora.ENWIK8, corpora.ENWIK8_ZIP)], self.data_root)

    def _read(self) -> corpora.Corpus:
        return corpora.open_enwik8(self.data_root, self.length)

    def _text_length(self, split: str) -> int:
        train = self.length * 9 // 10
        held_out = self.length // 20
        rest = self.length - train - held_out
        return {"train": train, "validation": held_out, "test": rest}[split]


@dataclass(frozen=True)
class Text(NextSymbol):
    r"""Predict each character, or each word, of a text file from those before it.

    The symbols are those that occur in the file, and the end of a line. For the text `ab|cab|`,
    one stream and windows of three steps, each row is a batch; `|` is the end of a line::

        carry=False    input   a b |    target  b | c
        carry=True     input   c a b    target  a b |

    The end of the text is held out. The chance-level baseline is the entropy of the symbol
    frequencies in the rest. See `NextSymbol` for the other options.

    Args:
        path: The file, in UTF-8, optionally compressed by gzip; by default Tiny Shakespeare, which
            is located or downloaded like the other data sets.
        unit: Whether the symbols are `characters`, or `words` separated by white space.
        held_out: The fractions at the end of the text for validation and for the test.
        data_root: The only folder to search for Tiny Shakespeare; see
            `eigenrnn_experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B)`, indices of symbols.
        targets: :math:`(T, B)`, likewise.

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
        names = super().metric_names
        if self.unit == "words":
            names += ("perplexity",)
        return names

    @property
    def preprocessing(self) -> TextPreprocessing:
        return TextPreprocessing(self.symbols, self.unit)

    def missing_data(self) -> str | None:
        if self.path is None:
            return missing_file([corpora.TINY_SHAKESPEARE], self.data_root)
        if not Path(self.path).expanduser().is_file():
            return str(self.path)
        return None

    def _read(self) -> corpora.Corpus:
        return corpora.split_text(
            corpora.read_text(self.path, self.data_root), self.unit, self.held_out
        )


def random_windows(length: int, window: int, seed: int, number: int) -> NDArray[np.int64]:
    r"""Cut `length` symbols into windows of random lengths, as in AWD-LSTM.

    A length is the base, or with probability 1/20 half of it, plus :math:`N(0, 5)`, and at least
    5. In AWD-LSTM a pass has as many windows as fit. Here each pass has the expected number of
    windows, and their lengths above 5 are scaled until they fill the text (by about 1 % for
    hundreds of windows). The step number then determines the pass and the window.

    Args:
        length: The number of symbols.
        window: The base length.
        seed: The seed of the run.
        number: The number of the pass.
    """
    count = _expected_count(length, window)
    generator = generator_for(seed, "windows", number)
    halved = torch.rand(count, generator=generator) < _HALVED
    noise = _SPREAD * torch.randn(count, generator=generator, dtype=torch.float64)
    drawn = torch.where(halved, window / 2, float(window)).double() + noise
    shortest = min(_SHORTEST, length // count)
    # lengths above the shortest; never zero, because their sum divides below
    spare = (drawn - shortest).clamp(min=1e-3).cumsum(0).numpy()
    stretched = (length - count * shortest) * spare / spare[-1]
    return np.append(0, np.arange(1, count + 1) * shortest + np.rint(stretched).astype(np.int64))


def _expected_count(length: int, window: int) -> int:
    # AWD-LSTM rounds lengths down, by half a symbol on average
    return max(1, round(length / ((1 - _HALVED / 2) * window - 0.5)))
