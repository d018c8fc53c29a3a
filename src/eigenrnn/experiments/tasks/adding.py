"""The adding problem, in each of its published variants."""

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
from eigenrnn.experiments.tasks.sets import Examples, ExampleSets, held_out
from eigenrnn.experiments.tasks.streams import uniforms

__all__ = ["Adding"]

Places = Literal["halves", "early_half", "anywhere"]
Order = Literal["value_mask", "mask_value"]

_CLOSE = 0.04


@dataclass(frozen=True)
class Adding(Task):
    r"""Add the two marked numbers of a sequence, after its last step.

    With a length of 6::

        value   0.6  0.1  0.9  0.4  0.3  0.7
        mask     0    1    0    0    1    0      target  0.1 + 0.3 = 0.4

    .. math:: \text{baseline} = \operatorname{E} (u_1 + u_2 - 1)^2 = \tfrac{2}{12}

    The papers differ in where the marks may be, in the order of the channels and in the number of
    examples: a constructor named for a paper chooses its options. The loss is the mean squared
    error, and the baseline that of the constant guess 1. An evaluation reports as `accuracy` the
    share of sums that are off by less than 0.04, which is when Hochreiter and Schmidhuber took a
    sequence for right.

    Args:
        length: The number T of steps.
        places: Where the marks are: one in each of the two `halves`, [0, T/2) and [T/2, T); as the
            `early_half` of scoRNN's code has them, [0, f) and [f, T) with f = (T - 1)/2 rounded
            down; or `anywhere`, each in [0, T - 1), the second a step later if both are the same.
        order: Which of the two channels comes first.
        decimals: The number of decimals that numbers and sums are rounded to, each for itself;
            `None` rounds nothing.
        train_examples: The size of a fixed training set; `None` draws anew at every step.
        test_examples: The size of the fixed test set.
        validation_examples: The size of the fixed validation set; `None` takes that of the test
            set, but 1,000 at most: it is evaluated as often, and no paper has one.
        shuffle: Whether a fixed training set has a new order in every epoch.
        data_seed: The seed of the fixed sets.

    Shape:
        inputs: :math:`(T, B, 2)`.
        targets: :math:`(B, 1)`.

    Raises:
        ValueError: If an option is out of its range.

    Source:
        Hochreiter and Schmidhuber, Neural Computation 9(8), 1997, section 5.4; in this form
        Arjovsky, Shah and Bengio, ICML 2016. https://arxiv.org/abs/1511.06464 (departures: their
        code shuffles its training set at every step by a slip, here it does at every epoch).

    Example:
        >>> Adding(length=6).batch(4, torch.Generator().manual_seed(0)).inputs.shape
        torch.Size([6, 4, 2])
    """

    readout: ClassVar[Literal["all", "last"]] = "last"
    metric_name: ClassVar[str] = "loss"
    higher_is_better: ClassVar[bool] = False

    length: int = 750
    places: Places = "halves"
    order: Order = "value_mask"
    decimals: int | None = None
    train_examples: int | None = None
    test_examples: int = 1_000
    validation_examples: int | None = None
    shuffle: bool = False
    data_seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self, places=Places, order=Order)
        # The first half must have a step, that of scoRNN's code too.
        check_at_least(self, 3 if self.places == "early_half" else 2, "length")
        check_at_least(self, 1, "train_examples", "test_examples", "validation_examples")
        check_at_least(self, 0, "decimals", "data_seed")

    @classmethod
    def urnn(cls, length: int = 750) -> Self:
        """Arjovsky, Shah and Bengio, ICML 2016."""
        return cls(length, train_examples=100_000, test_examples=10_000, shuffle=True)

    @classmethod
    def scornn(cls, length: int) -> Self:
        """Helfrich, Willmott and Ye, ICML 2018, and scuRNN: in the same order in every epoch."""
        return cls(length, "early_half", train_examples=100_000, test_examples=10_000)

    @classmethod
    def enrnn(cls, length: int = 750) -> Self:
        """Helfrich and Ye, AAAI 2020: as scoRNN, but shuffled in every epoch."""
        return cls(
            length, "early_half", train_examples=100_000, test_examples=10_000, shuffle=True
        )

    @classmethod
    def orhan(cls, length: int = 750) -> Self:
        """Orhan and Pitkow, ICLR 2020."""
        return cls(
            length, order="mask_value", train_examples=60_000, test_examples=10_000, shuffle=True
        )

    @classmethod
    def spectral(cls, length: int = 100) -> Self:
        """Zhang, Lei and Dhillon, ICML 2018, read from a text of 5 decimals."""
        return cls(length, decimals=5, train_examples=50_000, shuffle=True)

    @classmethod
    def ornn(cls, length: int) -> Self:
        """Mhammedi et al., ICML 2017 (each sequence seen once)."""
        return cls(length, "anywhere", test_examples=10_000)

    @classmethod
    def nnrnn(cls, length: int = 20) -> Self:
        """Kerg et al., in their code alone (each sequence seen once; odd lengths fail there)."""
        return cls(length)

    @classmethod
    def nc_gru(cls, length: int) -> Self:
        """Mucllari et al., 2022, text only: an order that stays in all epochs is our choice."""
        return cls(length, order="mask_value", train_examples=100_000, test_examples=10_000)

    @property
    def input_size(self) -> int:
        return 2

    @property
    def output_size(self) -> int:
        return 1

    @property
    def splits(self) -> tuple[str, ...]:
        return "train", "validation", "test"

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        self.check_request("train", size)
        return self._lay_out(*self._sets.sample(size, generator))

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_request(split, size, start)
        return (self._lay_out(*each) for each in self._sets.batches(split, size, seed, start))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs, targets)

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets)

    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (3,)
        errors = outputs - targets
        counts = errors.square(), errors.abs() < _CLOSE, torch.ones_like(errors)
        return torch.stack([each.sum() for each in counts])

    def figures(self, tally: Tensor) -> dict[str, float]:
        squares, close, count = tally.tolist()
        return {"loss": squares / count, "accuracy": close / count}

    @property
    def figure_names(self) -> tuple[str, ...]:
        return "loss", "accuracy"

    def baseline(self) -> float:
        return 1 / 6

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        return None if self.train_examples is None else math.ceil(self.train_examples / size)

    @cached_property
    def _sets(self) -> ExampleSets:
        sizes = {
            "train": self.train_examples,
            "validation": held_out(self.validation_examples, self.test_examples, 1_000),
            "test": self.test_examples,
        }
        return ExampleSets(self._draw, sizes, self.shuffle, self.data_seed)

    def _draw(self, count: int, generator: torch.Generator) -> Examples:  # (count,), (count, 2)
        # A hundred thousand sequences of 750 numbers are 300 megabytes; their seeds are one.
        seeds = torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator)

        def below(limit: int) -> Tensor:
            return torch.randint(limit, (count,), generator=generator)

        if self.places == "anywhere":
            first, second = below(self.length - 1), below(self.length - 1)
            second = torch.where(second == first, second + 1, second)
        else:
            middle = (self.length - (self.places == "early_half")) // 2
            first, second = below(middle), middle + below(self.length - middle)
        return seeds, torch.stack([first, second], 1)

    def _lay_out(
        self,
        seeds: Tensor,  # (B,)
        marked: Tensor,  # (B, 2)
    ) -> Batch:
        values = uniforms(seeds, self.length)
        sums = values.gather(0, marked.T).double().sum(0)
        mask = torch.zeros_like(values).scatter_(0, marked.T, 1.0)
        if self.decimals is not None:
            values = values.double().round(decimals=self.decimals).float()
            sums = sums.round(decimals=self.decimals)
        channels = (values, mask) if self.order == "value_mask" else (mask, values)
        return Batch(torch.stack(channels, -1), sums.float().unsqueeze(-1), targets_batch_dim=0)
