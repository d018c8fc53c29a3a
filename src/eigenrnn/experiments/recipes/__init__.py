"""Experiments by name, published ones and our own: one module for each paper or comparison."""

from eigenrnn.experiments.recipes import (
    enrnn,
    nc_gru,
    nnrnn,
    nonnormal,
    permuted_mnist,
    scornn,
    state_tracking,
    state_tracking_radius,
)
from eigenrnn.experiments.recipes.outcome import Outcome
from eigenrnn.experiments.recipes.recipe import (
    Axis,
    Computed,
    Entry,
    Quoted,
    Recipe,
    Reported,
    Row,
)
from eigenrnn.experiments.recipes.reproduce import reproduce

__all__ = [  # noqa: RUF022, in the order of the reference
    "reproduce",
    "Recipe",
    "Row",
    "Reported",
    "Axis",
    "Computed",
    "Quoted",
    "Outcome",
    "Entry",
    "enrnn",
    "nc_gru",
    "nnrnn",
    "nonnormal",
    "permuted_mnist",
    "scornn",
    "state_tracking",
    "state_tracking_radius",
]
