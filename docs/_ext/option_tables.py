"""Directives that write the options of commands and tasks, from their parsers."""

import inspect
from typing import Any

from docutils import nodes
from registry_table import parse_lines, table_lines
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from eigenrnn_experiments import registry
from eigenrnn_experiments.cli.commands import function_of, parser_of
from eigenrnn_experiments.training.run import RunFolder


class HelpText(SphinxDirective):
    """The help of a command."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return [nodes.literal_block(text=help_text(*self.arguments), language="text")]


def help_text(command: str) -> str:
    """Return what ``--help`` prints for a command."""
    return parser_of(function_of(command)).format_help()


class MetricTable(SphinxDirective):
    """The metrics of every task, as `metrics.csv` and TensorBoard name them."""

    def run(self) -> list[nodes.Node]:
        return parse_lines(self, table_lines(("task", "metrics"), metric_rows()))


def metric_rows() -> list[tuple[str, str]]:
    """Return the tasks and their metrics."""
    rows: list[tuple[str, str]] = []
    for name, kind in registry.TASKS.items():
        try:
            metrics = kind().metric_names
        except (TypeError, ValueError):  # a task whose options have no defaults
            metrics = ("loss", kind.metric_name)
        rows.append((f"``{name}``", ", ".join(f"``{metric}``" for metric in metrics)))
    return rows


class RunFiles(SphinxDirective):
    """The files of a run, from the documentation of their reader."""

    def run(self) -> list[nodes.Node]:
        lines = (inspect.getdoc(RunFolder) or "").splitlines()
        rules = [k for k, line in enumerate(lines) if line.startswith("===")]
        return parse_lines(self, lines[rules[0] : rules[-1] + 1])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives with Sphinx."""
    app.add_directive("help-text", HelpText)
    app.add_directive("metric-table", MetricTable)
    app.add_directive("run-files", RunFiles)
    return {"parallel_read_safe": True}
