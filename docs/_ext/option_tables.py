"""Directives that write tables of the options of commands and tasks, from their parsers."""

import argparse
import inspect
import re
from typing import Any, Literal, get_args, get_origin

from docutils import nodes
from registry_table import parse_lines, table_lines
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from eigenrnn.experiments import registry
from eigenrnn.experiments.cli.parser import PARSERS, Parser, members
from eigenrnn.experiments.training.run_folder import RunFolder

HEAD = ("option", "values", "default", "meaning")
_NO_OPTIONS = ("help", "config", "print_config")


def option_rows(parser: Parser) -> list[tuple[str, str, str, str]]:
    """Return the flag, the values, the default and the meaning of each option of a parser."""
    rows: list[tuple[str, str, str, str]] = []
    actions: list[Any] = parser._actions  # noqa: SLF001, argparse has no public name for them
    actions = [each for each in actions if each.dest.rpartition(".")[2] not in _NO_OPTIONS]
    for action in actions:
        # a group, such as all columns at once, is shown by its members
        is_group = any(each.dest.startswith(f"{action.dest}.") for each in actions)
        if is_group or action.help == argparse.SUPPRESS or not action.option_strings:
            continue
        flag = max(action.option_strings, key=len)
        rows.append((f"``{flag}``", _values(parser, action), _default(action), _meaning(action)))
    return rows


def _values(parser: Parser, action: Any) -> str:
    if action.nargs == 0:
        return "a flag"
    annotation = parser.annotations.get(action.dest.rpartition(".")[2])
    choices: list[Any] = []
    for member in members(annotation):
        if get_origin(member) is Literal:
            choices += get_args(member)
    if choices:
        return ", ".join(f"``{choice}``" for choice in choices)
    if annotation is bool:
        return "``true``, ``false``"
    if action.dest in ("task", "layer"):
        return "a name"
    return getattr(action, "kind", "") or "text"


def _default(action: Any) -> str:
    shown = getattr(action, "shown_default", None)
    if shown is not None:
        return str(shown)
    if action.required:
        return "required"
    if action.default in (None, (), argparse.SUPPRESS) or action.nargs == 0:
        return ""
    return f"``{action.default}``"


def _meaning(action: Any) -> str:
    text = re.sub(r":math:`([^`]*)`", r"\1", " ".join((action.help or "").split()))
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text)


def command_parser(name: str) -> Parser:
    """Return the parser of a command."""
    return PARSERS[name]()


def task_parser(name: str) -> Parser:
    """Return a parser of the options of a task, as `--task.OPTION` takes them."""
    parser = Parser()
    parser.add_class_arguments(registry.TASKS[name], "task")
    return parser


class OptionTable(SphinxDirective):
    """The options of a command or, after the word ``task``, of a task."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        if len(self.arguments) == 2:
            rows = option_rows(task_parser(self.arguments[1]))
        else:
            rows = option_rows(command_parser(self.arguments[0]))
        return parse_lines(self, table_lines(HEAD, rows))


class MetricTable(SphinxDirective):
    """The metrics of every task, as `metrics.csv` and TensorBoard name them."""

    def run(self) -> list[nodes.Node]:
        return parse_lines(self, table_lines(("task", "metrics"), metric_rows()))


def metric_rows() -> list[tuple[str, str]]:
    """Return the tasks, with the answers of `series`, and their metrics."""
    rows: list[tuple[str, str]] = []
    for name, kind in registry.TASKS.items():
        answers = ("class", "number", "next") if name == "series" else ("",)
        for answer in answers:
            try:
                task = kind(train="a.csv", answer=answer) if answer else kind()
            except (TypeError, ValueError):  # a task whose options have no defaults
                metrics = ("loss", kind.metric_name)
            else:
                metrics = task.metric_names
            label = f"``{name}``, answer ``{answer}``" if answer else f"``{name}``"
            rows.append((label, ", ".join(f"``{metric}``" for metric in metrics)))
    return rows


class RunFiles(SphinxDirective):
    """The files of a run, from the documentation of their reader."""

    def run(self) -> list[nodes.Node]:
        lines = (inspect.getdoc(RunFolder) or "").splitlines()
        rules = [k for k, line in enumerate(lines) if line.startswith("===")]
        return parse_lines(self, lines[rules[0] : rules[-1] + 1])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives with Sphinx."""
    app.add_directive("option-table", OptionTable)
    app.add_directive("metric-table", MetricTable)
    app.add_directive("run-files", RunFiles)
    return {"parallel_read_safe": True}
