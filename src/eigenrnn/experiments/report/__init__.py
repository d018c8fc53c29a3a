"""What came out of runs, as a page that opens anywhere."""

from eigenrnn.experiments.report.collect import RecipeRecord, Records, RunRecord, collect
from eigenrnn.experiments.report.networks import Rebuild, Trained
from eigenrnn.experiments.report.page import write_report

__all__ = [
    "Rebuild",
    "RecipeRecord",
    "Records",
    "RunRecord",
    "Trained",
    "collect",
    "write_report",
]
