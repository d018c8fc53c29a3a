"""The chains that training leaves in a network: figures 5 and 6."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from eigenrnn.analysis import HiddenChain, hidden_chain, recurrent_layers
from eigenrnn.experiments.recipes.base import Recipe, Row
from eigenrnn.experiments.recipes.borrowed import borrowed
from eigenrnn.experiments.recipes.nonnormal import text, toys
from eigenrnn.experiments.recipes.nonnormal.source import SOURCE
from eigenrnn.experiments.recipes.panel import Panel, Trained

__all__ = ["RECIPES"]

_GAIN, _RATE = 1.0, 1e-4


def _row_of(recipes: tuple[Recipe, ...], name: str, label: str, place: str) -> Row:
    """Take a row of a table, to look at its matrix; of a search one point alone."""
    row = borrowed(recipes, name, label, place, "last")
    if row.grid:
        settings = replace(row.settings, lr=_RATE)
        row = replace(row, grid=(), settings=settings, options={**row.options, "gain": _GAIN})
    return replace(row, watch=None, seeds=(1,))


def _chain(label: str) -> Callable[[Mapping[str, Sequence[Trained]]], HiddenChain]:
    """Look at the first layer of the first run of a row."""

    def draw(trained: Mapping[str, Sequence[Trained]]) -> HiddenChain:
        layers = recurrent_layers(trained[label][0].model())
        return hidden_chain(next(iter(layers.values())))

    return draw


def _panel(name: str, about: str, row: Row) -> Panel:
    return Panel(name, about, _chain(row.label), (row.label,))


_ADDING = _row_of(toys.RECIPES, "nonnormal/fig3", "ortho adding", "figure 5")
_PIXELS = _row_of(toys.RECIPES, "nonnormal/fig3", "ortho psMNIST", "figure 5")
_LSTM = _row_of(text.RECIPES, "nonnormal/table4", "plain words", "figure 6")

RECIPES = (
    Recipe(
        name="nonnormal/fig5",
        summary="Orthogonal starts, trained on adding and on permuted MNIST: the mean weight "
        "between units by the order in which they peak.",
        rows=(_ADDING, _PIXELS),
        source=f"{SOURCE}, section 4 and figure 5",
        departures=(f"the runs shown are not stated: lambda = {_GAIN:g} and a rate of {_RATE:g}",),
        panels=(
            _panel("adding", "The weights by order after the adding problem", _ADDING),
            _panel("psmnist", "The weights by order after permuted MNIST", _PIXELS),
        ),
    ),
    Recipe(
        name="nonnormal/fig6",
        summary="An LSTM trained on Penn Treebank by words: the same, gate by gate.",
        rows=(_LSTM,),
        source=f"{SOURCE}, section 4 and figure 6",
        departures=("the network shown is not stated: the first layer, of the plain start",),
        panels=(_panel("gates", "The weights by order in each gate", _LSTM),),
    ),
)
"""Two figures of trained weights."""
