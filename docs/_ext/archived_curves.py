"""A directive that draws the learning curves of the archived runs in results/."""

from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results.figures import curve_figures, main_figures

PICTURES = "_pictures"


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
        output = Path(self.env.srcdir, PICTURES)
        output.mkdir(exist_ok=True)
        figures: list[nodes.Node] = []
        draw = main_figures if "main" in self.options else curve_figures
        for picture in draw(folder, RECIPES):
            picture.plot().savefig(output / f"{picture.name}.png", dpi=110)
            image = nodes.image(uri=f"/{PICTURES}/{picture.name}.png", alt=picture.caption)
            figures.append(nodes.figure("", image, nodes.caption("", picture.caption)))
        return figures


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("archived-curves", ArchivedCurves)
    return {"parallel_read_safe": True}
