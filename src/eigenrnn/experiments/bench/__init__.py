"""The benchmark `eigenrnn bench`: the speed of the layers on this machine, against torch's."""

from eigenrnn.experiments.bench.measure import SIZES, Bench, Size, Timing, interleave, measure
from eigenrnn.experiments.bench.tables import show

__all__ = ["SIZES", "Bench", "Size", "Timing", "interleave", "measure", "show"]
