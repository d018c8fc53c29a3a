"""What our own runs of the recipes came to: an archive of them, the pages of it, what is left."""

from eigenrnn.experiments.results.archive import Archive, Archived
from eigenrnn.experiments.results.collect import Collected, collect
from eigenrnn.experiments.results.page import to_markdown
from eigenrnn.experiments.results.plan import Plan

__all__ = ["Archive", "Archived", "Collected", "Plan", "collect", "to_markdown"]
