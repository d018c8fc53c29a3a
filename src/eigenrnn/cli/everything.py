"""What `eigenrnn reproduce --all` does: all recipes one after another, as far as one likes."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from eigenrnn.cli import listing
from eigenrnn.cli.make import recipe_with_data_root
from eigenrnn.recipes import Outcome, Recipe
from eigenrnn.registry import RECIPES
from eigenrnn.results.plan import Left, Plan

__all__ = ["reproduce_all"]

_HOUR = 3600


def reproduce_all(options: Namespace, console: Console) -> bool:
    """Print what is left of all recipes, or run it; return whether it was not interrupted.

    Raises:
        ValueError: If an option is given that is of one recipe.
    """
    for name in ("recipe", "rows", "overwrite"):
        if getattr(options, name):
            said = "a recipe" if name == "recipe" else f"--{name}"
            raise ValueError(
                f"expected {said} or --all, got both: --all goes on with what is there"
            )
    recipes = {n: recipe_with_data_root(r, options.data_root) for n, r in RECIPES.items()}
    folder = Path(options.out or "runs")
    plan = Plan.of(recipes, folder, options.archive, seeds=options.seeds, quick=options.quick)
    if options.plan or not plan.rows:
        _show(plan, console)
        return True

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    def after(recipe: Recipe, outcomes: Sequence[Outcome]) -> None:
        listing.show_outcomes(recipe, outcomes, quick=options.quick, console=console)

    return plan.go_on(say=say, after=after, dynamics_every=options.dynamics_every)


def _show(plan: Plan, console: Console) -> None:
    """Print what is left, a row a line, and what it comes to."""
    there = [left for left in plan.rows if left.missing is None]
    lines = [f"  {'recipe':<18}{'network':<42}{'runs':>6}{'each':>10}{'by then':>11}"]
    until = 0.0
    for left in there:
        until += left.total_seconds
        lines.append(
            f"{left.group:<2}{left.recipe.name:<18}{left.row.label:<42}{_count(left):>6}"
            f"{_duration(left.seconds):>10}{_duration(until):>11}"
        )
    missing: dict[str, list[str]] = {}
    for left in plan.rows:
        if left.missing is not None:
            missing.setdefault(left.missing, []).append(f"{left.recipe.name}: {left.row.label}")
    lines += [
        f"left out, as there is no {data}: {'; '.join(rows)}" for data, rows in missing.items()
    ]
    runs = sum(map(_count, there))
    said = f"{runs:,} runs of {len(there):,} rows, about {_duration(until)} on two cores"
    lines = [*lines, f"left: {said}"] if there else [*lines[1:], "nothing is left"]
    console.print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)


def _count(left: Left) -> int:
    return len(left.jobs) or 1  # a number that takes no training


def _duration(seconds: float | None) -> str:
    """Write a time in the unit that suits it."""
    if seconds is None:
        return "?"
    if seconds < _HOUR:
        return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
    return f"{seconds / _HOUR:,.1f} h"
