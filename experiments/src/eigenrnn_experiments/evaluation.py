"""The metrics that people report, of a trained network on a file with answers."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from eigenrnn.errors import check_installed
from eigenrnn_experiments.data.sequences import Sequences
from eigenrnn_experiments.prediction import predict_series, series_outputs
from eigenrnn_experiments.tasks.preprocessing import SeriesPreprocessing
from eigenrnn_experiments.tasks.series_metrics import (
    calibration_curve,
    calibration_error,
    r2_score,
)
from eigenrnn_experiments.training.records import Calibration, Evaluation

__all__ = ["evaluate_series"]


@torch.no_grad()
def evaluate_series(
    model: nn.Module, preprocessing: SeriesPreprocessing, sequences: Sequences
) -> Evaluation:
    r"""Compare the predictions of a network with the answers of a file.

    Classes: the accuracy, the balanced accuracy, the macro F1, the log loss in nats, the area
    under the ROC curve, the calibration error, the confusion matrix and the calibration curve. The
    area is that of each class against all others, averaged over the classes that occur. The
    calibration error is that of the predicted class,

    .. math:: \sum_b \frac{n_b}{n} \left| \text{correct}_b - \text{probability}_b \right|

    over tenths b of the probability. Numbers and next values: the mean squared and the mean
    absolute error, in the units of the file, and :math:`R^2`, averaged over the channels.

    Args:
        model: The trained network, in evaluation mode.
        preprocessing: Its preprocessing, see `eigenrnn_experiments.load`.
        sequences: The result of `preprocessing.read`, with classes or numbers.

    Raises:
        ImportError: If scikit-learn is not installed.
        ValueError: If the file has no answers, or a class that the network does not know.

    Example:
        >>> run = load("runs/vowels")  # doctest: +SKIP
        >>> sequences = run.preprocessing.read("test.csv")  # doctest: +SKIP
        >>> evaluate_series(run.model, run.preprocessing, sequences).metrics  # doctest: +SKIP
        {'accuracy': 0.94, 'balanced accuracy': 0.93, ...}
    """
    check_installed("eigenrnn-experiments[series]", "an evaluation", "sklearn")
    if preprocessing.answer == "class":
        return _evaluate_classes(model, preprocessing, sequences)
    if preprocessing.answer == "number":
        if sequences.targets is None:
            raise ValueError(_no_answer(sequences, "target", preprocessing))
        predicted = predict_series(model, preprocessing, sequences).values.numpy()
        truth = sequences.targets[:, None].astype(np.float64)
        metrics = _errors(predicted, truth)
    else:
        metrics = _errors(*_next_values(model, preprocessing, sequences))
    return Evaluation(str(sequences.path), len(sequences), metrics)


def _evaluate_classes(
    model: nn.Module, preprocessing: SeriesPreprocessing, sequences: Sequences
) -> Evaluation:
    """Evaluate predicted classes.

    Raises:
        ValueError: If the file has no classes, or one that the network does not know.
    """
    from sklearn import metrics

    if sequences.labels is None:
        raise ValueError(_no_answer(sequences, "label", preprocessing))
    names = preprocessing.class_names
    for number, label in enumerate(sequences.labels):
        if label not in names:
            raise ValueError(
                f"expected the classes {', '.join(names)} of the run in {sequences.path}, got "
                f"{label!r} in {sequences.location(number)}"
            )
    indices = {name: k for k, name in enumerate(names)}
    truth = np.array([indices[label] for label in sequences.labels])
    probabilities = predict_series(model, preprocessing, sequences).values
    p = probabilities.numpy()
    predicted = p.argmax(1)
    never: Any = 0  # the score of a class that is never predicted
    found = {
        "accuracy": metrics.accuracy_score(truth, predicted),
        "balanced accuracy": metrics.recall_score(
            truth, predicted, average="macro", labels=np.unique(truth), zero_division=never
        ),
        "macro F1": metrics.f1_score(truth, predicted, average="macro", zero_division=never),
        "log loss": metrics.log_loss(truth, p, labels=range(len(names))),
    }
    present = np.unique(truth)
    if len(present) > 1:  # without another class there is no curve
        areas = [metrics.roc_auc_score(truth == k, p[:, k]) for k in present]
        found["AUC"] = float(np.mean(areas))
    targets = torch.from_numpy(truth)
    found["calibration error"] = calibration_error(probabilities, targets)
    count, probability, correct = calibration_curve(probabilities, targets)
    confusion = metrics.confusion_matrix(truth, predicted, labels=range(len(names)))
    return Evaluation(
        str(sequences.path),
        len(sequences),
        {name: float(value) for name, value in found.items()},
        names,
        tuple(tuple(row) for row in confusion.tolist()),
        Calibration(
            tuple(probability.tolist()),
            tuple(correct.tolist()),
            tuple(count.tolist()),
        ),
    )


def _next_values(
    model: nn.Module, preprocessing: SeriesPreprocessing, sequences: Sequences
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the predicted and the true next values of all steps but the last of each sequence."""
    ends = np.cumsum(sequences.lengths)
    is_last = np.zeros(len(sequences.values), bool)
    is_last[ends - 1] = True
    is_first = np.zeros(len(sequences.values), bool)
    is_first[ends - sequences.lengths] = True
    batches = [
        preprocessing.answers(outputs.transpose(0, 1)[mask])
        for outputs, mask in series_outputs(model, preprocessing, sequences)
    ]
    predicted = torch.cat(batches).numpy()[~is_last]
    return predicted, sequences.values[~is_first].astype(np.float64)


def _errors(
    predicted: NDArray[np.float64],  # (S, K)
    truth: NDArray[np.float64],  # (S, K), NaN where missing
) -> dict[str, float]:
    from sklearn import metrics

    known = ~np.isnan(truth)
    found = {
        "mean squared error": metrics.mean_squared_error(truth[known], predicted[known]),
        "mean absolute error": metrics.mean_absolute_error(truth[known], predicted[known]),
    }
    score = r2_score(torch.from_numpy(predicted), torch.from_numpy(truth))
    if score is not None:
        found["R2"] = score
    return {name: float(value) for name, value in found.items()}


def _no_answer(sequences: Sequences, role: str, preprocessing: SeriesPreprocessing) -> str:
    name = preprocessing.columns.roles().get(role, role)
    return (
        f"expected a {role} of each sequence in {sequences.path} to evaluate, got none: a table "
        f"has it in the column {name!r}"
    )
