"""The user's own time series: classification, regression or prediction."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
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
)
from eigenrnn_experiments.tasks.preprocessing import Answer, Missing, SeriesPreprocessing
from eigenrnn_experiments.tasks.sampling import batch_indices
from eigenrnn_experiments.tasks.series_metrics import (
    ClassificationMetrics,
    Metrics,
    RegressionMetrics,
)
from eigenrnn_experiments.tasks.series_splits import Data, Split, make_splits

__all__ = ["Series"]

Weights = Literal["none", "balanced"]
Scaling = Literal["z_score", "none"]


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
    def _metrics_class(self) -> type[Metrics]:
        if self.answer == "class":
            return ClassificationMetrics
        return RegressionMetrics

    @cached_property
    def _data(self) -> Data:
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
        return make_splits(files, self)

    def _read(self, data: str | Path | Sequences) -> Sequences:
        if isinstance(data, Sequences):
            return check_sequences(data, allow_missing=self.missing != "error")
        # standard input cannot be read again when the run is resumed
        return read_series(Path(data), self.read_options)

    @property
    def _splits(self) -> dict[str, Split]:
        return self._data.splits

    @cached_property
    def _metrics(self) -> Metrics:
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

    def _collate(self, data: Split, rows: Tensor) -> Batch:
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
