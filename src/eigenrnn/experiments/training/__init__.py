"""Training: one loop, and what it writes."""

from eigenrnn.experiments.training.callbacks import Callback
from eigenrnn.experiments.training.dynamics import Dynamics
from eigenrnn.experiments.training.optimisers import RMSpropTF1
from eigenrnn.experiments.training.result import Result
from eigenrnn.experiments.training.resynthesis import Resynthesis, resynthesise
from eigenrnn.experiments.training.settings import Settings
from eigenrnn.experiments.training.start import fit

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
