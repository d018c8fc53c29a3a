"""The experiments of Helfrich and Ye, AAAI 2020 (ENRNN)."""

from eigenrnn.experiments.recipes.enrnn import adding, copying, gradients, speech, text

__all__ = ["RECIPES"]

RECIPES = (
    *adding.RECIPES,
    *copying.RECIPES,
    *gradients.RECIPES,
    *speech.RECIPES,
    *text.RECIPES,
)
"""Seven figures and two tables."""
