"""Tasks: what is drawn, how it is scored, and what a guess without memory scores."""

from eigenrnn.tasks.adding import Adding
from eigenrnn.tasks.base import Batch, Task
from eigenrnn.tasks.car_racing import CarRacing
from eigenrnn.tasks.char_ptb import CharPTB
from eigenrnn.tasks.copying import Copying
from eigenrnn.tasks.denoise import Denoise
from eigenrnn.tasks.enwik8 import Enwik8
from eigenrnn.tasks.parenthesis import Parenthesis
from eigenrnn.tasks.pixel_mnist import PixelMNIST
from eigenrnn.tasks.series import Series
from eigenrnn.tasks.speech import Speech
from eigenrnn.tasks.text import Text
from eigenrnn.tasks.word_ptb import WordPTB

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
