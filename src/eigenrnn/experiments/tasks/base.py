"""What a task is: a source of batches that knows its loss, its metric and its baseline."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Generator, Tensor, nn

from eigenrnn.memory import check_memory
from eigenrnn.models import LanguageModel, SequenceModel

__all__ = [
    "Batch",
    "Task",
    "model_for",
]

_FLOAT, _TARGET = 4, 8  # bytes
_SMALL = 2**28  # to ask how much is free would cost more than so much memory


@dataclass(frozen=True)
class Batch:
    """Sequences with what they should give.

    Args:
        inputs: The sequences, time first.
        targets: One target a step (readout `all`) or one a sequence (readout `last`).
        lengths: The number of valid steps of each sequence; all of them if `None`.
        targets_batch_dim: The dimension of `targets` that counts the sequences: 1 for the readout
            `all`, 0 for `last`.
        carry: Whether each sequence goes on where that of the same row in the batch before ended:
            the network then starts from the state that it was left in.
        lr_scale: What the learning rate of this step is multiplied with.

    Shape:
        inputs: :math:`(T, B, M)`, or :math:`(T, B)` for the numbers of symbols.
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
        """Take the sequences from `start` up to `stop`, as one of several workers does."""
        rows = slice(start, stop)
        return replace(
            self,
            inputs=self.inputs[:, rows],
            targets=self.targets[rows] if self.targets_batch_dim == 0 else self.targets[:, rows],
            lengths=None if self.lengths is None else self.lengths[rows],
        )

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move all tensors to a device, and those of floating point to a dtype."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)

        return replace(
            self,
            inputs=move(self.inputs),
            targets=move(self.targets),
            lengths=None if self.lengths is None else move(self.lengths),
        )


class Task(ABC):
    """A problem to train on; subclasses are frozen dataclasses whose fields are its options.

    A task never touches the global random streams, and the batch of a training step is a pure
    function of the task, the batch size, the seed and the number of the step: an interrupted run
    goes on with exactly the batches that it would have seen.

    Attributes:
        readout: Whether the network answers at `all` steps or after the `last` one.
        metric_name: What `metric` measures; one of `figure_names`.
        higher_is_better: Whether a higher metric is a better one.
        carries: Whether there are batches that go on from the state of the batch before.
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
        """The number of different symbols that are read; None where inputs are real numbers."""
        return None

    def missing_data(self) -> str | None:
        """Name a file or folder that it reads and that is not on this machine, or return None.

        Nothing is read or downloaded to find out.
        """
        return None

    @property
    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """The parts of the data, `train` first; the others are fixed sets."""

    @abstractmethod
    def batch(self, size: int, generator: torch.Generator) -> Batch:
        """Draw one training batch; a finite training set is drawn from with replacement."""

    @abstractmethod
    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        """Give the batches of a split, beginning with number `start`.

        Those of `train` never end. Those of any other split are one pass over it in order, the
        last of which may be smaller; they do not depend on the seed.

        Args:
            split: One of `splits`.
            size: The number of sequences in a batch.
            seed: The seed of the training batches.
            start: The number of batches to skip, at no cost.

        Raises:
            ValueError: If there is no such split, or a number is out of its range.
        """

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch, a scalar to minimise."""

    @abstractmethod
    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean metric of a batch, a scalar to report."""

    def figures(self, tally: Tensor) -> dict[str, float]:
        """Compute what an evaluation reports from the sum of the tallies of its batches.

        Args:
            tally: The sum, (S,) in double precision.
        """
        loss, metric, count = tally.tolist()
        return {"loss": loss / count, self.metric_name: metric / count}

    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (S,)
        """Count a batch towards an evaluation, in numbers that add up from batch to batch.

        A task whose batches differ in the number of answers, or that reports what is no mean over
        them (an F1 score, an explained variance), overrides this, `figures` and `figure_names`.
        """
        numbers = torch.stack([self.loss(outputs, targets), self.metric(outputs, targets)])
        return torch.cat([numbers, numbers.new_ones(1)]) * targets.numel()

    @property
    def figure_names(self) -> tuple[str, ...]:
        """What `figures` reports, the loss first."""
        return "loss", self.metric_name

    @abstractmethod
    def baseline(self) -> float:
        """The loss of a guess that remembers nothing of the input, in closed form."""

    @abstractmethod
    def steps_per_epoch(self, size: int) -> int | None:
        """The number of training steps that take each example once; `None` for endless data."""

    def check_request(self, split: str, size: int, start: int = 0) -> None:
        """Refuse to give batches that cannot be.

        Raises:
            ValueError: If there is no such split, a number is out of its range, or a batch of
                sequences of the task's `length` would not fit into memory.
        """
        if split not in self.splits:
            raise ValueError(f"expected a split among {', '.join(self.splits)}, got {split!r}")
        if size < 1:
            raise ValueError(f"expected a batch of size >= 1, got {size}")
        if start < 0:
            raise ValueError(f"expected start >= 0, got {start}")
        # a number for each channel, and the target beside it; a text's length is no sequence's
        length: int = 0 if self.carries else getattr(self, "length", 0)
        needed = length and length * size * (self.input_size * _FLOAT + _TARGET)
        if needed > _SMALL:
            what = f"a batch of {size} sequences of {length} steps"
            check_memory(needed, what, "take shorter sequences or a smaller batch")


def model_for(
    task: Task,
    make_layer: Callable[..., Any],
    hidden_size: int,
    *,
    embedding_size: int | None = None,
    generator: Generator | None = None,
) -> nn.Module:
    """Put a layer into the model that a task needs.

    Args:
        task: What it is to learn.
        make_layer: A class of recurrent layers.
        hidden_size: The number N of units.
        embedding_size: For a task that reads symbols, the number of numbers that each becomes; N
            by default, and the map back to symbols is then that of the embedding.
        generator: The source of all starts; torch's global stream by default.
    Raises:
        ValueError: If an embedding is asked for where no symbols are read.
    """
    if task.vocabulary is None:
        if embedding_size is not None:
            raise ValueError(
                f"expected embedding_size for a task that reads symbols only, got {embedding_size}"
            )
        layer = make_layer(task.input_size, hidden_size, generator=generator)
        return SequenceModel(layer, task.output_size, task.readout, generator=generator)
    width = embedding_size or hidden_size
    layer = make_layer(width, hidden_size, generator=generator)
    tied = getattr(layer, "output_size", hidden_size) == width
    return LanguageModel(task.vocabulary, width, [layer], tied=tied, generator=generator)
