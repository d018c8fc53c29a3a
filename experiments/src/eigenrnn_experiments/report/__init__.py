"""The HTML report of runs and recipes, one file that opens in any browser."""

from eigenrnn.experiments.report.network_analyses import RebuildModel
from eigenrnn.experiments.report.page import write_report
from eigenrnn.experiments.report.records import RecipeRecord, Records, read_records

__all__ = [
    "RebuildModel",
    "RecipeRecord",
    "Records",
    "read_records",
    "write_report",
]
