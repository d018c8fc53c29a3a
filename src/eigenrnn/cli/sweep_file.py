"""Reads the file of a sweep."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from eigenrnn.cli.make import recipe_with_data_root
from eigenrnn.cli.names import near, unknown
from eigenrnn.cli.parser import commands
from eigenrnn.cli.swept_config import SweptConfig
from eigenrnn.recipes.runs import fetch
from eigenrnn.recipes.swept import SweptRecipe
from eigenrnn.registry import RECIPES
from eigenrnn.sweep import Choice, Grid, Range, Search, Source, Sweep

__all__ = ["read_sweep"]

_OF_SWEEP = ("cpus_per_trial", "gpus_per_trial", "retries")
_OF_SEARCH = ("trials", "metric", "mode", "search_seed")
_ALWAYS = ("grid", "search", "seeds", "data_root", *_OF_SEARCH, *_OF_SWEEP)
_OF_RECIPE = ("recipe", "rows", "quick")
_OF_THE_CALL = frozenset({"config", "out", "resume", "overwrite", "seed", "dynamics_every"})
_OF_DOMAIN = ("low", "high", "log", "step", "choices")


def read_sweep(path: str | Path) -> Sweep:
    """Read what a sweep trains and tries.

    Raises:
        ValueError: If the file is none, or a key or a value in it cannot be; lists near names.
    """
    content = _read(Path(path))
    taken = [*_ALWAYS, *(_OF_RECIPE if "recipe" in content else _options())]
    _refuse_unknown("a sweep", content, taken)
    if "data_root" in content:  # workers stand in other folders
        content["data_root"] = str(Path(content["data_root"]).absolute())
    if "grid" in content and "search" in content:
        raise ValueError("expected grid or search in a sweep, got both")
    if "search" not in content and (wrong := [name for name in _OF_SEARCH if name in content]):
        raise ValueError(f"expected {wrong[0]} beside a search only, got it without")
    seeds = _seeds(content)
    make = _of_recipe if "recipe" in content else _of_config
    source, points = make(content, seeds)
    plan = _search(content, points) if "search" in content else Grid(tuple(points))
    given = {name: content[name] for name in _OF_SWEEP if name in content}
    return Sweep(source, plan, content, **given)


def _read(path: Path) -> dict[str, Any]:
    """Read the YAML.

    Raises:
        ValueError: If it is none, or no mapping.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"expected keys such as task, layer and grid, or recipe, in {path}, got {content!r}"
        )
    return content


def _options() -> list[str]:
    """List what `eigenrnn train` takes, but for what a sweep decides."""
    known = commands()["train"][0].get_defaults().as_dict()
    return [name for name in known if name not in _OF_THE_CALL]


def _refuse_unknown(owner: str, content: Mapping[str, Any], known: list[str]) -> None:
    """Refuse keys that nobody reads.

    Raises:
        ValueError: If there is one; lists the near names.
    """
    for name in content:
        if name not in known:
            hint = near(str(name), known) or f"; there are {', '.join(known)}"
            raise ValueError(f"{owner} takes no key {name!r}{hint}")


def _seeds(content: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Read the seeds.

    Raises:
        ValueError: If they are no list of whole numbers, each once.
    """
    given = content.get("seeds")
    if given is None:
        return None
    whole = isinstance(given, list) and all(type(seed) is int and seed >= 0 for seed in given)
    if not whole or not given or len(set(given)) < len(given):
        raise ValueError(
            f"expected seeds to be a list of different whole numbers >= 0, got {given!r}"
        )
    return tuple(given)


def _of_recipe(
    content: Mapping[str, Any], seeds: tuple[int, ...] | None
) -> tuple[Source, list[Mapping[str, Any]]]:
    """Read a sweep of a recipe: what is trained, and the points of its grid.

    Raises:
        ValueError: If there is no such recipe or row, or nothing in it is trained.
    """
    if content["recipe"] not in RECIPES:
        raise ValueError(unknown("recipe", str(content["recipe"]), RECIPES))
    recipe = recipe_with_data_root(RECIPES[content["recipe"]], content.get("data_root"))
    rows = content.get("rows")
    chosen = recipe.select([rows] if isinstance(rows, str) else rows)
    quick, varied = bool(content.get("quick", False)), "grid" in content or "search" in content
    source = SweptRecipe(recipe, tuple(row.label for row in chosen), seeds, quick, varied)
    if not source.rows:
        raise ValueError(f"expected a row of {recipe.name} that is trained, got none")
    fetch([row.quick() if quick else row for row in source.rows.values()])
    if not varied:
        return source, source.points()
    labels = list(source.rows)
    if "search" in content and len(labels) > 1:
        raise ValueError(f"expected one row for a search, got {len(labels)}: name it under rows")
    points = _product(content.get("grid", {}))
    return source, [{"row": label, **point} for label in labels for point in points]


def _of_config(
    content: Mapping[str, Any], seeds: tuple[int, ...] | None
) -> tuple[Source, list[Mapping[str, Any]]]:
    """Read a sweep of a training config: what is trained, and the points of its grid.

    Raises:
        ValueError: If nothing is tried.
    """
    if not ("grid" in content or "search" in content or seeds):
        raise ValueError("expected grid, search or seeds beside a training config, got none")
    options = {name: value for name, value in content.items() if name in _options()}
    options.pop("data_root", None)
    source = SweptConfig(options, seeds or (0,), content.get("data_root"))
    points = _product(content.get("grid", {}))
    known = _options()
    for name in (*points[0], *content.get("search", {})):
        top = name.partition(".")[0]
        _refuse_unknown("train", {top: None}, known)
    return source, points


def _product(grid: Any) -> list[Mapping[str, Any]]:
    """List the points of a grid.

    Raises:
        ValueError: If it is no mapping of names to lists.
    """
    wrong = not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values())
    if wrong:
        raise ValueError(f"expected grid to be names with lists of values, got {grid!r}")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _search(content: Mapping[str, Any], points: list[Mapping[str, Any]]) -> Search:
    """Read where to look.

    Raises:
        ValueError: If it is no mapping of names to ranges or choices.
    """
    given = content["search"]
    if not isinstance(given, dict):
        raise ValueError(f"expected search to be names with ranges or choices, got {given!r}")
    space = {name: _domain(name, value) for name, value in given.items()}
    fixed = {name: Choice((value,)) for name, value in points[0].items()}
    options = {name: content[name] for name in ("trials", "metric", "mode") if name in content}
    return Search({**fixed, **space}, seed=content.get("search_seed", 0), **options)


def _domain(name: str, value: Any) -> Range | Choice:
    """Read a range or choices.

    Raises:
        ValueError: If it is neither.
    """
    if not isinstance(value, dict) or not ("choices" in value or {"low", "high"} <= set(value)):
        raise ValueError(f"expected {name} to have low and high, or choices, got {value!r}")
    _refuse_unknown(name, value, list(_OF_DOMAIN))
    try:
        if "choices" not in value:
            return Range(**value)
        if len(value) > 1 or not isinstance(value["choices"], list):
            raise ValueError(f"expected choices to be a list and nothing beside, got {value!r}")
        return Choice(tuple(value["choices"]))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
