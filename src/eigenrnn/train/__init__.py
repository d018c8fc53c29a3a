"""Training: one loop, and what it writes."""

from eigenrnn.train.callbacks import Callback
from eigenrnn.train.dynamics import Dynamics
from eigenrnn.train.optimisers import RMSpropTF1
from eigenrnn.train.result import Result
from eigenrnn.train.resynthesis import Resynthesis, resynthesise
from eigenrnn.train.settings import Settings
from eigenrnn.train.start import fit

__all__ = [
    "Callback",
    "Dynamics",
    "RMSpropTF1",
    "Result",
    "Resynthesis",
    "Settings",
    "fit",
    "resynthesise",
]
