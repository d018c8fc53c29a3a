"""The losses and the metrics of series: classes and numbers."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn_experiments.tasks.base import with_exact_counts
from eigenrnn_experiments.tasks.ragged_sequences import squared_errors

__all__ = [
    "ClassificationMetrics",
    "Metrics",
    "RegressionMetrics",
    "calibration_curve",
    "calibration_error",
    "r2_score",
]


@dataclass(frozen=True)
class ClassificationMetrics:
    r"""Metrics of classification: weighted cross-entropy, accuracy, and those of torchmetrics.

    `f1` is the macro F1, over the classes that occur among the targets or the predictions. `auc`
    is the area under the ROC curve of each class against all others, averaged over the classes
    that occur; there is none if only one does. `log_loss` is the cross-entropy without weights.
    `calibration_error` is that of the predicted class, over tenths of its probability, see
    `calibration_curve`.

    Args:
        weights: The weight of each class in the loss.

    Shape:
        weights: :math:`(K)`.
        outputs: :math:`(B, K)`.
        targets: :math:`(B)`.
    """

    metric_names: ClassVar[tuple[str, ...]] = (
        "loss",
        "accuracy",
        "f1",
        "auc",
        "log_loss",
        "calibration_error",
    )
    metric_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    weights: Tensor

    @property
    def output_size(self) -> int:
        """The number K of outputs."""
        return len(self.weights)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, self.weights.to(outputs))

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(-1) == targets).float().mean()

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (4,)
        outputs = with_exact_counts(outputs)
        weights = self.weights.to(outputs)
        loss = F.cross_entropy(outputs, targets, weights, reduction="sum")
        correct = (outputs.argmax(-1) == targets).sum()
        count = outputs.new_tensor(len(targets))
        return torch.stack([loss, weights[targets].sum(), correct.to(outputs), count])

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        loss, weight, correct, count = sums.tolist()
        return {"loss": loss / weight, "accuracy": correct / count}

    def metric_rows(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (B, K + 1)
        outputs = with_exact_counts(outputs)
        return torch.cat([outputs, targets.unsqueeze(1).to(outputs)], 1)

    def metrics_from_rows(self, rows: Tensor) -> dict[str, float]:
        # lightning has imported torchmetrics by the time of an evaluation
        from torchmetrics.functional import classification

        outputs = rows[:, :-1]
        targets = rows[:, -1].long()
        p = outputs.softmax(1)
        if not p.isfinite().all():  # torchmetrics would sort NaN like a number
            return dict.fromkeys(self.metric_names[2:], math.nan)
        size = self.output_size
        found = {
            "f1": classification.multiclass_f1_score(p, targets, size, average="macro"),
            "log_loss": F.cross_entropy(outputs, targets),
            "calibration_error": calibration_error(p, targets),
        }
        present = targets.unique().tolist()
        if len(present) > 1:  # without another class there is no curve
            areas = [classification.binary_auroc(p[:, k], (targets == k).long()) for k in present]
            found["auc"] = torch.stack(areas).mean()
        return {name: float(found[name]) for name in self.metric_names if name in found}


@dataclass(frozen=True)
class RegressionMetrics:
    r"""Metrics of regression: mean squared error and coefficient of determination.

    .. math:: R^2 = 1 - \sum (\hat y - y)^2 / \sum (y - \bar y)^2

    is averaged over the channels, with the mean :math:`\bar y` of the evaluated split; see
    `r2_score`. The loss is that of the scaled numbers; `mse` is in the units of the data. NaN
    targets do not count.

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
        """The number K of outputs."""
        return len(self.scale)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return squared_errors(outputs, targets).sum() / (~targets.isnan()).sum()

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        scale = self.scale.to(outputs)
        return self.loss(outputs * scale, targets * scale)

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (2 K,)
        errors = squared_errors(outputs.double(), targets.double()).flatten(0, -2)
        known = ~targets.flatten(0, -2).isnan()
        return torch.cat([errors.sum(0), known.sum(0)])

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        errors, count = sums.view(2, self.output_size)
        scale = self.scale.to(sums)
        return {
            "loss": (errors.sum() / count.sum()).item(),
            "mse": ((errors * scale.square()).sum() / count.sum()).item(),
        }

    def metric_rows(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (S, 2 K)
        rows = torch.cat([outputs, targets], -1).flatten(0, -2)
        return rows[~targets.flatten(0, -2).isnan().all(1)]

    def metrics_from_rows(self, rows: Tensor) -> dict[str, float]:
        score = r2_score(*rows.chunk(2, 1))
        if score is None:
            return {}
        return {"r2": score}


Metrics = ClassificationMetrics | RegressionMetrics
"""A loss, a metric, and sums and rows for the metrics of a whole split, as those of a `Task`."""


def r2_score(
    outputs: Tensor,  # (S, K)
    targets: Tensor,  # (S, K)
) -> float | None:
    r"""Return the coefficient of determination, averaged over the channels.

    .. math:: R^2 = 1 - \sum (\hat y - y)^2 / \sum (y - \bar y)^2

    As in scikit-learn, a channel whose targets are all equal counts 1 if its outputs are exact and
    else 0. NaN targets do not count.

    Returns:
        The mean over the channels with at least two targets; None if there are none.
    """
    scores: list[float] = []
    for guess, truth in zip(outputs.unbind(1), targets.unbind(1), strict=True):
        known = ~truth.isnan()
        y = truth[known].double()
        if len(y) < 2:
            continue
        errors = (guess[known].double() - y).square().sum()
        shifted = y - y[0]  # exactly zero if all are equal; the mean of y may be rounded
        spread = (shifted - shifted.mean()).square().sum()
        if spread > 0:
            scores.append(float(1 - errors / spread))
        else:
            scores.append(float(errors == 0))
    if not scores:
        return None
    return sum(scores) / len(scores)


def calibration_curve(
    probabilities: Tensor,  # (B, K)
    targets: Tensor,  # (B,)
) -> tuple[Tensor, Tensor, Tensor]:
    """Return how often predictions of about the same probability are right.

    Tenths of the probability include their upper end, so that 1 belongs to the last one.

    Returns:
        For each tenth that occurs: the number of predictions, their mean probability, and the
        share of them that are right.
    """
    confidence, guess = probabilities.double().max(1)
    edges = torch.linspace(0, 1, 11, dtype=torch.float64)
    tenth = torch.bucketize(confidence, edges[1:-1])
    count = tenth.bincount()
    occurs = count > 0
    probability = tenth.bincount(confidence)[occurs] / count[occurs]
    correct = tenth.bincount((guess == targets).double())[occurs] / count[occurs]
    return count[occurs], probability, correct


def calibration_error(
    probabilities: Tensor,  # (B, K)
    targets: Tensor,  # (B,)
) -> float:
    r"""Return the mean distance of the `calibration_curve` from the diagonal.

    .. math:: \sum_b \frac{n_b}{n} \left| \text{correct}_b - \text{probability}_b \right|
    """
    count, probability, correct = calibration_curve(probabilities, targets)
    return float((count * (correct - probability).abs()).sum() / len(targets))
