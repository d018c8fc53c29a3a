"""All that the paper measured."""

from eigenrnn.recipes.nnrnn import fisher, images, text

__all__ = ["RECIPES"]

RECIPES = (*images.RECIPES, *text.RECIPES, *fisher.RECIPES)
"""Two figures of copying and permuted MNIST, three tables of Penn Treebank, one of memory."""
