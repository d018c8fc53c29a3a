"""Recipes, the tables and figures of papers as data: one module for each paper."""

from eigenrnn_experiments.recipes import (
    enrnn,
    nc_gru,
    nnrnn,
    nonnormal,
    scornn,
)
from eigenrnn_experiments.recipes.comparison import Comparison
from eigenrnn_experiments.recipes.recipe import (
    Axis,
    Computed,
    Entry,
    Plan,
    Quoted,
    Recipe,
    Reference,
    Reported,
    Row,
)
from eigenrnn_experiments.recipes.reproduce import reproduce

__all__ = [  # noqa: RUF022, in the order of the reference
    "reproduce",
    "Recipe",
    "Row",
    "Reported",
    "Axis",
    "Computed",
    "Quoted",
    "Reference",
    "Plan",
    "Comparison",
    "Entry",
    "enrnn",
    "nc_gru",
    "nnrnn",
    "nonnormal",
    "scornn",
]
