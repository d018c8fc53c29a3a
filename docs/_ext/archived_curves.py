"""A directive that draws the learning curves of the archived runs in results/."""

from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from two_themes import draw

from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results.figures import curve_figures, main_figures


class ArchivedCurves(SphinxDirective):
    """One picture for each recipe and task; the argument is the folder of the archive.

    With the option `main`, the pictures that belong to the claims.
    """

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"main": directives.flag}

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.srcdir, self.arguments[0])
        for path in sorted(folder.glob("**/*.json")):
            self.env.note_dependency(str(path))
        pictures = main_figures if "main" in self.options else curve_figures
        return [
            node
            for p in pictures(folder, RECIPES)
            for node in draw(p.plot(), self.env.srcdir, p.name, p.caption, p.caption)
        ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("archived-curves", ArchivedCurves)
    return {"parallel_read_safe": True}
