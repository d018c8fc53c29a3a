"""Our own runs of the recipes: the archive, and the plan of the remaining runs."""

from eigenrnn.experiments.results.archive import Archive
from eigenrnn.experiments.results.archive_runs import ArchiveChanges, archive_runs
from eigenrnn.experiments.results.plan import Plan
from eigenrnn.experiments.training.archived_run import ArchivedRun

__all__ = ["Archive", "ArchiveChanges", "ArchivedRun", "Plan", "archive_runs"]
