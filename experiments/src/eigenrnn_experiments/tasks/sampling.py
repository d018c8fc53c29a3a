"""Seeded generators, and the order of the examples in an epoch."""

import itertools
import zlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

__all__ = ["batch_indices", "epoch_indices", "generator_for", "sequential_slices"]


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
