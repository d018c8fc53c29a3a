"""The denoising problem, without collisions and as in the code of NC-GRU."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn_experiments.tasks.base import Batch, check_at_least, check_choices
from eigenrnn_experiments.tasks.synthetic import Examples, SymbolTask

__all__ = ["Denoise"]

Marker = Literal["one_hot", "zero"]


@dataclass(frozen=True)
class Denoise(SymbolTask):
    r"""Remember symbols at random places among blanks, and repeat them after a marker.

    One sequence with the 2 symbols 3 and 1 and T = 4; 0 is a blank and M the marker::

        input   0 3 0 0 1 M 0 0
        target  0 0 0 0 0 0 3 1

    .. math:: \text{baseline} = \frac{K \ln A}{T + 2 K}

    The loss is the mean cross-entropy over all steps. The chance-level baseline predicts every
    blank correctly and the symbols with equal probability. The code of NC-GRU draws the places
    independently (`collisions`). Of two symbols at one place the later one overwrites the other,
    but both are in the target: the optimal predictor has a loss of about 0.007 for T = 200 and
    0.002 for T = 400. In that code the marker has no channel either, so its input is zero.

    See `Synthetic` for the options of the training, validation and test sets.

    Args:
        length: The number T; T + K - 1 steps precede the marker.
        symbols: The number K of symbols.
        alphabet: The number A of different symbols.
        collisions: Whether two symbols may be drawn for the same place, where one of them is lost.
        marker: Whether the marker has its own channel (`one_hot`) or none (`zero`).

    Shape:
        inputs: :math:`(T + 2K, B, A + 2)`, or :math:`(T + 2K, B, A + 1)` with the zero marker.
        targets: :math:`(T + 2K, B)`, class indices 0 to A; 0 is the blank.

    Units:
        Losses in nats per step.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Jing et al., Neural Computation 31(4), 2019 (GORU). https://arxiv.org/abs/1706.02761; with
        collisions and the zero marker Mucllari et al., 2022. https://arxiv.org/abs/2208.06496
        (departures: none).

    Example:
        >>> Denoise(length=200).batch(4, torch.Generator().manual_seed(0)).inputs.shape
        torch.Size([220, 4, 11])
    """

    length: int = 200
    symbols: int = 10
    alphabet: int = 9
    collisions: bool = False
    marker: Marker = "one_hot"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choices(self, marker=Marker)
        check_at_least(self, 1, "length", "symbols")
        if not 2 <= self.alphabet <= 255:  # symbols are stored in a byte
            raise ValueError(f"expected 2 <= alphabet <= 255, got {self.alphabet}")

    @classmethod
    def nc_gru(cls, length: int = 200) -> Self:
        """Mucllari et al., 2022, as in their code (each sequence seen once)."""
        return cls(length, collisions=True, marker="zero", test_examples=128)

    @property
    def input_size(self) -> int:
        if self.marker == "zero":
            return self.alphabet + 1
        return self.alphabet + 2

    @property
    def output_size(self) -> int:
        return self.alphabet + 1

    @property
    def marker_index(self) -> int:
        """The step of the marker."""
        return self.length + self.symbols - 1

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return super().metric(outputs[-self.symbols :], targets[-self.symbols :])

    def baseline(self) -> float:
        # all steps but the recalled ones have an answer that is known without memory
        return self.symbols * math.log(self.alphabet) / self._steps

    @property
    def _steps(self) -> int:
        return self.length + 2 * self.symbols

    def _draw(self, count: int, generator: torch.Generator) -> Examples:  # both (count, K)
        shape = (count, self.symbols)
        end = self.alphabet + 1
        symbols = torch.randint(1, end, shape, generator=generator, dtype=torch.uint8)
        if self.collisions:
            places = torch.randint(self.marker_index, shape, generator=generator)
        else:
            # the places of the largest of random keys are all subsets with equal probability
            keys = torch.rand(count, self.marker_index, generator=generator)
            places = keys.topk(self.symbols).indices
        return symbols, places.sort().values

    def _collate(self, examples: Examples) -> Batch:
        symbols, places = examples  # both (B, K)
        repeated = symbols.T.long()
        # the symbol at each place, the last one of several: 0 is none, k the k-th
        ranks = torch.arange(1, self.symbols + 1)[:, None].expand_as(repeated)
        present = repeated.new_zeros(self._steps, len(symbols))
        present.scatter_reduce_(0, places.T, ranks, "amax")
        blank = torch.zeros_like(repeated[:1])
        codes = torch.cat([blank, repeated]).gather(0, present)
        codes[self.marker_index] = self.alphabet + 1
        targets = torch.zeros_like(codes)
        targets[-self.symbols :] = repeated
        # without a channel, the row of the marker is zero
        coding = torch.eye(self.alphabet + 2, self.input_size, dtype=torch.float32)
        return Batch(F.embedding(codes, coding), targets)
