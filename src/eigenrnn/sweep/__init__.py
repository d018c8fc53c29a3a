"""Many runs, on one machine or on several."""

from eigenrnn.sweep.plan import Choice, Grid, Range, Search
from eigenrnn.sweep.run import Sweep
from eigenrnn.sweep.source import Prepared, Source, Trial
from eigenrnn.sweep.status import Status
from eigenrnn.sweep.stops import StoppedError

__all__ = [
    "Choice",
    "Grid",
    "Prepared",
    "Range",
    "Search",
    "Source",
    "Status",
    "StoppedError",
    "Sweep",
    "Trial",
]
