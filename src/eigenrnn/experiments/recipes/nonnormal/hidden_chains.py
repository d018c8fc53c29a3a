"""Chains hidden in trained recurrent weights: figures 5 and 6."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from eigenrnn.analysis import HiddenChain, hidden_chain, recurrent_layers
from eigenrnn.experiments.recipes.nonnormal import penn_treebank, toys
from eigenrnn.experiments.recipes.nonnormal.paper import SOURCE
from eigenrnn.experiments.recipes.panels import FIGURE_NOTE
from eigenrnn.experiments.recipes.recipe import Panel, Recipe, Reported, Row
from eigenrnn.experiments.recipes.runs import Run

__all__ = ["RECIPES"]


def _draw_chain(label: str) -> Callable[[Mapping[str, Sequence[Run]]], HiddenChain]:
    """Return the function that draws the chain in the first layer of a row's first run."""

    def draw(trained: Mapping[str, Sequence[Run]]) -> HiddenChain:
        layers = recurrent_layers(trained[label][0].model())
        return hidden_chain(next(iter(layers.values())))

    return draw


def _panel(name: str, caption: str, row: Row) -> Panel:
    return Panel(name, caption, draw=_draw_chain(row.label), required_rows=(row.label,))


_GAIN = 1.0
_RATE = 1e-4


def _one_point(row: Row) -> Row:
    """Return one point of a search of figure 3, without the measurements during training."""
    return replace(
        row,
        grid=(),
        settings=replace(row.settings, lr=_RATE),
        options={**row.options, "gain": _GAIN},
        reported=Reported(
            None, "figure 5", split="test", quantity="loss", rule="last", note=FIGURE_NOTE
        ),
        callback_factory=None,
        seeds=(1,),
    )


_ADDING = _one_point(toys.FIGURE_3.row("ortho adding"))
_PIXELS = _one_point(toys.FIGURE_3.row("ortho psMNIST"))
_LSTM = replace(
    penn_treebank.TABLE_4.row("plain words"),
    reported=Reported(
        None, "figure 6", split="test", quantity="loss", rule="last", note=FIGURE_NOTE
    ),
    seeds=(1,),
)

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
            _panel("adding", "The weights by order after the adding problem", _ADDING),
            _panel("psmnist", "The weights by order after permuted MNIST", _PIXELS),
        ),
    ),
    Recipe(
        name="nonnormal/fig6",
        summary="An LSTM trained on Penn Treebank by words: the mean weight between units by the "
        "order of their peaks, for each gate.",
        rows=(_LSTM,),
        source=f"{SOURCE}, section 4 and figure 6",
        departures=(
            "the paper does not state which network it shows; we take the first layer with the "
            "plain initialisation",
        ),
        panels=(_panel("gates", "The weights by order in each gate", _LSTM),),
    ),
)
"""Two figures of trained weights."""
