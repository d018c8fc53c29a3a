"""Tasks: the batches, the loss and metrics, and the chance-level baseline of each."""

from eigenrnn.experiments.tasks.adding import Adding
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.tasks.car_racing import CarRacing
from eigenrnn.experiments.tasks.copying import Copying
from eigenrnn.experiments.tasks.denoise import Denoise
from eigenrnn.experiments.tasks.enwik8 import Enwik8
from eigenrnn.experiments.tasks.parenthesis import Parenthesis
from eigenrnn.experiments.tasks.pixel_mnist import PixelMNIST
from eigenrnn.experiments.tasks.ptb import CharPTB, WordPTB
from eigenrnn.experiments.tasks.series import Series
from eigenrnn.experiments.tasks.speech import Speech
from eigenrnn.experiments.tasks.text import Text

__all__ = [
    "Adding",
    "Batch",
    "CarRacing",
    "CharPTB",
    "Copying",
    "Denoise",
    "Enwik8",
    "Parenthesis",
    "PixelMNIST",
    "Series",
    "Speech",
    "Task",
    "Text",
    "WordPTB",
]
