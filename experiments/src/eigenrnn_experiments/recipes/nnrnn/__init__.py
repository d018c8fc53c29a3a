"""The recipes of Kerg et al., NeurIPS 2019 (nnRNN)."""

from eigenrnn_experiments.recipes.nnrnn import (
    images,
    penn_treebank,
    trained_networks,
    triangular_matrices,
)

__all__ = ["RECIPES"]

RECIPES = (
    triangular_matrices.FIGURE_1,
    *images.RECIPES,
    *trained_networks.FIGURES_3_AND_5,
    *penn_treebank.RECIPES,
    triangular_matrices.TABLE_6,
    trained_networks.FIGURE_6,
)
"""Six figures, three tables of Penn Treebank and one of memory."""
