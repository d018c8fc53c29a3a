"""Reads the file of a sweep."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from eigenrnn.experiments.cli.make import recipe_with_data_root
from eigenrnn.experiments.cli.names import unknown
from eigenrnn.experiments.cli.sweep_keys import (
    OF_SWEEP,
    check_keys,
    options,
    points,
    refuse_unknown,
)
from eigenrnn.experiments.cli.swept_config import SweptConfig
from eigenrnn.experiments.cli.yaml_text import load_yaml
from eigenrnn.experiments.recipes.runs import download_data
from eigenrnn.experiments.recipes.sweep import RecipeSweep
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.sweep import Choice, Grid, Range, Search, Source, Sweep

__all__ = ["read_sweep"]

_MAY_BE_NULL = frozenset({"seeds", "rows", "data_root", "metric", "mode"})
_OF_DOMAIN = ("low", "high", "log", "step", "choices")


def read_sweep(path: str | Path) -> Sweep:
    """Read what a sweep trains and tries.

    Raises:
        ValueError: If the file is none, or a key or a value in it cannot be; lists near names.
    """
    content = _read(Path(path))
    check_keys(content)
    if "data_root" in content:  # workers stand in other folders
        content["data_root"] = str(Path(content["data_root"]).absolute())
    make = _of_recipe if "recipe" in content else _of_config
    source, tried = make(content)
    plan = _search(content, tried) if "search" in content else Grid(tuple(tried))
    given = {name: content[name] for name in OF_SWEEP if name in content}
    return Sweep(source, plan, content, **given)


def _read(path: Path) -> dict[str, Any]:
    """Read the YAML; what says nothing, such as `seeds: null`, is left out.

    Raises:
        ValueError: If it is none, or no mapping.
    """
    if path.is_dir() or not path.exists():
        there = "a folder" if path.is_dir() else "nothing"
        raise ValueError(f"expected the YAML file of a sweep at {path}, got {there}")
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"expected YAML in {path}, got: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"expected keys such as task, layer and grid, or recipe, in {path}, got {content!r}"
        )
    known = cast("dict[str, Any]", content)
    return {n: v for n, v in known.items() if v is not None or n not in _MAY_BE_NULL}


def _of_recipe(content: Mapping[str, Any]) -> tuple[Source, list[Mapping[str, Any]]]:
    """Read a sweep of a recipe: what is trained, and the points of its grid.

    Raises:
        ValueError: If there is no such recipe or row, or nothing in it is trained.
    """
    if content["recipe"] not in RECIPES:
        raise ValueError(unknown("recipe", content["recipe"], RECIPES))
    recipe = recipe_with_data_root(RECIPES[content["recipe"]], content.get("data_root"))
    rows, seeds = content.get("rows"), content.get("seeds")
    chosen = recipe.select([rows] if isinstance(rows, str) else rows)
    quick, varied = content.get("quick", False), "grid" in content or "search" in content
    labels = tuple(row.label for row in chosen)
    source = RecipeSweep(recipe, labels, seeds and tuple(seeds), quick, varied)
    if not source.rows:
        raise ValueError(
            f"expected at least one row of {recipe.name} that trains a network, got none"
        )
    download_data([row.quick() if quick else row for row in source.rows.values()])
    if not varied:
        return source, source.points()
    trained = list(source.rows)
    if "search" in content and len(trained) > 1:
        raise ValueError(
            f"expected one row for a search, got {len(trained)}: choose one with rows"
        )
    tried = points(content.get("grid", {}))
    return source, [{"row": label, **point} for label in trained for point in tried]


def _of_config(content: Mapping[str, Any]) -> tuple[Source, list[Mapping[str, Any]]]:
    """Read a sweep of a training config: what is trained, and the points of its grid.

    Raises:
        ValueError: If nothing is tried.
    """
    if not {"grid", "search", "seeds"} & set(content):
        raise ValueError("expected grid, search or seeds in a sweep, got none of them")
    for name in (*content.get("grid", {}), *content.get("search", {})):
        refuse_unknown("train", {name.partition(".")[0]: None}, options())
    shared = {n: v for n, v in content.items() if n in options() and n != "data_root"}
    source = SweptConfig(shared, tuple(content.get("seeds", (0,))), content.get("data_root"))
    return source, points(content.get("grid", {}))


def _search(content: Mapping[str, Any], tried: list[Mapping[str, Any]]) -> Search:
    """Read where to look."""
    space = {name: _domain(name, value) for name, value in content["search"].items()}
    fixed = {name: Choice((value,)) for name, value in tried[0].items()}
    given = {name: content[name] for name in ("trials", "metric", "mode") if name in content}
    return Search({**fixed, **space}, seed=content.get("search_seed", 0), **given)


def _domain(name: str, value: Any) -> Range | Choice:
    """Read a range or choices.

    Raises:
        ValueError: If it is neither.
    """
    if not isinstance(value, dict) or not ("choices" in value or {"low", "high"} <= set(value)):
        raise ValueError(f"expected {name} to have low and high, or choices, got {value!r}")
    refuse_unknown(name, value, _OF_DOMAIN)
    try:
        if "choices" not in value:
            return Range(**value)
        if len(value) > 1 or not isinstance(value["choices"], list):
            raise ValueError(f"expected a list of choices and no other key, got {value!r}")
        return Choice(tuple(value["choices"]))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
