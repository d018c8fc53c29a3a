"""The denoising problem, clean and as NC-GRU's code draws it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.tasks.options import check_at_least, check_choices
from eigenrnn.experiments.tasks.recall import share_recalled, symbol_loss
from eigenrnn.experiments.tasks.sets import Examples, ExampleSets, held_out

__all__ = ["Denoise"]

Marker = Literal["one_hot", "zero"]


@dataclass(frozen=True)
class Denoise(Task):
    r"""Gather the symbols that are scattered among blanks, and say them once a marker is read.

    With 2 symbols (here 3 and 1), T = 4, blanks written 0 and the marker M::

        input   0 3 0 0 1 M 0 0
        target  0 0 0 0 0 0 3 1

    .. math:: \text{baseline} = \frac{K \ln A}{T + 2 K}

    The loss is the mean cross-entropy over all steps, and the baseline that of a guess that knows
    the blanks' places. NC-GRU's code draws each place anew (`collisions`): of two symbols at one
    place the later one is written and the other is lost, while the target has them all. So no
    network gets below `least_loss`, nor indeed so far, as it is not told which ones are lost: the
    best possible guess scores about 0.007 for T = 200 and 0.002 for T = 400. The code also gives
    the marker no channel, so that it reads as zero.

    Args:
        length: The number T; before the marker are T + K - 1 steps.
        symbols: The number K of symbols.
        alphabet: The number A of different symbols.
        collisions: Whether two symbols may be drawn for the same place, where one is lost.
        marker: Whether the marker has a channel of its own, `one_hot`, or none, `zero`.
        test_examples: The size of the fixed test set.
        validation_examples: The size of the fixed validation set; `None` takes that of the test
            set, but 200 at most.
        data_seed: The seed of the fixed sets.

    Shape:
        inputs: :math:`(T + 2K, B, A + 2)`, or :math:`(T + 2K, B, A + 1)` with the zero marker.
        targets: :math:`(T + 2K, B)`, class numbers 0 to A, 0 being the blank.

    Units:
        Losses in nats a step.

    Raises:
        ValueError: If an option is out of its range.

    Source:
        Jing et al., Neural Computation 31(4), 2019 (GORU). https://arxiv.org/abs/1706.02761; with
        collisions and the zero marker Mucllari et al., 2022. https://arxiv.org/abs/2208.06496
        (departures: none).

    Example:
        >>> Denoise(length=200).batch(4, torch.Generator().manual_seed(0)).inputs.shape
        torch.Size([220, 4, 11])
    """

    readout: ClassVar[Literal["all", "last"]] = "all"
    metric_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    length: int = 200
    symbols: int = 10
    alphabet: int = 9
    collisions: bool = False
    marker: Marker = "one_hot"
    test_examples: int = 1_000
    validation_examples: int | None = None
    data_seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self, marker=Marker)
        check_at_least(self, 1, "length", "symbols", "test_examples", "validation_examples")
        check_at_least(self, 0, "data_seed")
        if not 2 <= self.alphabet <= 255:  # symbols are stored in a byte
            raise ValueError(f"expected 2 <= alphabet <= 255, got {self.alphabet}")

    @classmethod
    def nc_gru(cls, length: int = 200) -> Self:
        """Mucllari et al., 2022, as their code draws it (each sequence seen once)."""
        return cls(length, collisions=True, marker="zero", test_examples=128)

    @property
    def input_size(self) -> int:
        return self.alphabet + (2 if self.marker == "one_hot" else 1)

    @property
    def output_size(self) -> int:
        return self.alphabet + 1

    @property
    def splits(self) -> tuple[str, ...]:
        return "train", "validation", "test"

    @property
    def marker_index(self) -> int:
        """The step at which the marker is read."""
        return self.length + self.symbols - 1

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        self.check_request("train", size)
        return self._lay_out(*self._sets.sample(size, generator))

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_request(split, size, start)
        return (self._lay_out(*each) for each in self._sets.batches(split, size, seed, start))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return symbol_loss(outputs, targets)

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return share_recalled(outputs, targets, self.symbols)

    def baseline(self) -> float:
        return self.symbols * math.log(self.alphabet) / self._steps

    def least_loss(self) -> float:
        """Bound the loss of every network from below: that of the symbols that are lost."""
        if not self.collisions:
            return 0.0
        places, K = self.marker_index, self.symbols
        lost = K - places * (1 - (1 - 1 / places) ** K)
        return lost * math.log(self.alphabet) / self._steps

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        return None

    @property
    def _steps(self) -> int:
        return self.length + 2 * self.symbols

    @cached_property
    def _sets(self) -> ExampleSets:
        sizes = {
            "train": None,
            "validation": held_out(self.validation_examples, self.test_examples, 200),
            "test": self.test_examples,
        }
        return ExampleSets(self._draw, sizes, shuffle=False, data_seed=self.data_seed)

    def _draw(self, count: int, generator: torch.Generator) -> Examples:  # both (count, K)
        shape, last = (count, self.symbols), self.alphabet + 1
        symbols = torch.randint(1, last, shape, generator=generator, dtype=torch.uint8)
        if self.collisions:
            places = torch.randint(self.marker_index, shape, generator=generator)
        else:
            keys = torch.rand(count, self.marker_index, generator=generator)
            places = keys.topk(self.symbols).indices
        return symbols, places.sort().values

    def _lay_out(
        self,
        symbols: Tensor,  # (B, K)
        places: Tensor,  # (B, K)
    ) -> Batch:
        said = symbols.T.long()
        # Which symbol is at each place, the last of several: 0 is none, k the k-th.
        ranks = torch.arange(1, self.symbols + 1)[:, None].expand_as(said)
        present = said.new_zeros(self._steps, len(symbols))
        present.scatter_reduce_(0, places.T, ranks, "amax")
        blank = torch.zeros_like(said[:1])
        codes = torch.cat([blank, said]).gather(0, present)
        codes[self.marker_index] = self.alphabet + 1
        targets = torch.zeros_like(codes)
        targets[-self.symbols :] = said
        # Without a channel for it, the row of the marker is zero.
        coding = torch.eye(self.alphabet + 2, self.input_size, dtype=torch.float32)
        return Batch(F.embedding(codes, coding), targets)
