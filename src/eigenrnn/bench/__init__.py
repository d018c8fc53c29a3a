"""How fast the recurrences are on this machine, beside torch's: `eigenrnn bench`."""

from eigenrnn.bench.interleave import Timing, interleave
from eigenrnn.bench.measure import SIZES, Bench, measure
from eigenrnn.bench.table import show

__all__ = ["SIZES", "Bench", "Timing", "interleave", "measure", "show"]
