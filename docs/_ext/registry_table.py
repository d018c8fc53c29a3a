"""Directives that write tables of exports: one line for each, with a link to its reference."""

import inspect
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from reproduction.recipes import RECIPES
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from eigenrnn_experiments import registry
from eigenrnn_experiments.recipes import Recipe, Reported
from eigenrnn_experiments.recipes.comparison import compared_numbers


class RegistryTable(SphinxDirective):
    """The names in one mapping of the registry, with summaries.

    Classes have links, and beside them stands whatever else their package exports.
    """

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        mapping = getattr(registry, self.arguments[0])
        first = next(iter(mapping.values()))
        if not isinstance(first, type):
            rows = [(f"``{name}``", registry.summary(entry)) for name, entry in mapping.items()]
            return parse_lines(self, table_lines(("name", "description"), rows))
        names = {kind: f"``{name}``" for name, kind in mapping.items()}
        # classes are exported by the package of their room: eigenrnn.layers, experiments.tasks
        depth = 3 if first.__module__.startswith("eigenrnn_experiments.") else 2
        package = ".".join(first.__module__.split(".")[:depth])
        rows = [(*row, names.get(entry, "")) for entry, row in _exports(package)]
        return parse_lines(self, table_lines(("name", "description", "on the command line"), rows))


class SummaryTable(SphinxDirective):
    """The classes and functions of modules in the order of their `__all__`, a module a line."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        rows: list[tuple[str, str]] = []
        for module in self.content:
            rows += [row for _, row in _exports(module)]
        return parse_lines(self, table_lines(("name", "description"), rows))


def _exports(package: str) -> list[tuple[Any, tuple[str, str]]]:
    """Return each class and function of a package, with its link and its summary."""
    module = import_module(package)
    found: list[tuple[Any, tuple[str, str]]] = []
    for name in module.__all__:
        entry = getattr(module, name)
        if inspect.isclass(entry) or inspect.isroutine(entry):
            link = f":py:obj:`{name} <{package}.{name}>`"
            found.append((entry, (link, registry.summary(entry))))
    return found


class RecipeTables(SphinxDirective):
    """For each recipe: its source, its rows with the reported numbers, and the departures."""

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for recipe in RECIPES.values():
            lines += [f"**{recipe.name}**: {recipe.summary} Source: {recipe.source}", ""]
            rows: list[tuple[str, str, str]] = []
            for row in recipe.rows:
                rows += [_row(row.label, each) for each in compared_numbers(row)]
            lines += table_lines(("network", "reported", "where"), rows)
            lines += ["", *(f"Picture {panel.name}: {panel.caption}." for panel in recipe.panels)]
            lines += ["", *_departures(recipe), ""]
        return parse_lines(self, lines)


def _row(label: str, reported: Reported) -> tuple[str, str, str]:
    if reported.at_most is not None:
        number = f"{reported.quantity} at most {reported.at_most:g}"
    else:
        number = "no number" if reported.value is None else f"{reported.quantity} {reported.value}"
    where = f"{reported.place} ({reported.note})" if reported.note else reported.place
    return label, number, where


def _departures(recipe: Recipe) -> list[str]:
    """List the departures of a recipe and of its rows, each with the rows that it concerns."""
    labels_of: dict[str, list[str]] = {departure: [] for departure in recipe.departures}
    for row in recipe.rows:
        for departure in row.departures:
            labels_of.setdefault(departure, []).append(row.label)
    lines = ["Departures:" if labels_of else "Departures: none.", ""]
    for departure, labels in labels_of.items():
        lines.append(f"* {departure}" + (f" ({', '.join(labels)})" if labels else ""))
    return lines


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines of reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [head, *rows]:
        lines += [f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)]
    return lines


def parse_lines(directive: SphinxDirective, lines: list[str]) -> list[nodes.Node]:
    """Return the nodes of lines of reStructuredText."""
    # the lines are reStructuredText, but the pages are Markdown
    wrapped = StringList(["````{eval-rst}", *lines, "````"], source="registry")
    holder = nodes.container()
    directive.state.nested_parse(wrapped, directive.content_offset, holder)
    return holder.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives with Sphinx."""
    app.add_directive("registry-table", RegistryTable)
    app.add_directive("recipe-tables", RecipeTables)
    app.add_directive("summary-table", SummaryTable)
    return {"parallel_read_safe": True}
