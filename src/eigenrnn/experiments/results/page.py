"""RESULTS.md: the papers' numbers beside those of the archived runs."""

from collections.abc import Mapping
from pathlib import Path

from eigenrnn.experiments.recipes import Recipe
from eigenrnn.experiments.results.archive import Archive
from eigenrnn.experiments.results.costs import unpaid
from eigenrnn.experiments.results.machines import Machines
from eigenrnn.experiments.results.made import rows_of
from eigenrnn.experiments.results.outcomes import by_row
from eigenrnn.experiments.results.overview import how_estimates_did, overview, totals
from eigenrnn.experiments.results.section import of_not_made, of_runs
from eigenrnn.experiments.results.written import read_estimates, read_remarks

__all__ = ["to_markdown"]

_INTRODUCTION = """\
# Results

The numbers of the papers beside those of our own runs. `eigenrnn results write` makes this page
from the files under `results/`, one a run, each with its settings, versions, machine and curves.
No number of ours stands here that was not measured; costs of what is not made are estimates.
"""
_READING = """\
## How to read it

*Ours* is the mean over the runs that count, with its standard error and their number; *selected on
validation* is the test number of the models that a validation set selects, whatever the paper's
own rule. Losses and metrics are in the units of the task.

A number differs from the paper's, and is in bold, where it is further off than the error that the
paper prints or, where it prints none, than half a unit of its last digit (0.0005 of a curve at
zero) or twice our standard error, whichever is more. Where a paper says no more than that a curve
stays below a number, its column has *at most*, and ours counts the runs above it: it differs if
the mean is above it by more than that margin, or most runs are by more than half a unit of its
last digit. Of each number that differs a paragraph says what is known of it.

The time of a run is that of the clock; the runs shared their machines with others, so a quiet
machine needs less. *Processor time*, where it was recorded, is what the threads of a run computed,
all in all, which other work hardly changes.

What is *not made* stands with the cost of a run on two cores and on one GPU, by a formula that is
rough and stands in `docs/reproducing.md`. How it did on two cores, which the runs shared:"""
_GPU = """\
On a GPU nothing was measured. Its column takes one of a data centre, our layers as the loops which
they are there, 8 microseconds for the launch of each kernel, and cuDNN for torch's own layers: it
says what a plan may count on, and no more."""
_UNMADE = """
## Not made

What each paper reports, and about how long our runs of it would take."""


def to_markdown(folder: str | Path, recipes: Mapping[str, Recipe]) -> str:
    """Write the page.

    Args:
        folder: That of the archive.
        recipes: All of them, by name.
    Raises:
        ValueError: If a file of the archive is damaged, of another version, or none of it.
    """
    archive = Archive(folder)
    runs = archive.runs()
    said = read_remarks(archive.folder, recipes)
    rows = rows_of(recipes, by_row(recipes, runs), read_estimates(archive.folder))
    left, machines = unpaid(recipes, rows, runs), Machines(runs)
    begun = {name: of_recipe for name, of_recipe in rows.items() if any(r.runs for r in of_recipe)}
    lines = [_INTRODUCTION, *totals(rows, runs, left), *overview(rows, left), ""]
    lines += [f"{_READING} {how_estimates_did(rows)}", "", _GPU]
    if begun:
        lines += ["", "Machines:", "", *machines.lines(), "", "## Run"]
    for name, of_recipe in begun.items():
        lines += of_runs(of_recipe, machines, said.get(name, {}))
    not_begun = [of_recipe for name, of_recipe in rows.items() if name not in begun]
    lines += [_UNMADE] if not_begun else []
    for of_recipe in not_begun:
        lines += of_not_made(of_recipe)
    return "\n".join(lines) + "\n"
