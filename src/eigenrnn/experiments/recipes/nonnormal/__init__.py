"""The experiments of Orhan and Pitkow, ICLR 2020 (non-normal initialisation)."""

from eigenrnn.experiments.recipes.nonnormal.tables_and_figures import RECIPES

__all__ = ["RECIPES"]
