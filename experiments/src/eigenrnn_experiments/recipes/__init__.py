"""Published experiments by name: one module for each paper."""

from eigenrnn_experiments.recipes import (
    enrnn,
    nc_gru,
    nnrnn,
    nonnormal,
    scornn,
)
from eigenrnn_experiments.recipes.outcome import Outcome
from eigenrnn_experiments.recipes.recipe import (
    Axis,
    Computed,
    Entry,
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
    "Outcome",
    "Entry",
    "enrnn",
    "nc_gru",
    "nnrnn",
    "nonnormal",
    "scornn",
]
