"""Sweeps: many runs, on one machine or on several."""

from eigenrnn.experiments.sweep.criterion import Criterion, Score
from eigenrnn.experiments.sweep.run import Sweep
from eigenrnn.experiments.sweep.search_space import Choice, Grid, Range, Search
from eigenrnn.experiments.sweep.signals import StoppedError
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.sweep.trials import Trial, TrialSetup, TrialSource

__all__ = [
    "Choice",
    "Criterion",
    "Grid",
    "Range",
    "Score",
    "Search",
    "Status",
    "StoppedError",
    "Sweep",
    "Trial",
    "TrialSetup",
    "TrialSource",
]
