"""What came out of runs, as a page that opens anywhere."""

from eigenrnn.report.collect import RecipeRecord, Records, RunRecord, collect
from eigenrnn.report.networks import Rebuild, Trained
from eigenrnn.report.page import write_report

__all__ = [
    "Rebuild",
    "RecipeRecord",
    "Records",
    "RunRecord",
    "Trained",
    "collect",
    "write_report",
]
