"""The experiments of Kerg et al., NeurIPS 2019 (nnRNN)."""

from eigenrnn.experiments.recipes.nnrnn.tables_and_figures import RECIPES

__all__ = ["RECIPES"]
