"""Published experiments by name: one file a paper, one line here."""

from eigenrnn.experiments.recipes import enrnn, nc_gru, nnrnn, nonnormal, scornn
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

__all__ = [
    "Axis",
    "Computed",
    "Entry",
    "Outcome",
    "Quoted",
    "Recipe",
    "Reported",
    "Row",
    "enrnn",
    "nc_gru",
    "nnrnn",
    "nonnormal",
    "reproduce",
    "scornn",
]
