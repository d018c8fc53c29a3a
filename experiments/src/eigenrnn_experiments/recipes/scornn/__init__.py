"""The recipes of Helfrich, Willmott and Ye, ICML 2018 (scoRNN)."""

from eigenrnn_experiments.recipes.scornn import adding, copying, pixels

__all__ = ["RECIPES"]

RECIPES = (*copying.RECIPES, *adding.RECIPES, *pixels.RECIPES)
"""Four figures and two tables."""
