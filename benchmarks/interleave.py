"""The interleaved timing of the package, under the name that the scripts here use."""

from eigenrnn.experiments.bench.interleave import Timing, interleave

__all__ = ["Timing", "interleave"]
