"""Many runs, on one machine or on several."""

from eigenrnn.sweep.criterion import Criterion, Score
from eigenrnn.sweep.plan import Choice, Grid, Range, Search
from eigenrnn.sweep.run import Sweep
from eigenrnn.sweep.source import Prepared, Source, Trial
from eigenrnn.sweep.status import Status
from eigenrnn.sweep.stops import StoppedError

__all__ = [
    "Choice",
    "Criterion",
    "Grid",
    "Prepared",
    "Range",
    "Score",
    "Search",
    "Source",
    "Status",
    "StoppedError",
    "Sweep",
    "Trial",
]
