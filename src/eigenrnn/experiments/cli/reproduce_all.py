"""The command `eigenrnn reproduce --all`, which trains or lists the remaining runs."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from eigenrnn.experiments.cli import tables
from eigenrnn.experiments.cli.train_options import recipe_with_data_root
from eigenrnn.experiments.recipes import Outcome, Recipe
from eigenrnn.experiments.registry import CLAIMS, RECIPES
from eigenrnn.experiments.results.page import duration
from eigenrnn.experiments.results.plan import Plan, PlannedRow

__all__ = ["reproduce_all"]

_ARCHIVE = "results"


def reproduce_all(options: Namespace, console: Console) -> int | None:
    """Print or train the remaining runs; return the number of the signal that stopped it, if any.

    Raises:
        ValueError: If an option applies to a single recipe only, or the archive does not exist.
    """
    for name in ("recipe", "rows", "points", "epochs", "overwrite", "max_minutes"):
        if getattr(options, name):
            option = "a recipe" if name == "recipe" else f"--{name}"
            raise ValueError(f"expected {option} or --all, got both: --all resumes every recipe")

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    archive = _archive(options.archive)
    if not (archive.is_dir() or options.quick):  # quick runs ignore the archive
        say(f"no archive in {archive}: every run counts as not archived")
    recipes = {n: recipe_with_data_root(r, options.data_root) for n, r in RECIPES.items()}
    folder = Path(options.out or "runs")
    decisive = [runs for claim in CLAIMS.values() for runs in claim.experiment]
    plan = Plan.of(
        recipes, folder, archive, first=decisive, seeds=options.seeds, quick=options.quick
    )
    if options.plan or not plan.rows:
        say(_describe(plan))
        return None

    def after(recipe: Recipe, outcomes: Sequence[Outcome]) -> None:
        tables.show_outcomes(recipe, outcomes, quick=options.quick, console=console)

    return plan.run_remaining(say=say, after=after, dynamics_every=options.dynamics_every)


def _archive(named: str | None) -> Path:
    """Return the folder of the archive; the default one need not exist.

    Raises:
        ValueError: If the user names a folder that does not exist.
    """
    if named is not None and not Path(named).is_dir():
        raise ValueError(
            f"expected an archive of runs in {named}, got no such folder: name an existing one, "
            f"or omit --archive to use {_ARCHIVE}"
        )
    return Path(named or _ARCHIVE)


def _describe(plan: Plan) -> str:
    """Return a table of the remaining runs, one line per row, with their total time."""
    available = [planned for planned in plan.rows if planned.missing_data is None]
    lines = [
        f"{'group':<7}{'recipe':<18}{'network':<42}{'runs':>6}{'per run':>10}{'in total':>11}"
    ]
    total = 0.0
    for planned in available:
        total += planned.total_seconds
        lines.append(
            f"{planned.group:<7}{planned.recipe.name:<18}{planned.row.label:<42}{_count(planned):>6}"
            f"{duration(planned.seconds or 0.0):>10}{duration(total):>11}"
        )
    skipped: dict[str, list[str]] = {}
    for planned in plan.rows:
        if planned.missing_data is not None:
            skipped.setdefault(planned.missing_data, []).append(
                f"{planned.recipe.name}: {planned.row.label}"
            )
    lines += [
        f"skipped, because {data} is missing: {'; '.join(rows)}" for data, rows in skipped.items()
    ]
    summary = (
        f"{sum(map(_count, available)):,} runs of {len(available):,} rows, roughly "
        f"{duration(total)} on one core"
    )
    return "\n".join(
        [*lines, f"remaining: {summary}"] if available else [*lines[1:], "no runs remain"]
    )


def _count(planned: PlannedRow) -> int:
    return len(planned.runs) or 1  # one for a number without training
