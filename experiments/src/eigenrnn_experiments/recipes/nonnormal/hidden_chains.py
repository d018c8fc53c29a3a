"""Chains hidden in trained recurrent weights: figures 5 and 6."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from eigenrnn.analysis import Analysis, Table, plot, recurrent_layers, state_maps
from eigenrnn_experiments.recipes.nonnormal import penn_treebank, toys
from eigenrnn_experiments.recipes.nonnormal.paper import SOURCE
from eigenrnn_experiments.recipes.panels import FIGURE_NOTE
from eigenrnn_experiments.recipes.recipe import Panel, Recipe
from eigenrnn_experiments.recipes.reproduce import Trained
from eigenrnn_experiments.recipes.row import Reported, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RECIPES", "HiddenChain", "hidden_chain"]

_SHOWN_SHARE = 0.95  # of the largest difference: beyond it, means average few weights


@dataclass(frozen=True)
class HiddenChain(Analysis):
    r"""Mean recurrent weights by the difference in rank of the units that they connect.

    Args:
        differences: Differences of rank d = -(N - 1), ..., N - 1; positive for a weight from an
            earlier to a later peak.
        profiles: The mean weight at each difference, by gate; ``"hh"`` for an ungated layer.
        order: The units, earliest peak first.
        responses: The change of each unit's activity due to the pulse.
    Shape:
        differences, each profile: :math:`(2 N - 1,)`; order: :math:`(N,)`; responses:
        :math:`(N, N)`, steps first.
    """

    differences: NDArray[np.int64]
    profiles: Mapping[str, NDArray[np.float64]]
    order: NDArray[np.int64]
    responses: NDArray[np.float64]

    def plot(self) -> "Figure":
        figure, (left, right) = plot.canvas(2)
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


def hidden_chain(layer: nn.Module) -> HiddenChain:
    r"""Order units by the time of their peak response to a pulse, and average weights along it.

    .. math:: p(d) = \frac{1}{N - |d|} \sum_{i - j = d} W_{\pi_i \pi_j}, \qquad
        \pi = \text{units by the time of their largest } h - h^0

    The pulse is a one in the first input at the first of N steps, and :math:`h^0` are the states
    without it. A chain, in any order of its units, has a single peak at d = 1. Units that peak at
    the same step, or never respond, are ordered at random, the same way in every call.

    Args:
        layer: A recurrent layer; its first layer and direction is analysed.
    Source:
        Orhan and Pitkow, ICLR 2020, section 4. https://arxiv.org/abs/1905.13715; after Rajan,
        Harvey and Tank, Neuron 90(1), 2016. https://doi.org/10.1016/j.neuron.2016.02.009
        (departures: the paper does not report the number of steps, and does not subtract the
        states without the pulse).
    """
    first = state_maps(layer)[0]
    N = first.hidden_size
    # two sequences: with the pulse and without
    x = torch.zeros(N, 2, first.input_size, dtype=torch.float64)
    x[0, 0, 0] = 1
    states = first.states(x)[1:, :, :N].numpy()
    responses = states[:, 0] - states[:, 1]
    jitter = np.random.default_rng(0).random(N)
    order = np.lexsort((jitter, responses.argmax(0)))  # by the last key; the first breaks ties
    differences = np.arange(1 - N, N)
    profiles: dict[str, NDArray[np.float64]] = {}
    for gate, W in first.matrices.items():
        # W_ij is the weight from j to i: weights to a later peak, i - j = d > 0, lie below the
        # diagonal, which NumPy counts negatively
        ranked = W.numpy()[np.ix_(order, order)]
        profiles[gate] = np.array([ranked.diagonal(-d).mean() for d in differences])
    return HiddenChain(differences, profiles, order, responses)


def _panel(name: str, caption: str, label: str) -> Panel:
    """Return the panel of the chain in the first layer of a row's first run."""

    def draw(trained: Trained) -> HiddenChain:
        layers = recurrent_layers(trained[label][0].model())
        return hidden_chain(next(iter(layers.values())))

    return Panel(name, caption, draw=draw, required_rows=(label,))


_GAIN = 1.0
_RATE = 1e-4


def _one_point(row: Row) -> Row:
    """Return one point of a search of figure 3, without the measurements during training."""
    return replace(
        row,
        grid=(),
        settings=replace(row.settings, lr=_RATE),
        options={**row.options, "gain": _GAIN},
        reported=(
            Reported(
                None, "figure 5", split="test", quantity="loss", rule="last", note=FIGURE_NOTE
            ),
        ),
        callback_factory=None,
        seeds=(1,),
    )


_ADDING = _one_point(toys.FIGURE_3.row("ortho adding"))
_PIXELS = _one_point(toys.FIGURE_3.row("ortho psMNIST"))

RECIPES = (
    Recipe(
        name="nonnormal/fig5",
        summary="Orthogonal initialisation trained on adding and on permuted MNIST: the mean "
        "weight between units by the order of their peaks.",
        rows=(_ADDING, _PIXELS),
        source=f"{SOURCE}, section 4 and figure 5",
        departures=(
            f"the paper does not state which runs it shows; we take lambda = {_GAIN:g} and a "
            f"learning rate of {_RATE:g}",
        ),
        panels=(
            _panel("adding", "The weights by order after the adding problem", _ADDING.label),
            _panel("psmnist", "The weights by order after permuted MNIST", _PIXELS.label),
        ),
    ),
    Recipe(
        name="nonnormal/fig6",
        summary="An LSTM trained on Penn Treebank by words: the mean weight between units by the "
        "order of their peaks, for each gate.",
        rows=penn_treebank.TABLE_4.rows_at("figure 6"),
        source=f"{SOURCE}, section 4 and figure 6",
        departures=(
            "the paper does not state which network it shows; we take the first layer with the "
            "plain initialisation",
        ),
        panels=(_panel("gates", "The weights by order in each gate", "plain words"),),
    ),
)
"""Two figures of trained weights."""
