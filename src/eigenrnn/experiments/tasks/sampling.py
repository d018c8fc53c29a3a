"""Seeded generators, the order of examples in an epoch, and the sets of synthetic tasks."""

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from eigenrnn.memory import check_memory

__all__ = [
    "ExampleSets",
    "Examples",
    "epoch_indices",
    "generator_for",
    "sequential_slices",
    "splitmix_uniforms",
    "validation_size",
]


def generator_for(seed: int, *keys: int | str) -> torch.Generator:
    """Return the generator of a seed and a purpose.

    `numpy.random.SeedSequence` hashes the seed and the keys. Seeds 0 and 1, steps 0 and 1, or the
    keys "train" and "test" therefore give unrelated streams, and any step can be drawn without
    those before it.

    Args:
        seed: The seed of a run or of a set of data.
        keys: The purpose of the stream: words, and non-negative numbers such as a step.

    Raises:
        ValueError: If the seed is negative.
    """
    if seed < 0:
        raise ValueError(f"expected seed >= 0, got {seed}")
    numbers = [zlib.crc32(key.encode()) if isinstance(key, str) else key for key in keys]
    # torch's CPU generator uses 32 bits of its seed, so that two of 10,000 steps draw the same
    # batch in about one run of a hundred; this does not affect training
    (mixed,) = np.random.SeedSequence(seed, spawn_key=numbers).generate_state(1)
    return torch.Generator().manual_seed(int(mixed))


def splitmix_uniforms(
    seeds: Tensor,  # (B,)
    count: int,
) -> Tensor:  # (count, B)
    """Draw numbers uniform in [0, 1) from one SplitMix64 stream per seed.

    The k-th number of a stream is a function of the seed and k, so a set of long noise sequences
    can be stored as one seed per sequence. The numbers are multiples of 2^-24, like torch's in
    single precision.

    Args:
        seeds: Any 64-bit integers.
        count: The length of each stream.

    Source:
        Steele, Lea and Flood, OOPSLA 2014. https://doi.org/10.1145/2660193.2660195
    """
    steps = np.arange(1, count + 1, dtype=np.uint64)[:, None]
    mixed = seeds.numpy().view(np.uint64) + steps * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(40)
    return torch.from_numpy(mixed.astype(np.float32) * np.float32(2**-24))


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
        order = (
            torch.randperm(count, generator=generator_for(seed, "epoch", epoch))
            if shuffle
            else torch.arange(count)
        )
        for rows in sequential_slices(count, size, skipped):
            yield order[rows]
        skipped = 0


_UNCHECKED = 2**28  # bytes; for less it is not worth reading how much memory is free

Examples = tuple[Tensor, ...]
"""Tensors with one row per example."""


@dataclass(frozen=True)
class ExampleSets:
    """The splits of a synthetic task: fixed sets, or new examples at every step.

    The sets store what `draw` returns. A task therefore draws a compact form of each example and
    expands it to a long sequence only within a batch.

    Args:
        draw: Draws a number of examples from a generator.
        sizes: The number of examples in each split; None draws new examples at every step.
        shuffle: Whether a fixed training set has a new order in every epoch.
        data_seed: The seed of the fixed sets; each set has its own stream.

    Raises:
        ValueError: If the fixed sets do not fit into memory.
    """

    draw: Callable[[int, torch.Generator], Examples]
    sizes: Mapping[str, int | None]
    shuffle: bool
    data_seed: int
    _stored: dict[str, Examples] = field(default_factory=dict[str, Examples], init=False)

    def __post_init__(self) -> None:
        count = sum(size for size in self.sizes.values() if size is not None)
        example = self.draw(1, generator_for(self.data_seed, "size"))
        needed = count * sum(part.numel() * part.element_size() for part in example)
        if needed > _UNCHECKED:
            check_memory(needed, f"the fixed sets of {count} examples", "take fewer examples")

    def fixed_examples(self, split: str) -> Examples | None:
        """Return the examples of a split, drawn at first use; None if they are not fixed."""
        size = self.sizes[split]
        if size is not None and split not in self._stored:
            self._stored[split] = self.draw(size, generator_for(self.data_seed, f"{split} set"))
        return self._stored.get(split)

    def sample(self, count: int, generator: torch.Generator) -> Examples:
        """Draw training examples; from a fixed set, with replacement."""
        examples = self.fixed_examples("train")
        if examples is None:
            return self.draw(count, generator)
        rows = torch.randint(len(examples[0]), (count,), generator=generator)
        return tuple(each[rows] for each in examples)

    def batches(self, split: str, size: int, seed: int, start: int) -> Iterator[Examples]:
        """Yield the examples of each batch; see `Task.batches`."""
        examples = self.fixed_examples(split)
        if examples is None:
            steps = itertools.count(start)
            return (self.draw(size, generator_for(seed, split, step)) for step in steps)
        count = len(examples[0])
        chosen = (
            epoch_indices(count, size, seed=seed, start=start, shuffle=self.shuffle)
            if split == "train"
            else sequential_slices(count, size, start)
        )
        return (tuple(each[rows] for each in examples) for rows in chosen)


def validation_size(validation_examples: int | None, test_examples: int, at_most: int) -> int:
    """Return the size of the validation set; by default that of the test set, up to `at_most`."""
    return min(test_examples, at_most) if validation_examples is None else validation_examples
