"""Directives that draw the archived runs: learning curves, and the figures of a paper."""

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from reproduction.archive import ARCHIVE, Archive
from reproduction.figures import curve_figures, paper_figures
from reproduction.recipes import RECIPES
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from two_themes import draw


class ArchivedCurves(SphinxDirective):
    """One picture for each recipe and task, or with the option `paper`, those of one paper."""

    option_spec: ClassVar[dict[str, Any]] = {"paper": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        for path in sorted(ARCHIVE.glob("*.jsonl")):
            self.env.note_dependency(str(path))
        archive = Archive()
        if "paper" in self.options:
            pictures = paper_figures(archive, RECIPES, self.options["paper"])
        else:
            pictures = curve_figures(archive, RECIPES)
        return [
            node
            for p in pictures
            for node in draw(p.plot(), self.env.srcdir, p.name, p.caption, p.caption)
        ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("archived-curves", ArchivedCurves)
    return {"parallel_read_safe": True}
