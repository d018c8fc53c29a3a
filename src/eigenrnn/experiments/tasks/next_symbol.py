"""What all tasks share that ask for the next symbol of a text."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn.experiments.data.corpus import Corpus
from eigenrnn.experiments.tasks import windows
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.tasks.epochs import epochs, one_pass
from eigenrnn.experiments.tasks.options import check_at_least, check_choices

__all__ = ["Cut", "NextSymbol"]

Cut = Literal["fixed", "random", "lines"]

_NO_TARGET = -100
_SHORTEST_RANDOM = 20


@dataclass(frozen=True, kw_only=True)
class NextSymbol(Task):
    """A text in which each symbol is to be guessed from those before it.

    The text is cut into as many streams as a batch has rows, all of the same length, and what is
    left over is not read. A batch is one window of all streams: it begins where the last one
    ended, and the network goes on from its state. A task says how its text is read.

    Args:
        window: The number of steps of a batch, or the base of the random ones.
        cut: Whether windows have a `fixed` length, or a `random` one, or all `lines` are read each
            from a state of zero, in a new order in every epoch, without their ends.
        validation_streams: The number of streams to validate on; None takes the size of a batch.
        test_streams: The number of streams to test on, likewise.
        eval_symbols: How many of the first symbols of the validation and test texts are read; None
            takes all, as every paper does.
        data_root: The only folder to look for the files in; see
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
        """What each number stands for."""
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
    def figure_names(self) -> tuple[str, ...]:
        of_lines = ("line_bits",) if self.cut == "lines" else ()
        return "loss", "bits", "accuracy", *of_lines

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
            return self._batches_of_lines(split, size, seed, start)
        return self._batches_of_windows(split, size, seed, start)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets) / math.log(2)

    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (5,)
        there = targets != _NO_TARGET
        nats = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        nats = nats.view_as(targets)
        right = (outputs.argmax(-1) == targets).sum()
        means = nats.sum(0) / there.sum(0)
        lines = torch.tensor(targets.shape[1], device=nats.device)
        return torch.stack([nats.sum(), right, there.sum(), means.sum(), lines]).to(nats)

    def figures(self, tally: Tensor) -> dict[str, float]:
        nats, right, count, means, lines = tally.tolist()
        loss = nats / count
        # `math.exp` would raise where a network has diverged
        found = {
            "loss": loss,
            "bits": loss / math.log(2),
            "accuracy": right / count,
            "line_bits": means / lines / math.log(2),
            "perplexity": torch.tensor(loss, dtype=torch.float64).exp().item(),
        }
        return {name: found[name] for name in self.figure_names}

    def baseline(self) -> float:
        """The loss of a guess by the frequencies of the symbols in the training text."""
        counts = self._counts[: self.vocabulary]
        frequencies = counts[counts > 0] / counts.sum()
        return float(-(frequencies * np.log(frequencies)).sum())

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        if self.cut == "lines":
            return math.ceil(len(self._lines["train"][0]) / size)
        length = self._stream_length("train", size)
        return windows.count_steps(length - 1, self.window, drawn=self.cut == "random")

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
        return {part: windows.lines_of(text, end) for part, text in corpus.parts.items()}

    def _stream_length(self, split: str, size: int) -> int:
        """Count the symbols of each stream.

        Raises:
            ValueError: If there is nothing to guess.
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

    def _batches_of_windows(self, split: str, size: int, seed: int, start: int) -> Iterator[Batch]:
        asked = {"validation": self.validation_streams, "test": self.test_streams}
        size = asked.get(split) or size
        drawn = split == "train" and self.cut == "random"
        length = self._stream_length(split, size)
        streams = self._corpus.parts[split][: size * length].reshape(size, length)

        def cuts(number: int) -> NDArray[np.int64]:
            if drawn:
                return windows.random(length - 1, self.window, seed, number)
            return windows.fixed(length - 1, self.window)

        for begin, end, is_first in windows.passes(cuts, start, endless=split == "train"):
            scale = (end - begin) / self.window if drawn else 1.0
            yield self._lay_out(streams[:, begin : end + 1].T, carry=not is_first, lr_scale=scale)

    def _batches_of_lines(self, split: str, size: int, seed: int, start: int) -> Iterator[Batch]:
        begins = self._lines[split][0]
        count = len(begins)
        if split != "train" and self.eval_symbols is not None:
            count = max(1, int(np.searchsorted(begins, self.eval_symbols)))
        chosen = (
            epochs(count, size, seed=seed, start=start, shuffle=True)
            if split == "train"
            else (torch.arange(count)[rows] for rows in one_pass(count, size, start))
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
        numbers = self._corpus.numbers(np.ascontiguousarray(codes))
        text = torch.from_numpy(numbers)
        return Batch(text[:-1], text[1:], carry=carry, lr_scale=lr_scale)

    def _lay_out_lines(self, split: str, rows: Tensor) -> Batch:
        text = self._corpus.parts[split]
        begins, lengths = (each[rows.numpy()] for each in self._lines[split])
        steps = np.arange(lengths.max())[:, None]  # (T + 1, 1)
        places = np.minimum(begins + steps, len(text) - 1)
        numbers = torch.from_numpy(self._corpus.numbers(text[places]))
        given = torch.from_numpy(lengths) - 1
        there = torch.from_numpy(steps[:-1]) < given
        inputs = numbers[:-1].masked_fill(~there, 0)
        return Batch(inputs, numbers[1:].masked_fill(~there, _NO_TARGET), given)
