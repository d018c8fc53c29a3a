"""About how long the runs of a row take."""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from torch import nn

from eigenrnn.experiments.recipes.base import Row
from eigenrnn.experiments.tasks import Task
from eigenrnn.layers import EURNN, GRU, URNN, FullCapacityURNN, ScuRNN
from eigenrnn.layers.stacked import Stacked

__all__ = ["ONE_GPU", "TWO_CORES", "Machine", "estimated_seconds"]


@dataclass(frozen=True)
class Machine:
    """What an estimate knows of a machine.

    Args:
        ours: Multiply-adds a second that our layers reach.
        torchs: Those that torch's layers reach.
        shortest_step: The seconds that a step of a recurrence takes of which nothing is left but
            what each takes whatever its size, or those of a kernel's launch.
        launches: Whether a step takes that once for every kernel that it launches.
        beside: The seconds that a step of optimisation takes beside the recurrence.
        rotation: The seconds that each entry of W takes in a layer of EURNN's rotations.
    """

    ours: float
    torchs: float
    shortest_step: float
    launches: bool
    beside: float
    rotation: float


# Two cores with AVX-512, as measured: docs/speed.md.
TWO_CORES = Machine(150e9, 65e9, 8e-6, launches=False, beside=5e-3, rotation=5e-8)
# A data centre's GPU in float32, of which nothing was measured: a sixth of an H100's 33.5e12
# multiply-adds a second, a launch from Python in 8e-6 s. Launches decide at the papers' sizes.
ONE_GPU = Machine(5e12, 5e12, 8e-6, launches=True, beside=10e-3, rotation=0.0)
_CONSTRAINT = 30  # times N^3 multiply-adds, about what an exponential and its gradient take
_FORWARDS = 1 / 3  # of a step of optimisation; 0.26 to 0.38 in the journals of nnrnn/fig2
# Kernels that a step of a sequence launches, forwards and backwards: those of the loops as
# torch's profiler counts them, and what cuDNN's steps are taken to be worth.
_REAL, _GATED, _COMPLEX, _CUDNNS = 10, 20, 30, 5
_ROTATION = 15  # those of a layer of rotations


def estimated_seconds(row: Row, machine: Machine = TWO_CORES) -> float | None:
    r"""Estimate what one run of a row takes, evaluations included.

    .. math:: s \, c(T, B) + \frac{e}{3} \sum_j c(T_j, B_j), \qquad
        c(T, B) = T \max \left( \frac{3 B w}{r}, t \right) + \frac{30 N^3}{r} + b

    Over s steps of optimisation, sequences of T steps in batches of B, and w weights that each
    step of a sequence meets; e evaluations, each of batches of the sizes :math:`T_j, B_j`, which
    go forwards alone. r, t and b are constants of the machine; on a GPU t is a kernel's launch
    times the kernels of a step, for there our layers run as loops. EURNN's layers of rotations
    come to that, each with the entries of W. A machine with other work to do takes several times
    as long: `RESULTS.md` sets the runs that were made beside their estimates.

    Args:
        row: A network of a recipe.
        machine: What it runs on.
    Returns:
        Seconds; None if they depend on data that is not there.
    """
    if row.task.missing_data() is not None:
        return None
    settings = row.settings
    steps = settings.total_steps(row.task)
    evaluations = math.ceil(steps / settings.evaluation_interval(row.task))
    batches = _evaluated(row.task, settings.eval_batch_size or settings.batch_size)
    evaluation = _FORWARDS * sum(_seconds(row, machine, *shape) for shape in batches)
    step = _seconds(row, machine, _length(row.task), settings.batch_size)
    return steps * step + evaluations * evaluation


def _seconds(row: Row, machine: Machine, length: int, batch_size: int) -> float:
    """Estimate a step of optimisation."""
    ours = isinstance(row.layer, type) and issubclass(row.layer, Stacked)
    rate = machine.ours if ours else machine.torchs
    weights = max(row.parameters or 0, _blocks(row.layer) * row.hidden_size**2)
    kernels = _kernels(row.layer, ours=ours) if machine.launches else 1
    step = max(3 * batch_size * weights / rate, kernels * machine.shortest_step)
    constraint = _CONSTRAINT * row.hidden_size**3 / rate if ours else 0.0
    launched = _ROTATION * machine.shortest_step if machine.launches else 0.0
    rotation = launched + row.hidden_size**2 * machine.rotation
    rotations = row.options.get("capacity", 0) * rotation
    return length * step + constraint + rotations + machine.beside


def _kernels(layer: Any, *, ours: bool) -> int:
    """Count the kernels that a step of a sequence launches on a GPU."""
    if not ours:
        return _CUDNNS
    if issubclass(layer, URNN | FullCapacityURNN | ScuRNN | EURNN):
        return _COMPLEX
    return _GATED if issubclass(layer, GRU) else _REAL


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
