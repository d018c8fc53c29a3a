"""The benchmark of `make bench`: the speed of the layers on this machine, against torch's."""

from benchmarks.sequences.measure import SIZES, Bench, Size, Timing, interleave, measure
from benchmarks.sequences.tables import show

__all__ = ["SIZES", "Bench", "Size", "Timing", "interleave", "measure", "show"]
