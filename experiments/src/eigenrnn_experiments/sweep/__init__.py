"""Sweeps: many runs from one file, on one machine or on several."""

from eigenrnn_experiments.sweep.run import Plan, Sweep, Trial

__all__ = ["Plan", "Sweep", "Trial"]
