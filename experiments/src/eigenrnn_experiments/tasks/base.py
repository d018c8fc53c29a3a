"""The interface of a task: its batches, their draws, its loss, its metric and its baseline."""

import itertools
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, cast, get_args

import numpy as np
import torch
from torch import Generator, Tensor, nn

from eigenrnn.models import LanguageModel, SequenceModel
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing

__all__ = [
    "HIGHER_IS_BETTER",
    "Batch",
    "Selection",
    "Task",
    "batch_indices",
    "check_at_least",
    "check_batch",
    "check_choices",
    "check_task",
    "epoch_indices",
    "generator_for",
    "model_for",
    "sequential_slices",
]


HIGHER_IS_BETTER = frozenset(
    {"accuracy", "auc", "f1", "longest", "r2", "segsnr_db", "stoi", "success", "pesq"}
)
"""The metrics and scores for which higher is better; for all others lower is better."""


@dataclass(frozen=True)
class Batch:
    """Input sequences and their targets.

    Args:
        inputs: The sequences, time first.
        targets: One target per step (readout `all`) or one per sequence (readout `last`).
        lengths: The number of valid steps of each sequence; if `None`, all steps are valid.
        targets_batch_dim: The batch dimension of `targets`: 1 for the readout `all`, 0 for
            `last`.
        carry: Whether each sequence continues the sequence of the same row in the previous batch.
            The network then starts from the final state of that batch.
        lr_scale: A factor on the learning rate of this step.

    Shape:
        inputs: :math:`(T, B, M)`, or :math:`(T, B)` for symbol indices.
        targets: :math:`(T, B, ...)` or :math:`(B, ...)`.
        lengths: :math:`(B)`.
    """

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None = None
    targets_batch_dim: int = 1
    carry: bool = False
    lr_scale: float = 1.0

    @property
    def size(self) -> int:
        """The number B of sequences."""
        return self.inputs.shape[1]

    def rows(self, start: int, stop: int) -> Self:
        """Return the sequences from `start` up to `stop`, such as the share of one worker."""
        rows = slice(start, stop)
        if self.targets_batch_dim == 0:
            targets = self.targets[rows]
        else:
            targets = self.targets[:, rows]
        lengths = self.lengths
        if lengths is not None:
            lengths = lengths[rows]
        return replace(self, inputs=self.inputs[:, rows], targets=targets, lengths=lengths)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move all tensors to a device, and those of floating point to a dtype."""

        def move(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():  # symbols and classes stay integers
                return tensor.to(device=device)
            return tensor.to(device=device, dtype=dtype)

        lengths = self.lengths
        if lengths is not None:
            lengths = move(lengths)
        return replace(self, inputs=move(self.inputs), targets=move(self.targets), lengths=lengths)


class Task(ABC):
    """A problem to train on; each subclass is a frozen dataclass whose fields are the options.

    A task does not use the global random generators. The batch of a training step is a pure
    function of the task, the batch size, the seed and the step number. An interrupted run
    therefore resumes with exactly the batches that it would have seen.

    Attributes:
        readout: Whether the targets are at `all` steps or after the `last` one.
        metric_name: The name of `metric`; one of `metric_names`.
        higher_is_better: Whether a larger metric is better.
        carries: Whether some batches continue from the final state of the previous batch.
    """

    readout: ClassVar[Literal["all", "last"]]
    metric_name: ClassVar[str]
    higher_is_better: ClassVar[bool]
    carries: ClassVar[bool] = False

    @property
    @abstractmethod
    def input_size(self) -> int:
        """The number M of input channels."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """The number K of outputs."""

    @property
    def vocabulary(self) -> int | None:
        """The number of different input symbols; None if the inputs are real numbers."""
        return None

    @property
    def preprocessing(self) -> TextPreprocessing | None:
        """What maps the user's own texts to inputs; None for a task that reads no such texts."""
        return None

    @property
    def reads_files(self) -> bool:
        """Whether the task reads the files of a data folder."""
        return hasattr(self, "data_root")

    def with_data_root(self, folder: str | None) -> Self:
        """Set the data folder; None leaves it as it is.

        Raises:
            ValueError: If the task reads no files.
        """
        if folder is None:
            return self
        if not self.reads_files:
            raise ValueError(f"expected no --data_root: {type(self).__name__} reads no files")
        return replace(self, data_root=folder)  # type: ignore[call-arg, type-var]

    def missing_data(self) -> str | None:
        """Name a required file or folder that is not on this machine; return None if all are.

        Nothing is read or downloaded.
        """
        return None

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, `train` first; all others are fixed sets."""
        return "train", "validation", "test"

    @abstractmethod
    def batch(self, size: int, generator: torch.Generator) -> Batch:
        """Draw one training batch; a finite training set is sampled with replacement."""

    @abstractmethod
    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of a split, from batch number `start` on.

        The batches of `train` never end. Any other split is passed over once, in order and
        independently of the seed; its last batch may be smaller.

        Args:
            split: One of `splits`.
            size: The number of sequences in a batch.
            seed: The seed of the training batches.
            start: The number of batches to skip; skipped batches are not generated.

        Raises:
            ValueError: If the split does not exist.
        """

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch, a scalar to minimise."""

    @abstractmethod
    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean metric of a batch, a scalar to report."""

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        """Compute the metrics of an evaluation from the sum of `metric_sums` over its batches.

        Args:
            sums: The sum, (S,) in double precision.
        """
        loss, metric, count = sums.tolist()
        return {"loss": loss / count, self.metric_name: metric / count}

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (S,)
        """Return sums over a batch from which the metrics of a whole split can be computed.

        A task overrides this, `metrics_from_sums` and `metric_names` if the number of targets
        differs between batches, or if a metric is not a mean over them (explained variance).

        Args:
            outputs: In at least single precision: bfloat16 has no odd number above 256.
            targets: The targets.
        """
        numbers = torch.stack([self.loss(outputs, targets), self.metric(outputs, targets)])
        return torch.cat([numbers, numbers.new_ones(1)]) * targets.numel()

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of the metrics of an evaluation, the loss first."""
        return tuple(dict.fromkeys(["loss", self.metric_name]))

    def is_higher_better(self, name: str) -> bool:
        """Whether a larger value of one of `metric_names` is better."""
        if name == self.metric_name:
            return self.higher_is_better
        return name in HIGHER_IS_BETTER or name.startswith("accuracy_")

    @abstractmethod
    def baseline(self) -> float:
        """The chance-level baseline: the loss of a predictor without memory, in closed form."""

    @abstractmethod
    def steps_per_epoch(self, size: int) -> int | None:
        """The number of training steps in an epoch; `None` for endless data."""

    def check_split(self, split: str) -> None:
        """Check the name of a split.

        Raises:
            ValueError: If it does not exist.
        """
        if split not in self.splits:
            raise ValueError(f"expected a split among {', '.join(self.splits)}, got {split!r}")


_PAGE = "see docs/extending.md"


def check_task(task: type[Task] | Task) -> None:
    """Check that a class defines what a task needs.

    Raises:
        TypeError: If it lacks a method or an attribute.
    """
    missing = sorted(getattr(task, "__abstractmethods__", ()))
    attributes = ("readout", "metric_name", "higher_is_better")
    missing += [name for name in attributes if not hasattr(task, name)]
    if missing:
        kind = task if isinstance(task, type) else type(task)
        raise TypeError(f"expected {kind.__name__} to define {', '.join(missing)}: {_PAGE}")


def check_batch(task: Task, batch: object) -> None:
    """Check that a task returns batches whose targets lie as its readout says.

    Raises:
        TypeError: If it is no `Batch`.
        ValueError: If the targets do not fit.
    """
    name = type(task).__name__
    if not isinstance(batch, Batch):
        raise TypeError(f"expected a Batch of {name}, got {type(batch).__name__}: {_PAGE}")
    batch_dim = {"all": 1, "last": 0}[task.readout]
    sizes = batch.targets.shape[batch_dim : batch_dim + 1]
    if batch.targets_batch_dim != batch_dim or sizes != (batch.size,):
        raise ValueError(
            f"expected targets of {name} with {batch.size} sequences along dimension "
            f"{batch_dim}, as readout={task.readout!r}, and targets_batch_dim={batch_dim}, got "
            f"shape {tuple(batch.targets.shape)} and {batch.targets_batch_dim}: {_PAGE}"
        )


def model_for(
    task: Task | TextPreprocessing,
    make_layer: Callable[..., Any],
    hidden_size: int,
    *,
    embedding_size: int | None = None,
    generator: Generator | None = None,
    **head: Any,
) -> nn.Module:
    """Build the model of a task around a recurrent layer.

    Args:
        task: The task to learn, or its preprocessing, which has the same vocabulary.
        make_layer: A class of recurrent layers.
        hidden_size: The number N of units.
        embedding_size: The size of the embedding, for a task with symbols as inputs; N by
            default, in which case the output weights are tied to the embedding.
        generator: The generator of the initialisation; torch's global generator by default.
        head: The initialisers of the head of a `SequenceModel`.

    Raises:
        ValueError: If `embedding_size` is set for a task with real inputs.
        TypeError: If the task lacks an attribute.
    """
    if isinstance(task, Task):
        check_task(task)
    options = {}
    if generator is not None:  # which the layers of torch do not take
        options["generator"] = generator
    if task.vocabulary is not None:
        width = embedding_size or hidden_size
        layer = make_layer(width, hidden_size, **options)
        tied = getattr(layer, "output_size", hidden_size) == width
        return LanguageModel(task.vocabulary, width, [layer], tied=tied, generator=generator)
    if embedding_size is not None:
        raise ValueError(
            f"expected embedding_size for a task that reads symbols only, got {embedding_size}"
        )
    task = cast("Task", task)  # a text has symbols
    layer = make_layer(task.input_size, hidden_size, **options)
    return SequenceModel(layer, task.output_size, task.readout, generator=generator, **head)


def check_choices(task: Any, **kinds: Any) -> None:
    """Check that each option is a value of its `Literal` type.

    Raises:
        ValueError: If one is not.
    """
    for name, kind in kinds.items():
        if getattr(task, name) not in get_args(kind):
            allowed = " or ".join(map(repr, get_args(kind)))
            raise ValueError(f"expected {name} to be {allowed}, got {getattr(task, name)!r}")


def check_at_least(task: Any, least: int, *names: str) -> None:
    """Check that each option is None or at least `least`.

    Raises:
        ValueError: If one is smaller.
    """
    for name in names:
        number = getattr(task, name)
        if number is not None and number < least:
            raise ValueError(f"expected {name} >= {least}, got {number}")


def generator_for(seed: int, *keys: int | str) -> torch.Generator:
    """Return the generator of a seed and a purpose.

    `numpy.random.SeedSequence` hashes the seed and the keys. Seeds 0 and 1, steps 0 and 1, or the
    keys "train" and "test" therefore give unrelated streams, and any step can be drawn without
    those before it.

    Args:
        seed: The seed of a run or of a set of data.
        keys: The purpose of the stream: words, and non-negative numbers such as a step.
    """
    numbers: list[int] = []
    for key in keys:
        if isinstance(key, str):
            numbers.append(zlib.crc32(key.encode()))  # not `hash`, which differs between processes
        else:
            numbers.append(key)
    # torch's CPU generator uses 32 bits of its seed, so that two of 10,000 steps draw the same
    # batch in about one run of a hundred; this does not affect training
    (mixed,) = np.random.SeedSequence(seed, spawn_key=numbers).generate_state(1)
    return torch.Generator().manual_seed(int(mixed))


def sequential_slices(count: int, size: int, start: int = 0) -> Iterator[slice]:
    """Yield the slices of consecutive batches of `size`; the last may be smaller."""
    return (slice(first, first + size) for first in range(start * size, count, size))


def epoch_indices(
    count: int, size: int, *, seed: int, start: int, shuffle: bool
) -> Iterator[Tensor]:
    """Yield the indices of the examples of each training step, without end.

    Every epoch takes each example once, so its last batch may be smaller. The order within an
    epoch is a pure function of the seed and the epoch, so nothing before `start` is replayed.

    Args:
        count: The number of examples.
        size: The number of examples in a batch.
        seed: The seed of the shuffles.
        start: The first step to yield.
        shuffle: Whether each epoch has a new order.
    """
    first_epoch, skipped = divmod(start, -(-count // size))
    for epoch in itertools.count(first_epoch):
        if shuffle:
            order = torch.randperm(count, generator=generator_for(seed, "epoch", epoch))
        else:
            order = torch.arange(count)
        for rows in sequential_slices(count, size, skipped):
            yield order[rows]
        skipped = 0


def batch_indices(
    split: str, count: int, size: int, *, seed: int, start: int, shuffle: bool
) -> Iterator[Tensor]:
    """Yield the indices of the examples of each batch of a split; see `Task.batches`.

    Args:
        split: The name of the split; `train` has epochs without end, any other one ordered pass.
        count: The number of examples.
        size: The number of examples in a batch.
        seed: The seed of the shuffles of the training set.
        start: The first batch to yield.
        shuffle: Whether each epoch of the training set has a new order.
    """
    if split == "train":
        return epoch_indices(count, size, seed=seed, start=start, shuffle=shuffle)
    order = torch.arange(count)
    return (order[rows] for rows in sequential_slices(count, size, start))


class Selection:
    """Which evaluation of a task is the best: the set and the metric that decide.

    The set is `validation` if the task has one, otherwise the first split after `train`.

    Args:
        task: The task.
        best_by: The metric in `Settings`; None means the main one of the task.

    Attributes:
        split: The set; None if the task has none.
        metric: The set and the metric, such as `validation accuracy`; None without a set.
        columns: The numbers of an evaluation, such as `test_loss`, for all sets.

    Raises:
        ValueError: If the task has no such metric.
    """

    def __init__(self, task: Task, best_by: str | None = None) -> None:
        names = task.metric_names
        if best_by is not None and best_by not in names:
            raise ValueError(
                f"expected best_by among {', '.join(names)}, the metrics of the task, got "
                f"{best_by!r}"
            )
        sets = [split for split in task.splits if split != "train"]
        self._task = task
        self._name = best_by or task.metric_name
        self.split: str | None = None
        self.metric: str | None = None
        if sets:
            self.split = "validation" if "validation" in sets else sets[0]
            self.metric = f"{self.split} {self._name}"
        self.columns = [f"{split}_{name}" for split in sets for name in names]

    def number(self, numbers: Mapping[str, float]) -> float:
        """Return the metric; NaN if an evaluation lacks it, as the AUC if one class occurs."""
        return numbers.get(self._name, math.nan)

    def score(self, numbers: Mapping[str, float]) -> float:
        """Return the metric with a sign so that larger is better."""
        number = self.number(numbers)
        return number if self._task.is_higher_better(self._name) else -number

    def is_better(self, new: Mapping[str, float], old: Mapping[str, float] | None) -> bool:
        """Compare two evaluations by the metric; the loss decides between equal metrics."""
        return self._rank(new) > self._rank(old)

    def _rank(self, numbers: Mapping[str, float] | None) -> tuple[float, float]:
        if numbers is None or any(map(math.isnan, (*numbers.values(), self.number(numbers)))):
            return -math.inf, -math.inf
        # of equal metrics, such as counts, the lower loss is better
        return self.score(numbers), -numbers["loss"]
