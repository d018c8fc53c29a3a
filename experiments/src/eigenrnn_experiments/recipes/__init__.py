"""Recipes, the tables and figures of papers as data: one module for each paper."""

from eigenrnn_experiments.recipes import (
    enrnn,
    nc_gru,
    nnrnn,
    nonnormal,
    scornn,
)
from eigenrnn_experiments.recipes.comparison import Comparison
from eigenrnn_experiments.recipes.plan import Plan
from eigenrnn_experiments.recipes.recipe import Entry, Recipe, Reference
from eigenrnn_experiments.recipes.reproduce import reproduce
from eigenrnn_experiments.recipes.row import Axis, Computed, Quoted, Reported, Row

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
