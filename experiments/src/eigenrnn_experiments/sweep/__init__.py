"""Sweeps: many runs from one file, on one machine or on several."""

from eigenrnn_experiments.sweep.run import Sweep, SweepFile

__all__ = ["Sweep", "SweepFile"]
