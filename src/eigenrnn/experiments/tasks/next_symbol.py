"""The base class of language modelling tasks, and the windows that a text is cut into."""

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn.experiments.data.text import Corpus
from eigenrnn.experiments.tasks.base import Batch, Task, check_at_least, check_choices
from eigenrnn.experiments.tasks.sampling import epoch_indices, generator_for, sequential_slices

__all__ = [
    "Cut",
    "NextSymbol",
    "Window",
    "WindowBounds",
    "find_lines",
    "fixed_windows",
    "iterate_windows",
    "random_windows",
]


_HALVED = 0.05  # the fraction of windows with half the length
_SPREAD = 5.0
_SHORTEST = 5

WindowBounds = Callable[[int], NDArray[np.int64]]
"""Maps the number of a pass to the first step of each window, followed by the end of the text."""


class Window(NamedTuple):
    """The symbols from `begin` up to `end`, and whether they are the first of a pass."""

    begin: int
    end: int
    is_first: bool


def fixed_windows(length: int, window: int) -> NDArray[np.int64]:  # (windows + 1)
    """Cut `length` symbols into windows of the same length; the last may be shorter."""
    return np.append(np.arange(0, length, window), length)


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
    spare = (drawn - shortest).clamp(min=1e-3).cumsum(0).numpy()
    stretched = (length - count * shortest) * spare / spare[-1]
    return np.append(0, np.arange(1, count + 1) * shortest + np.rint(stretched).astype(np.int64))


def _expected_count(length: int, window: int) -> int:
    # AWD-LSTM rounds lengths down, by half a symbol on average
    return max(1, round(length / ((1 - _HALVED / 2) * window - 0.5)))


def iterate_windows(bounds: WindowBounds, start: int, *, endless: bool) -> Iterator[Window]:
    """Yield the windows of one pass, or of all passes.

    Args:
        bounds: The bounds of each pass; all passes have the same number of windows.
        start: The number of windows to skip.
        endless: Whether passes are repeated without end.
    """
    first_pass, skipped = divmod(start, len(bounds(0)) - 1)
    for number in itertools.count(first_pass) if endless else range(first_pass, 1):
        places = bounds(number).tolist()
        for k in range(skipped, len(places) - 1):
            yield Window(places[k], places[k + 1], k == 0)
        skipped = 0


def find_lines(
    numbers: NDArray[Any], end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # (lines), (lines)
    """Find the lines of a text with at least two symbols, the least that has a target.

    Args:
        numbers: The text, as symbol indices.
        end: The symbol index that ends a line; it is not part of the line.

    Returns:
        The first step of each line, and its length.
    """
    ends = np.append(np.flatnonzero(numbers == end), len(numbers))
    begins = np.append(0, ends[:-1] + 1)
    some = ends - begins > 1
    return begins[some], (ends - begins)[some]


def count_windows(length: int, window: int, *, drawn: bool) -> int:
    """Return the number of windows of a pass."""
    return _expected_count(length, window) if drawn else math.ceil(length / window)


Cut = Literal["fixed", "random", "lines"]

_NO_TARGET = -100
_SHORTEST_RANDOM = 20


@dataclass(frozen=True, kw_only=True)
class NextSymbol(Task):
    """Predict each symbol of a text from those before it.

    The text is cut into streams of equal length, one per row of a batch; the remainder is not
    used. A batch is one window of all streams. It begins where the previous window ended, and the
    network continues from its final state. A subclass defines how the text is read.

    Args:
        window: The number of steps of a batch, or the base length of random windows.
        cut: Windows of `fixed` or of `random` length, or separate `lines`. Each line starts from
            a zero state and excludes the end-of-line symbol. The lines are shuffled in every
            epoch.
        validation_streams: The number of streams in validation; None takes the batch size.
        test_streams: The number of streams in the test; None takes the batch size.
        eval_symbols: The number of symbols of the validation and test texts that are used, from
            the first on; None takes all, as in every paper.
        data_root: The only folder to search for the files; see
            `eigenrnn.experiments.data.locate`.
    """

    readout: ClassVar[Literal["all", "last"]] = "all"
    metric_name: ClassVar[str] = "bits"
    higher_is_better: ClassVar[bool] = False
    carries: ClassVar[bool] = True

    window: int = 150
    cut: Cut = "fixed"
    validation_streams: int | None = None
    test_streams: int | None = None
    eval_symbols: int | None = None
    data_root: str | Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_choices(self, cut=Cut)
        check_at_least(self, 1, "window", "validation_streams", "test_streams", "eval_symbols")
        if self.cut == "random" and self.window < _SHORTEST_RANDOM:
            raise ValueError(
                f"expected window >= {_SHORTEST_RANDOM} with random lengths, got {self.window}"
            )

    @abstractmethod
    def _read(self) -> Corpus: ...

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbol of each index."""
        return self._corpus.symbols[: self.vocabulary]

    @property
    def vocabulary(self) -> int:
        return len(self._corpus.symbols) - (self.cut == "lines")

    @property
    def input_size(self) -> int:
        return self.vocabulary

    @property
    def output_size(self) -> int:
        return self.vocabulary

    @property
    def splits(self) -> tuple[str, ...]:
        return "train", "validation", "test"

    @property
    def metric_names(self) -> tuple[str, ...]:
        line_metrics = ("line_bits",) if self.cut == "lines" else ()
        return "loss", "bits", "accuracy", *line_metrics

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        self.check_request("train", size)
        if self.cut == "lines":
            rows = torch.randint(len(self._lines["train"][0]), (size,), generator=generator)
            return self._lay_out_lines("train", rows)
        codes = self._corpus.parts["train"]
        steps = min(self.window, len(codes) - 1)
        begins = torch.randint(len(codes) - steps, (size,), generator=generator)
        return self._lay_out(codes[begins.numpy() + np.arange(steps + 1)[:, None]])

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_request(split, size, start)
        if self.cut == "lines":
            return self._line_batches(split, size, seed, start)
        return self._window_batches(split, size, seed, start)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets) / math.log(2)

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (5,)
        is_target = targets != _NO_TARGET
        nats = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        nats = nats.view_as(targets)
        correct = (outputs.argmax(-1) == targets).sum()
        means = nats.sum(0) / is_target.sum(0)
        lines = torch.tensor(targets.shape[1], device=nats.device)
        return torch.stack([nats.sum(), correct, is_target.sum(), means.sum(), lines]).to(nats)

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        nats, correct, count, means, lines = sums.tolist()
        loss = nats / count
        # `math.exp` raises an OverflowError if the training has diverged
        metrics = {
            "loss": loss,
            "bits": loss / math.log(2),
            "accuracy": correct / count,
            "line_bits": means / lines / math.log(2),
            "perplexity": torch.tensor(loss, dtype=torch.float64).exp().item(),
        }
        return {name: metrics[name] for name in self.metric_names}

    def baseline(self) -> float:
        """The entropy of the symbol frequencies in the training text."""
        counts = self._counts[: self.vocabulary]
        frequencies = counts[counts > 0] / counts.sum()
        return float(-(frequencies * np.log(frequencies)).sum())

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        if self.cut == "lines":
            return math.ceil(len(self._lines["train"][0]) / size)
        length = self._stream_length("train", size)
        return count_windows(length - 1, self.window, drawn=self.cut == "random")

    def _text_length(self, split: str) -> int:
        return len(self._corpus.parts[split])

    @cached_property
    def _corpus(self) -> Corpus:
        return self._read()

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return self._corpus.counts("train")

    @cached_property
    def _lines(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        corpus = self._corpus
        if not corpus.has_lines:
            raise ValueError(
                f"expected a text with line ends for cut='lines', got one without: {self}"
            )
        end = len(corpus.symbols) - 1
        return {part: find_lines(text, end) for part, text in corpus.parts.items()}

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
            if drawn:
                return random_windows(length - 1, self.window, seed, number)
            return fixed_windows(length - 1, self.window)

        for begin, end, is_first in iterate_windows(bounds, start, endless=split == "train"):
            scale = (end - begin) / self.window if drawn else 1.0
            yield self._lay_out(streams[:, begin : end + 1].T, carry=not is_first, lr_scale=scale)

    def _line_batches(self, split: str, size: int, seed: int, start: int) -> Iterator[Batch]:
        begins = self._lines[split][0]
        count = len(begins)
        if split != "train" and self.eval_symbols is not None:
            count = max(1, int(np.searchsorted(begins, self.eval_symbols)))
        chosen = (
            epoch_indices(count, size, seed=seed, start=start, shuffle=True)
            if split == "train"
            else (torch.arange(count)[rows] for rows in sequential_slices(count, size, start))
        )
        for rows in chosen:
            yield self._lay_out_lines(split, rows)

    def _lay_out(
        self,
        codes: NDArray[Any],  # (T + 1, B)
        *,
        carry: bool = False,
        lr_scale: float = 1.0,
    ) -> Batch:
        numbers = self._corpus.to_indices(np.ascontiguousarray(codes))
        text = torch.from_numpy(numbers)
        return Batch(text[:-1], text[1:], carry=carry, lr_scale=lr_scale)

    def _lay_out_lines(self, split: str, rows: Tensor) -> Batch:
        text = self._corpus.parts[split]
        begins, lengths = (each[rows.numpy()] for each in self._lines[split])
        steps = np.arange(lengths.max())[:, None]  # (T + 1, 1)
        places = np.minimum(begins + steps, len(text) - 1)
        numbers = torch.from_numpy(self._corpus.to_indices(text[places]))
        input_lengths = torch.from_numpy(lengths) - 1
        is_valid = torch.from_numpy(steps[:-1]) < input_lengths
        inputs = numbers[:-1].masked_fill(~is_valid, 0)
        return Batch(inputs, numbers[1:].masked_fill(~is_valid, _NO_TARGET), input_lengths)
