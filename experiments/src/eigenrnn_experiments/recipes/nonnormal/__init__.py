"""The recipes of Orhan and Pitkow, ICLR 2020 (non-normal initialisation)."""

from eigenrnn_experiments.recipes.nonnormal import (
    car_racing,
    fisher_memory,
    hidden_chains,
    penn_treebank,
    toys,
)

__all__ = ["RECIPES"]

RECIPES = (
    *fisher_memory.RECIPES,
    *toys.RECIPES,
    *penn_treebank.RECIPES,
    *car_racing.RECIPES,
    *hidden_chains.RECIPES,
)
"""Six figures and four tables."""
