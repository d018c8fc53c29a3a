"""The adding problem, in all published variants."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn_experiments.tasks.base import (
    Batch,
    check_at_least,
    check_choices,
)
from eigenrnn_experiments.tasks.synthetic import Examples, Synthetic

__all__ = ["Adding", "splitmix_uniforms"]

Places = Literal["halves", "early_half", "anywhere"]
Order = Literal["value_mask", "mask_value"]

_CLOSE = 0.04


@dataclass(frozen=True)
class Adding(Synthetic):
    r"""Add the two marked numbers of a sequence, after its last step.

    One sequence of length 6::

        value   0.6  0.1  0.9  0.4  0.3  0.7
        mask     0    1    0    0    1    0      target  0.1 + 0.3 = 0.4

    .. math:: \text{baseline} = \operatorname{E} (u_1 + u_2 - 1)^2 = \tfrac{2}{12}

    The loss is the mean squared error; the chance-level baseline is that of predicting 1. The
    `accuracy` is the fraction of sums with an error below 0.04, the criterion of Hochreiter and
    Schmidhuber. The papers differ in the places of the marks, the order of the channels and the
    number of examples; a constructor named for a paper sets these.

    See `Synthetic` for the options of the training, validation and test sets.

    Args:
        length: The number T of steps.
        places: The ranges of the marks. `halves`: [0, T/2) and [T/2, T). `early_half`, as in
            the code of scoRNN: [0, f) and [f, T) with f = (T - 1)/2 rounded down. `anywhere`:
            both in [0, T - 1), the second moved one step later if they coincide.
        order: The order of the two channels.
        decimals: The number of decimals to which numbers and sums are rounded independently;
            `None` does not round.
        validation_examples: The size of the fixed validation set, which no paper has; `None`
            takes that of the test set, at most 1,000.

    Shape:
        inputs: :math:`(T, B, 2)`.
        targets: :math:`(B, 1)`.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Hochreiter and Schmidhuber, Neural Computation 9(8), 1997, section 5.4; in this form
        Arjovsky, Shah and Bengio, ICML 2016. https://arxiv.org/abs/1511.06464 (departures: their
        code mistakenly shuffles its training set at every step, ours at every epoch).

    Example:
        >>> Adding(length=6).batch(4, torch.Generator().manual_seed(0)).inputs.shape
        torch.Size([6, 4, 2])
    """

    readout: ClassVar[Literal["all", "last"]] = "last"
    metric_name: ClassVar[str] = "loss"
    higher_is_better: ClassVar[bool] = False
    default_validation: ClassVar[int] = 1_000

    length: int = 750
    places: Places = "halves"
    order: Order = "value_mask"
    decimals: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choices(self, places=Places, order=Order)
        # the first half needs at least one step, also in scoRNN's variant
        shortest = 2
        if self.places == "early_half":
            shortest = 3
        check_at_least(self, shortest, "length")
        check_at_least(self, 0, "decimals")

    @classmethod
    def scornn(cls, length: int) -> Self:
        """Helfrich, Willmott and Ye, ICML 2018, and scuRNN; the same order in every epoch."""
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
    def nc_gru(cls, length: int) -> Self:
        """Mucllari et al., 2022, from the text; our choice: the same order in all epochs."""
        return cls(length, order="mask_value", train_examples=100_000, test_examples=10_000)

    @property
    def input_size(self) -> int:
        return 2

    @property
    def output_size(self) -> int:
        return 1

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs, targets)

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets)

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (3,)
        errors = outputs - targets
        counts = errors.square(), errors.abs() < _CLOSE, torch.ones_like(errors)
        return torch.stack([each.sum() for each in counts])

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        squares, close, count = sums.tolist()
        return {"loss": squares / count, "accuracy": close / count}

    @property
    def metric_names(self) -> tuple[str, ...]:
        return "loss", "accuracy"

    def baseline(self) -> float:
        return 1 / 6

    def _draw(self, count: int, generator: torch.Generator) -> Examples:  # (count,), (count, 2)
        # 100,000 sequences of 750 numbers take 300 megabytes; their seeds take one
        seeds = torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator)

        def below(limit: int) -> Tensor:
            return torch.randint(limit, (count,), generator=generator)

        if self.places == "anywhere":
            first = below(self.length - 1)
            second = below(self.length - 1)
            second = torch.where(second == first, second + 1, second)
        else:
            middle = (self.length - (self.places == "early_half")) // 2
            first = below(middle)
            second = middle + below(self.length - middle)
        return seeds, torch.stack([first, second], 1)

    def _collate(self, examples: Examples) -> Batch:
        seeds, marked = examples  # (B,), (B, 2)
        values = splitmix_uniforms(seeds, self.length)
        sums = values.gather(0, marked.T).double().sum(0)
        mask = torch.zeros_like(values).scatter_(0, marked.T, 1.0)
        if self.decimals is not None:
            values = values.double().round(decimals=self.decimals).float()
            sums = sums.round(decimals=self.decimals)
        if self.order == "value_mask":
            inputs = torch.stack([values, mask], -1)
        else:
            inputs = torch.stack([mask, values], -1)
        return Batch(inputs, sums.float().unsqueeze(-1), targets_batch_dim=0)


def splitmix_uniforms(
    seeds: Tensor,  # (B,)
    count: int,
) -> Tensor:  # (count, B)
    """Draw numbers uniform in [0, 1) from one SplitMix64 stream per seed.

    The k-th number of a stream is a function of the seed and k, so a set of long noise sequences
    can be stored as one seed per sequence. The numbers are multiples of 2^-24, like torch's in
    single precision.

    Args:
        seeds: Any 64-bit integers.
        count: The length of each stream.

    Source:
        Steele, Lea and Flood, OOPSLA 2014. https://doi.org/10.1145/2660193.2660195
    """
    steps = np.arange(1, count + 1, dtype=np.uint64)[:, None]
    mixed = seeds.numpy().view(np.uint64) + steps * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    # the upper 24 bits, as many as single precision holds
    mixed = (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(40)
    return torch.from_numpy(mixed.astype(np.float32) * np.float32(2**-24))
