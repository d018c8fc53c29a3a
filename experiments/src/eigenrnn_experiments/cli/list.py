"""The command `list`, which prints the registered names."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from eigenrnn.ops import Backend
from eigenrnn_experiments.console import plain_console
from eigenrnn_experiments.errors import unknown_name
from eigenrnn_experiments.registry import BACKENDS, CONSTRAINTS, LAYERS, RECIPES, TASKS, summary

__all__ = ["list"]

_KINDS: Mapping[str, Mapping[str, Any]] = {
    "constraints": CONSTRAINTS,
    "layers": LAYERS,
    "tasks": TASKS,
    "recipes": RECIPES,
    "backends": BACKENDS,
}


def list(kinds: Sequence[str] = ()) -> int:
    """List constraints, layers, tasks, recipes and backends by the names that commands accept.

    Args:
        kinds: Constraints, layers, tasks, recipes or backends; without them all.
    Raises:
        ValueError: If there is no such kind.
    """
    for kind in kinds:
        if kind not in _KINDS:
            raise ValueError(unknown_name("kind", kind, _KINDS))
    console = plain_console()
    chosen = {kind: _KINDS[kind] for kind in kinds or _KINDS}
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
