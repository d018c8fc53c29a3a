"""Counting unmatched brackets, as in the code and as in the text of NC-GRU."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn_experiments.tasks.base import Batch, check_at_least, check_choices
from eigenrnn_experiments.tasks.synthetic import Examples, Synthetic

__all__ = ["Parenthesis"]

LossName = Literal["squared_error", "cross_entropy"]


@dataclass(frozen=True)
class Parenthesis(Synthetic):
    r"""Count the open brackets of each type after each token.

    One sequence with 2 types of brackets, the noise token a and a cap of 2::

        input        (  (  (  a  ]  [  )  )
        target  ( )  1  2  2  2  2  2  1  0    the third exceeds the cap
                [ ]  0  0  0  0  0  1  1  1    the first ] matches nothing

    .. math::
        \text{baseline} = \frac{1}{T (C + 1)} \sum_{t=1}^{T} \Bigl(1 - \sum_c p_t(c)^2\Bigr)

    Tokens are one-hot inputs. Each count, from 0 to the cap C, is predicted by C + 1 outputs. The
    loss is the mean squared error to the one-hot count, as in the code of NC-GRU, or
    the cross-entropy. The chance-level baseline knows the step but no token: it predicts the
    probabilities :math:`p_t` of the counts after t steps. For the cross-entropy the baseline is
    their mean entropy.

    See `Synthetic` for the options of the training, validation and test sets.

    Args:
        length: The number T of tokens.
        types: The number of types of brackets.
        noise: The number of tokens that are not brackets.
        cap: The largest count C; counts are clamped to [0, C].
        pairs: The number of bracket pairs in a sequence. Their types and places are random, and
            all other tokens are noise. `None` draws each token uniformly from all tokens.
        criterion: Whether the loss is the `squared_error` or the `cross_entropy`.

    Shape:
        inputs: :math:`(T, B, 2 \cdot \text{types} + \text{noise})`.
        targets: :math:`(T, B, \text{types})`, counts.

    Units:
        The cross-entropy and its baseline in nats per count.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Mucllari et al., 2022, section 4.1, after Foerster et al., ICML 2017, and Jing et al.,
        Neural Computation 2019. https://arxiv.org/abs/2208.06496 (departures: the text does
        not state the types and places of its pairs; here they are drawn at random. The paper holds
        out no set; here two are held out).

    Example:
        >>> Parenthesis.nc_gru(100).batch(16, torch.Generator().manual_seed(0)).targets.shape
        torch.Size([100, 16, 3])
    """

    readout: ClassVar[Literal["all", "last"]] = "all"
    metric_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    length: int = 100
    types: int = 3
    noise: int = 1
    cap: int = 5
    pairs: int | None = None
    criterion: LossName = "squared_error"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choices(self, criterion=LossName)
        check_at_least(self, 1, "length", "types", "cap", "pairs")
        least_noise = 0
        if self.pairs is not None:  # whose other places hold noise
            least_noise = 1
        check_at_least(self, least_noise, "noise")
        if self.input_size > 256:  # tokens are stored in a byte
            raise ValueError(f"expected 2 * types + noise <= 256, got {self.input_size}")
        if self.pairs is not None and not 2 * self.pairs <= self.length:
            raise ValueError(
                f"expected 2 * pairs <= length = {self.length}, got {self.pairs} pairs"
            )
        if self.pairs is not None and self.cap < self.pairs:
            raise ValueError(f"expected cap >= pairs = {self.pairs}, got {self.cap}")

    @classmethod
    def nc_gru(cls, length: int = 100) -> Self:
        """Mucllari et al., 2022, as in their code: 6 of 7 tokens are brackets."""
        return cls(length)

    @property
    def input_size(self) -> int:
        return 2 * self.types + self.noise

    @property
    def output_size(self) -> int:
        return self.types * (self.cap + 1)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        predictions = outputs.unflatten(-1, (self.types, self.cap + 1))
        if self.criterion == "cross_entropy":
            return F.cross_entropy(predictions.flatten(0, -2), targets.flatten())
        return F.mse_loss(predictions, F.one_hot(targets, self.cap + 1).to(predictions.dtype))

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        counts = outputs.unflatten(-1, (self.types, self.cap + 1)).argmax(-1)
        return (counts == targets).float().mean()

    def baseline(self) -> float:
        p = self.count_probabilities()
        if self.criterion == "cross_entropy":
            return torch.special.entr(p).sum(1).mean().item()
        # the best guess is p itself, with the squared error 1 - |p|^2 over C + 1 outputs
        return (1 - p.square().sum(1)).mean().item() / (self.cap + 1)

    def count_probabilities(self) -> Tensor:  # (T, C + 1)
        """Return the probability of each count of one type after each step, in closed form."""
        if self.pairs is None:
            return self._walk_probabilities()
        return self._pair_probabilities(self.pairs)

    def _walk_probabilities(self) -> Tensor:  # (T, C + 1)
        # the transition matrix of a random walk clamped to [0, C] is diagonal in the cosine basis
        n = self.cap + 1
        j = torch.arange(n, dtype=torch.float64)
        cosines = torch.cos(math.pi / n * j[:, None] * (j + 0.5))  # (mode, count)
        eigenvalues = 1 - 2 / self.input_size * (1 - torch.cos(math.pi / n * j))
        weights = torch.where(j == 0, 1 / n, 2 / n) * cosines[:, 0]
        steps = torch.arange(1, self.length + 1)[:, None]
        # rounding may make the probability of an impossible count negative
        return ((weights * eigenvalues**steps) @ cosines).clamp(min=0)

    def _pair_probabilities(self, pairs: int) -> Tensor:  # (T, C + 1)
        T = self.length
        noise = T - 2 * pairs

        def open_probability(t: int, half: int) -> float:
            """The probability of `half` open pairs, of any type, after t steps."""
            # of the first t places, open pairs have one, closed pairs two, and noise the rest
            ways = 0
            for whole in range(min(pairs - half, (t - half) // 2) + 1):
                rest = math.comb(noise, t - half - 2 * whole)
                ways += math.comb(pairs - half, whole) * rest
            return 2**half * math.comb(pairs, half) * ways / math.comb(T, t)

        is_open = torch.zeros(T, pairs + 1, dtype=torch.float64)
        for t in range(1, T + 1):
            for half in range(pairs + 1):
                is_open[t - 1, half] = open_probability(t, half)
        # of n open pairs, the number of one type is binomial
        q = 1 / self.types
        of_type = torch.zeros(pairs + 1, self.cap + 1)
        for n in range(pairs + 1):
            for c in range(self.cap + 1):
                of_type[n, c] = math.comb(n, c) * q**c * (1 - q) ** max(n - c, 0)
        return is_open @ of_type.double()

    def _draw(self, count: int, generator: torch.Generator) -> Examples:  # (count, T)
        def tokens(first: int, last: int, width: int) -> Tensor:  # (count, width)
            return torch.randint(
                first, last, (count, width), generator=generator, dtype=torch.uint8
            )

        if self.pairs is None:
            return (tokens(0, self.input_size, self.length),)
        # noise, overwritten by the pairs
        drawn = tokens(2 * self.types, self.input_size, self.length)
        opens = 2 * tokens(0, self.types, self.pairs)
        keys = torch.rand(count, self.length, generator=generator)
        places = keys.topk(2 * self.pairs).indices.unflatten(1, (self.pairs, 2)).sort().values
        pairs = torch.stack([opens, opens + 1], -1)
        return (drawn.scatter_(1, places.flatten(1), pairs.flatten(1)),)

    def _collate(self, examples: Examples) -> Batch:
        (tokens,) = examples  # (B, T)
        # in numpy, whose overhead for such small arrays is smaller than torch's
        codes = np.ascontiguousarray(tokens.numpy().T)
        one_hot = np.eye(self.input_size, dtype=np.int8)
        opens = one_hot[:, 0 : 2 * self.types : 2]  # tokens alternate: open, close, open, close
        closes = one_hot[:, 1 : 2 * self.types : 2]
        inputs = one_hot.astype(np.float32).take(codes, 0)
        counts = clamped_walk((opens - closes).take(codes, 0), self.cap)
        return Batch(torch.from_numpy(inputs), torch.from_numpy(counts))


def clamped_walk(
    steps: NDArray[np.int8],  # (T, ...)
    highest: int,
) -> NDArray[np.int64]:  # (T, ...)
    """Walk from 0 by steps of -1, 0 or 1; a step that would leave [0, highest] is not taken.

    Let S be the sum of the steps so far. The position minus S is only ever clamped to
    [-S, highest - S]. Two clamps in a row equal one clamp, to the first bounds clamped to the
    second. The bounds after t steps, for all t, therefore take log2(T) rounds over all positions.
    """
    # the smallest signed type that holds the widest bounds
    sums = steps.cumsum(0, np.min_scalar_type(-len(steps) - highest - 1))
    bounds = np.stack([-sums, highest - sums])
    reach = 1
    while reach < len(steps):
        low, high = bounds[:, reach:]
        bounds[:, reach:] = np.minimum(np.maximum(bounds[:, :-reach], low), high)
        reach *= 2
    low, high = bounds
    return (np.minimum(np.maximum(low, 0), high) + sums).astype(np.int64)
