"""The command `eigenrnn archive`, which archives finished runs of recipes."""

from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from eigenrnn import __version__
from eigenrnn.experiments.cli.train_options import recipe_with_data_root
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results.archive_runs import archive_runs

__all__ = ["archive"]


def archive(options: Namespace, console: Console) -> int:
    """Archive the runs of recipes, and print what was archived and what was skipped."""
    recipes = {n: recipe_with_data_root(r, options.data_root) for n, r in RECIPES.items()}
    changes = archive_runs(
        options.folders,
        options.archive,
        recipes,
        overwrite=options.overwrite,
        unfinished=options.unfinished,
    )
    lines = [f"{path} {reason}" for path, reason in changes.skipped.items()]
    lines += [
        f"{Path(options.archive, path)} was trained by eigenrnn {version}, this is "
        f"{__version__}: archived anyway"
        for path, version in changes.other_versions.items()
    ]
    lines.append(
        f"in {options.archive}: {len(changes.archived)} runs archived, "
        f"{len(changes.unchanged)} already archived, {len(changes.skipped)} skipped"
    )
    console.print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)
    return 0
