"""All that the paper measured of trained networks, but for the weights of figures 5 and 6."""

from eigenrnn.recipes.nonnormal import car_racing, text, toys

__all__ = ["RECIPES"]

RECIPES = (*toys.RECIPES, *text.RECIPES, *car_racing.RECIPES)
"""Two figures and four tables."""
