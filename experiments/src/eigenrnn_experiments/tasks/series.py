"""The user's own time series: classification, regression or prediction."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn.errors import check_installed, check_positive
from eigenrnn_experiments.data.files import locate, missing_file
from eigenrnn_experiments.data.in_memory import to_arrays
from eigenrnn_experiments.data.sequences import Sequences, check_sequences
from eigenrnn_experiments.data.series import read_series
from eigenrnn_experiments.data.tables import Columns, ReadOptions
from eigenrnn_experiments.data.ts import ARCHIVE
from eigenrnn_experiments.tasks.base import (
    Batch,
    Task,
    check_at_least,
    check_choices,
    with_exact_counts,
)
from eigenrnn_experiments.tasks.preprocessing import Answer, Missing, SeriesPreprocessing
from eigenrnn_experiments.tasks.ragged_sequences import RaggedSequences, squared_errors
from eigenrnn_experiments.tasks.sampling import batch_indices, generator_for

__all__ = [
    "ClassificationMetrics",
    "RegressionMetrics",
    "Series",
    "calibration_curve",
    "calibration_error",
    "r2_score",
]

Weights = Literal["none", "balanced"]
Scaling = Literal["z_score", "none"]


@dataclass(frozen=True)
class _Split:
    """The sequences of a split and their targets: class indices or (count, 1) numbers."""

    sequences: RaggedSequences
    targets: Tensor


@dataclass(frozen=True)
class _Data:
    """All splits, scaled, and the preprocessing that was fitted on the training split."""

    splits: dict[str, _Split]
    preprocessing: SeriesPreprocessing


class _Metrics(ABC):
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

    @abstractmethod
    def metric_rows(self, outputs: Tensor, targets: Tensor) -> Tensor | None:  # (B, R)
        """Return a row of each target, or None; see `Task.metric_rows`."""

    @abstractmethod
    def metrics_from_rows(self, rows: Tensor) -> dict[str, float]:
        """Compute further metrics from the `metric_rows` of all batches."""


@dataclass(frozen=True)
class ClassificationMetrics(_Metrics):
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
class RegressionMetrics(_Metrics):
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


@dataclass(frozen=True)
class Series(Task):
    r"""Predict a class or a number for each sequence, or its next values.

    One batch of the three sequences a, b and c; b is the longest::

        input    a1 b1 c1     answer="class"   target  cat  dog  cat     after the last step
                 a2 b2 c2     answer="number"  target  0.3  1.7  0.1     after the last step
                  -  b3  -    answer="next"    target  a2   b2   c2      at each step
                                                        -   b3    -

    The files are `.ts` as in the UCR and UEA archives, `.npz`, `.npy`, `.csv`, `.csv.gz`, `.tsv`
    or `.parquet`, or a folder with a file for each sequence; the page on data describes their
    contents. They are read at first use. The scaling is fitted on the training split only. In
    place of a file, Python may pass sequences that are made by `from_arrays`,
    `from_channels_first` or `from_table` of `eigenrnn_experiments.data.in_memory`. A run stores
    them in its folder.

    Args:
        train: The training file, or a folder with a file for each sequence.
        test: The test file or folder; without one, and without folds, there is no test split.
        dataset: In place of both files, a data set of the archives: `ACSF1`, `BasicMotions`,
            `ItalyPowerDemand` or `JapaneseVowels`.
        answer: The `class` or the `number` of a sequence, or the `next` values of its channels.
        validation: The fraction of the training file that is held out, the same for each class
            and at least one sequence of a class that has two.
        columns: The names of the columns of a table.
        separator: The character between the values of a line of CSV, or `tab`; None means a comma,
            and a tab in a file `.tsv`.
        decimal: The character before the decimals of a number in CSV.
        missing: Whether a missing value is an `error`, or whether masks are further inputs that
            tell where values are missing. A missing value is then the mean (`mask`) or the last
            value of the sequence (`forward`).
        folds: The number of parts into which the sequences are divided, with the same share of
            each class. One of them is the test split. No group is divided.
        fold: The part that is the test split, from 0.
        class_weights: Whether each sequence (`none`) or each class (`balanced`) has the same
            weight in the loss, or the weight of a sequence of each class; it is one for a class
            that is not named.
        scaling: Whether channels and numbers are scaled to mean 0 and variance 1 (`z_score`).
        shuffle: Whether every epoch has a new order.
        split_seed: The seed of the held-out sequences.
        data_root: The only folder to search for a set of the archives; see
            `eigenrnn_experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B, M)`, zero after the end of a sequence, where targets are NaN.
        M is the number of channels, or twice that with masks.
        targets: :math:`(B)`, indices of the sorted classes; :math:`(B, 1)`; or :math:`(T, B, M)`.

    Units:
        Loss and baseline in nats per sequence for classes, else in squared units of the scaled
        data; `mse` in squared units of the file.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Bagnall et al., 2018. https://arxiv.org/abs/1811.00075 (departures: a validation part is
        held out of the archive's training data).

    Example:
        >>> Series(dataset="JapaneseVowels", validation=0).splits
        ('train', 'test')
    """

    train: str | Path | Sequences | None = field(default=None, compare=False)
    test: str | Path | Sequences | None = field(default=None, compare=False)
    dataset: str | None = None
    answer: Answer = "class"
    validation: float = 0.2
    columns: Columns = field(default_factory=Columns)
    separator: str | None = None
    decimal: str = "."
    missing: Missing = "error"
    folds: int | None = None
    fold: int = 0
    class_weights: Weights | dict[str, float] = "none"
    scaling: Scaling = "z_score"
    shuffle: bool = True
    split_seed: int = 0
    data_root: str | Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_choices(self, answer=Answer, missing=Missing, scaling=Scaling)
        if isinstance(self.class_weights, dict):
            # the classes of data in memory may be numbers
            weights = {str(name): weight for name, weight in self.class_weights.items()}
            for name, weight in weights.items():
                check_positive(f"weight of the class {name!r}", weight)
            object.__setattr__(self, "class_weights", weights)
        else:
            check_choices(self, class_weights=Weights)
        check_at_least(self, 0, "split_seed", "fold")
        check_at_least(self, 2, "folds")
        # reading them checks the separator and the decimal
        _ = self.read_options
        if not 0 <= self.validation < 1:
            raise ValueError(f"expected 0 <= validation < 1, got {self.validation}")
        if (self.dataset is None) == (self.train is None):
            raise ValueError(
                f"expected either train, a file, or dataset, a name, got train={self.train!r} and "
                f"dataset={self.dataset!r}"
            )
        if self.dataset is not None and self.dataset not in ARCHIVE:
            raise ValueError(
                f"expected dataset to be {' or '.join(map(repr, ARCHIVE))}, got {self.dataset!r}; "
                "pass the files of any other set as train and test"
            )
        if self.dataset is not None and (self.test is not None or self.answer == "number"):
            raise ValueError(
                "expected no test and no answer='number' with dataset, which has a test file "
                f"and classes, got test={self.test!r} and answer={self.answer!r}"
            )
        if self.folds is None and self.fold:
            raise ValueError(f"expected fold only with folds, got fold={self.fold}")
        if self.folds is not None:
            if self.fold >= self.folds:
                raise ValueError(f"expected fold < folds={self.folds}, got {self.fold}")
            if self.test is not None or self.dataset is not None:
                raise ValueError(
                    "expected neither test nor dataset with folds, whose test split is a part of "
                    f"train, got test={self.test!r} and dataset={self.dataset!r}"
                )
            check_installed(
                "eigenrnn-experiments[series]", "a division by groups or into folds", "sklearn"
            )
        if self.class_weights != "none" and self.answer != "class":
            raise ValueError(
                f"expected class_weights only with answer='class', got {self.answer!r}"
            )

    @property
    def read_options(self) -> ReadOptions:
        """How the files are read."""
        return ReadOptions(
            self.columns,
            self.separator,
            self.decimal,
            allow_missing=self.missing != "error",
        )

    @property
    def readout(  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
    ) -> Literal["all", "last"]:
        if self.answer == "next":
            return "all"
        return "last"

    @property
    def metric_name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._metrics_class.metric_name

    @property
    def higher_is_better(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._metrics_class.higher_is_better

    @property
    def metric_names(self) -> tuple[str, ...]:
        return self._metrics_class.metric_names

    @property
    def input_size(self) -> int:
        return self.preprocessing.input_size

    @property
    def output_size(self) -> int:
        return self.preprocessing.output_size

    @property
    def preprocessing(self) -> SeriesPreprocessing:
        return self._data.preprocessing

    def missing_data(self) -> str | None:
        if self.dataset is not None:
            return missing_file(ARCHIVE[self.dataset], self.data_root)
        for path in (self.train, self.test):
            if isinstance(path, str | Path) and not Path(path).expanduser().exists():
                return str(path)
        return None

    def data_in_memory(self) -> Mapping[str, Mapping[str, NDArray[Any]]]:
        given = {"train": self.train, "test": self.test}
        return {
            split: to_arrays(data) for split, data in given.items() if isinstance(data, Sequences)
        }

    @property
    def splits(self) -> tuple[str, ...]:
        splits = ["train"]
        if self.validation:
            splits.append("validation")
        if self.dataset is not None or self.test is not None or self.folds is not None:
            splits.append("test")
        return tuple(splits)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their indices."""
        return self.preprocessing.class_names

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        self.check_request("train", size)
        data = self._splits["train"]
        rows = torch.randint(len(data.sequences), (size,), generator=generator)
        return self._collate(data, rows)

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_request(split, size, start)
        data = self._splits[split]
        count = len(data.sequences)
        chosen = batch_indices(split, count, size, seed=seed, start=start, shuffle=self.shuffle)
        return (self._collate(data, rows) for rows in chosen)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._metrics.loss(outputs, targets)

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._metrics.metric(outputs, targets)

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._metrics.metric_sums(outputs, targets)

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        return self._metrics.metrics_from_sums(sums)

    def metric_rows(self, outputs: Tensor, targets: Tensor) -> Tensor | None:
        return self._metrics.metric_rows(outputs, targets)

    def metrics_from_rows(self, rows: Tensor) -> dict[str, float]:
        return self._metrics.metrics_from_rows(rows)

    def baseline(self) -> float:
        r"""The loss of the best constant prediction on the training split.

        For classes this is the entropy of their weighted frequencies, for numbers their variance.
        """
        if isinstance(self._metrics, ClassificationMetrics):
            weighted = self._frequencies * self._metrics.weights
            frequencies = weighted / weighted.sum()
            return -torch.special.xlogy(frequencies, frequencies).sum().item()
        data = self._splits["train"]
        targets = self._collate(data, torch.arange(len(data.sequences))).targets
        values = targets.double().flatten(0, -2)
        return (values - values.nanmean(0)).square().nanmean().item()

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        return math.ceil(len(self._splits["train"].sequences) / size)

    @property
    def _metrics_class(self) -> type[_Metrics]:
        if self.answer == "class":
            return ClassificationMetrics
        return RegressionMetrics

    @cached_property
    def _data(self) -> _Data:
        train = self.train
        test = self.test
        if self.dataset is not None:
            train_file, test_file = ARCHIVE[self.dataset]
            train = locate(train_file, self.data_root)
            test = locate(test_file, self.data_root)
        # never empty: `__post_init__` wants train or a dataset
        files = {"train": self._read(train or "")}
        if test is not None:
            files["test"] = self._read(test)
        return _make_splits(files, self)

    def _read(self, data: str | Path | Sequences) -> Sequences:
        if isinstance(data, Sequences):
            return check_sequences(data, allow_missing=self.missing != "error")
        # standard input cannot be read again when the run is resumed
        return read_series(Path(data), self.read_options)

    @property
    def _splits(self) -> dict[str, _Split]:
        return self._data.splits

    @cached_property
    def _metrics(self) -> _Metrics:
        if self.answer != "class":
            fitted = self.preprocessing
            deviation = (fitted.target_deviation,)
            if self.answer == "next":
                deviation = fitted.deviation
            return RegressionMetrics(torch.tensor(deviation))
        count = len(self.class_names)
        if isinstance(self.class_weights, dict):
            named = self.class_weights
            return ClassificationMetrics(
                torch.tensor([float(named.get(name, 1)) for name in self.class_names])
            )
        if self.class_weights == "none":
            return ClassificationMetrics(torch.ones(count))
        # of mean one over the training sequences
        return ClassificationMetrics((1 / (count * self._frequencies)).float())

    @property
    def _frequencies(self) -> Tensor:  # (K,)
        """The frequency of each class in the training split."""
        targets = self._splits["train"].targets
        return targets.bincount(minlength=len(self.class_names)).double() / len(targets)

    def _collate(self, data: _Split, rows: Tensor) -> Batch:
        lengths = data.sequences.lengths[rows]
        if self.answer != "next":
            inputs = data.sequences.padded(rows)
            return Batch(inputs, data.targets[rows], lengths, targets_batch_dim=0)
        steps = int(lengths.max()) - 1
        targets = data.sequences.padded(rows, steps, offset=1, valid_steps=lengths - 1)
        if self.missing != "error":
            # the masks of inputs come with their values; a missing value is no target
            targets, masks = targets.chunk(2, dim=2)
            targets = targets.masked_fill(masks > 0, math.nan)
        inputs = data.sequences.padded(rows, steps)
        return Batch(inputs, targets, lengths - 1)


def _make_splits(files: dict[str, Sequences], task: Series) -> _Data:
    """Divide the training file into folds, hold out the validation split, and scale all splits.

    Args:
        files: The training and perhaps the test sequences.
        task: The options.

    Raises:
        ValueError: If the files do not match or lack the targets, or a split lacks a class.
    """
    if "test" in files:
        _check_channels(files)
    names: tuple[str, ...] = ()
    for file in files.values():
        _check_answers(file, task)
    if task.answer == "class":
        names = _class_names(files)
        _check_weights(task.class_weights, names)
    parts = {split: _part(file, names) for split, file in files.items()}
    train = files["train"]
    whole = parts["train"]
    chosen = {"train": torch.arange(len(whole.sequences))}
    if task.folds is not None:
        asked = f"folds={task.folds}"
        kept, of_fold = _divide(whole, train, names, task.folds, task.fold, asked, task.split_seed)
        chosen = {"train": kept, "test": of_fold}
    if task.validation:
        rows = chosen["train"]
        if train.groups is None:
            kept, held_out = _hold_out(whole, rows, names, task, train.path)
        else:
            groups = [train.groups[row] for row in rows.tolist()]
            of_rows = replace(train, groups=tuple(groups))
            # one of this many folds holds about the fraction that is held out
            count = max(2, round(1 / task.validation))
            part = _select(whole, rows)
            asked = f"validation={task.validation:g}, one of {count} parts"
            if task.folds is not None:
                asked += " beside the test fold"
            kept, held_out = _divide(part, of_rows, names, count, 0, asked, task.split_seed)
            # indices into `rows`, as those into the whole file
            kept = rows[kept]
            held_out = rows[held_out]
        chosen |= {"train": kept, "validation": held_out}
    if len(chosen) > 1:
        parts |= {split: _select(whole, rows) for split, rows in chosen.items()}
    fitted = _fit(parts["train"], train, names, task)
    return _Data({split: _scale(part, fitted) for split, part in parts.items()}, fitted)


def _select(part: _Split, rows: Tensor) -> _Split:
    return _Split(part.sequences.select(rows), part.targets[rows])


def _divide(
    part: _Split,
    file: Sequences,
    names: Sequence[str],
    folds: int,
    fold: int,
    asked: str,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Divide sequences into folds; return the rows of all others and those of one.

    An error names the options that `asked` for it.

    Raises:
        ValueError: If there are fewer sequences of a class, or fewer groups, than folds, or all
            sequences of a class are in one fold.
    """
    check_installed(
        "eigenrnn-experiments[series]", "a division by groups or into folds", "sklearn"
    )
    from sklearn import model_selection

    targets = part.targets.numpy()
    sizes = {"sequences": len(part.sequences)}
    if names:
        sizes = {}
        counts = np.bincount(targets, minlength=len(names)).tolist()
        for name, count in zip(names, counts, strict=True):
            sizes[f"sequences of the class {name!r}"] = count
    if file.groups is not None:
        # scikit-learn wants as many sequences of some class, too
        sizes = {"groups": len(set(file.groups)), "sequences of one class": max(sizes.values())}
    for what, count in sizes.items():
        if count < folds:
            raise ValueError(
                f"expected at least {folds} {what} in {file.path} for {asked}, got {count}"
            )
    if file.groups is not None and names:
        kind = model_selection.StratifiedGroupKFold
    elif file.groups is not None:
        kind = model_selection.GroupKFold
    elif names:
        kind = model_selection.StratifiedKFold
    else:
        kind = model_selection.KFold
    divided = kind(folds, shuffle=True, random_state=seed).split(
        # scikit-learn only counts the rows of the features
        np.zeros(len(targets)),
        targets,
        file.groups,
    )
    kept, of_fold = list(divided)[fold]
    for number, name in enumerate(names):
        if not ((targets[kept] == number).any() and (targets[of_fold] == number).any()):
            raise ValueError(
                f"expected sequences of the class {name!r} of {file.path} on both sides of a "
                f"division into {folds} parts, got all on one: use fewer parts or other groups, "
                "or another split_seed"
            )
    return torch.from_numpy(kept), torch.from_numpy(of_fold)


def _check_channels(files: dict[str, Sequences]) -> None:
    train = files["train"]
    test = files["test"]
    if train.channels != test.channels:
        raise ValueError(
            f"expected the {len(train.channels)} channels of {train.path} in {test.path}, "
            f"{', '.join(train.channels)}, got {', '.join(test.channels)}"
        )


# Other files are tables, with a column of answers.
_ANSWER_REMEDIES = {
    ".npy": (
        "a single array has no room for it, so write an .npz file with the arrays x and {needed}, "
        "or for classes a folder with a folder of .npy files for each"
    ),
    ".npz": "add the array {needed}, or y beside the X of aeon",
    ".ts": "state it in the header (@classLabel for classes, @targetLabel for numbers)",
}


def _check_answers(file: Sequences, task: Series) -> None:
    answer = task.answer
    found = {"label": file.labels, "target": file.targets}
    needed = {"class": "label", "number": "target", "next": None}[answer]
    if needed is not None and found[needed] is None:
        got = "neither label nor target"
        for name, values in found.items():
            if values is not None:
                got = f"a {name}"
        remedy = _ANSWER_REMEDIES.get(file.path.suffix)
        if file is task.train or file is task.test:  # in memory, without a file
            remedy = "pass {needed}s= to the function for arrays, or {needed}= to from_table"
        elif remedy is None:
            remedy = (
                f"name its column in columns.{needed} (on the command line: "
                f"--task.columns.{needed} NAME)"
            )
            if needed == "label" and file.path.is_dir():
                remedy = f"put the files of each class in a folder of its name, {remedy}"
        raise ValueError(
            f"expected a {needed} of each sequence in {file.path} for answer={answer!r}, got "
            f"{got}: {remedy.format(needed=needed)}, or choose another answer"
        )
    short = (file.lengths < 2).nonzero()[0]
    if answer == "next" and len(short):
        raise ValueError(
            f"expected sequences of at least two steps in {file.path} for answer='next', got one "
            f"step in {file.location(int(short[0]))}"
        )


def _class_names(files: dict[str, Sequences]) -> tuple[str, ...]:
    train = files["train"]
    names = tuple(sorted(set(train.labels or ())))
    if len(names) < 2:
        raise ValueError(
            f"expected at least two classes in {train.path}, got only {', '.join(names)}"
        )
    if "test" not in files:
        return names
    test = files["test"]
    labels = test.labels or ()
    for number, label in enumerate(labels):
        if label not in names:
            raise ValueError(
                f"expected the classes of {train.path}, {', '.join(names)}, in {test.path}, got "
                f"{label!r} in {test.location(number)}"
            )
    return names


def _check_weights(weights: Weights | dict[str, float], names: Sequence[str]) -> None:
    """Check that weights are those of classes that occur.

    Raises:
        ValueError: If they name another one.
    """
    if not isinstance(weights, dict):
        return
    unknown = [name for name in weights if name not in names]
    if unknown:
        raise ValueError(
            f"expected class_weights of the classes {', '.join(names)}, got {unknown[0]!r}"
        )


def _part(file: Sequences, names: Sequence[str]) -> _Split:
    lengths = torch.from_numpy(file.lengths)
    sequences = RaggedSequences.concatenate([torch.from_numpy(file.values)], lengths)
    if names:
        numbers = {name: number for number, name in enumerate(names)}
        return _Split(sequences, torch.tensor([numbers[label] for label in file.labels or ()]))
    if file.targets is None:
        return _Split(sequences, torch.empty(len(file), 0))
    return _Split(sequences, torch.from_numpy(file.targets).unsqueeze(1))


def _hold_out(
    part: _Split, chosen: Tensor, names: Sequence[str], task: Series, path: Path
) -> tuple[Tensor, Tensor]:
    """Divide some sequences into kept and held-out ones, with the same fraction of each class.

    Raises:
        ValueError: If none could be held out.
    """
    generator = generator_for(task.split_seed, "validation")
    fraction = task.validation
    groups = [chosen]
    if names:
        targets = part.targets[chosen]
        groups = [chosen[targets == number] for number in range(len(names))]
    kept: list[Tensor] = []
    held_out: list[Tensor] = []
    for rows in groups:
        # a half is rounded up, where `round` would take the even neighbour
        count = math.floor(fraction * len(rows) + 0.5)
        count = min(max(count, 1), len(rows) - 1)
        shuffled = rows[torch.randperm(len(rows), generator=generator)]
        held_out.append(shuffled[:count])
        kept.append(shuffled[count:])
    if not sum(map(len, held_out)):
        raise ValueError(
            f"expected two sequences of a class in {path}, one to train on and one to hold out, "
            "got one of each: choose validation=0 to hold out none"
        )
    # in the order of the file
    return torch.cat(kept).sort().values, torch.cat(held_out).sort().values


def _moments(
    values: Tensor,  # (S, M)
    names: Sequence[str],
    path: Path,
) -> tuple[list[float], list[float]]:
    """Return the mean and the standard deviation; the latter is 1 for constant channels.

    Raises:
        ValueError: If all values of a channel are missing.
    """
    means: list[float] = []
    deviations: list[float] = []
    for name, column in zip(names, values.unbind(1), strict=True):
        # one channel at a time, because they are in double precision
        exact = column[~column.isnan()].double()
        if not len(exact):
            raise ValueError(
                f"expected a value of the channel {name!r} in the training part of {path}, got "
                "none: ignore the channel (columns.ignored)"
            )
        mean = exact.mean().item()
        deviation = exact.std(correction=0).item()
        # constant up to the rounding of the data: the channel is only shifted
        if deviation <= 10 * torch.finfo(values.dtype).eps * abs(mean):
            deviation = 1.0
        means.append(mean)
        deviations.append(deviation)
    return means, deviations


def _fit(
    part: _Split, file: Sequences, names: tuple[str, ...], task: Series
) -> SeriesPreprocessing:
    """Fit the preprocessing on the training split."""
    channels = file.channels
    mean = [0.0] * len(channels)
    deviation = [1.0] * len(channels)
    target_mean = 0.0
    target_deviation = 1.0
    is_scaled = task.scaling == "z_score"
    if is_scaled:
        mean, deviation = _moments(part.sequences.values, channels, file.path)
    if is_scaled and task.answer == "number":
        (target_mean,), (target_deviation,) = _moments(part.targets, ["target"], file.path)
    return SeriesPreprocessing(
        answer=task.answer,
        channels=channels,
        mean=tuple(mean),
        deviation=tuple(deviation),
        class_names=names,
        target_mean=target_mean,
        target_deviation=target_deviation,
        missing=task.missing,
        columns=task.columns,
        separator=task.separator,
        decimal=task.decimal,
    )


def _scale(part: _Split, fitted: SeriesPreprocessing) -> _Split:
    steps = fitted.inputs(part.sequences.values, part.sequences.lengths)
    sequences = RaggedSequences.concatenate([steps], part.sequences.lengths)
    targets = part.targets
    if fitted.answer == "number":
        targets = fitted.scale_targets(targets)
    return _Split(sequences, targets)
