"""All tables and figures of the paper, as recipes."""

from eigenrnn.experiments.recipes.scornn import adding, copying, pixels

__all__ = ["RECIPES"]

RECIPES = (*copying.RECIPES, *adding.RECIPES, *pixels.RECIPES)
"""Four figures and two tables."""
