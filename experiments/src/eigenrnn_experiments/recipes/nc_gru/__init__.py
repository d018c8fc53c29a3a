"""The recipes of Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022 (NC-GRU)."""

from eigenrnn_experiments.recipes.nc_gru import (
    adding,
    copying,
    denoise,
    parenthesis,
    penn_treebank,
)

__all__ = ["RECIPES"]

RECIPES = (
    *parenthesis.RECIPES,
    *denoise.RECIPES,
    *adding.RECIPES,
    *copying.RECIPES,
    *penn_treebank.RECIPES,
    *parenthesis.ABLATIONS,
)
"""Six tables and eight figures."""
