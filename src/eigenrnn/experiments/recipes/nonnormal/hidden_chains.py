"""Chains hidden in trained recurrent weights: figures 5 and 6."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from eigenrnn.analysis import HiddenChain, hidden_chain, recurrent_layers
from eigenrnn.experiments.recipes.nonnormal import text, toys
from eigenrnn.experiments.recipes.nonnormal.paper import SOURCE
from eigenrnn.experiments.recipes.panels import row_of_figure
from eigenrnn.experiments.recipes.recipe import Panel, Recipe, Row
from eigenrnn.experiments.recipes.runs import Run

__all__ = ["RECIPES"]

_GAIN, _RATE = 1.0, 1e-4


def _row(recipes: tuple[Recipe, ...], name: str, label: str, place: str) -> Row:
    """Take a row of another recipe; of a search keep one point."""
    row = row_of_figure(recipes, name, label, place, "last")
    if row.grid:
        settings = replace(row.settings, lr=_RATE)
        row = replace(row, grid=(), settings=settings, options={**row.options, "gain": _GAIN})
    return replace(row, callback_factory=None, seeds=(1,))


def _draw_chain(label: str) -> Callable[[Mapping[str, Sequence[Run]]], HiddenChain]:
    """Return the function that draws the chain in the first layer of a row's first run."""

    def draw(trained: Mapping[str, Sequence[Run]]) -> HiddenChain:
        layers = recurrent_layers(trained[label][0].model())
        return hidden_chain(next(iter(layers.values())))

    return draw


def _panel(name: str, caption: str, row: Row) -> Panel:
    return Panel(name, caption, _draw_chain(row.label), (row.label,))


_ADDING = _row(toys.RECIPES, "nonnormal/fig3", "ortho adding", "figure 5")
_PIXELS = _row(toys.RECIPES, "nonnormal/fig3", "ortho psMNIST", "figure 5")
_LSTM = _row(text.RECIPES, "nonnormal/table4", "plain words", "figure 6")

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
