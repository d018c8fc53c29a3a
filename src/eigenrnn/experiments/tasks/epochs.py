"""Which examples of a finite set each batch holds."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from eigenrnn.experiments.tasks.streams import stream

__all__ = ["epochs", "one_pass"]


def one_pass(count: int, size: int, start: int = 0) -> Iterator[slice]:
    """Cut `count` examples, in order, into batches of `size`; the last may be smaller."""
    return (slice(first, first + size) for first in range(start * size, count, size))


def epochs(count: int, size: int, *, seed: int, start: int, shuffle: bool) -> Iterator[Tensor]:
    """Yield the numbers of the examples of each training step, without end.

    Every epoch takes each example once, so its last batch may be smaller. The order within an
    epoch is a pure function of the seed and the epoch: beginning at step `start` replays nothing.

    Args:
        count: The number of examples.
        size: The number of examples in a batch.
        seed: The seed of the shuffles.
        start: The first step to yield.
        shuffle: Whether each epoch has an order of its own, else all keep that of the set.
    """
    first_epoch, skipped = divmod(start, -(-count // size))
    for epoch in itertools.count(first_epoch):
        order = (
            torch.randperm(count, generator=stream(seed, "epoch", epoch))
            if shuffle
            else torch.arange(count)
        )
        for rows in one_pass(count, size, skipped):
            yield order[rows]
        skipped = 0
