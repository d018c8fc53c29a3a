"""Tables of Markdown."""

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["table"]

_TEXT = {"recipe", "network", "machine"}


def table(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Lay columns out under their headings; one that says nothing is left out."""
    there = {name: cells for name, cells in columns.items() if any(cells)}
    return [
        _line(there),
        _line("---" if name in _TEXT else "---:" for name in there),
        *map(_line, zip(*there.values(), strict=True)),
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
