"""Chains hidden in a recurrent matrix, found from the order in which a pulse excites units."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import check_numpy_generator
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.state_map import (
    Network,
    StateMap,
    select_state_map,
    state_maps,
)
from eigenrnn.analysis.trajectory import InitialState, initial_states
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["HiddenChain", "hidden_chain"]

_SHOWN_SHARE = 0.95  # of the largest difference

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HiddenChain(Analysis):
    r"""Mean recurrent weights by the difference in rank of the units that they connect.

    Args:
        differences: Differences of rank d = -(N - 1), ..., N - 1; positive for a weight from an
            earlier to a later peak.
        profiles: The mean weight at each difference, by gate; ``"hh"`` for an ungated layer.
        order: The units, earliest peak first.
        peak_times: The time step of each unit's peak; the pulse is at 0.
        responses: The change of each unit's activity due to the pulse, or the activity itself.
    Shape:
        differences, each profile: :math:`(2 N - 1,)`; order, peak_times: :math:`(N,)`; responses:
        :math:`(T, N)`.
    """

    differences: NDArray[np.int64]
    profiles: Mapping[str, Floats]
    order: NDArray[np.int64]
    peak_times: NDArray[np.int64]
    responses: Floats

    def plot(self) -> "Figure":
        figure, (left, right) = plot.canvas(2)
        # means at the largest differences are noisy: they average few weights
        central = np.abs(self.differences) <= _SHOWN_SHARE * len(self.order)
        profiles = {gate: profile[central] for gate, profile in self.profiles.items()}
        plot.lines(left, self.differences[central], profiles)
        left.axvline(0, color="0.6", linewidth=0.8)
        plot.label(left, "difference of rank $i - j$", "mean weight from $j$ to $i$")
        # over each unit's own peak, as the figure shows the order of peaks and not their heights
        shown = self.responses[:, self.order].T
        sizes = np.abs(shown).max(1, keepdims=True)
        plot.heat_map(
            right,
            shown / np.where(sizes > 0, sizes, 1),
            "response over the peak of the unit",
            around_zero=True,
        )
        right.set_aspect("auto")
        plot.label(right, "steps after the pulse", "unit, by time of its peak")
        return figure

    def table(self) -> Table:
        return {"difference": self.differences, **self.profiles}

    def headline(self) -> dict[str, float]:
        """Return the mean forward minus backward weight, and the peak of each profile."""
        forwards = self.differences > 0
        numbers = dict[str, float]()
        for gate, profile in self.profiles.items():
            if forwards.any():
                asymmetry = profile[forwards].mean() - profile[self.differences < 0].mean()
                numbers[f"{gate}: forward minus backward weight"] = float(asymmetry)
            numbers[f"{gate}: difference of the largest weight"] = float(
                self.differences[profile.argmax()]
            )
        return numbers


def hidden_chain(
    network: Network,
    *,
    h0: InitialState = None,
    steps: int | None = None,
    pulse: float = 1.0,
    input: int = 0,
    which: str = "l0",
    baseline: bool = True,
    generator: np.random.Generator | None = None,
) -> HiddenChain:
    r"""Order units by the time of their peak response to a pulse, and average weights along it.

    .. math:: p(d) = \frac{1}{N - |d|} \sum_{i - j = d} W_{\pi_i \pi_j}, \qquad
        \pi = \text{units by the time of their largest } h - h^0

    Here :math:`h^0` are the states without the pulse. They are not zero if the layer has biases or
    a nonzero initial state.

    A chain, in any order of its units, has a single peak at d = 1. At d = 0, the profile is the
    mean weight of units to themselves. Units that peak at the same step, or never respond, are
    ordered at random.

    Args:
        network: A recurrent layer or cell with real states, ours or torch's, a model with one, or
            a state map with matrices.
        h0: The initial state of the layer or direction, :math:`(S,)`; by default its own.
        steps: The number of states to record, from the step of the pulse on; None means N.
        pulse: The value of one input at the first step; all other inputs are zero.
        input: The index of that input.
        which: The layer and direction, such as ``"l0"`` or ``"l1_reverse"``. A later layer gets
            the pulse at its own input, not through the layers before it.
        baseline: Whether to subtract the states without the pulse.
        generator: NumPy's generator, which breaks ties. None uses a fixed one.
    Returns:
        A profile for each gate; all use the order of the peaks of h.
    Raises:
        ValueError: If the states are complex or not finite, the layer, input or matrix does not
            exist, or `steps` is not positive.
        TypeError: If the generator is not NumPy's.
    Source:
        Orhan and Pitkow, ICLR 2020, section 4 and figures 5 and 6.
        https://arxiv.org/abs/1905.13715; after Rajan, Harvey and Tank, Neuron 90(1), 2016.
        https://doi.org/10.1016/j.neuron.2016.02.009 (departures: the paper does not
        report the number of steps, and does not subtract the states without the pulse).
    Example:
        >>> layer = torch.nn.RNN(1, 4, nonlinearity="relu", bias=False)
        >>> with torch.no_grad():
        ...     _ = layer.weight_ih_l0.copy_(torch.eye(4)[:, :1])
        ...     _ = layer.weight_hh_l0.copy_(torch.diag(torch.ones(3), -1))
        >>> hidden_chain(layer).profiles["hh"]
        array([0., 0., 0., 0., 1., 0., 0.])
    """
    check_numpy_generator(generator, optional=True)
    if steps is not None:
        check_positive_integer("steps", steps)
    if not (np.isfinite(pulse) and pulse != 0):
        raise ValueError(f"expected a finite pulse other than 0, got {pulse}")
    state_map = select_state_map({each.name: each for each in state_maps(network)}, which)
    if not state_map.matrices:
        raise ValueError(
            f"expected a network with a recurrent matrix, got {type(network).__name__} without; "
            "pass StateMap.from_step(step, input_size, state_size, matrices={'hh': W})"
        )
    if "imaginary" in state_map.blocks:
        raise ValueError(
            "expected a layer with real states, whose peaks have an order, got complex"
        )
    if not 0 <= input < state_map.input_size:
        raise ValueError(f"expected input in [0, {state_map.input_size}), got {input}")
    N = state_map.hidden_size
    # two sequences from one state: with the pulse and without
    (first,) = initial_states([state_map], h0, 2)
    T = N if steps is None else steps
    with_pulse, without = _responses(state_map, first, T, pulse, input)
    responses = with_pulse - without if baseline else with_pulse
    peak_times = responses.argmax(0)
    jitter = (generator or np.random.default_rng(0)).random(N)
    order = np.lexsort((jitter, peak_times))  # by the last key; the first one breaks ties
    differences = np.arange(1 - N, N)
    profiles: dict[str, Floats] = {}
    for gate, W in state_map.matrices.items():
        # W_ij is the weight from j to i: weights to a later peak, i - j = d > 0, lie below the
        # diagonal, which NumPy counts negatively
        ranked = W.numpy()[np.ix_(order, order)]
        profiles[gate] = np.array([ranked.diagonal(-d).mean() for d in differences])
    return HiddenChain(differences, profiles, order, peak_times, responses)


def _responses(
    state_map: StateMap, first: Tensor, steps: int, pulse: float, input: int
) -> tuple[Floats, Floats]:  # (steps, N) each
    """Return the activities of the hidden units with and without a pulse.

    Raises:
        ValueError: If they are not finite.
    """
    x = torch.zeros(steps, 2, state_map.input_size, dtype=torch.float64)
    # a reverse direction begins at the end
    x[-1 if state_map.reverse else 0, 0, input] = pulse
    states = state_map.states(x, first)[1:, :, : state_map.hidden_size]
    if not states.isfinite().all():
        raise ValueError(
            f"expected activities that stay finite for {steps} steps, got NaN or infinity; "
            "use fewer steps"
        )
    return states[:, 0].numpy(), states[:, 1].numpy()
