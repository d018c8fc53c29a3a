"""The user's own series: a class or a number for each, or its next values."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from eigenrnn.experiments.data.files import absent, locate
from eigenrnn.experiments.data.ts import ARCHIVE
from eigenrnn.experiments.tasks.answers import Answers, Classes, Numbers
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.tasks.epochs import epochs, one_pass
from eigenrnn.experiments.tasks.options import check_at_least, check_choices
from eigenrnn.experiments.tasks.series_parts import Part, Parts, read_parts
from eigenrnn.memory import check_memory

__all__ = ["Series"]

Answer = Literal["class", "number", "next"]
Weights = Literal["none", "balanced"]
Scaling = Literal["z_score", "none"]


@dataclass(frozen=True)
class Series(Task):
    r"""Name the class or the number of a sequence after reading it, or go on with it.

    With three sequences of two channels, of which the second is the longest::

        input    a1 b1 c1     answer="class"   target  cat  dog  cat     after the last step
                 a2 b2 c2     answer="number"  target  0.3  1.7  0.1     after the last step
                  -  b3  -    answer="next"    target  a2   b2   c2      at each step
                                                        -   b3    -

    The files are `.ts` as of the UCR and UEA archives, `.npz`, `.csv` or `.parquet`; the page on
    data says what they hold. They are read when they are first needed. Scaling is fitted on what
    is trained on, and nothing else.

    Args:
        train: The file to train on.
        test: The file to test on; there is no test split without one.
        dataset: In place of both, one of the archives' sets: `ACSF1`, `BasicMotions`,
            `ItalyPowerDemand` or `JapaneseVowels`.
        answer: The `class` or the `number` of a sequence, or the `next` values of its channels.
        validation: The share of the training file that is held out, of each class alike.
        class_weights: Whether the loss counts each sequence alike (`none`) or each class
            (`balanced`).
        scaling: Whether channels and numbers are made to have mean 0 and variance 1 (`z_score`).
        shuffle: Whether every epoch has a new order.
        split_seed: The seed of what is held out.
        data_root: The only folder to look for a set of the archives in; see
            `eigenrnn.experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B, M)`, zero after the end of a sequence, where targets are NaN.
        targets: :math:`(B)`, numbers of the sorted classes; :math:`(B, 1)`; or :math:`(T, B, M)`.

    Units:
        Loss and baseline in nats a sequence for classes, else squared and scaled as the inputs
        are; `mse` in the units of the file.

    Raises:
        ValueError: If an option is out of its range.

    Source:
        Bagnall et al., 2018. https://arxiv.org/abs/1811.00075 (departures: a validation part is
        held out of the archive's training part).

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
                "any other set can be given by its files, as train and test"
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
        return self._kind.metric_name

    @property
    def higher_is_better(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._kind.higher_is_better

    @property
    def figure_names(self) -> tuple[str, ...]:
        return self._kind.names

    @property
    def input_size(self) -> int:
        return self._parts["train"].sequences.steps.shape[1]

    @property
    def output_size(self) -> int:
        return self._answers.size

    def missing_data(self) -> str | None:
        if self.dataset is not None:
            return absent(ARCHIVE[self.dataset], self.data_root)
        own = [path for path in (self.train, self.test) if path is not None]
        return next((str(path) for path in own if not Path(path).expanduser().is_file()), None)

    @property
    def splits(self) -> tuple[str, ...]:
        held_out = ("validation",) if self.validation else ()
        has_test = self.dataset is not None or self.test is not None
        return ("train", *held_out, *(("test",) if has_test else ()))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their numbers."""
        return self._read.class_names

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        self.check_request("train", size)
        part = self._parts["train"]
        rows = torch.randint(len(part.sequences), (size,), generator=generator)
        return self._lay_out(part, rows)

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_request(split, size, start)
        part = self._parts[split]
        count = len(part.sequences)
        self._check_memory(split, min(size, count))
        if split == "train":
            chosen = epochs(count, size, seed=seed, start=start, shuffle=self.shuffle)
            return (self._lay_out(part, rows) for rows in chosen)
        order = torch.arange(count)
        return (self._lay_out(part, order[rows]) for rows in one_pass(count, size, start))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._answers.loss(outputs, targets)

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._answers.metric(outputs, targets)

    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._answers.tally(outputs, targets)

    def figures(self, tally: Tensor) -> dict[str, float]:
        return self._answers.figures(tally)

    def baseline(self) -> float:
        r"""The loss of the best constant on what is trained on.

        For classes this is the entropy of their shares, each counted with its weight, and for
        numbers their variance.
        """
        if isinstance(self._answers, Classes):
            weighted = self._shares * self._answers.weights
            shares = weighted / weighted.sum()
            return -torch.special.xlogy(shares, shares).sum().item()
        part = self._parts["train"]
        targets = self._lay_out(part, torch.arange(len(part.sequences))).targets
        spread = targets.double().flatten(0, -2)
        return (spread - spread.nanmean(0)).square().nanmean().item()

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        return math.ceil(len(self._parts["train"].sequences) / size)

    @property
    def _kind(self) -> type[Answers]:
        return Classes if self.answer == "class" else Numbers

    @cached_property
    def _read(self) -> Parts:
        train, test = self.train, self.test
        if self.dataset is not None:
            train, test = (locate(file, self.data_root) for file in ARCHIVE[self.dataset])
        return read_parts(
            Path(train or ""),
            None if test is None else Path(test),
            answer=self.answer,
            validation=self.validation,
            seed=self.split_seed,
            scaled=self.scaling == "z_score",
        )

    @property
    def _parts(self) -> dict[str, Part]:
        return self._read.parts

    @cached_property
    def _answers(self) -> Answers:
        if self.answer != "class":
            return Numbers(self._read.answer_scale)
        if self.class_weights == "none":
            return Classes(torch.ones(len(self.class_names)))
        return Classes((1 / (len(self.class_names) * self._shares)).float())

    @property
    def _shares(self) -> Tensor:  # (K,)
        """The share of each class in what is trained on."""
        answers = self._parts["train"].answers
        return answers.bincount(minlength=len(self.class_names)).double() / len(answers)

    def _lay_out(self, part: Part, rows: Tensor) -> Batch:
        lengths = part.sequences.lengths[rows]
        if self.answer != "next":
            inputs = part.sequences.padded(rows)
            return Batch(inputs, part.answers[rows], lengths, targets_batch_dim=0)
        steps = int(lengths.max()) - 1
        targets = part.sequences.padded(rows, steps, ahead=1, due=lengths - 1)
        inputs = part.sequences.padded(rows, steps)
        return Batch(inputs, targets, lengths - 1)

    def _check_memory(self, split: str, size: int) -> None:
        longest = int(self._parts[split].sequences.lengths.max())
        copies = 2 if self.answer == "next" else 1
        check_memory(
            4 * copies * longest * size * self.input_size,
            f"a batch of {size} sequences of the {split} split, of {longest} steps and "
            f"{self.input_size} channels,",
            "take a smaller batch_size, or cut the sequences",
        )
