"""The HTML report of runs and recipes, one file that opens in any browser."""

from eigenrnn_experiments.report.network_analyses import RebuildModel
from eigenrnn_experiments.report.page import write_report
from eigenrnn_experiments.report.records import Records, read_records

__all__ = [
    "RebuildModel",
    "Records",
    "read_records",
    "write_report",
]
