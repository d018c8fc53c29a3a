"""All that the paper measured."""

from eigenrnn.recipes.enrnn import adding, copying, speech, text

__all__ = ["RECIPES"]

RECIPES = (*adding.RECIPES, *copying.RECIPES, *speech.RECIPES, *text.RECIPES)
"""Five figures and two tables."""
