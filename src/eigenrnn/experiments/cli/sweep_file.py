"""Reads and checks the YAML file of a sweep."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast

import yaml

from eigenrnn.experiments.cli.config_sweep import ConfigSweep
from eigenrnn.experiments.cli.name_lookup import did_you_mean, load_yaml, unknown_name
from eigenrnn.experiments.cli.parser import PARSERS
from eigenrnn.experiments.cli.train_options import recipe_with_data_root
from eigenrnn.experiments.recipes.runs import download_data
from eigenrnn.experiments.recipes.sweep import RecipeSweep
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.sweep import Choice, Grid, Range, Search, Sweep, TrialSource
from eigenrnn.experiments.sweep.search_space import check_distinct, check_non_negative_integer

__all__ = ["TRIAL_KEYS", "check_keys", "check_known_keys", "options", "points", "read_sweep"]

_NULLABLE_KEYS = frozenset({"seeds", "rows", "data_root", "metric", "mode"})
_DOMAIN_KEYS = ("low", "high", "log", "step", "choices")


def read_sweep(path: str | Path) -> Sweep:
    """Read a sweep from its YAML file.

    Raises:
        ValueError: If the file is not YAML, or has an invalid key or value; suggests
            similar names.
    """
    content = _read(Path(path))
    check_keys(content)
    if "data_root" in content:  # workers run in other folders
        content["data_root"] = str(Path(content["data_root"]).absolute())
    if "recipe" in content:
        source, trial_points = _recipe_source(content)
    else:
        source, trial_points = _config_source(content)
    plan: Grid | Search = Grid(tuple(trial_points))
    if "search" in content:
        plan = _search(content, trial_points)
    resources = {name: content[name] for name in TRIAL_KEYS if name in content}
    return Sweep(source, plan, content, **resources)


def _read(path: Path) -> dict[str, Any]:
    """Read the YAML; optional keys with null, such as `seeds: null`, are dropped.

    Raises:
        ValueError: If the file is not YAML, or not a mapping.
    """
    if path.is_dir():
        raise ValueError(f"expected the YAML file of a sweep at {path}, got a folder")
    if not path.exists():
        raise ValueError(f"expected the YAML file of a sweep at {path}, got nothing")
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"expected YAML in {path}, got: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"expected keys such as task, layer and grid, or recipe, in {path}, got {content!r}"
        )
    known = cast("dict[str, Any]", content)
    return {n: v for n, v in known.items() if v is not None or n not in _NULLABLE_KEYS}


def _recipe_source(content: Mapping[str, Any]) -> tuple[TrialSource, list[Mapping[str, Any]]]:
    """Read a sweep of a recipe: its rows, and the points of the grid.

    Raises:
        ValueError: If the recipe or row is unknown, or no row trains a network.
    """
    if content["recipe"] not in RECIPES:
        raise ValueError(unknown_name("recipe", content["recipe"], RECIPES))
    recipe = recipe_with_data_root(RECIPES[content["recipe"]], content.get("data_root"))
    rows = content.get("rows")
    if isinstance(rows, str):
        rows = [rows]
    labels = tuple(row.label for row in recipe.select(rows))
    seeds = content.get("seeds")
    if seeds is not None:
        seeds = tuple(seeds)
    quick = content.get("quick", False)
    varied = "grid" in content or "search" in content
    source = RecipeSweep(recipe, labels, seeds, quick, varied)
    if not source.rows:
        raise ValueError(
            f"expected at least one row of {recipe.name} that trains a network, got none"
        )
    trained_rows = list(source.rows.values())
    if quick:
        trained_rows = [row.quick() for row in trained_rows]
    download_data(trained_rows)
    if not varied:
        return source, source.points()
    trained = list(source.rows)
    if "search" in content and len(trained) > 1:
        raise ValueError(
            f"expected one row for a search, got {len(trained)}: choose one with rows"
        )
    trial_points: list[Mapping[str, Any]] = []
    for label in trained:
        grid = points(content.get("grid", {}))
        trial_points += [{"row": label, **point} for point in grid]
    return source, trial_points


def _config_source(content: Mapping[str, Any]) -> tuple[TrialSource, list[Mapping[str, Any]]]:
    """Read a sweep of training options: the shared options, and the points of the grid.

    Raises:
        ValueError: If the file has no grid, search or seeds.
    """
    if not {"grid", "search", "seeds"} & set(content):
        raise ValueError("expected grid, search or seeds in a sweep, got none of them")
    for name in (*content.get("grid", {}), *content.get("search", {})):
        check_known_keys("train", {name.partition(".")[0]: None}, options())
    shared = {n: v for n, v in content.items() if n in options() and n != "data_root"}
    source = ConfigSweep(shared, tuple(content.get("seeds", (0,))), content.get("data_root"))
    return source, points(content.get("grid", {}))


def _search(content: Mapping[str, Any], trial_points: list[Mapping[str, Any]]) -> Search:
    """Read the space of a search and its settings."""
    space = {name: _domain(name, value) for name, value in content["search"].items()}
    # With a search there is no grid, so this is the only point: the row of a recipe, or nothing.
    fixed = {name: Choice((value,)) for name, value in trial_points[0].items()}
    settings = {name: content[name] for name in ("trials", "metric", "mode") if name in content}
    return Search({**fixed, **space}, seed=content.get("search_seed", 0), **settings)


def _domain(name: str, value: Any) -> Range | Choice:
    """Read a range or choices.

    Raises:
        ValueError: If the value is neither.
    """
    if not isinstance(value, dict) or not ("choices" in value or {"low", "high"} <= set(value)):
        raise ValueError(f"expected {name} to have low and high, or choices, got {value!r}")
    check_known_keys(name, value, _DOMAIN_KEYS)
    try:
        if "choices" not in value:
            return Range(**value)
        if len(value) > 1 or not isinstance(value["choices"], list):
            raise ValueError(f"expected a list of choices and no other key, got {value!r}")
        return Choice(tuple(value["choices"]))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


_CALL_OPTIONS = frozenset({"config", "out", "resume", "overwrite", "seed", "dynamics_every"})
TRIAL_KEYS = ("cpus_per_trial", "gpus_per_trial", "retries")
_SEARCH_KEYS = ("trials", "metric", "mode", "search_seed")
_COMMON_KEYS = ("grid", "search", "seeds", "data_root", *_SEARCH_KEYS, *TRIAL_KEYS)
_RECIPE_KEYS = ("recipe", "rows", "quick")


def check_keys(content: Mapping[str, Any]) -> None:
    """Check the keys of a file, and the types of their values.

    Raises:
        ValueError: If a key is unknown or a value has the wrong type; suggests similar names.
    """
    if "recipe" in content:
        known = _COMMON_KEYS + _RECIPE_KEYS
    else:
        known = _COMMON_KEYS + options()
    check_known_keys("a sweep", content, known)
    if "grid" in content and "search" in content:
        raise ValueError("expected grid or search in a sweep, got both")
    for name in _SEARCH_KEYS:
        if name in content and "search" not in content:
            raise ValueError(f"expected {name} only with search, got it without search")
    for name, (is_valid, kind) in _KINDS.items():
        if name in content and not is_valid(content[name]):
            raise ValueError(f"expected {name} {kind}, got {content[name]!r}")
    for name, values in content.get("grid", {}).items():
        check_distinct(f"{name} in grid", values)
    check_non_negative_integer("search_seed", content.get("search_seed", 0))


@cache
def options() -> tuple[str, ...]:
    """Return the options of `eigenrnn train` that a sweep file may set."""
    known = PARSERS["train"]().get_defaults().as_dict()
    return tuple(name for name in known if name not in _CALL_OPTIONS)


def check_known_keys(owner: str, content: Mapping[str, Any], known: Sequence[str]) -> None:
    """Check that all keys are known.

    Raises:
        ValueError: If a key is unknown; suggests similar names.
    """
    for name in content:
        if name not in known:
            hint = did_you_mean(str(name), known) or f"; there are {', '.join(known)}"
            raise ValueError(f"{owner} takes no key {name!r}{hint}")


def points(grid: Mapping[str, list[Any]]) -> list[Mapping[str, Any]]:
    """Return all combinations of the values of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _are_strings(value: Any) -> bool:
    if isinstance(value, str):
        return True
    items = cast("list[Any]", value)
    return isinstance(value, list) and bool(value) and all(map(_is_string, items))


def _are_seeds(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(type(seed) is int and seed >= 0 for seed in value)
        and len(set(value)) == len(value)
    )


def _maps_strings(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_string, cast("dict[Any, Any]", value)))


def _maps_strings_to_lists(value: Any) -> bool:
    return _maps_strings(value) and all(isinstance(v, list) and v for v in value.values())


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "recipe": (_is_string, "to be a string"),
    "rows": (_are_strings, "to be a string or a list of strings"),
    "quick": (lambda value: isinstance(value, bool), "to be true or false"),
    "seeds": (_are_seeds, "to be a list of different whole numbers >= 0"),
    "data_root": (_is_string, "to be a string"),
    "grid": (_maps_strings_to_lists, "to map names to lists of values"),
    "search": (_maps_strings, "to map names to ranges or choices"),
    "metric": (_is_string, "to be a string"),
}
"""What the values of a file must be; `Search` and `Sweep` check their numbers themselves."""
