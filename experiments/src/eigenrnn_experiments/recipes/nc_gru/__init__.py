"""The recipes of Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022 (NC-GRU)."""

from eigenrnn_experiments.recipes.nc_gru import (
    parenthesis,
    penn_treebank,
    synthetic,
)

__all__ = ["RECIPES"]

RECIPES = (
    *parenthesis.RECIPES,
    *synthetic.RECIPES,
    *penn_treebank.RECIPES,
    *parenthesis.ABLATIONS,
)
"""Six tables and eight figures."""
