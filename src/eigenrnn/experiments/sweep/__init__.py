"""Sweeps: many runs from one file, on one machine or on several."""

from eigenrnn.experiments.sweep.run import Search, Sweep
from eigenrnn.experiments.sweep.trial import Criterion, Trial

__all__ = ["Criterion", "Search", "Sweep", "Trial"]
