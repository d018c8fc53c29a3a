"""The experiments of Orhan and Pitkow, ICLR 2020 (non-normal initialisation)."""

from eigenrnn.experiments.recipes.nonnormal import car_racing, hidden_chains, memory, text, toys

__all__ = ["RECIPES"]

RECIPES = (
    *memory.RECIPES,
    *toys.RECIPES,
    *text.RECIPES,
    *car_racing.RECIPES,
    *hidden_chains.RECIPES,
)
"""Six figures and four tables."""
