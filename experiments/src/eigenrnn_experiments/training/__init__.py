"""Training: one loop, its settings, and the files that it writes."""

from eigenrnn_experiments.training.callbacks import Callback
from eigenrnn_experiments.training.dynamics import Dynamics
from eigenrnn_experiments.training.fit import fit
from eigenrnn_experiments.training.optimisers import RMSpropTF1
from eigenrnn_experiments.training.resynthesis import resynthesise
from eigenrnn_experiments.training.run import Run, RunFolder, RunKey
from eigenrnn_experiments.training.settings import Settings
from eigenrnn_experiments.training.table import runs

__all__ = [  # noqa: RUF022, in the order of the reference
    "fit",
    "Settings",
    "Run",
    "RunKey",
    "RunFolder",
    "runs",
    "RMSpropTF1",
    "Dynamics",
    "resynthesise",
    "Callback",
]
