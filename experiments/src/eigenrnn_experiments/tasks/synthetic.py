"""The base classes of the synthetic tasks: examples drawn from seeds, and fixed sets of them."""

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from eigenrnn_experiments.tasks.base import (
    Batch,
    Task,
    batch_indices,
    check_at_least,
    generator_for,
)

__all__ = ["Examples", "SymbolTask", "Synthetic"]


Examples = tuple[Tensor, ...]
"""Tensors with one row per example."""


@dataclass(frozen=True, kw_only=True)
class Synthetic(Task):
    """A task whose examples are drawn at random; a subclass defines `_draw` and `_collate`.

    The validation and test sets are fixed, and the training set may be. A fixed set has a random
    generator of its own, and stores the compact examples that `_draw` returns. `_collate` expands
    those of a batch to long sequences.

    Args:
        train_examples: The size of a fixed training set; `None` draws new examples at every step.
        test_examples: The size of the fixed test set.
        validation_examples: The size of the fixed validation set, which no paper has; `None`
            takes that of the test set, at most 200.
        shuffle: Whether a fixed training set has a new order in every epoch.
        data_seed: The seed of the fixed sets.
    """

    train_examples: int | None = None
    test_examples: int = 1_000
    validation_examples: int | None = None
    shuffle: bool = False
    data_seed: int = 0
    # the largest validation set by default
    default_validation: ClassVar[int] = 200

    def __post_init__(self) -> None:
        check_at_least(self, 1, "train_examples", "test_examples", "validation_examples")
        check_at_least(self, 0, "data_seed")

    @abstractmethod
    def _draw(self, count: int, generator: Generator) -> Examples:
        """Draw examples in a compact form, one tensor per part."""

    def _draw_fixed(self, _split: str, count: int, generator: Generator) -> Examples:
        """Draw the examples of a fixed set; a subclass may draw longer ones for some splits."""
        return self._draw(count, generator)

    @abstractmethod
    def _collate(self, examples: Examples) -> Batch:
        """Expand examples to the sequences of a batch."""

    def batch(self, size: int, generator: Generator) -> Batch:
        examples = self._fixed_examples("train")
        if examples is None:
            return self._collate(self._draw(size, generator))
        rows = torch.randint(len(examples[0]), (size,), generator=generator)
        return self._collate(_select(examples, rows))

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_split(split)
        examples = self._fixed_examples(split)
        if examples is None:
            generators = (generator_for(seed, split, step) for step in itertools.count(start))
            return (self._collate(self._draw(size, each)) for each in generators)
        chosen = batch_indices(
            split, len(examples[0]), size, seed=seed, start=start, shuffle=self.shuffle
        )
        return (self._collate(_select(examples, rows)) for rows in chosen)

    def steps_per_epoch(self, size: int) -> int | None:
        if self.train_examples is None:
            return None
        return math.ceil(self.train_examples / size)

    def _fixed_examples(self, split: str) -> Examples | None:
        """Return the examples of a split, drawn at first use; None if they are not fixed."""
        size = self._set_sizes[split]
        if size is not None and split not in self._stored:
            generator = generator_for(self.data_seed, f"{split} set")
            self._stored[split] = self._draw_fixed(split, size, generator)
        return self._stored.get(split)

    @cached_property
    def _stored(self) -> dict[str, Examples]:
        return {}

    @cached_property
    def _set_sizes(self) -> dict[str, int | None]:
        """The size of each fixed set; None for one that is not fixed."""
        validation = self.validation_examples
        if validation is None:
            validation = min(self.test_examples, self.default_validation)
        return {
            "train": self.train_examples,
            "validation": validation,
            "test": self.test_examples,
        }


def _select(examples: Examples, rows: Tensor) -> Examples:
    return tuple(part[rows] for part in examples)


class SymbolTask(Synthetic):
    """A task with a symbol to predict at every step."""

    readout: ClassVar[Literal["all", "last"]] = "all"
    metric_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # (1, K, T B): torch vectorises over positions but loops over classes; with classes last
        # the loop would be over all positions and take six times as long
        logits = outputs.flatten(0, 1).T.contiguous()
        return F.cross_entropy(logits.unsqueeze(0), targets.flatten().unsqueeze(0))

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(-1) == targets).float().mean()
