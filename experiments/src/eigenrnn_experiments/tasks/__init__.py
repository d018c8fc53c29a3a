"""Tasks: the batches, the loss and metrics, and the chance-level baseline of each."""

from eigenrnn.experiments.tasks.adding import Adding
from eigenrnn.experiments.tasks.base import Batch, Task, model_for
from eigenrnn.experiments.tasks.car_racing import CarRacing
from eigenrnn.experiments.tasks.copying import Copying
from eigenrnn.experiments.tasks.denoise import Denoise
from eigenrnn.experiments.tasks.laboratory import (
    ContextIntegration,
    DelayedMatch,
    LaboratoryTask,
    PerceptualDecision,
    ReadySetGo,
    Trials,
)
from eigenrnn.experiments.tasks.parenthesis import Parenthesis
from eigenrnn.experiments.tasks.pixel_mnist import PixelMNIST
from eigenrnn.experiments.tasks.series import Series
from eigenrnn.experiments.tasks.speech import Speech
from eigenrnn.experiments.tasks.state_tracking import StateTracking
from eigenrnn.experiments.tasks.synthetic import Synthetic
from eigenrnn.experiments.tasks.text import CharPTB, Enwik8, NextSymbol, Text, WordPTB

__all__ = [  # noqa: RUF022, in the order of the reference
    "Copying",
    "Adding",
    "CarRacing",
    "CharPTB",
    "ContextIntegration",
    "DelayedMatch",
    "Denoise",
    "Enwik8",
    "Parenthesis",
    "PerceptualDecision",
    "PixelMNIST",
    "ReadySetGo",
    "Series",
    "Speech",
    "StateTracking",
    "Text",
    "WordPTB",
    "Task",
    "Synthetic",
    "NextSymbol",
    "LaboratoryTask",
    "Batch",
    "model_for",
    "Trials",
]
