"""The user's own time series: classification, regression or prediction."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn.experiments.data.files import locate, missing_file
from eigenrnn.experiments.data.memory import to_arrays
from eigenrnn.experiments.data.sequences import Sequences
from eigenrnn.experiments.data.series import read_series
from eigenrnn.experiments.data.ts import ARCHIVE
from eigenrnn.experiments.tasks.base import Batch, Task, check_at_least, check_choices
from eigenrnn.experiments.tasks.preprocessing import Answer, SeriesPreprocessing
from eigenrnn.experiments.tasks.ragged_sequences import RaggedSequences, squared_errors
from eigenrnn.experiments.tasks.sampling import batch_indices, generator_for
from eigenrnn.free_memory import check_memory

__all__ = ["ClassificationMetrics", "RegressionMetrics", "Series"]

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


@dataclass(frozen=True)
class ClassificationMetrics(_Metrics):
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
class RegressionMetrics(_Metrics):
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


@dataclass(frozen=True)
class Series(Task):
    r"""Predict a class or a number for each sequence, or its next values.

    One batch of the three sequences a, b and c; b is the longest::

        input    a1 b1 c1     answer="class"   target  cat  dog  cat     after the last step
                 a2 b2 c2     answer="number"  target  0.3  1.7  0.1     after the last step
                  -  b3  -    answer="next"    target  a2   b2   c2      at each step
                                                        -   b3    -

    The files are `.ts` as in the UCR and UEA archives, `.npz`, `.csv` or `.parquet`; the page on
    data describes their contents. They are read at first use. The scaling is fitted on the
    training split only. In place of a file, Python may pass sequences that are made by
    `from_arrays`, `from_channels_first` or `from_table` of `eigenrnn.experiments.data.memory`. A
    run stores them in its folder.

    Args:
        train: The training file.
        test: The test file; without one there is no test split.
        dataset: In place of both files, a data set of the archives: `ACSF1`, `BasicMotions`,
            `ItalyPowerDemand` or `JapaneseVowels`.
        answer: The `class` or the `number` of a sequence, or the `next` values of its channels.
        validation: The fraction of the training file that is held out, the same for each class.
        class_weights: Whether each sequence (`none`) or each class (`balanced`) has the same
            weight in the loss.
        scaling: Whether channels and numbers are scaled to mean 0 and variance 1 (`z_score`).
        shuffle: Whether every epoch has a new order.
        split_seed: The seed of the held-out sequences.
        data_root: The only folder to search for a set of the archives; see
            `eigenrnn.experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B, M)`, zero after the end of a sequence, where targets are NaN.
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
    class_weights: Weights = "none"
    scaling: Scaling = "z_score"
    shuffle: bool = True
    split_seed: int = 0
    data_root: str | Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_choices(self, answer=Answer, class_weights=Weights, scaling=Scaling)
        check_at_least(self, 0, "split_seed")
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
        if self.class_weights == "balanced" and self.answer != "class":
            raise ValueError(
                f"expected class_weights only with answer='class', got {self.answer!r}"
            )

    @property
    def readout(  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
    ) -> Literal["all", "last"]:
        return "all" if self.answer == "next" else "last"

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
        own = [path for path in (self.train, self.test) if isinstance(path, str | Path)]
        return next((str(path) for path in own if not Path(path).expanduser().is_file()), None)

    def data_in_memory(self) -> Mapping[str, Mapping[str, NDArray[Any]]]:
        given = {"train": self.train, "test": self.test}
        return {
            split: to_arrays(data) for split, data in given.items() if isinstance(data, Sequences)
        }

    @property
    def splits(self) -> tuple[str, ...]:
        held_out = ("validation",) if self.validation else ()
        has_test = self.dataset is not None or self.test is not None
        return ("train", *held_out, *(("test",) if has_test else ()))

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
        self._check_memory(split, min(size, count))
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
        return ClassificationMetrics if self.answer == "class" else RegressionMetrics

    @cached_property
    def _data(self) -> _Data:
        train, test = self.train, self.test
        if self.dataset is not None:
            train, test = (locate(file, self.data_root) for file in ARCHIVE[self.dataset])
        files = {"train": _read(train or "")}
        if test is not None:
            files["test"] = _read(test)
        return _make_splits(
            files,
            answer=self.answer,
            validation=self.validation,
            seed=self.split_seed,
            scaled=self.scaling == "z_score",
        )

    @property
    def _splits(self) -> dict[str, _Split]:
        return self._data.splits

    @cached_property
    def _metrics(self) -> _Metrics:
        if self.answer != "class":
            fitted = self.preprocessing
            deviation = fitted.deviation if self.answer == "next" else (fitted.target_deviation,)
            return RegressionMetrics(torch.tensor(deviation))
        if self.class_weights == "none":
            return ClassificationMetrics(torch.ones(len(self.class_names)))
        return ClassificationMetrics((1 / (len(self.class_names) * self._frequencies)).float())

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
        inputs = data.sequences.padded(rows, steps)
        return Batch(inputs, targets, lengths - 1)

    def _check_memory(self, split: str, size: int) -> None:
        longest = int(self._splits[split].sequences.lengths.max())
        copies = 2 if self.answer == "next" else 1
        check_memory(
            4 * copies * longest * size * self.input_size,
            f"a batch of {size} sequences of the {split} split, of {longest} steps and "
            f"{self.input_size} channels,",
            "take a smaller batch_size, or cut the sequences",
        )


def _read(data: str | Path | Sequences) -> Sequences:
    return data if isinstance(data, Sequences) else read_series(Path(data))


def _make_splits(
    files: dict[str, Sequences], *, answer: Answer, validation: float, seed: int, scaled: bool
) -> _Data:
    """Hold out the validation split, and scale all splits.

    Args:
        files: The training and perhaps the test sequences.
        answer: The kind of targets: `class`, `number` or `next`.
        validation: The fraction to hold out.
        seed: The seed of the held-out sequences.
        scaled: Whether to scale the splits.

    Raises:
        ValueError: If the files do not match or lack the targets, or a split lacks a class.
    """
    if "test" in files:
        _check_channels(files)
    names: tuple[str, ...] = ()
    for file in files.values():
        _check_answers(file, answer)
    if answer == "class":
        names = _class_names(files)
    parts = {split: _part(file, names) for split, file in files.items()}
    if validation:
        kept, held_out = _hold_out(parts["train"], names, validation, seed, files["train"].path)
        whole = parts["train"]
        chosen = {"train": kept, "validation": held_out}
        parts |= {
            split: _Split(whole.sequences.select(rows), whole.targets[rows])
            for split, rows in chosen.items()
        }
    fitted = _fit(parts["train"], files["train"].channels, names, answer, scaled=scaled)
    return _Data({split: _scale(part, fitted) for split, part in parts.items()}, fitted)


def _check_channels(files: dict[str, Sequences]) -> None:
    train, test = files["train"], files["test"]
    if train.channels != test.channels:
        raise ValueError(
            f"expected the {len(train.channels)} channels of {train.path} in {test.path}, "
            f"{', '.join(train.channels)}, got {', '.join(test.channels)}"
        )


def _check_answers(file: Sequences, answer: str) -> None:
    found = "label" if file.labels is not None else "target" if file.targets is not None else ""
    needed = {"class": "label", "number": "target", "next": found}[answer]
    if found != needed:
        got = f"a {found}" if found else "neither label nor target"
        raise ValueError(
            f"expected a {needed} of each sequence in {file.path} for answer={answer!r}, got {got}"
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
    test, labels = files["test"], files["test"].labels or ()
    for number, label in enumerate(labels):
        if label not in names:
            raise ValueError(
                f"expected the classes of {train.path}, {', '.join(names)}, in {test.path}, got "
                f"{label!r} in {test.location(number)}"
            )
    if lost := sorted(set(names) - set(labels)):
        raise ValueError(
            f"expected each class of {train.path} in {test.path}, got none of {', '.join(lost)}; "
            "divide the sequences so that each class is in both files"
        )
    return names


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
    part: _Split, names: Sequence[str], fraction: float, seed: int, path: Path
) -> tuple[Tensor, Tensor]:
    """Divide a split into kept and held-out sequences, with the same fraction of each class.

    Raises:
        ValueError: If one of the two would be empty.
    """
    generator = generator_for(seed, "validation")
    groups = [torch.arange(len(part.sequences))]
    if names:
        groups = [(part.targets == number).nonzero().flatten() for number in range(len(names))]
    kept: list[Tensor] = []
    held_out: list[Tensor] = []
    for number, rows in enumerate(groups):
        count = math.floor(fraction * len(rows) + 0.5)
        if not 0 < count < len(rows):
            of = f"of the class {names[number]!r} " if names else ""
            raise ValueError(
                f"expected validation={fraction} to leave some of the {len(rows)} sequences {of}"
                f"in {path} on either side, got {count} held out; choose another fraction, "
                "or 0 to hold out none"
            )
        shuffled = rows[torch.randperm(len(rows), generator=generator)]
        held_out.append(shuffled[:count])
        kept.append(shuffled[count:])
    return torch.cat(kept).sort().values, torch.cat(held_out).sort().values


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:  # (S, M) -> (M,), (M,)
    """Return the mean and the standard deviation; the latter is 1 for constant channels."""
    exact = values.double()
    mean, deviation = exact.mean(0), exact.std(0, correction=0)
    # channels that are constant up to rounding are only shifted
    constant = deviation <= 1e-6 * mean.abs()
    return mean, deviation.masked_fill(constant, 1.0)


def _fit(
    part: _Split,
    channels: tuple[str, ...],
    names: tuple[str, ...],
    answer: Answer,
    *,
    scaled: bool,
) -> SeriesPreprocessing:
    """Fit the preprocessing on the training split."""
    mean, deviation = torch.zeros(len(channels)), torch.ones(len(channels))
    centre, width = torch.zeros(1), torch.ones(1)
    if scaled:
        mean, deviation = _moments(part.sequences.values)
    if scaled and answer == "number":
        centre, width = _moments(part.targets)
    return SeriesPreprocessing(
        answer,
        channels,
        tuple(mean.tolist()),
        tuple(deviation.tolist()),
        names,
        centre.item(),
        width.item(),
    )


def _scale(part: _Split, fitted: SeriesPreprocessing) -> _Split:
    steps = fitted.scale(part.sequences.values)
    sequences = RaggedSequences.concatenate([steps], part.sequences.lengths)
    is_number = fitted.answer == "number"
    return _Split(sequences, fitted.scale_targets(part.targets) if is_number else part.targets)
