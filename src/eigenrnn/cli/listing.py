"""What ``eigenrnn list`` says."""

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from eigenrnn.cli.names import unknown
from eigenrnn.ops.backend import Backend
from eigenrnn.recipes import Recipe
from eigenrnn.registry import BACKENDS, CONSTRAINTS, LAYERS, RECIPES, TASKS, summary

__all__ = ["show"]

_KINDS = {
    "constraints": CONSTRAINTS,
    "layers": LAYERS,
    "tasks": TASKS,
    "recipes": RECIPES,
    "backends": BACKENDS,
}


def show(kind: str | None, *, as_json: bool, console: Console) -> None:
    """Print all that is registered, or one kind of it.

    Raises:
        ValueError: If there is no such kind.
    """
    if kind is not None and kind not in _KINDS:
        raise ValueError(unknown("kind", kind, _KINDS))
    chosen = {kind: _KINDS[kind]} if kind is not None else _KINDS
    facts = {
        title: {name: _facts(entry) for name, entry in entries.items()}
        for title, entries in chosen.items()
    }
    if as_json:
        console.print_json(json.dumps(facts))
        return
    for title, entries in facts.items():
        table = Table(title=title, title_justify="left", title_style="bold", box=None)
        table.add_column("name", no_wrap=True, style="cyan")
        table.add_column("what it is")
        for name, about in entries.items():
            missing = about.get("missing")
            table.add_row(name, f"{about['summary']}{f' (absent: {missing})' if missing else ''}")
        console.print(table)
        console.print()


def _facts(entry: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"summary": summary(entry)}
    if isinstance(entry, Backend):
        facts["missing"] = entry.missing()
    if isinstance(entry, Recipe):
        facts["source"] = entry.source
        facts["rows"] = [
            {
                "label": row.label,
                "reported": row.reported.value,
                "place": row.reported.place,
                "parameters": row.parameters,
                "can_run": row.layer is not None,
            }
            for row in entry.rows
        ]
    return facts
