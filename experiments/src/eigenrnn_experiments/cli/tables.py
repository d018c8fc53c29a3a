"""The tables that commands print: the registered names, and the outcomes of a recipe."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from eigenrnn.ops import Backend
from eigenrnn_experiments.errors import unknown_name
from eigenrnn_experiments.recipes import Computed, Entry, Outcome, Recipe, Row
from eigenrnn_experiments.recipes.results_files import (
    columns,
    note_text,
    notes,
    notice_of,
    to_markdown,
)
from eigenrnn_experiments.registry import BACKENDS, CONSTRAINTS, LAYERS, RECIPES, TASKS, summary

__all__ = ["show", "show_outcomes"]

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


def show_outcomes(
    recipe: Recipe, outcomes: Sequence[Outcome], *, quick: bool, console: Console
) -> None:
    """Print the outcomes of a recipe: a table on a terminal, else Markdown."""
    if not console.is_terminal:
        console.print(
            to_markdown(recipe, outcomes, quick=quick),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        return
    title = f"{recipe.name}: {recipe.summary}"
    cells = columns(outcomes)
    if len(set(cells["quantity"])) == 1:
        title += f" Compared: {cells.pop('quantity')[0]}."
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in cells:
        if name in ("network", "quantity"):
            # the longest word of a label, which would else be broken
            table.add_column(name, overflow="fold", min_width=len("full-capacity"))
        else:
            table.add_column(name, overflow="fold", justify="right")
    for row in zip(*cells.values(), strict=True):
        table.add_row(*row)
    console.print(table)
    for heading, items in notes(recipe, outcomes).items():
        console.print(heading, style="bold")
        for item in items:
            console.print(Padding(Text(note_text(item)), (0, 0, 0, 2)))
        console.print()
    if notice := notice_of(recipe, quick=quick):
        console.print(notice, style="yellow")


def _facts_of_row(row: Entry) -> dict[str, Any]:
    if not isinstance(row, Row):
        kind = "quoted"
        if isinstance(row, Computed):
            kind = "computed"
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
        "can_run": row.layer is not None,
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
                "reported": row.reported.value,
                "at_most": row.reported.at_most,
                "place": row.reported.place,
                "split": row.reported.split,
                "quantity": row.reported.quantity,
                "rule": row.reported.rule,
                "note": row.reported.note,
                "departures": list(row.departures),
                **_facts_of_row(row),
            }
            for row in entry.rows
        ]
    return facts
