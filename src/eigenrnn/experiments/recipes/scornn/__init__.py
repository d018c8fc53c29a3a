"""The experiments of Helfrich, Willmott and Ye, ICML 2018 (scoRNN)."""

from eigenrnn.experiments.recipes.scornn.tables_and_figures import RECIPES

__all__ = ["RECIPES"]
