"""Published experiments by name: one file a paper, one line here."""

from eigenrnn.recipes import nnrnn, scornn
from eigenrnn.recipes.base import Axis, Computed, Recipe, Reported, Row
from eigenrnn.recipes.outcome import Outcome
from eigenrnn.recipes.reproduce import reproduce

__all__ = [
    "Axis",
    "Computed",
    "Outcome",
    "Recipe",
    "Reported",
    "Row",
    "nnrnn",
    "reproduce",
    "scornn",
]
