"""The copying problem, in all published variants."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn_experiments.tasks.base import Batch, check_at_least, check_choices
from eigenrnn_experiments.tasks.synthetic import Examples, SymbolTask

__all__ = ["Copying"]

Recall = Literal["after", "at"]
Coding = Literal["one_hot", "scalar"]
Blank = Literal["first", "last"]


@dataclass(frozen=True)
class Copying(SymbolTask):
    r"""Remember `symbols` symbols over `delay` steps, and repeat them after a marker.

    One sequence with the 2 symbols 3 and 1 and a delay of 3; 0 is a blank and 9 the marker::

        recall="after"   input   3 1 0 0 9 0 0     recall starts one step after the marker
                         target  0 0 0 0 0 3 1

        recall="at"      input   3 1 0 0 0 9 0     recall starts at the marker
                         target  0 0 0 0 0 3 1

    .. math:: \text{baseline} = \frac{K \ln A}{T + 2 K}

    The loss is the mean cross-entropy over all steps. The chance-level baseline predicts every
    blank correctly and the symbols with equal probability. The papers differ in the place of the
    marker, the coding and the number of examples; a constructor named for a paper sets these.

    See `Synthetic` for the options of the training, validation and test sets.

    Args:
        delay: The number T of steps between the last symbol and the first one recalled.
        symbols: The number K of symbols to remember.
        alphabet: The number A of different symbols.
        recall: Whether the first target symbol is one step `after` the marker or `at` the marker.
        coding: Whether the input of a step is `one_hot` or its code as one `scalar`.
        blank: Whether the code of the blank comes `first`, 0 before the symbols 1 to A, or `last`,
            A after the symbols 0 to A - 1; then the marker A + 1 is an output class as well.

    Shape:
        inputs: :math:`(T + 2K, B, A + 2)`, or :math:`(T + 2K, B, 1)` for the scalar coding.
        targets: :math:`(T + 2K, B)`, class indices.

    Units:
        Loss and baseline in nats per step.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Hochreiter and Schmidhuber, Neural Computation 9(8), 1997; in this form Arjovsky, Shah and
        Bengio, ICML 2016. https://arxiv.org/abs/1511.06464 (departures: their code
        mistakenly shuffles its training set at every step, ours at every epoch; the second
        version of oRNN, with a marker at a random place, is left out).

    Example:
        >>> task = Copying(delay=3, symbols=2)
        >>> task.batch(5, torch.Generator().manual_seed(0)).inputs.shape
        torch.Size([7, 5, 10])
    """

    delay: int = 1000
    symbols: int = 10
    alphabet: int = 8
    recall: Recall = "after"
    coding: Coding = "one_hot"
    blank: Blank = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choices(self, recall=Recall, coding=Coding, blank=Blank)
        check_at_least(self, 1, "delay", "symbols")
        # the code of the marker is alphabet + 1, and codes are stored in a byte
        if not 2 <= self.alphabet <= 254:
            raise ValueError(f"expected 2 <= alphabet <= 254, got {self.alphabet}")

    @classmethod
    def scornn(cls, delay: int) -> Self:
        """Helfrich, Willmott and Ye, ICML 2018, and Helfrich and Ye, AAAI 2020 (ENRNN)."""
        return cls(delay, train_examples=20_000, test_examples=1_000)

    @classmethod
    def nnrnn(cls, delay: int = 200) -> Self:
        """Kerg et al., NeurIPS 2019: one-hot, as its parameter counts imply (code: scalar)."""
        return cls(delay)

    @classmethod
    def orhan(cls, total: int = 500) -> Self:
        """Orhan and Pitkow, ICLR 2020; `total` is the length T of the paper, recall included."""
        return cls(total - 20, train_examples=60_000, test_examples=10_000, shuffle=True)

    @classmethod
    def nc_gru(cls, delay: int) -> Self:
        """Mucllari et al., 2022, from the text; our choice: one-hot coding, new sequences."""
        return cls(delay, recall="at")

    @property
    def input_size(self) -> int:
        if self.coding == "scalar":
            return 1
        return self.alphabet + 2  # the blank and the marker, too

    @property
    def output_size(self) -> int:
        if self.blank == "last":  # then the marker, whose code comes last, is a class as well
            return self.alphabet + 2
        return self.alphabet + 1

    @property
    def length(self) -> int:
        """The number T + 2K of steps of a sequence."""
        return self.delay + 2 * self.symbols

    @property
    def marker_index(self) -> int:
        """The step of the marker."""
        first_recalled = self.delay + self.symbols
        if self.recall == "at":
            return first_recalled
        return first_recalled - 1

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return super().metric(outputs[-self.symbols :], targets[-self.symbols :])

    def baseline(self) -> float:
        # all steps but the recalled ones have an answer that is known without memory
        return self.symbols * math.log(self.alphabet) / self.length

    def _draw(self, count: int, generator: torch.Generator) -> Examples:  # (count, K)
        first = int(self.blank == "first")  # after the blank
        shape = (count, self.symbols)
        symbols = torch.randint(
            first, first + self.alphabet, shape, generator=generator, dtype=torch.uint8
        )
        return (symbols,)

    def _collate(self, examples: Examples) -> Batch:
        (symbols,) = examples  # (B, K)
        # only the symbols are stored; the long, mostly blank sequences exist only in a batch
        blank = 0 if self.blank == "first" else self.alphabet
        codes = torch.full((self.length, len(symbols)), blank)
        targets = codes.clone()
        codes[: self.symbols] = symbols.T
        codes[self.marker_index] = self.alphabet + 1
        targets[-self.symbols :] = symbols.T
        return Batch(self._encode(codes), targets)

    def _encode(self, codes: Tensor) -> Tensor:  # (T + 2K, B) -> (T + 2K, B, M)
        if self.coding == "scalar":
            return codes.to(torch.float32).unsqueeze(-1)
        return F.embedding(codes, torch.eye(self.alphabet + 2, dtype=torch.float32))
