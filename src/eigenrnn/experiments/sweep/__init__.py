"""Many runs, on one machine or on several."""

from eigenrnn.experiments.sweep.criterion import Criterion, Score
from eigenrnn.experiments.sweep.plan import Choice, Grid, Range, Search
from eigenrnn.experiments.sweep.run import Sweep
from eigenrnn.experiments.sweep.source import Prepared, Source, Trial
from eigenrnn.experiments.sweep.status import Status
from eigenrnn.experiments.sweep.stops import StoppedError

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
