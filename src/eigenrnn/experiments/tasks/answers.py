"""How answers of two kinds are scored: the class of a sequence, and numbers with gaps."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Answers", "Classes", "Numbers", "squared_errors"]


def squared_errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Square the differences; where the target is NaN there is none, and no gradient."""
    # The NaN must not meet the output: zero times NaN is NaN in the gradient.
    return (outputs - targets).masked_fill(targets.isnan(), 0.0).square()


class Answers(ABC):
    """A loss, a metric, and what adds up to the figures of a whole split."""

    names: ClassVar[tuple[str, ...]]
    metric_name: ClassVar[str]
    higher_is_better: ClassVar[bool]

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of outputs that make an answer."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch."""

    @abstractmethod
    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean metric of a batch."""

    @abstractmethod
    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (S,)
        """Count a batch in numbers that add up."""

    @abstractmethod
    def figures(self, tally: Tensor) -> dict[str, float]:
        """Compute the figures from the sum of the tallies."""


@dataclass(frozen=True)
class Classes(Answers):
    r"""Classes, scored by the weighted cross-entropy, the accuracy and the macro F1.

    .. math:: F_1 = \operatorname{mean}_k \frac{2 TP_k}{2 TP_k + FP_k + FN_k}

    over the classes that occur among the targets or the guesses.

    Args:
        weights: What the loss of each class is multiplied with.

    Shape:
        weights: :math:`(K)`.
        outputs: :math:`(B, K)`.
        targets: :math:`(B)`.
    """

    names: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "f1")
    metric_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    weights: Tensor

    @property
    def size(self) -> int:
        return len(self.weights)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, self.weights.to(outputs))

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(-1) == targets).float().mean()

    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (2 + K * K,)
        weights = self.weights.to(outputs)
        loss = F.cross_entropy(outputs, targets, weights, reduction="sum")
        pairs = targets * self.size + outputs.argmax(-1)
        confusion = torch.bincount(pairs, minlength=self.size**2)
        return torch.cat([torch.stack([loss, weights[targets].sum()]), confusion.to(outputs)])

    def figures(self, tally: Tensor) -> dict[str, float]:
        confusion = tally[2:].view(self.size, self.size)  # rows are targets, columns guesses
        right = confusion.diagonal()
        occurring = confusion.sum(0) + confusion.sum(1)
        f1 = (2 * right / occurring)[occurring > 0].mean()
        return {
            "loss": (tally[0] / tally[1]).item(),
            "accuracy": (right.sum() / confusion.sum()).item(),
            "f1": f1.item(),
        }


@dataclass(frozen=True)
class Numbers(Answers):
    r"""Numbers, scored by the mean squared error and the share of the variance explained.

    .. math:: R^2 = 1 - \sum (\hat y - y)^2 / \sum (y - \bar y)^2

    as the mean over the channels, with the mean :math:`\bar y` of the split that is scored. The
    loss is that of the numbers as the network has them, `mse` is in the units of the data. A
    target that is NaN does not count.

    Args:
        scale: What the numbers were divided by, for each channel.

    Shape:
        scale: :math:`(K)`.
        outputs: :math:`(..., K)`.
        targets: :math:`(..., K)`.
    """

    names: ClassVar[tuple[str, ...]] = ("loss", "mse", "r2")
    metric_name: ClassVar[str] = "mse"
    higher_is_better: ClassVar[bool] = False

    scale: Tensor

    @property
    def size(self) -> int:
        return len(self.scale)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return squared_errors(outputs, targets).sum() / (~targets.isnan()).sum()

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        scale = self.scale.to(outputs)
        return self.loss(outputs * scale, targets * scale)

    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (4 K,)
        # in double precision: the variance is a difference of two large sums
        y = targets.double().flatten(0, -2)
        errors = squared_errors(outputs.double(), targets.double()).flatten(0, -2)
        known = ~y.isnan()
        y = y.masked_fill(~known, 0.0)
        return torch.cat([errors.sum(0), y.sum(0), y.square().sum(0), known.sum(0)])

    def figures(self, tally: Tensor) -> dict[str, float]:
        errors, y, squares, count = tally.view(4, self.size)
        scale = self.scale.to(tally)
        spread = squares - y.square() / count
        return {
            "loss": (errors.sum() / count.sum()).item(),
            "mse": ((errors * scale.square()).sum() / count.sum()).item(),
            "r2": (1 - errors / spread).mean().item(),
        }
