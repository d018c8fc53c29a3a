"""The command `eigenrnn sweep`, and the YAML file of a sweep, which it reads."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import yaml

from eigenrnn.errors import check_positive_integer
from eigenrnn_experiments.cli.commands import arguments_of, load_yaml, parser_of
from eigenrnn_experiments.cli.train import row_to_train
from eigenrnn_experiments.console import say
from eigenrnn_experiments.errors import unknown_name
from eigenrnn_experiments.recipes import Plan, Row
from eigenrnn_experiments.recipes.recipe import row_of
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.statistics import counted
from eigenrnn_experiments.sweep import Sweep, SweepFile
from eigenrnn_experiments.training.run import Run, RunKey

__all__ = ["read_sweep", "sweep"]

_SHOWN = 10  # runs of each metric


def sweep(
    file: str,
    *,
    address: str | None = None,
    out: str | None = None,
    resume: bool = False,
    trials_at_once: int | None = None,
) -> int:
    """Train the networks of a grid or a search.

    In parallel, and for a search, needs: pip install 'eigenrnn-experiments[sweep]'.

    Args:
        file: YAML file that describes the sweep, see docs/sweeps.md.
        address: HOST:PORT of a Ray cluster; without it this machine.
        out: Output folder, visible to all machines; without it runs/FILE.
        resume: Continue existing runs.
        trials_at_once: Number of parallel trials; without it as many as fit.
    Returns:
        The exit status: 0, or 1 if a run should be retried.
    """
    if trials_at_once is not None:
        check_positive_integer("trials_at_once", trials_at_once)
    chosen = read_sweep(file)
    folder = Path(out or f"runs/{Path(file).stem}")
    runs = chosen.run(folder, address=address, resume=resume, trials_at_once=trials_at_once)
    lines: list[str] = []
    of_metric: dict[str, list[tuple[float, Run]]] = {}  # tasks may have different ones
    for run in runs:
        score = chosen.score_of(run)
        if run.best_by is not None and math.isfinite(score):
            of_metric.setdefault(run.best_by, []).append((score, run))
    for metric, scored in of_metric.items():
        lines.append(f"the best of {counted(len(scored), 'run')}:")
        for _, run in sorted(scored, key=itemgetter(0), reverse=True)[:_SHOWN]:
            lines.append(f"{metric} {chosen.value_of(run):.6g} in {folder / run.key.path}")
    states = Counter(run.state for run in runs)
    counts = ", ".join(f"{number} {state}" for state, number in states.items())
    lines.append(f"in {folder}: results.csv of {len(runs)} runs, {counts}")
    retry = states.total() > states["ended"] + states["diverged"]
    if retry:
        lines.append("--resume retries those that have neither ended nor diverged")
    say("\n".join(lines))
    return int(retry)


def read_sweep(path: str | Path) -> Sweep:
    """Read a sweep from its YAML file.

    Raises:
        ValueError: If the file is not YAML, or has an invalid key or value.
    """
    text = Path(path).read_text(encoding="utf-8")
    try:
        content: Any = load_yaml(text)
        file = msgspec.convert(content, SweepFile)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ValueError(f"expected a sweep in {path}: {error}") from None
    sweep_of = partial(Sweep, file=file, description=content)
    shared = {n: v for n, v in content.items() if n not in SweepFile.__struct_fields__}
    if file.recipe is None:
        if file.rows or file.quick:
            raise ValueError(
                f"expected a recipe in {path}, since 'rows' and 'quick' choose among its runs"
            )
        plan = Plan(grid=file.grid, seeds=file.seeds or [0], varies=True)
        return sweep_of(plans=[plan], row_of=partial(_row_of_options, shared, file.data_root))
    if shared:
        raise ValueError(f"expected no {', '.join(shared)} in {path}, a sweep of a recipe")
    if file.recipe not in RECIPES:
        raise ValueError(unknown_name("recipe", file.recipe, RECIPES))
    recipe = RECIPES[file.recipe].with_data_root(file.data_root)
    recipe = replace(recipe, rows=recipe.select(file.rows))
    if not recipe.trained:
        raise ValueError(f"expected rows of {file.recipe} that train networks, got none")
    if file.search and len(recipe.trained) > 1:
        raise ValueError(f"expected one row for a search, got {len(recipe.trained)}: choose one")
    plans = [recipe.plan(row, file.seeds or None, quick=file.quick) for row in recipe.trained]
    if file.varies:
        plans = [replace(plan, grid=file.grid, varies=True) for plan in plans]
    return sweep_of(plans=plans, row_of=partial(row_of, recipe=recipe), recipe=recipe)


def _row_of_options(shared: Mapping[str, Any], data_root: str | None, key: RunKey) -> Row:
    """Return what a run trains whose hyperparameters are options on the command line.

    Args:
        shared: The options that all runs share.
        data_root: The folder with the data files.
        key: What names the run.
    """
    arguments = ["--config", json.dumps(shared)]
    for name, value in key.varied.items():
        text = value
        if not isinstance(value, str):
            text = json.dumps(value)
        arguments.append(f"--{name}={text}")
    parser = parser_of(row_to_train, skip={"seed", "data_root"})
    return row_to_train(**arguments_of(parser, arguments), data_root=data_root, seed=key.seed)
