"""What our own runs of the recipes came to: an archive of them, the pages of it, what is left."""

from eigenrnn.results.archive import Archive, Archived
from eigenrnn.results.collect import Collected, collect
from eigenrnn.results.page import to_markdown
from eigenrnn.results.plan import Plan

__all__ = ["Archive", "Archived", "Collected", "Plan", "collect", "to_markdown"]
