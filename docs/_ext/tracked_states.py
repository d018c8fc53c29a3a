"""A directive that shows the archived runs on state tracking: tables and pictures."""

from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from two_themes import draw

from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results.page import markdown_table
from eigenrnn.experiments.results.state_tracking import (
    eigenvalue_figure,
    length_figure,
    table_columns,
    tracked_rows,
)

ARCHIVE = "../results"
FIGURES = {"lengths": length_figure, "eigenvalues": eigenvalue_figure}


class TrackedStates(SphinxDirective):
    """The argument is `tables`, `lengths` or `eigenvalues`; the content is the caption."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.srcdir, ARCHIVE)
        for path in sorted(folder.glob("state_tracking*/**/*.json")):
            self.env.note_dependency(str(path))
        rows = tracked_rows(folder, RECIPES)
        if self.arguments[0] == "tables":
            return self._tables(rows)
        figure = FIGURES[self.arguments[0]](rows).plot()
        caption = " ".join(self.content)
        name = f"state-tracking-{self.arguments[0]}"
        return draw(figure, self.env.srcdir, name, caption, caption)

    def _tables(self, rows: list[Any]) -> list[nodes.Node]:
        lines: list[str] = []
        for recipe in dict.fromkeys(row.recipe.name for row in rows):
            its = [row for row in rows if row.recipe.name == recipe]
            lines += [its[0].recipe.summary, "", *markdown_table(table_columns(its)), ""]
        holder = nodes.container()
        text = StringList(lines, source="archive")
        self.state.nested_parse(text, self.content_offset, holder)
        return holder.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("tracked-states", TrackedStates)
    return {"parallel_read_safe": True}
