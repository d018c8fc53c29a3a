"""What stands beside the archived runs: remarks by hand, and estimates of what is not run."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

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
        ValueError: If it is no TOML, about no row of these recipes, or twice about one.
    """
    path = folder / _REMARKS
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    known = {recipe.name: [row.label for row in recipe.rows] for recipe in recipes.values()}
    found: Remarks = {}
    for name, remarks in content.items():
        of_recipe = found.setdefault(name, {})
        for label, text in (
            pair for key, remark in remarks.items() for pair in _by_row(key, remark, path)
        ):
            if label not in known.get(name, ()) or label in of_recipe:
                raise ValueError(
                    f"expected one remark on a row of a recipe in {path}, got {name}: {label}"
                )
            of_recipe[label] = " ".join(text.split())
    return found


def _by_row(key: str, remark: Any, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the rows that a remark is on, each with the text.

    Raises:
        ValueError: If it is neither a text, nor rows with their text.
    """
    if isinstance(remark, str):
        yield key, remark
        return
    given = cast("dict[str, Any]", remark) if isinstance(remark, dict) else {}
    rows, text = given.get("rows"), given.get("text")
    if set(given) != {"rows", "text"} or not isinstance(rows, list) or not isinstance(text, str):
        raise ValueError(f"expected a text, or rows and text, of {key} in {path}, got {remark!r}")
    for row in cast("list[str]", rows):
        yield row, text


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
