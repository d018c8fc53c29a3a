"""A few whole sequences of a task, to look at a network by."""

from dataclasses import replace

import torch

from eigenrnn.experiments.tasks.base import Batch, Task

__all__ = ["probe"]


def probe(task: Task, split: str, sequences: int) -> Batch:
    """Return a few sequences of a split, always the same, all of one length.

    Of a batch whose sequences differ in length those that are as long as its longest are taken,
    which may be fewer.

    Args:
        task: Gives the batch.
        split: One of the task's.
        sequences: How many; at most as many as the split has.
    """
    batch = next(task.batches(split, sequences))
    if batch.lengths is None:
        return batch
    longest = int(batch.lengths.max())
    rows = torch.nonzero(batch.lengths == longest).flatten()
    last = batch.targets_batch_dim == 0
    return replace(
        batch,
        inputs=batch.inputs[:longest, rows],
        targets=batch.targets[rows] if last else batch.targets[:longest, rows],
        lengths=None,
    )
