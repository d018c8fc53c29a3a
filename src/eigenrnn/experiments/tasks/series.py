"""The user's own time series: classification, regression or prediction."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from eigenrnn.experiments.data.files import locate, missing_file
from eigenrnn.experiments.data.ts import ARCHIVE
from eigenrnn.experiments.tasks.base import Batch, Task, check_at_least, check_choices
from eigenrnn.experiments.tasks.metrics import ClassificationMetrics, Metrics, RegressionMetrics
from eigenrnn.experiments.tasks.sampling import epoch_indices, sequential_slices
from eigenrnn.experiments.tasks.series_splits import SeriesSplit, SeriesSplits, read_splits
from eigenrnn.memory import check_memory

__all__ = ["Series"]

Answer = Literal["class", "number", "next"]
Weights = Literal["none", "balanced"]
Scaling = Literal["z_score", "none"]


@dataclass(frozen=True)
class Series(Task):
    r"""Predict the class or the number of a sequence, or its next values.

    One batch of the three sequences a, b and c; b is the longest::

        input    a1 b1 c1     answer="class"   target  cat  dog  cat     after the last step
                 a2 b2 c2     answer="number"  target  0.3  1.7  0.1     after the last step
                  -  b3  -    answer="next"    target  a2   b2   c2      at each step
                                                        -   b3    -

    The files are `.ts` as in the UCR and UEA archives, `.npz`, `.csv` or `.parquet`; the page on
    data describes their contents. They are read at first use. The scaling is fitted on the
    training split only.

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

    train: str | Path | None = field(default=None, compare=False)
    test: str | Path | None = field(default=None, compare=False)
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
                "expected no test and no answer='number' beside dataset, which has a test file "
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
        return self._splits["train"].sequences.values.shape[1]

    @property
    def output_size(self) -> int:
        return self._metrics.output_size

    def missing_data(self) -> str | None:
        if self.dataset is not None:
            return missing_file(ARCHIVE[self.dataset], self.data_root)
        own = [path for path in (self.train, self.test) if path is not None]
        return next((str(path) for path in own if not Path(path).expanduser().is_file()), None)

    @property
    def splits(self) -> tuple[str, ...]:
        held_out = ("validation",) if self.validation else ()
        has_test = self.dataset is not None or self.test is not None
        return ("train", *held_out, *(("test",) if has_test else ()))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their indices."""
        return self._data.class_names

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        self.check_request("train", size)
        data = self._splits["train"]
        rows = torch.randint(len(data.sequences), (size,), generator=generator)
        return self._lay_out(data, rows)

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_request(split, size, start)
        data = self._splits[split]
        count = len(data.sequences)
        self._check_memory(split, min(size, count))
        if split == "train":
            chosen = epoch_indices(count, size, seed=seed, start=start, shuffle=self.shuffle)
            return (self._lay_out(data, rows) for rows in chosen)
        order = torch.arange(count)
        return (self._lay_out(data, order[rows]) for rows in sequential_slices(count, size, start))

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
        targets = self._lay_out(data, torch.arange(len(data.sequences))).targets
        values = targets.double().flatten(0, -2)
        return (values - values.nanmean(0)).square().nanmean().item()

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        return math.ceil(len(self._splits["train"].sequences) / size)

    @property
    def _metrics_class(self) -> type[Metrics]:
        return ClassificationMetrics if self.answer == "class" else RegressionMetrics

    @cached_property
    def _data(self) -> SeriesSplits:
        train, test = self.train, self.test
        if self.dataset is not None:
            train, test = (locate(file, self.data_root) for file in ARCHIVE[self.dataset])
        return read_splits(
            Path(train or ""),
            None if test is None else Path(test),
            answer=self.answer,
            validation=self.validation,
            seed=self.split_seed,
            scaled=self.scaling == "z_score",
        )

    @property
    def _splits(self) -> dict[str, SeriesSplit]:
        return self._data.splits

    @cached_property
    def _metrics(self) -> Metrics:
        if self.answer != "class":
            return RegressionMetrics(self._data.target_scale)
        if self.class_weights == "none":
            return ClassificationMetrics(torch.ones(len(self.class_names)))
        return ClassificationMetrics((1 / (len(self.class_names) * self._frequencies)).float())

    @property
    def _frequencies(self) -> Tensor:  # (K,)
        """The frequency of each class in the training split."""
        targets = self._splits["train"].targets
        return targets.bincount(minlength=len(self.class_names)).double() / len(targets)

    def _lay_out(self, data: SeriesSplit, rows: Tensor) -> Batch:
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
