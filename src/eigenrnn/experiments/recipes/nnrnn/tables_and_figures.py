"""All that the paper measured."""

from eigenrnn.experiments.recipes.nnrnn import fisher, gradients, images, learned, text, transients

__all__ = ["RECIPES"]

RECIPES = (
    *transients.RECIPES,
    *images.RECIPES,
    *learned.RECIPES,
    *text.RECIPES,
    *fisher.RECIPES,
    *gradients.RECIPES,
)
"""Six figures, three tables of Penn Treebank and one of memory."""
