"""A directive that draws the learning curves of the archived runs in results/."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results.learning_curves import curve_figures

PICTURES = "_pictures"


class ArchivedCurves(SphinxDirective):
    """One picture for each recipe and task; the argument is the folder of the archive."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.srcdir, self.arguments[0])
        for path in sorted(folder.glob("**/*.json")):
            self.env.note_dependency(str(path))
        output = Path(self.env.srcdir, PICTURES)
        output.mkdir(exist_ok=True)
        figures: list[nodes.Node] = []
        for picture in curve_figures(folder, RECIPES):
            picture.plot().savefig(output / f"{picture.name}.png", dpi=110)
            image = nodes.image(uri=f"/{PICTURES}/{picture.name}.png", alt=picture.caption)
            figures.append(nodes.figure("", image, nodes.caption("", picture.caption)))
        return figures


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("archived-curves", ArchivedCurves)
    return {"parallel_read_safe": True}
