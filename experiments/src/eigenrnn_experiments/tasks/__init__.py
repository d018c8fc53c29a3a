"""Tasks: the batches, the loss and metrics, and the chance-level baseline of each."""

from eigenrnn_experiments.tasks.adding import Adding
from eigenrnn_experiments.tasks.base import Batch, Task, model_for
from eigenrnn_experiments.tasks.car_racing import CarRacing
from eigenrnn_experiments.tasks.copying import Copying
from eigenrnn_experiments.tasks.denoise import Denoise
from eigenrnn_experiments.tasks.laboratory import (
    ContextIntegration,
    DelayedMatch,
    LaboratoryTask,
    PerceptualDecision,
    ReadySetGo,
    Trials,
)
from eigenrnn_experiments.tasks.parenthesis import Parenthesis
from eigenrnn_experiments.tasks.pixel_mnist import PixelMNIST
from eigenrnn_experiments.tasks.speech import Speech
from eigenrnn_experiments.tasks.state_tracking import StateTracking
from eigenrnn_experiments.tasks.synthetic import Synthetic
from eigenrnn_experiments.tasks.text import CharPTB, Enwik8, NextSymbol, Text, WordPTB

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
