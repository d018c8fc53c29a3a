"""The parts of a synthetic task: a training set, fixed or without end, and sets held out."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eigenrnn.experiments.tasks.epochs import epochs, one_pass
from eigenrnn.experiments.tasks.streams import stream
from eigenrnn.memory import check_memory

__all__ = ["ExampleSets", "Examples", "held_out"]

_SMALL = 2**28  # to ask how much is free would cost more than so much memory

Examples = tuple[Tensor, ...]
"""What examples are made of, each tensor with one row an example."""


@dataclass(frozen=True)
class ExampleSets:
    """Draws examples, and keeps those of which there are a fixed number.

    What is kept is what the task draws, so a task draws as little as it can, and writes the long
    sequences only when a batch is asked for.

    Args:
        draw: Draws a number of examples from a generator.
        sizes: The number of examples in each part; None where they are drawn anew at every step.
        shuffle: Whether a fixed training set has a new order in every epoch.
        data_seed: The seed of the fixed sets, each of which has a stream of its own.
    Raises:
        ValueError: If the fixed sets do not fit into memory.
    """

    draw: Callable[[int, torch.Generator], Examples]
    sizes: Mapping[str, int | None]
    shuffle: bool
    data_seed: int
    _kept: dict[str, Examples] = field(default_factory=dict[str, Examples], init=False)

    def __post_init__(self) -> None:
        count = sum(size for size in self.sizes.values() if size is not None)
        example = self.draw(1, stream(self.data_seed, "size"))
        needed = count * sum(part.numel() * part.element_size() for part in example)
        if needed > _SMALL:
            check_memory(needed, f"the fixed sets of {count} examples", "take fewer examples")

    def fixed(self, split: str) -> Examples | None:
        """Return the examples of a part, drawn at first use; None where they never end."""
        size = self.sizes[split]
        if size is not None and split not in self._kept:
            self._kept[split] = self.draw(size, stream(self.data_seed, f"{split} set"))
        return self._kept.get(split)

    def sample(self, count: int, generator: torch.Generator) -> Examples:
        """Draw training examples, from a fixed set with replacement."""
        examples = self.fixed("train")
        if examples is None:
            return self.draw(count, generator)
        rows = torch.randint(len(examples[0]), (count,), generator=generator)
        return tuple(each[rows] for each in examples)

    def batches(self, split: str, size: int, seed: int, start: int) -> Iterator[Examples]:
        """Give the examples of each batch; see `Task.batches`."""
        examples = self.fixed(split)
        if examples is None:
            steps = itertools.count(start)
            return (self.draw(size, stream(seed, split, step)) for step in steps)
        count = len(examples[0])
        chosen = (
            epochs(count, size, seed=seed, start=start, shuffle=self.shuffle)
            if split == "train"
            else one_pass(count, size, start)
        )
        return (tuple(each[rows] for each in examples) for rows in chosen)


def held_out(validation_examples: int | None, test_examples: int, at_most: int) -> int:
    """Size a validation set: as asked for, else as the test set but not beyond `at_most`."""
    return min(test_examples, at_most) if validation_examples is None else validation_examples
