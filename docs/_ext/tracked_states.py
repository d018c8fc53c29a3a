"""A directive that shows the archived runs on state tracking: tables and pictures."""

from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from reproduction.archive import ARCHIVE, Archive
from reproduction.page import markdown_table
from reproduction.recipes import RECIPES
from reproduction.state_tracking import (
    SPECTRA,
    eigenvalue_figure,
    length_figure,
    reflection_figure,
    table_of_networks,
    table_of_radii,
    tracked_rows,
)
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from two_themes import draw

FIGURES = {
    "lengths": length_figure,
    "eigenvalues": eigenvalue_figure,
    "reflections": reflection_figure,
}


class TrackedStates(SphinxDirective):
    """The argument is `tables`, `radius` or one of `FIGURES`; the content is the caption."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(ARCHIVE / "state_tracking.jsonl"))
        self.env.note_dependency(str(SPECTRA))
        rows = tracked_rows(Archive(), RECIPES)
        if self.arguments[0] == "tables":
            return self._tables(rows)
        if self.arguments[0] == "radius":
            return self._nodes(markdown_table(table_of_radii(rows)).splitlines())
        figure = FIGURES[self.arguments[0]](rows).plot()
        caption = " ".join(self.content)
        name = f"state-tracking-{self.arguments[0]}"
        return draw(figure, self.env.srcdir, name, caption, caption)

    def _tables(self, rows: list[Any]) -> list[nodes.Node]:
        lines: list[str] = []
        for recipe in dict.fromkeys(row.recipe.name for row in rows):
            its = [row for row in rows if row.recipe.name == recipe]
            table = markdown_table(table_of_networks(its))
            lines += [its[0].recipe.summary, "", *table.splitlines(), ""]
        return self._nodes(lines)

    def _nodes(self, lines: list[str]) -> list[nodes.Node]:
        holder = nodes.container()
        text = StringList(lines, source="archive")
        self.state.nested_parse(text, self.content_offset, holder)
        return holder.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("tracked-states", TrackedStates)
    return {"parallel_read_safe": True}
