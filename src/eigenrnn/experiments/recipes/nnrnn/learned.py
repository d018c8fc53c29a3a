"""What a trained nnRNN looks like: figures 3 and 5."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from eigenrnn.analysis import SchurStructure, schur_structure
from eigenrnn.experiments.recipes.base import Recipe, Row
from eigenrnn.experiments.recipes.borrowed import borrowed
from eigenrnn.experiments.recipes.nnrnn import images, text
from eigenrnn.experiments.recipes.nnrnn.source import SOURCE
from eigenrnn.experiments.recipes.panel import Panel, Trained

__all__ = ["RECIPES"]


def _row_of(recipes: tuple[Recipe, ...], name: str, label: str, place: str) -> Row:
    return replace(borrowed(recipes, name, label, place, "best"), seeds=(0,))


def _structure(label: str) -> Callable[[Mapping[str, Sequence[Trained]]], SchurStructure]:
    """Look at the first run of a row."""

    def draw(trained: Mapping[str, Sequence[Trained]]) -> SchurStructure:
        return schur_structure(trained[label][0].model())

    return draw


def _panel(name: str, about: str, row: Row) -> Panel:
    return Panel(name, about, _structure(row.label), (row.label,))


_COPYING = _row_of(images.RECIPES, "nnrnn/fig4", "nnRNN 128 copying", "figure 3a")
_TEXT = _row_of(text.RECIPES, "nnrnn/table1", "nnRNN 1024 T=150", "figures 3b and 3c")
_PIXELS = _row_of(images.RECIPES, "nnrnn/fig4", "nnRNN 512 psMNIST", "figure 5")
_INSET = (
    "the inset of figure 3c, the distribution of the entries next to the diagonal, is left out"
)
_ORDER = (
    "our product is W h, where the paper's figure may show its transpose: the triangle is below "
    "the diagonal in both"
)

RECIPES = (
    Recipe(
        name="nnrnn/fig3",
        summary="The Schur form that nnRNN learns on copying and on Penn Treebank.",
        rows=(_COPYING, _TEXT),
        source=f"{SOURCE}, section 5.3 and figure 3",
        departures=(_ORDER, _INSET),
        panels=(
            _panel("a", "The Schur form after copying (T=200)", _COPYING),
            _panel("b-c", "The Schur form after Penn Treebank (T=150)", _TEXT),
        ),
    ),
    Recipe(
        name="nnrnn/fig5",
        summary="The Schur form that nnRNN learns on permuted MNIST.",
        rows=(_PIXELS,),
        source=f"{SOURCE}, appendix E and figure 5",
        departures=(_ORDER,),
        panels=(_panel("theta", "The Schur form after permuted MNIST", _PIXELS),),
    ),
)
"""Two figures of matrices."""
