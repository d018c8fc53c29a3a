"""Chains hidden in a recurrent matrix, found by the order in which a pulse reaches the units."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.generators import check_numpy_generator
from eigenrnn.analysis.recurrence import Recurrence, recurrences
from eigenrnn.analysis.trajectory import chosen
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["HiddenChain", "hidden_chain"]

_MOST_SHOWN = 0.95  # of the largest difference

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HiddenChain(Analysis):
    r"""Mean recurrent weights by how much later the unit that they reach peaks.

    Args:
        differences: Differences of rank d = -(N - 1), ..., N - 1; positive from a unit that peaks
            earlier to one that peaks later.
        profiles: The mean weight of each difference, by gate; of a layer without gates ``"hh"``.
        order: The units, the earliest peak first.
        peak_times: The step of each unit's peak, 0 that of the pulse.
        responses: What the pulse changes in the units' activities, or these themselves.
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
        # the farthest differences are means of few weights, and so are noise
        many = np.abs(self.differences) <= _MOST_SHOWN * len(self.order)
        shown_profiles = {gate: profile[many] for gate, profile in self.profiles.items()}
        plot.lines(left, self.differences[many], shown_profiles)
        left.axvline(0, color="0.6", linewidth=0.8)
        plot.label(left, "difference of rank $i - j$", "mean weight from $j$ to $i$")
        shown = self.responses[:, self.order].T
        sizes = np.abs(shown).max(1, keepdims=True)
        plot.heat_map(
            right,
            shown / np.where(sizes > 0, sizes, 1),
            "response, by the largest of each unit",
            around_zero=True,
        )
        right.set_aspect("auto")
        plot.label(right, "steps after the pulse", "unit, by time of its peak")
        return figure

    def table(self) -> Table:
        return {"difference": self.differences, **self.profiles}

    def headline(self) -> dict[str, float]:
        """Return by how much weights forwards exceed those backwards, and where profiles peak."""
        forwards, found = self.differences > 0, dict[str, float]()
        for gate, profile in self.profiles.items():
            if forwards.any():
                more = profile[forwards].mean() - profile[self.differences < 0].mean()
                found[f"{gate}: forward minus backward weight"] = float(more)
            found[f"{gate}: difference of the largest weight"] = float(
                self.differences[profile.argmax()]
            )
        return found


def hidden_chain(
    layer: nn.Module,
    *,
    steps: int | None = None,
    pulse: float = 1.0,
    input: int = 0,
    which: str = "l0",
    baseline: bool = True,
    generator: np.random.Generator | None = None,
) -> HiddenChain:
    r"""Order units by when a pulse excites them most, and average weights along that order.

    .. math:: p(d) = \frac{1}{N - |d|} \sum_{i - j = d} W_{\pi_i \pi_j}, \qquad
        \pi = \text{units by the time of their largest } h - h^0

    Here :math:`h^0` are the states without the pulse, which biases and a first state move too.

    A chain of whatever order of units has a single peak at d = 1. Weights are taken as they are:
    nothing is subtracted, and d = 0 is the mean weight of units to themselves. Units that peak at
    the same step come in random order; so do all that never leave their first value.

    Args:
        layer: A recurrent layer or a model with one, ours or torch's, with real states.
        steps: How many states to follow, the first of which has received the pulse; None takes N.
        pulse: What is given to one input at the first step; all else is zero.
        input: Which input.
        which: The layer and direction, such as ``"l0"`` or ``"l1_reverse"``; a later one gets the
            pulse at its own input, not through those before it.
        baseline: Whether to take away the states without the pulse.
        generator: NumPy's; breaks ties. None does so in the same way each time.
    Returns:
        A profile for each gate; all follow the order of the h.
    Raises:
        ValueError: If the states are complex or do not stay finite, or there is no such layer or
            input, or no step.
        TypeError: If the generator is of another kind.
    Source:
        Orhan and Pitkow, ICLR 2020, section 4 and figures 5 and 6.
        https://arxiv.org/abs/1905.13715; after Rajan, Harvey and Tank, Neuron 90(1), 2016.
        https://doi.org/10.1016/j.neuron.2016.02.009 (departures: the paper does not tell how many
        steps it follows, nor takes away the states without the pulse).
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
    recurrence = chosen({each.name: each for each in recurrences(layer)}, which)
    if "imaginary" in recurrence.blocks:
        raise ValueError(
            "expected a layer with real states, whose peaks have an order, got complex"
        )
    if not 0 <= input < recurrence.input_size:
        raise ValueError(f"expected input in [0, {recurrence.input_size}), got {input}")
    N = recurrence.hidden_size
    with_pulse, without = _responses(recurrence, N if steps is None else steps, pulse, input)
    responses = with_pulse - without if baseline else with_pulse
    peak_times = responses.argmax(0)
    jitter = (generator or np.random.default_rng(0)).random(N)
    order = np.lexsort((jitter, peak_times))
    differences = np.arange(1 - N, N)
    profiles: dict[str, Floats] = {}
    for gate, W in recurrence.matrices.items():
        ranked = W.numpy()[np.ix_(order, order)]
        profiles[gate] = np.array([ranked.diagonal(-d).mean() for d in differences])
    return HiddenChain(differences, profiles, order, peak_times, responses)


def _responses(
    recurrence: Recurrence, steps: int, pulse: float, input: int
) -> tuple[Floats, Floats]:  # (steps, N) each
    """Return the hidden units' activities after a pulse, and without one.

    Raises:
        ValueError: If they do not stay finite.
    """
    x = torch.zeros(steps, 2, recurrence.input_size, dtype=torch.float64)
    # a layer that reads backwards begins at the end
    x[-1 if recurrence.reverse else 0, 0, input] = pulse
    states = recurrence.states(x)[1:, :, : recurrence.hidden_size]
    if not states.isfinite().all():
        raise ValueError(
            f"expected activities that stay finite for {steps} steps, got others; give fewer steps"
        )
    return states[:, 0].numpy(), states[:, 1].numpy()
