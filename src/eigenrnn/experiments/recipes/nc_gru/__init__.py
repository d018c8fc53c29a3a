"""The experiments of Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022 (NC-GRU)."""

from eigenrnn.experiments.recipes.nc_gru.tables_and_figures import RECIPES

__all__ = ["RECIPES"]
