"""About how long the runs of a row take."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

from torch import nn

from eigenrnn.layers import EURNN, GRU, URNN, FullCapacityURNN, ScuRNN
from eigenrnn.layers.stacked import Stacked
from eigenrnn.recipes.base import Row
from eigenrnn.tasks import Task

__all__ = ["estimated_seconds"]

# What two cores with AVX-512 reach, see docs/speed.md: multiply-adds a second of our layers and of
# torch's, the shortest step of a recurrence, and what a training step takes beside it.
_OURS, _TORCHS = 150e9, 65e9
_SHORTEST_STEP, _BESIDE = 8e-6, 5e-3
_CONSTRAINT = 30  # times N^3 multiply-adds, about what an exponential and its gradient take
_FORWARDS = 1 / 3  # of a step of optimisation; 0.26 to 0.38 in the journals of nnrnn/fig2
_ROTATION = 5e-8  # seconds for an entry of W in each of EURNN's layers of rotations


def estimated_seconds(row: Row) -> float | None:
    r"""Estimate what one run of a row takes on two cores, evaluations included.

    .. math:: s \, c(T, B) + \frac{e}{3} \sum_j c(T_j, B_j), \qquad
        c(T, B) = T \max \left( \frac{3 B w}{r}, t \right) + \frac{30 N^3}{r} + b

    Over s steps of optimisation, sequences of T steps in batches of B, and w weights that each
    step of a sequence meets; e evaluations, each of batches of the sizes :math:`T_j, B_j`, which
    go forwards alone. r, t and b are constants of such a machine. EURNN's layers of rotations come
    to that, each with the entries of W. A machine with other work to do takes several times as
    long: `RESULTS.md` sets the runs that were made beside their estimates.

    Args:
        row: A network of a recipe.
    Returns:
        Seconds; None if they depend on data that is not there.
    """
    if row.task.missing_data() is not None:
        return None
    settings = row.settings
    steps = settings.total_steps(row.task)
    evaluations = math.ceil(steps / settings.evaluation_interval(row.task))
    batches = _evaluated(row.task, settings.eval_batch_size or settings.batch_size)
    evaluation = _FORWARDS * sum(_seconds(row, length, size) for length, size in batches)
    step = _seconds(row, _length(row.task), settings.batch_size)
    return steps * step + evaluations * evaluation


def _seconds(row: Row, length: int, batch_size: int) -> float:
    """Estimate a step of optimisation."""
    ours = isinstance(row.layer, type) and issubclass(row.layer, Stacked)
    rate = _OURS if ours else _TORCHS
    weights = max(row.parameters or 0, _blocks(row.layer) * row.hidden_size**2)
    step = max(3 * batch_size * weights / rate, _SHORTEST_STEP)
    constraint = _CONSTRAINT * row.hidden_size**3 / rate if ours else 0.0
    rotations = row.options.get("capacity", 0) * row.hidden_size**2 * _ROTATION
    return length * step + constraint + rotations + _BESIDE


def _blocks(layer: Any) -> int:
    """Count the N x N matrices that a state goes through at each step."""
    if not isinstance(layer, type):
        return 1
    if issubclass(layer, nn.LSTM | URNN | FullCapacityURNN | ScuRNN | EURNN):
        return 4  # four gates, or the four real blocks of a complex matrix
    return 3 if issubclass(layer, nn.GRU | GRU) else 1


@cache
def _length(task: Task) -> int:
    return len(next(task.batches("train", 1)).inputs)


@cache
def _evaluated(task: Task, size: int) -> tuple[tuple[int, int], ...]:
    """List length and size of the batches of an evaluation."""
    # a copy, whose data is let go of again
    passing = replace(task)  # pyright: ignore[reportArgumentType]  tasks are dataclasses
    parts = (passing.batches(split, size) for split in task.splits if split != "train")
    return tuple((len(batch.inputs), batch.size) for part in parts for batch in part)
