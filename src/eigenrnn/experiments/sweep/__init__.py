"""Sweeps: many runs, on one machine or on several."""

from eigenrnn.experiments.sweep.run import StoppedError, Sweep
from eigenrnn.experiments.sweep.search_space import Choice, Grid, Range, Search
from eigenrnn.experiments.sweep.trial import (
    Criterion,
    Score,
    Trial,
    TrialSource,
)

__all__ = [
    "Choice",
    "Criterion",
    "Grid",
    "Range",
    "Score",
    "Search",
    "StoppedError",
    "Sweep",
    "Trial",
    "TrialSource",
]
