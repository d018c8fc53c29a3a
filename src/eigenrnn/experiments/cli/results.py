"""The command `eigenrnn results`, which archives runs and writes RESULTS.md."""

from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from eigenrnn import __version__
from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.cli.name_lookup import unknown_name
from eigenrnn.experiments.cli.train_options import recipe_with_data_root
from eigenrnn.experiments.registry import CLAIMS, RECIPES
from eigenrnn.experiments.results.archive import Archive, current_runs
from eigenrnn.experiments.results.collect import collect
from eigenrnn.experiments.results.page import to_markdown

__all__ = ["results", "write"]

_ACTIONS = ("collect", "write")


def results(options: Namespace, console: Console) -> int:
    """Collect runs into the archive, or write RESULTS.md.

    Raises:
        ValueError: If the action is unknown, or its folders are missing or superfluous.
    """
    if options.action not in _ACTIONS:
        raise ValueError(unknown_name("command after results", options.action, _ACTIONS))
    if (options.action == "collect") != bool(options.folders):
        needed = "the folders of recipes that were run" if not options.folders else "no folder"
        raise ValueError(
            f"expected {needed} for {options.action}, got {options.folders or 'none'}"
        )
    if options.action == "collect":
        return _collect(options, console)
    return write(options.archive, options.out, options.data_root, console)


def _collect(options: Namespace, console: Console) -> int:
    recipes = {n: recipe_with_data_root(r, options.data_root) for n, r in RECIPES.items()}
    collected = collect(
        options.folders,
        options.archive,
        recipes,
        overwrite=options.overwrite,
        unfinished=options.unfinished,
    )
    lines = [f"{path} {reason}" for path, reason in collected.skipped.items()]
    lines += [
        f"{Path(options.archive, path)} was trained by eigenrnn {version}, this is "
        f"{__version__}: archived anyway"
        for path, version in collected.other_versions.items()
    ]
    lines.append(
        f"in {options.archive}: {len(collected.archived)} runs archived, "
        f"{len(collected.unchanged)} already archived, {len(collected.skipped)} skipped"
    )
    console.print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)
    return 0


def write(archive: str, page: str, data_root: str | None, console: Console) -> int:
    """Write RESULTS.md from the archive.

    Raises:
        ValueError: If there is no archive, or the page cannot be written there.
    """
    recipes = {n: recipe_with_data_root(r, data_root) for n, r in RECIPES.items()}
    folder, out = Path(archive), Path(page)
    if not folder.is_dir():
        raise ValueError(f"expected an archive of runs in {folder}, got no such folder")
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ValueError(f"expected --out to be a file in a folder that exists, got {out}")
    write_atomically(out, to_markdown(folder, recipes, CLAIMS).encode())
    _, changed = current_runs(recipes, Archive(folder).runs())
    lines = [f"{path} does not count, its row has changed: {why}" for path, why in changed.items()]
    console.print("\n".join([*lines, f"in {out}"]), soft_wrap=True, highlight=False, markup=False)
    return 0
