"""Training: one loop, its settings, and the files that it writes."""

from eigenrnn.experiments.training.callbacks import Callback
from eigenrnn.experiments.training.dynamics import Dynamics
from eigenrnn.experiments.training.fit import fit
from eigenrnn.experiments.training.optimisers import RMSpropTF1
from eigenrnn.experiments.training.result import Result
from eigenrnn.experiments.training.resynthesis import Resynthesis, resynthesise
from eigenrnn.experiments.training.run_folder import RunFolder
from eigenrnn.experiments.training.settings import Settings

__all__ = [  # noqa: RUF022, in the order of the reference
    "fit",
    "Settings",
    "Result",
    "RunFolder",
    "RMSpropTF1",
    "Dynamics",
    "Resynthesis",
    "resynthesise",
    "Callback",
]
