"""The files beside the archived runs: remarks on rows, and estimates of the time of a run."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.recipes import Recipe, Row
from eigenrnn.experiments.recipes.cost import ONE_GPU, TWO_CORES, estimated_seconds
from eigenrnn.experiments.training.files import read_json

__all__ = ["Estimate", "Remarks", "read_estimates", "read_remarks", "write_estimates"]

Remarks = dict[str, dict[str, str]]
"""Paragraphs by recipe and row."""


class Estimate(NamedTuple):
    """The estimated time of a run.

    Args:
        two_cores: Seconds on two cores.
        one_gpu: Seconds on one GPU.
    """

    two_cores: int
    one_gpu: int


_ESTIMATES, _REMARKS = "estimates.json", "remarks.toml"


def read_remarks(folder: Path, recipes: Mapping[str, Recipe]) -> Remarks:
    """Read the remarks on rows.

    Raises:
        ValueError: If the file is not TOML, names an unknown row, or has two remarks on one row.
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
        recipe_remarks = found.setdefault(name, {})
        for label, text in (
            pair for key, remark in remarks.items() for pair in _by_row(key, remark, path)
        ):
            if label not in known.get(name, ()) or label in recipe_remarks:
                raise ValueError(
                    f"expected one remark on a row of a recipe in {path}, got {name}: {label}"
                )
            recipe_remarks[label] = " ".join(text.split())
    return found


def _by_row(key: str, remark: Any, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the labels of the rows of a remark, each with the text.

    Raises:
        ValueError: If the remark is neither a text nor a table of rows and text.
    """
    if isinstance(remark, str):
        yield key, remark
        return
    content = cast("dict[str, Any]", remark) if isinstance(remark, dict) else {}
    rows, text = content.get("rows"), content.get("text")
    if set(content) != {"rows", "text"} or not isinstance(rows, list) or not isinstance(text, str):
        raise ValueError(
            f"expected {key} in {path} to be a text, or rows and text, got {remark!r}"
        )
    for row in cast("list[str]", rows):
        yield row, text


def read_estimates(folder: Path) -> dict[str, dict[str, Estimate]]:
    """Read the estimates of `write_estimates`, by recipe and row.

    Raises:
        ValueError: If the file is damaged, or written by another version.
    """
    path = folder / _ESTIMATES
    if not path.is_file():
        return {}
    try:
        return {
            name: {label: Estimate(*seconds) for label, seconds in rows.items()}
            for name, rows in read_json(path, ()).items()
        }
    except (AttributeError, TypeError):
        raise ValueError(
            f"expected two durations for each row in {path}: delete the file, and "
            "`eigenrnn results write` writes it again"
        ) from None


def write_estimates(folder: Path, recipes: Mapping[str, Recipe]) -> None:
    """Estimate the time of one run of each row, and write the estimates.

    Rows whose data is not on this machine keep their previous estimate.

    Raises:
        ValueError: If the existing file is damaged.
    """
    previous, found = read_estimates(folder), dict[str, dict[str, Estimate]]()
    for recipe in recipes.values():
        for row in (row for row in recipe.rows if isinstance(row, Row) and row.layer):
            new = [estimated_seconds(row, machine) for machine in (TWO_CORES, ONE_GPU)]
            seconds = [round(each) for each in new if each is not None]
            old = previous.get(recipe.name, {}).get(row.label)
            estimate = Estimate(*seconds) if seconds else old
            if estimate is not None:
                found.setdefault(recipe.name, {})[row.label] = estimate
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in sorted(found.items())]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _ESTIMATES, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
