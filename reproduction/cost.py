"""Estimates of the training time of a row."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

from torch import nn

from eigenrnn.layers import EURNN, GRU, LSTM, URNN, FullCapacityURNN, ScuRNN
from eigenrnn.layers.stacked import Stacked
from eigenrnn_experiments.recipes.recipe import Row
from eigenrnn_experiments.tasks import Task

__all__ = ["estimated_seconds"]

# Of one core with AVX-512 that other work slows: the processor time of the runs in RESULTS.md.
# multiply-adds per second
_OUR_RATE = 36e9
_TORCH_RATE = 15e9
_TIME_STEP = 14e-6  # fixed overhead per time step, in seconds
_UPDATE = 6e-3  # seconds per optimiser step outside the recurrence
_ROTATION = 5e-8  # seconds per entry of W in a layer of EURNN's rotations
# Multiply-adds of the constraint per N^3: about those of an exponential and its gradient.
_CONSTRAINT = 30
# Duration of a forward pass relative to an optimiser step: 0.26 to 0.38 in runs of nnrnn/fig2.
_FORWARD = 1 / 3


def estimated_seconds(row: Row) -> float | None:
    r"""Roughly estimate the time of one run of a row on one core, with its evaluations.

    .. math:: s \, c(T, B) + \frac{e}{3} \sum_j c(T_j, B_j), \qquad
        c(T, B) = T \max \left( \frac{3 B w}{r}, t \right) + \frac{30 N^3}{r} + b

    Here s is the number of optimiser steps and e that of evaluations. Training batches have B
    sequences of T steps; evaluation batches have the sizes :math:`T_j, B_j` and need only the
    forward pass. Each time step uses w weights. EURNN adds the cost of its layers of rotations.
    The runs of `RESULTS.md` took between half and twice their estimate, stacks up to 2.5 times.

    Args:
        row: A network of a recipe.
    Returns:
        Seconds; None if they depend on missing data.
    """
    if row.task.missing_data() is not None:
        return None
    settings = row.settings
    steps = settings.total_steps(row.task)
    evaluations = math.ceil(steps / settings.evaluation_interval(row.task))
    batches = _evaluation_batches(row.task, settings.eval_batch_size or settings.batch_size)
    evaluation = _FORWARD * sum(_seconds(row, *shape) for shape in batches)
    step = _seconds(row, _length(row.task), settings.batch_size)
    return steps * step + evaluations * evaluation


def _seconds(row: Row, length: int, batch_size: int) -> float:
    """Estimate the duration of one optimiser step."""
    rate = _TORCH_RATE
    constraint = 0.0
    if isinstance(row.layer, type) and issubclass(row.layer, Stacked):
        rate = _OUR_RATE
        constraint = _CONSTRAINT * row.hidden_size**3 / rate
    weights = max(row.parameters or 0, _matrices_per_step(row.layer) * row.hidden_size**2)
    # three products: one forward, and two backward, for the states and for the weights
    time_step = max(3 * batch_size * weights / rate, _TIME_STEP)
    rotations = row.options.get("capacity", 0) * row.hidden_size**2 * _ROTATION
    return length * time_step + constraint + rotations + _UPDATE


def _matrices_per_step(layer: Any) -> int:
    """Return the number of real N x N matrices that multiply the state at each time step."""
    if not isinstance(layer, type):
        return 1
    if issubclass(layer, nn.LSTM | LSTM | URNN | FullCapacityURNN | ScuRNN | EURNN):
        return 4  # four gates, or the four real blocks of a complex matrix
    if issubclass(layer, nn.GRU | GRU):
        return 3
    return 1


@cache
def _length(task: Task) -> int:
    return len(next(task.batches("train", 1)).inputs)


@cache
def _evaluation_batches(task: Task, size: int) -> tuple[tuple[int, int], ...]:
    """List the length and size of each batch of an evaluation."""
    # a copy, so the cached data is freed afterwards
    copy = replace(task)  # pyright: ignore[reportArgumentType]  tasks are dataclasses
    parts = (copy.batches(split, size) for split in task.splits if split != "train")
    return tuple((len(batch.inputs), batch.size) for part in parts for batch in part)
