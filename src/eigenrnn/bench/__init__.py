"""How fast the recurrences are on this machine, beside torch's: `eigenrnn bench`."""

from eigenrnn.bench.interleave import Timing, interleave
from eigenrnn.bench.measure import SIZES, Bench, Size, measure
from eigenrnn.bench.table import show

__all__ = ["SIZES", "Bench", "Size", "Timing", "interleave", "measure", "show"]
