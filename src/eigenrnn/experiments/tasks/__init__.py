"""Tasks: what is drawn, how it is scored, and what a guess without memory scores."""

from eigenrnn.experiments.tasks.adding import Adding
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.tasks.car_racing import CarRacing
from eigenrnn.experiments.tasks.char_ptb import CharPTB
from eigenrnn.experiments.tasks.copying import Copying
from eigenrnn.experiments.tasks.denoise import Denoise
from eigenrnn.experiments.tasks.enwik8 import Enwik8
from eigenrnn.experiments.tasks.parenthesis import Parenthesis
from eigenrnn.experiments.tasks.pixel_mnist import PixelMNIST
from eigenrnn.experiments.tasks.series import Series
from eigenrnn.experiments.tasks.speech import Speech
from eigenrnn.experiments.tasks.text import Text
from eigenrnn.experiments.tasks.word_ptb import WordPTB

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
