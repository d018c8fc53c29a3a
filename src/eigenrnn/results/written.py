"""What stands beside the archived runs: remarks by hand, and estimates of what is not run."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from eigenrnn.atomic import write_atomically
from eigenrnn.recipes import Recipe, Row
from eigenrnn.recipes.cost import estimated_seconds
from eigenrnn.report.files import read_json

__all__ = ["Remarks", "read_estimates", "read_remarks", "write_estimates"]

Remarks = dict[str, dict[str, str]]
"""Paragraphs by recipe and row."""

_ESTIMATES, _REMARKS = "estimates.json", "remarks.toml"


def read_remarks(folder: Path, recipes: Mapping[str, Recipe]) -> Remarks:
    """Read what was written of rows by hand.

    Raises:
        ValueError: If it is no TOML, or about no row of these recipes.
    """
    path = folder / _REMARKS
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    known = {recipe.name: [row.label for row in recipe.rows] for recipe in recipes.values()}
    for name, remarks in content.items():
        for label in remarks:
            if label not in known.get(name, ()):
                raise ValueError(
                    f"expected remarks on rows of recipes in {path}, got {name}: {label}"
                )
    return {
        n: {label: " ".join(text.split()) for label, text in r.items()} for n, r in content.items()
    }


def read_estimates(folder: Path) -> dict[str, dict[str, int]]:
    """Read the estimates of `write_estimates`: seconds by recipe and row.

    Raises:
        ValueError: If they are damaged.
    """
    path = folder / _ESTIMATES
    return read_json(path, ()) if path.is_file() else {}


def write_estimates(folder: Path, recipes: Mapping[str, Recipe]) -> None:
    """Estimate the seconds of one run of each row on two cores, and write them down.

    Those of rows whose data is not on this machine stay as they were.

    Raises:
        ValueError: If the file that is there is damaged.
    """
    known, found = read_estimates(folder), dict[str, dict[str, int]]()
    for recipe in recipes.values():
        for row in (row for row in recipe.rows if isinstance(row, Row) and row.layer):
            now = estimated_seconds(row)
            then = known.get(recipe.name, {}).get(row.label)
            seconds = then if now is None else round(now)
            if seconds is not None:
                found.setdefault(recipe.name, {})[row.label] = seconds
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in sorted(found.items())]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _ESTIMATES, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
