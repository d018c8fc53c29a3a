"""Perturbations of the state."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import as_real_tensor
from eigenrnn.analysis.base import Analysis, Figure, Table
from eigenrnn.analysis.state_map import Network
from eigenrnn.analysis.trajectory import InitialState, trajectory
from eigenrnn.linalg import check_finite, on_cpu

__all__ = ["Perturbation", "perturb"]


@dataclass(frozen=True)
class Perturbation(Analysis):
    """Trajectories of a network with and without a perturbation.

    Args:
        states: The states without it, the initial ones included.
        changed: The states with it.
        begin: The first step after which states differ.
    Shape:
        states, changed: :math:`(T + 1, B, S)`.
    """

    states: NDArray[np.float64]
    changed: NDArray[np.float64]
    begin: int

    @property
    def distances(self) -> NDArray[np.float64]:  # (T + 1, B)
        """The distance between the states with and without the perturbation."""
        return np.linalg.norm(self.changed - self.states, axis=2)

    def plot(self) -> Figure:
        figure, (axes,) = plot.canvas()
        steps = np.arange(len(self.states))
        distances = self.distances
        curves = {"mean over sequences": distances.mean(1)}
        bands = {"mean over sequences": distances.std(1)}
        plot.lines(axes, steps, curves, bands=bands)
        plot.label(axes, "step", "distance of the states", f"changed from step {self.begin} on")
        return figure

    def table(self) -> Table:
        steps, B = self.distances.shape
        return {
            "t": np.repeat(np.arange(steps), B),
            "sequence": np.tile(np.arange(B), steps),
            "distance": self.distances.ravel(),
        }


@on_cpu
@torch.no_grad()
def perturb(
    network: Network,
    x: Tensor | ArrayLike,  # (T, B, M)
    change: Tensor | ArrayLike,  # (S,) or (B, S)
    *,
    at: int = 0,
    h0: InitialState = None,
    which: str = "l0",
) -> Perturbation:
    r"""Add a vector to the state after a step, and follow what becomes of it.

    .. math:: h'_{t_0} = h_{t_0} + \Delta h, \qquad h'_t = F(x_t, h'_{t-1}), \quad t > t_0

    Args:
        network: A recurrent layer or cell, a model with one, or a `StateMap`.
        x: The sequences, in the layout that the first layer takes.
        change: The vector :math:`\Delta h`, one for all sequences or one for each.
        at: The number of steps :math:`t_0` before it is added.
        h0: The initial states, as the network takes them; by default its own.
        which: The layer and direction.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; change: :math:`(S,)` or :math:`(B, S)`.
    Raises:
        ValueError: If the layer or direction does not exist, an input, `h0` or the change does not
            fit or is not finite, or `at` is outside the sequence.
    Source:
        Mante et al., Nature 503, 2013. https://doi.org/10.1038/nature12742 (departures: none).
    Example:
        >>> found = perturb(torch.nn.RNNCell(1, 2), torch.zeros(9, 1, 1), [0.1, 0.0], at=3)
        >>> int((found.distances[:, 0] > 0).argmax())
        3
    """
    path = trajectory(network, x, which, h0)
    T = len(path.x)
    B = path.x.shape[1]
    S = path.states.shape[2]
    if not 0 <= at <= T:
        raise ValueError(f"expected 0 <= at <= {T}, a number of steps, got {at}")
    moved = as_real_tensor(change, "change")
    if moved.shape not in ((S,), (B, S)):
        shape = tuple(moved.shape)
        raise ValueError(f"expected change of shape ({S},) or ({B}, {S}), got {shape}")
    check_finite(moved, "change")
    states = [path.states[t] for t in range(at)]
    state = path.states[at] + moved
    states.append(state)
    for t in range(at, T):
        state = path.state_map.step(path.x[t], state)
        states.append(state)
    return Perturbation(path.states.numpy(), torch.stack(states).numpy(), at)
