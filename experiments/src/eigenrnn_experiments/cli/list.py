"""The command `list`, which prints the registered names."""

from collections.abc import Mapping, Sequence
from json import dumps
from typing import Any

from rich.table import Table

from eigenrnn.ops import Backend
from eigenrnn_experiments.errors import unknown_name
from eigenrnn_experiments.recipes import Computed, Entry, Recipe, Reference, Row
from eigenrnn_experiments.registry import BACKENDS, CONSTRAINTS, LAYERS, RECIPES, TASKS, summary
from eigenrnn_experiments.training.progress import plain_console

__all__ = ["list"]

_REPORTED = ("value", "at_most", "place", "split", "quantity", "rule", "note")
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "constraints": CONSTRAINTS,
    "layers": LAYERS,
    "tasks": TASKS,
    "recipes": RECIPES,
    "backends": BACKENDS,
}


def list(kinds: Sequence[str] = (), *, json: bool = False) -> int:
    """List constraints, layers, tasks, recipes and backends by the names that commands accept.

    Args:
        kinds: Constraints, layers, tasks, recipes or backends; without them all.
        json: Print JSON.
    Raises:
        ValueError: If there is no such kind.
    """
    for kind in kinds:
        if kind not in _KINDS:
            raise ValueError(unknown_name("kind", kind, _KINDS))
    console = plain_console()
    chosen = {kind: _KINDS[kind] for kind in kinds or _KINDS}
    if json:
        facts: dict[str, dict[str, Any]] = {}
        for title, entries in chosen.items():
            facts[title] = {name: _facts(entry) for name, entry in entries.items()}
        console.print_json(dumps(facts))
        return 0
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
    return 0


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
        facts["seeds"] = [*entry.seeds]
        facts["departures"] = [*entry.departures]
        facts["rows"] = [
            {
                "label": row.label,
                "reported": [
                    {name: getattr(reported, name) for name in _REPORTED}
                    for reported in row.reported
                ],
                "departures": [*row.departures],
                **_facts_of_row(row),
            }
            for row in entry.rows
        ]
    return facts
