"""The experiments of Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022 (NC-GRU)."""

from eigenrnn.experiments.recipes.nc_gru import (
    ablations,
    adding,
    copying,
    denoise,
    parenthesis,
    text,
)

__all__ = ["RECIPES"]

RECIPES = (
    *parenthesis.RECIPES,
    *denoise.RECIPES,
    *adding.RECIPES,
    *copying.RECIPES,
    *text.RECIPES,
    *ablations.RECIPES,
)
"""Six tables and eight figures."""
