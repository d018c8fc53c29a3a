"""Tasks: what is drawn, how it is scored, and what a guess without memory scores."""

from eigenrnn.tasks.base import Batch, Task
from eigenrnn.tasks.copying import Copying
from eigenrnn.tasks.pixel_mnist import PixelMNIST

__all__ = ["Batch", "Copying", "PixelMNIST", "Task"]
