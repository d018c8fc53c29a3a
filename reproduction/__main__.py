"""The commands `python -m reproduction {check,plan,run,train,archive,write}`."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from eigenrnn.memory import keep_freed_memory
from eigenrnn_experiments.cli import commands
from eigenrnn_experiments.errors import MissingDataError, StoppedError
from eigenrnn_experiments.files import write_atomically
from eigenrnn_experiments.recipes import Recipe, Row, reproduce
from eigenrnn_experiments.recipes.reproduce import folder_name
from eigenrnn_experiments.training import RunKey
from reproduction.archive import ARCHIVE, Archive, current_runs, rows_by_name
from reproduction.archive_runs import archive_runs
from reproduction.claim import Claim, Runs
from reproduction.claims import CLAIMS
from reproduction.evidence import ArchivedEvidence, Judgement, missing_runs
from reproduction.page import headline, held_out, to_markdown
from reproduction.recipes import RECIPES

__all__ = ["main"]

PAGE = Path(__file__).parents[1] / "RESULTS.md"


class Known(NamedTuple):
    """What the commands know: all recipes and claims, by name, and the console."""

    recipes: Mapping[str, Recipe]
    claims: Mapping[str, Claim]
    console: Console


def main(
    arguments: Sequence[str] | None = None,
    *,
    recipes: Mapping[str, Recipe] = RECIPES,
    claims: Mapping[str, Claim] = CLAIMS,
) -> int:
    """Run a command and return its exit status.

    Args:
        arguments: The words of the command line; those of the process by default.
        recipes: All recipes, by name.
        claims: All claims, by name.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if options.command == "train":  # with the options of `eigenrnn reproduce`
        return commands.run(["reproduce", *others], known=recipes)
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    console = Console(width=max(Console().width, 140), soft_wrap=True)
    try:
        return COMMANDS[options.command](options, Known(recipes, claims, console))
    except (ValueError, MissingDataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        description="Which claims of the papers our runs bear out.",
    )
    parser.add_argument("--archive", type=Path, default=ARCHIVE, help="folder of archived runs")
    listed = parser.add_subparsers(dest="command", required=True)
    listed.add_parser("check", help="print each comparison of the claims with margin and noise")
    plan = listed.add_parser("plan", help="list the missing runs")
    run = listed.add_parser("run", help="train and archive the missing runs")
    for command in (plan, run):
        command.add_argument("ids", nargs="*", help="names of claims (default: all claims)")
    run.add_argument("--out", type=Path, default=Path("runs"), help="folder of the runs")
    archive = listed.add_parser("archive", help="archive the runs that have ended")
    archive.add_argument("folders", nargs="+", type=Path, help="folders that `reproduce` wrote")
    archive.add_argument("--overwrite", action="store_true", help="replace archived runs")
    words = "train a recipe, also our own: options of eigenrnn reproduce"
    listed.add_parser("train", help=words, add_help=False)
    write = listed.add_parser("write", help="write RESULTS.md")
    write.add_argument("--out", type=Path, default=PAGE, help="the file to write")
    return parser


def _check(options: argparse.Namespace, known: Known) -> int:
    """Print each comparison with its margin and its noise; fail if a claim states another."""
    archive = Archive(options.archive)
    judgements = ArchivedEvidence(known.recipes, archive).judge(known.claims)
    mismatches = [each for judgement in judgements for each in judgement.mismatches()]
    _print_judgements(known.console, judgements)
    for claim, agreeing in held_out(known.recipes, archive, judgements).items():
        known.console.print(f"seeds 11 and 12, {claim}: {sum(agreeing)} of {len(agreeing)} agree")
    for mismatch in mismatches:
        print(f"error: {mismatch}", file=sys.stderr)
    return int(bool(mismatches))


def _print_judgements(console: Console, judgements: Sequence[Judgement]) -> None:
    for judgement in judgements:
        console.print(f"{judgement.claim.id}: {judgement.verdict}")
        for check, result in judgement.results.items():
            networks = ", ".join(network.row for network in check.networks)
            said = result.undecided or str(result.outcome).lower()
            console.print(f"  {networks}: {check.rule}, {check.number.name}: {said}")
            if result.runs:
                numbers = ", ".join(f"{number:.3g}" for number in result.numbers.values())
                margin, noise = map(check.number.described, (result.margin, result.noise))
                console.print(f"    {numbers}; margin {margin}, noise {noise}")
    console.print(headline(judgements))


def _plan(options: argparse.Namespace, known: Known) -> int:
    missing = _missing(options, known)
    for run, claim in missing.items():
        needs = _missing_data(run, known.recipes)
        known.console.print(f"{claim}: {_key(run)}{needs and f', needs {needs}'}", markup=False)
    known.console.print(f"{len(missing)} runs are missing")
    return 0


def _run(options: argparse.Namespace, known: Known) -> int:
    """Train and archive the missing runs, one after another."""
    keep_freed_memory()
    tried: set[Runs] = set()
    while True:
        # a run that has just been archived may serve other rows too, so the plan is made anew
        missing = _missing(options, known)
        run = next((run for run in missing if run not in tried), None)
        if run is None:
            judgements = ArchivedEvidence(known.recipes, Archive(options.archive)).judge(
                known.claims
            )
            _print_judgements(known.console, judgements)
            return 0
        tried.add(run)
        known.console.print(f"{missing[run]}: {_key(run)}", markup=False)
        if needs := _missing_data(run, known.recipes):
            known.console.print(f"needs {needs}, skipped")
            continue
        recipe = known.recipes[run.recipe]
        if run.least is not None:
            recipe = recipe.reduced(run.least)
        folder = options.out / folder_name(recipe, quick=False)
        try:
            reproduce(
                recipe,
                folder,
                rows=[run.row],
                points=run.points,
                seeds=run.seeds,
                resume=True,
            )
        except StoppedError as stopped:
            return 128 + stopped.signal  # the exit status of a program ended by a signal
        archive_runs([folder], options.archive, known.recipes)


def _key(run: Runs) -> RunKey:
    return RunKey(run.recipe, run.row, run.points[0], run.seeds[0], reduced=run.least)


def _missing_data(run: Runs, recipes: Mapping[str, Recipe]) -> str:
    """Return the data of a row that is not on this machine; empty if none is missing."""
    row = rows_by_name(recipes)[run.recipe, run.row]
    if not isinstance(row, Row):
        return ""
    return row.task.missing_data() or ""


def _missing(options: argparse.Namespace, known: Known) -> dict[Runs, str]:
    """Return the missing runs of the named claims.

    Raises:
        ValueError: If a claim is unknown.
    """
    for name in options.ids:
        if name not in known.claims:
            raise ValueError(f"expected a claim ({', '.join(known.claims)}), got {name!r}")
    chosen = {name: known.claims[name] for name in options.ids or known.claims}
    return missing_runs(chosen, ArchivedEvidence(known.recipes, Archive(options.archive)))


def _archive(options: argparse.Namespace, known: Known) -> int:
    changes = archive_runs(
        options.folders,
        options.archive,
        known.recipes,
        overwrite=options.overwrite,
    )
    for path, reason in changes.skipped.items():
        known.console.print(f"{path}: {reason}", markup=False, highlight=False)
    known.console.print(
        f"{len(changes.archived)} runs archived, {len(changes.unchanged)} already archived, "
        f"{len(changes.skipped)} skipped"
    )
    return 0


def _write(options: argparse.Namespace, known: Known) -> int:
    archive = Archive(options.archive)
    write_atomically(options.out, to_markdown(archive, known.recipes, known.claims).encode())
    _, changed = current_runs(known.recipes, archive.runs())
    for name, why in changed.items():
        known.console.print(f"{name} does not count, its row has changed: {why}")
    known.console.print(f"wrote {options.out}")
    return 0


COMMANDS = {"check": _check, "plan": _plan, "run": _run, "archive": _archive, "write": _write}

if __name__ == "__main__":
    sys.exit(main())
