"""What `eigenrnn reproduce --all` does: all recipes one after another, as far as one likes."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from eigenrnn.experiments.cli import listing
from eigenrnn.experiments.cli.make import recipe_with_data_root
from eigenrnn.experiments.recipes import Outcome, Recipe
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results.plan import Left, Plan
from eigenrnn.experiments.results.words import duration

__all__ = ["reproduce_all"]

_ARCHIVE = "results"


def reproduce_all(options: Namespace, console: Console) -> int | None:
    """Print what is left of all recipes, or run it; return the signal that ended it, if one did.

    Raises:
        ValueError: If an option is given that is of one recipe, or an archive that is not there.
    """
    for name in ("recipe", "rows", "overwrite", "max_minutes"):
        if getattr(options, name):
            said = "a recipe" if name == "recipe" else f"--{name}"
            raise ValueError(f"expected {said} or --all, got both: --all resumes every recipe")

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    archive = _archive(options.archive)
    if not (archive.is_dir() or options.quick):  # which looks into none
        say(f"there is no archive in {archive}, so every run counts as not archived")
    recipes = {n: recipe_with_data_root(r, options.data_root) for n, r in RECIPES.items()}
    folder = Path(options.out or "runs")
    plan = Plan.of(recipes, folder, archive, seeds=options.seeds, quick=options.quick)
    if options.plan or not plan.rows:
        say(_described(plan))
        return None

    def after(recipe: Recipe, outcomes: Sequence[Outcome]) -> None:
        listing.show_outcomes(recipe, outcomes, quick=options.quick, console=console)

    return plan.go_on(say=say, after=after, dynamics_every=options.dynamics_every)


def _archive(named: str | None) -> Path:
    """Say where the archive is; that of this folder need not be there.

    Raises:
        ValueError: If another one is named that is not.
    """
    if named is not None and not Path(named).is_dir():
        raise ValueError(
            f"expected an archive of runs in {named}, got no such folder: name one that is "
            f"there, or leave --archive out for that in {_ARCHIVE}"
        )
    return Path(named or _ARCHIVE)


def _described(plan: Plan) -> str:
    """Say what is left, a row a line, and what it comes to."""
    there = [left for left in plan.rows if left.missing is None]
    lines = [f"{'group':<7}{'recipe':<18}{'network':<42}{'runs':>6}{'each':>10}{'by then':>11}"]
    until = 0.0
    for left in there:
        until += left.total_seconds
        lines.append(
            f"{left.group:<7}{left.recipe.name:<18}{left.row.label:<42}{_count(left):>6}"
            f"{duration(left.seconds or 0.0):>10}{duration(until):>11}"
        )
    missing: dict[str, list[str]] = {}
    for left in plan.rows:
        if left.missing is not None:
            missing.setdefault(left.missing, []).append(f"{left.recipe.name}: {left.row.label}")
    lines += [
        f"skipped, because {data} is missing: {'; '.join(rows)}" for data, rows in missing.items()
    ]
    runs, on_a_gpu = sum(map(_count, there)), duration(plan.total_gpu_seconds)
    said = (
        f"{runs:,} runs of {len(there):,} rows, about {duration(until)} on two cores, as above, "
        f"or {on_a_gpu} on one GPU"
    )
    return "\n".join(
        [*lines, f"left to run: {said}"] if there else [*lines[1:], "nothing is left to run"]
    )


def _count(left: Left) -> int:
    return len(left.jobs) or 1  # a number that takes no training
