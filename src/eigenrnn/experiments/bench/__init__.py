"""How fast the recurrences are on this machine, beside torch's: `eigenrnn bench`."""

from eigenrnn.experiments.bench.interleave import Timing, interleave
from eigenrnn.experiments.bench.measure import SIZES, Bench, Size, measure
from eigenrnn.experiments.bench.table import show

__all__ = ["SIZES", "Bench", "Size", "Timing", "interleave", "measure", "show"]
