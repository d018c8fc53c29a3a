"""Estimates of the training time of a row."""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from torch import nn

from eigenrnn.experiments.recipes.recipe import Row
from eigenrnn.experiments.tasks import Task
from eigenrnn.layers import EURNN, GRU, URNN, FullCapacityURNN, ScuRNN
from eigenrnn.layers.stacked import Stacked

__all__ = ["ONE_GPU", "TWO_CORES", "Machine", "estimated_seconds"]


@dataclass(frozen=True)
class Machine:
    """The constants of a machine that an estimate uses.

    Args:
        eigenrnn_rate: Multiply-adds per second in our layers.
        torch_rate: Multiply-adds per second in torch's layers.
        step_overhead: Fixed overhead per time step, in seconds; on a GPU, per kernel launch.
        launches_kernels: Whether a time step pays the overhead once per kernel, as on a GPU.
        update_overhead: Seconds per optimiser step outside the recurrence.
        rotation_overhead: Seconds per entry of W in a layer of EURNN's rotations.
    """

    eigenrnn_rate: float
    torch_rate: float
    step_overhead: float
    launches_kernels: bool
    update_overhead: float
    rotation_overhead: float


# Two cores with AVX-512, as measured: docs/speed.md.
TWO_CORES = Machine(
    150e9, 65e9, 8e-6, launches_kernels=False, update_overhead=5e-3, rotation_overhead=5e-8
)
# A data-centre GPU in float32; these constants are assumed, not measured. The rate is a sixth of
# an H100's 33.5e12 multiply-adds per second, and a launch from Python takes 8e-6 s. At the sizes
# of the papers the launches dominate.
ONE_GPU = Machine(
    5e12, 5e12, 8e-6, launches_kernels=True, update_overhead=10e-3, rotation_overhead=0.0
)
# Multiply-adds of the constraint per N^3: about those of an exponential and its gradient.
_CONSTRAINT = 30
# Duration of a forward pass relative to an optimiser step: 0.26 to 0.38 in runs of nnrnn/fig2.
_FORWARD = 1 / 3
# Kernels per time step, forward and backward: for our loop backends as counted by torch's
# profiler, for cuDNN the number of launches to which we equate one of its time steps.
_REAL_KERNELS, _GATED_KERNELS, _COMPLEX_KERNELS, _CUDNN_KERNELS = 10, 20, 30, 5
_ROTATION_KERNELS = 15  # per layer of rotations


def estimated_seconds(row: Row, machine: Machine = TWO_CORES) -> float | None:
    r"""Estimate the duration of one run of a row, including its evaluations.

    .. math:: s \, c(T, B) + \frac{e}{3} \sum_j c(T_j, B_j), \qquad
        c(T, B) = T \max \left( \frac{3 B w}{r}, t \right) + \frac{30 N^3}{r} + b

    Here s is the number of optimiser steps and e that of evaluations. Training batches have B
    sequences of T steps; evaluation batches have the sizes :math:`T_j, B_j` and need only the
    forward pass. Each time step uses w weights. The constants r, t and b depend on the machine.
    On a GPU our layers run on the loop backend, so t is the launch time of one kernel times the
    number of kernels per step. EURNN adds the cost of its layers of rotations. A busy machine
    takes several times as long: `RESULTS.md` lists measured times beside these estimates.

    Args:
        row: A network of a recipe.
        machine: The machine that trains it.
    Returns:
        Seconds; None if they depend on missing data.
    """
    if row.task.missing_data() is not None:
        return None
    settings = row.settings
    steps = settings.total_steps(row.task)
    evaluations = math.ceil(steps / settings.evaluation_interval(row.task))
    batches = _evaluation_batches(row.task, settings.eval_batch_size or settings.batch_size)
    evaluation = _FORWARD * sum(_seconds(row, machine, *shape) for shape in batches)
    step = _seconds(row, machine, _length(row.task), settings.batch_size)
    return steps * step + evaluations * evaluation


def _seconds(row: Row, machine: Machine, length: int, batch_size: int) -> float:
    """Estimate the duration of one optimiser step."""
    is_ours = isinstance(row.layer, type) and issubclass(row.layer, Stacked)
    rate = machine.eigenrnn_rate if is_ours else machine.torch_rate
    weights = max(row.parameters or 0, _matrices_per_step(row.layer) * row.hidden_size**2)
    kernels = _kernels_per_step(row.layer, is_ours=is_ours) if machine.launches_kernels else 1
    time_step = max(3 * batch_size * weights / rate, kernels * machine.step_overhead)
    constraint = _CONSTRAINT * row.hidden_size**3 / rate if is_ours else 0.0
    launches = _ROTATION_KERNELS * machine.step_overhead if machine.launches_kernels else 0.0
    rotation = launches + row.hidden_size**2 * machine.rotation_overhead
    rotations = row.options.get("capacity", 0) * rotation
    return length * time_step + constraint + rotations + machine.update_overhead


def _kernels_per_step(layer: Any, *, is_ours: bool) -> int:
    """Return the number of GPU kernels that a time step launches."""
    if not is_ours:
        return _CUDNN_KERNELS
    if issubclass(layer, URNN | FullCapacityURNN | ScuRNN | EURNN):
        return _COMPLEX_KERNELS
    return _GATED_KERNELS if issubclass(layer, GRU) else _REAL_KERNELS


def _matrices_per_step(layer: Any) -> int:
    """Return the number of real N x N matrices that multiply the state at each time step."""
    if not isinstance(layer, type):
        return 1
    if issubclass(layer, nn.LSTM | URNN | FullCapacityURNN | ScuRNN | EURNN):
        return 4  # four gates, or the four real blocks of a complex matrix
    return 3 if issubclass(layer, nn.GRU | GRU) else 1


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
