"""The experiments of Helfrich and Ye, AAAI 2020 (ENRNN)."""

from eigenrnn.experiments.recipes.enrnn.tables_and_figures import RECIPES

__all__ = ["RECIPES"]
