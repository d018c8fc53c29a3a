"""The command `eigenrnn claims`: the papers' claims, their verdicts, and the missing runs."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.claims import Claim, Judgement, Runs
from eigenrnn.experiments.cli.name_lookup import unknown_name
from eigenrnn.experiments.cli.tables import show_outcomes
from eigenrnn.experiments.cli.train_options import recipe_with_data_root
from eigenrnn.experiments.recipes import Recipe
from eigenrnn.experiments.registry import CLAIMS, RECIPES
from eigenrnn.experiments.results.archive import Archive, current_runs
from eigenrnn.experiments.results.page import duration, to_markdown
from eigenrnn.experiments.results.verdicts import Verdicts

__all__ = ["claims"]

_ACTIONS = ("run", "write")


def claims(options: Namespace, console: Console) -> int:
    """List the claims with their verdicts, train the missing runs, or write the page.

    Raises:
        ValueError: If the action or a claim is unknown, or an option does not fit the action.
    """
    action = options.action
    if action is not None and action not in _ACTIONS:
        raise ValueError(unknown_name("command after claims", action, _ACTIONS))
    if options.ids and action != "run":
        raise ValueError("expected names of claims only after claims run")
    for name, needed in (("plan", "run"), ("json", None)):
        if options[name] and action != needed:
            after = "claims" if needed is None else f"claims {needed}"
            raise ValueError(f"expected --{name} only with eigenrnn {after}")
    recipes = {n: recipe_with_data_root(r, options.data_root) for n, r in RECIPES.items()}
    if action == "write":
        return _write(Path(options.archive), Path(options.out or "RESULTS.md"), recipes, console)
    chosen = {name: CLAIMS[name] for name in map(_known, options.ids or CLAIMS)}
    verdicts = Verdicts(chosen, recipes, options.archive)
    if action == "run":
        return _plan(verdicts, console) if options.plan else _run(verdicts, options, console)
    _list(verdicts.judge(), console, as_json=options.json)
    return 0


def _write(archive: Path, page: Path, recipes: Mapping[str, Recipe], console: Console) -> int:
    """Write RESULTS.md from the archive.

    Raises:
        ValueError: If there is no archive, or the page cannot be written there.
    """
    if not archive.is_dir():
        raise ValueError(f"expected an archive of runs in {archive}, got no such folder")
    if page.is_dir() or not page.absolute().parent.is_dir():
        raise ValueError(f"expected --out to be a file in a folder that exists, got {page}")
    write_atomically(page, to_markdown(archive, recipes, CLAIMS).encode())
    _, changed = current_runs(recipes, Archive(archive).runs())
    lines = [f"{path} does not count, its row has changed: {why}" for path, why in changed.items()]
    console.print("\n".join([*lines, f"in {page}"]), soft_wrap=True, highlight=False, markup=False)
    return 0


def _known(name: str) -> str:
    if name not in CLAIMS:
        raise ValueError(unknown_name("claim", name, CLAIMS))
    return name


def _list(judgements: Iterable[Judgement], console: Console, *, as_json: bool) -> None:
    if as_json:
        content = json.dumps([_entry(judgement) for judgement in judgements], indent=2)
        console.print(content, markup=False, highlight=False, soft_wrap=True)
        return
    table = _table("claim", "paper", "verdict", "sentence")
    for judgement in judgements:
        claim = judgement.claim
        table.add_row(claim.id, claim.paper, judgement.verdict, claim.sentence)
    console.print(table)


def _table(first: str, *others: str) -> Table:
    """Return a table whose first column is never wrapped."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name)
    return table


def _entry(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as data for `--json`; a number that is not finite becomes null."""
    claim = judgement.claim
    comparisons = [
        {
            "share": result.share,
            "numbers": [n if math.isfinite(n) else None for n in result.numbers],
            "runs": [asdict(runs) for runs in check.runs],
        }
        for check, result in zip(claim.test, judgement.results, strict=True)
    ]
    names = ("id", "paper", "sentence", "place", "note")
    return {
        **{name: getattr(claim, name) for name in names},
        "verdict": judgement.verdict,
        "comparisons": comparisons,
    }


def _plan(verdicts: Verdicts, console: Console) -> int:
    """List the missing runs with a rough estimate of their time on one core."""
    table = _table("claim", "recipe", "network", "runs", "time", "in total")
    total = 0.0
    missing = list(verdicts.missing())
    for claim, runs in missing:
        seconds = verdicts.seconds(runs)
        total += seconds
        length = "" if runs.reduced is None else f", {runs.reduced}"
        times = duration(seconds), duration(total)
        table.add_row(claim.id, runs.recipe, f"{runs.row}{length}", str(runs.count), *times)
    console.print(table if missing else "no runs are missing")
    return 0


def _run(verdicts: Verdicts, options: Namespace, console: Console) -> int:
    """Train and archive the missing runs, one network after another."""
    tried: set[Runs] = set()
    while (missing := _next(verdicts, tried)) is not None:
        claim, runs = missing
        tried.add(runs)
        console.print(f"{claim.id}: {runs.recipe}, {runs.row}")
        outcomes = verdicts.run(runs, Path(options.out or "runs"))
        signals = [outcome.signal for outcome in outcomes if outcome.signal is not None]
        if signals:
            return 128 + signals[0]
        own = [outcome for outcome in outcomes if outcome.label == runs.row]
        show_outcomes(verdicts.recipe(runs), own, quick=False, console=console)
        verdicts = Verdicts(verdicts.claims, verdicts.recipes, verdicts.archive)
    _list(verdicts.judge(), console, as_json=False)
    return 0


def _next(verdicts: Verdicts, tried: set[Runs]) -> tuple[Claim, Runs] | None:
    """Return the first missing runs that have not been tried."""
    return next((pair for pair in verdicts.missing() if pair[1] not in tried), None)
