"""Reads the YAML file of a sweep, and builds the trials over options of `eigenrnn train`."""

import copy
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace, get_loader
from torch import nn

from eigenrnn.errors import check_not_negative, check_positive_integer
from eigenrnn.experiments.cli.parser import PARSERS
from eigenrnn.experiments.cli.train_options import (
    Training,
    build_training,
    recipe_with_data_root,
    settings_of,
    with_data_root,
)
from eigenrnn.experiments.errors import did_you_mean, unknown_name
from eigenrnn.experiments.recipes.sweep import RecipeSweep, row_points
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.sweep import Search, Sweep, Trial
from eigenrnn.experiments.sweep.trial import format_value
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Result, RunFolder, Settings, fit

__all__ = ["ConfigSweep", "read_sweep"]

_CALL_OPTIONS = frozenset(
    {"config", "out", "resume", "overwrite", "seed", "dynamics_every", "max_minutes"}
)
_MAX_NAME = 80  # characters of the name of a folder


@dataclass
class _Keys:
    """The keys of a file beside the options of `eigenrnn train`."""

    recipe: str = ""
    rows: str | list[str] = field(default_factory=list[str])
    quick: bool = False
    grid: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    search: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    seeds: list[int] = field(default_factory=list[int])
    trials: int = 20
    metric: str | None = None
    mode: Literal["min", "max"] | None = None
    search_seed: int = 0
    data_root: str | None = None
    cpus_per_trial: int = 1
    gpus_per_trial: float = 0
    retries: int = 10


_NAMES = tuple(each.name for each in fields(_Keys))


def read_sweep(path: str | Path) -> Sweep:
    """Read a sweep from its YAML file.

    Raises:
        ValueError: If the file is not YAML, or has an invalid key or value; suggests
            similar names.
    """
    content = _read(Path(path))
    keys = _check(content)
    if keys.data_root is not None:  # workers may run in other folders
        keys.data_root = content["data_root"] = str(Path(keys.data_root).absolute())
    grid: Mapping[str, list[Any]] = content.get("grid", {})
    points: list[Mapping[str, Any]] = [
        dict(zip(grid, values, strict=True)) for values in product(*grid.values())
    ]
    rows: dict[str, Any] = {}
    if keys.recipe:
        rows = _rows(keys)
        grid_of_all = None
        if rows["varied"]:
            grid_of_all = points
        points = row_points(rows["recipe"], rows["labels"], grid_of_all, quick=keys.quick)
        if not points:
            raise ValueError(f"expected a row of {keys.recipe} that trains a network, got none")
    plan: Search | Sequence[Mapping[str, Any]] = points
    if keys.search:
        if len(points) > 1:
            raise ValueError(f"expected one row for a search, got {len(points)}: choose one")
        row = {name: {"choices": [value]} for name, value in points[0].items()}
        space = {**row, **content["search"]}
        plan = Search(space, keys.trials, keys.metric, keys.mode, keys.search_seed)
    common: dict[str, Any] = {"plan": plan, "description": content}
    for name in ("cpus_per_trial", "gpus_per_trial", "retries"):
        common[name] = getattr(keys, name)
    if rows:
        return RecipeSweep(**rows, **common)
    shared = {n: v for n, v in content.items() if n not in _NAMES}
    seeds = tuple(keys.seeds) or (0,)
    return ConfigSweep(options=shared, seeds=seeds, data_root=keys.data_root, **common)


def _read(path: Path) -> dict[str, Any]:
    """Read the YAML; optional keys without a value, such as `seeds: null`, are dropped.

    Raises:
        ValueError: If the file is not YAML, or not a mapping.
    """
    if not path.is_file():
        raise ValueError(f"expected the YAML file of a sweep at {path}, got no file")
    try:
        content = get_loader("yaml")(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"expected YAML in {path}, got: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"expected keys such as task and grid, or recipe, in {path}")
    known = cast("dict[str, Any]", content)
    optional = ("seeds", "rows", "data_root", "metric", "mode")
    return {n: v for n, v in known.items() if v is not None or n not in optional}


def _check(content: Mapping[str, Any]) -> _Keys:
    """Check the keys of a file, and the types of their values.

    Raises:
        ValueError: If a key is unknown, a value has the wrong type, or two do not go together.
    """
    options = [n for n in PARSERS["train"]().get_defaults().as_dict() if n not in _CALL_OPTIONS]
    if "recipe" in content:
        _check_known("a sweep", content, _NAMES)
    else:
        of_recipes = ("recipe", "rows", "quick")
        _check_known("a sweep", content, {*_NAMES, *options}.difference(of_recipes))
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(_Keys, None)
    try:
        # of a copy, because it converts texts such as 1e-3
        parsed = parser.parse_object(
            {n: copy.deepcopy(content[n]) for n in _NAMES if n in content}
        )
    except ArgumentError as error:
        raise ValueError(f"in the file of a sweep: {error}") from None
    keys = _Keys(**parsed.as_dict())
    for name in ("trials", "cpus_per_trial"):
        check_positive_integer(name, getattr(keys, name))
    for name in ("search_seed", "gpus_per_trial", "retries"):
        check_not_negative(name, getattr(keys, name))
    if keys.grid and keys.search:
        raise ValueError("expected grid or search in a sweep, got both")
    if not (keys.recipe or keys.grid or keys.search or keys.seeds):
        raise ValueError("expected grid, search or seeds in a sweep, got none of them")
    if not all(keys.grid.values()):
        raise ValueError(f"expected one value or more of each name in grid, got {keys.grid}")
    if len(set(keys.seeds)) < len(keys.seeds) or min(keys.seeds, default=0) < 0:
        raise ValueError(f"expected different seeds >= 0, got {keys.seeds}")
    for name in ("trials", "metric", "mode", "search_seed"):
        if name in content and not keys.search:
            raise ValueError(f"expected {name} only with search, got it without search")
    for name in [*keys.grid, *keys.search]:
        if not keys.recipe:
            _check_known("train", [str(name).partition(".")[0]], options)
    return keys


def _check_known(owner: str, names: Iterable[str], known: Collection[str]) -> None:
    """Check that all keys are known.

    Raises:
        ValueError: If a key is unknown; suggests similar names.
    """
    for name in names:
        if name not in known:
            hint = did_you_mean(str(name), map(str, known)) or f"; there are {', '.join(known)}"
            raise ValueError(f"{owner} takes no key {name!r}{hint}")


def _rows(keys: _Keys) -> dict[str, Any]:
    """Return the options of a sweep of a recipe that say what it runs.

    Raises:
        ValueError: If the recipe or a row is unknown.
    """
    if keys.recipe not in RECIPES:
        raise ValueError(unknown_name("recipe", keys.recipe, RECIPES))
    recipe = recipe_with_data_root(RECIPES[keys.recipe], keys.data_root)
    patterns = keys.rows
    if isinstance(patterns, str):
        patterns = [patterns]
    return {
        "recipe": recipe,
        "labels": tuple(row.label for row in recipe.select(patterns)),
        "seeds": tuple(keys.seeds) or None,
        "quick": keys.quick,
        "varied": bool(keys.grid or keys.search),
    }


@dataclass(frozen=True, kw_only=True)
class ConfigSweep(Sweep):
    """A sweep over some options of `eigenrnn train`.

    Args:
        options: The options that all trials share, as in a YAML file.
        seeds: The seeds of each point.
        data_root: The folder with the data files.
    """

    options: Mapping[str, Any]
    seeds: tuple[int, ...] = (0,)
    data_root: str | None = None

    def trials_of(self, number: int, parameters: Mapping[str, Any]) -> list[Trial]:
        label = " ".join(f"{name}={format_value(value)}" for name, value in parameters.items())
        slug = re.sub(r"[^a-z0-9]+", "-", f"{number:03d} {label}".lower())[:_MAX_NAME].strip("-")
        return [
            Trial(number, parameters, seed, f"{slug}/seed-{seed}", label) for seed in self.seeds
        ]

    def task_and_settings(self, trial: Trial) -> tuple[Task, Settings]:
        chosen, task = self._parsed(trial)  # and no network, which a check does not need
        return with_data_root(task, self.data_root), settings_of(chosen)

    def build(self, trial: Trial) -> tuple[nn.Module, Task, Settings]:
        training = self._training(trial)
        return training.model, training.task, training.settings

    def train(self, trial: Trial, files: RunFolder, **options: Any) -> Result:
        training = self._training(trial)
        return fit(
            training.model,
            training.task,
            training.settings,
            files.path,
            name=", ".join(part for part in (training.name, trial.point) if part),
            network=training.network,
            **options,
        )

    def _training(self, trial: Trial) -> Training:
        chosen, task = self._parsed(trial)
        return build_training(chosen, task, self.data_root)

    def _parsed(self, trial: Trial) -> tuple[Namespace, Task]:
        content = copy.deepcopy(dict(self.options))
        for name, value in trial.parameters.items():
            _set(content, name.split("."), value)
        content["seed"] = trial.seed
        parser = PARSERS["train"]()
        chosen = parser.parse_object(content)
        return chosen, parser.instantiate(chosen).task


def _set(content: dict[str, Any], path: list[str], value: Any) -> None:
    """Set an option by its path; `task: Copying` is read as `task: {class_path: Copying}`.

    Raises:
        ValueError: If the owner of the option is missing.
    """
    first, *rest = path
    if not rest:
        content[first] = value
        return
    owner: Any = content.get(first)
    if isinstance(owner, str):  # a name alone, as in `layer: ScoRNN`
        owner = {"class_path": owner}
        content[first] = owner
    if not isinstance(owner, dict):
        raise ValueError(f"expected {first} in the file because {'.'.join(path)} varies, got none")
    options = cast("dict[str, Any]", owner)
    if "class_path" in options:
        options = options.setdefault("init_args", {})
    _set(options, rest, value)
