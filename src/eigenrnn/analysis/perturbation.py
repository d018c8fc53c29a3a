"""Perturbations of the state and inactivation of units."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import as_real_tensor
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.state_map import Network
from eigenrnn.analysis.trajectory import InitialState, trajectory
from eigenrnn.linalg import check_finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Perturbation", "inactivate", "perturb"]


@dataclass(frozen=True)
class Perturbation(Analysis):
    """Trajectories of a network with and without an intervention.

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
        """The distance between the states with and without the intervention."""
        return np.linalg.norm(self.changed - self.states, axis=2)

    def plot(self) -> "Figure":
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


@torch.no_grad()
def inactivate(
    network: Network,
    x: Tensor | ArrayLike,  # (T, B, M)
    units: Sequence[int] | Sequence[bool] | Tensor | NDArray[Any],  # (n,) or (S,)
    *,
    value: float = 0.0,
    begin: int = 0,
    end: int | None = None,
    h0: InitialState = None,
    which: str = "l0",
) -> Perturbation:
    r"""Hold units at a value during some steps, as an experiment silences a group of cells.

    .. math:: h'_t = M\, F(x_t, h'_{t-1}) + (1 - M)\, v, \qquad t_0 \le t < t_1

    M is zero for the units that are held. They begin at the value before step :math:`t_0`. For a
    network with ``state="current"`` the value is that of the current: a softplus unit is then
    silent at a value such as -20.

    Args:
        network: A recurrent layer or cell, a model with one, or a `StateMap`.
        x: The sequences, in the layout that the first layer takes.
        units: The entries of the state that are held: their numbers, or a boolean for each entry.
        value: The value v.
        begin: The number of steps before the first held state.
        end: The number of steps after which the units are free; by default never.
        h0: The initial states, as the network takes them; by default its own.
        which: The layer and direction.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; units: :math:`(n,)`, or :math:`(S,)` booleans.
    Raises:
        ValueError: If the layer or direction does not exist, an input or `h0` does not fit, a unit
            does not exist, or not 0 <= begin < end <= T + 1.
    Source:
        Song, Yang and Wang, PLoS Computational Biology 12, 2016.
        https://doi.org/10.1371/journal.pcbi.1004792 (departures: any span of steps).
    Example:
        >>> found = inactivate(torch.nn.RNNCell(1, 4), torch.ones(9, 1, 1), [0, 2])
        >>> bool((found.changed[..., [0, 2]] == 0).all())
        True
    """
    path = trajectory(network, x, which, h0)
    T = len(path.x)
    S = path.states.shape[2]
    last = T + 1 if end is None else end  # T + 1: also the state after the last step is held
    if not 0 <= begin < last <= T + 1:
        raise ValueError(f"expected 0 <= begin < end <= {T + 1}, got {begin} and {last}")
    held = _mask_of_units(units, S)

    def hold(state: Tensor) -> Tensor:
        return torch.where(held, value, state)

    states = [path.states[t] for t in range(begin)]
    state = hold(path.states[begin])
    states.append(state)
    for t in range(begin, T):
        state = path.state_map.step(path.x[t], state)
        if t + 1 < last:
            state = hold(state)
        states.append(state)
    return Perturbation(path.states.numpy(), torch.stack(states).numpy(), begin)


def _mask_of_units(units: object, S: int) -> Tensor:  # (S,), bool
    """Return which entries of a state are chosen.

    Raises:
        ValueError: If the units are neither numbers of entries nor a boolean for each.
    """
    chosen = units.detach().cpu().numpy() if isinstance(units, Tensor) else np.asarray(units)
    is_mask = chosen.dtype == np.bool_ and chosen.shape == (S,)
    is_list = chosen.dtype.kind in "iu" and chosen.ndim == 1
    if not (is_mask or is_list) or not chosen.size or chosen.min() < 0 or chosen.max() >= S:
        raise ValueError(f"expected units from 0 to {S - 1}, or {S} booleans, got {units}")
    held = torch.zeros(S, dtype=torch.bool)
    if is_list:  # torch reads uint8 as booleans
        chosen = chosen.astype(np.int64)
    held[torch.as_tensor(chosen)] = True
    return held
