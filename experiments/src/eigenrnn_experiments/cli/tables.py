"""The tables that commands print: the registered names, and Markdown."""

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from eigenrnn.ops import Backend
from eigenrnn_experiments.errors import unknown_name
from eigenrnn_experiments.recipes import Computed, Entry, Recipe, Reference, Row
from eigenrnn_experiments.registry import BACKENDS, CONSTRAINTS, LAYERS, RECIPES, TASKS, summary
from eigenrnn_experiments.training.progress import printable

__all__ = ["show", "show_markdown"]

_REPORTED = ("value", "at_most", "place", "split", "quantity", "rule", "note")
_KINDS = {
    "constraints": CONSTRAINTS,
    "layers": LAYERS,
    "tasks": TASKS,
    "recipes": RECIPES,
    "backends": BACKENDS,
}


def show(kind: str | None, *, as_json: bool, console: Console) -> None:
    """Print all registered names, or those of one kind.

    Raises:
        ValueError: If the kind is unknown.
    """
    if kind is not None and kind not in _KINDS:
        raise ValueError(unknown_name("kind", kind, _KINDS))
    chosen: Mapping[str, Mapping[str, Any]] = _KINDS
    if kind is not None:
        chosen = {kind: _KINDS[kind]}
    if as_json:
        facts: dict[str, dict[str, Any]] = {}
        for title, entries in chosen.items():
            facts[title] = {name: _facts(entry) for name, entry in entries.items()}
        console.print_json(json.dumps(facts))
        return
    for title, entries in chosen.items():
        table = Table(title=title, title_justify="left", title_style="bold", box=None)
        table.add_column("name", no_wrap=True, style="cyan")
        table.add_column("description")
        for name, entry in entries.items():
            text = summary(entry)
            if isinstance(entry, Backend) and entry.unavailable():
                text += f" (not available: {entry.unavailable()})"
            table.add_row(name, text)
        console.print(table)
        console.print()


def show_markdown(text: str, console: Console) -> None:
    """Draw Markdown on a terminal whose width it fits; elsewhere print it as it is."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=False)]
    if console.is_terminal and sum(widths) <= console.width:
        console.print(Markdown(printable(text)))
    elif console.is_terminal:
        console.out(printable(text), end="", highlight=False)
    else:
        console.out(text, end="", highlight=False)


def _facts_of_row(row: Entry) -> dict[str, Any]:
    if not isinstance(row, Row):
        kind = "quoted"
        if isinstance(row, Computed):
            kind = "computed"
        elif isinstance(row, Reference):
            kind = f"trained by {row.recipe.name}"
        unknown = dict.fromkeys(("parameters", "missing_data"))
        return {"kind": kind, **unknown, "runs_per_seed": 0, "can_run": kind == "computed"}
    kind = "trained"
    if row.grid:
        kind = "search"
    return {
        "kind": kind,
        "parameters": row.parameters,
        "runs_per_seed": len(row.points()),
        "missing_data": row.task.missing_data(),
        "can_run": True,
    }


def _facts(entry: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"summary": summary(entry)}
    if isinstance(entry, Backend):
        facts["unavailable"] = entry.unavailable()
    if isinstance(entry, Recipe):
        facts["source"] = entry.source
        facts["seeds"] = list(entry.seeds)
        facts["departures"] = list(entry.departures)
        facts["rows"] = [
            {
                "label": row.label,
                "reported": [
                    {name: getattr(reported, name) for name in _REPORTED}
                    for reported in row.reported
                ],
                "departures": list(row.departures),
                **_facts_of_row(row),
            }
            for row in entry.rows
        ]
    return facts
