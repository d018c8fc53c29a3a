"""Losses and metrics of classification, regression, and recall of symbols."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "ClassificationMetrics",
    "Metrics",
    "RegressionMetrics",
    "recall_accuracy",
    "squared_errors",
    "symbol_loss",
]


def squared_errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the squared errors; a NaN target has zero error and zero gradient."""
    # mask before squaring: zero times NaN is NaN in the gradient
    return (outputs - targets).masked_fill(targets.isnan(), 0.0).square()


class Metrics(ABC):
    """A loss, a metric, and sums from which the metrics of a whole split are computed."""

    metric_names: ClassVar[tuple[str, ...]]
    metric_name: ClassVar[str]
    higher_is_better: ClassVar[bool]

    @property
    @abstractmethod
    def output_size(self) -> int:
        """The number K of outputs."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch."""

    @abstractmethod
    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean metric of a batch."""

    @abstractmethod
    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (S,)
        """Return sums over a batch; see `Task.metric_sums`."""

    @abstractmethod
    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        """Compute the metrics from the sum of `metric_sums` over all batches."""


@dataclass(frozen=True)
class ClassificationMetrics(Metrics):
    r"""Metrics of classification: weighted cross-entropy, accuracy and macro F1.

    .. math:: F_1 = \operatorname{mean}_k \frac{2 TP_k}{2 TP_k + FP_k + FN_k}

    over the classes that occur among the targets or the predictions.

    Args:
        weights: The weight of each class in the loss.

    Shape:
        weights: :math:`(K)`.
        outputs: :math:`(B, K)`.
        targets: :math:`(B)`.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "f1")
    metric_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    weights: Tensor

    @property
    def output_size(self) -> int:
        return len(self.weights)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, self.weights.to(outputs))

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(-1) == targets).float().mean()

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (2 + K * K,)
        weights = self.weights.to(outputs)
        loss = F.cross_entropy(outputs, targets, weights, reduction="sum")
        pairs = targets * self.output_size + outputs.argmax(-1)
        confusion = torch.bincount(pairs, minlength=self.output_size**2)
        return torch.cat([torch.stack([loss, weights[targets].sum()]), confusion.to(outputs)])

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        confusion = sums[2:].view(
            self.output_size, self.output_size
        )  # rows are targets, columns predictions
        correct = confusion.diagonal()
        occurring = confusion.sum(0) + confusion.sum(1)
        f1 = (2 * correct / occurring)[occurring > 0].mean()
        return {
            "loss": (sums[0] / sums[1]).item(),
            "accuracy": (correct.sum() / confusion.sum()).item(),
            "f1": f1.item(),
        }


@dataclass(frozen=True)
class RegressionMetrics(Metrics):
    r"""Metrics of regression: mean squared error and coefficient of determination.

    .. math:: R^2 = 1 - \sum (\hat y - y)^2 / \sum (y - \bar y)^2

    is averaged over the channels, with the mean :math:`\bar y` of the evaluated split. The loss is
    that of the scaled numbers; `mse` is in the units of the data. NaN targets do not count.

    Args:
        scale: The number by which the targets of each channel were divided.

    Shape:
        scale: :math:`(K)`.
        outputs: :math:`(..., K)`.
        targets: :math:`(..., K)`.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("loss", "mse", "r2")
    metric_name: ClassVar[str] = "mse"
    higher_is_better: ClassVar[bool] = False

    scale: Tensor

    @property
    def output_size(self) -> int:
        return len(self.scale)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return squared_errors(outputs, targets).sum() / (~targets.isnan()).sum()

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        scale = self.scale.to(outputs)
        return self.loss(outputs * scale, targets * scale)

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (4 K,)
        # in double precision: the variance is a difference of two large sums
        y = targets.double().flatten(0, -2)
        errors = squared_errors(outputs.double(), targets.double()).flatten(0, -2)
        known = ~y.isnan()
        y = y.masked_fill(~known, 0.0)
        return torch.cat([errors.sum(0), y.sum(0), y.square().sum(0), known.sum(0)])

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        errors, y, squares, count = sums.view(4, self.output_size)
        scale = self.scale.to(sums)
        spread = squares - y.square() / count
        return {
            "loss": (errors.sum() / count.sum()).item(),
            "mse": ((errors * scale.square()).sum() / count.sum()).item(),
            "r2": (1 - errors / spread).mean().item(),
        }


def symbol_loss(
    outputs: Tensor,  # (T, B, K)
    targets: Tensor,  # (T, B)
) -> Tensor:  # ()
    """Return the mean cross-entropy over all steps, in nats."""
    # (1, K, T B): torch vectorises over positions but loops over classes; with classes last
    # the loop would be over all positions and take six times as long
    logits = outputs.flatten(0, 1).T.contiguous()
    return F.cross_entropy(logits.unsqueeze(0), targets.flatten().unsqueeze(0))


def recall_accuracy(
    outputs: Tensor,  # (T, B, K)
    targets: Tensor,  # (T, B)
    symbols: int,
) -> Tensor:  # ()
    """Return the accuracy over the last `symbols` steps."""
    recalled = outputs[-symbols:].argmax(-1)
    return (recalled == targets[-symbols:]).float().mean()
