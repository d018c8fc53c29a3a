"""The recipes of Helfrich and Ye, AAAI 2020 (ENRNN)."""

from eigenrnn_experiments.recipes.enrnn import adding, copying, gradients, penn_treebank, speech

__all__ = ["RECIPES"]

RECIPES = (
    *adding.RECIPES,
    *copying.RECIPES,
    *gradients.RECIPES,
    *speech.RECIPES,
    *penn_treebank.RECIPES,
)
"""Seven figures and two tables."""
