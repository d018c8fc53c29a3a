"""The head of the page: how much is run, what it came to, what is left."""

import re
import statistics
from collections.abc import Mapping, Sequence

from eigenrnn.experiments.recipes import Row
from eigenrnn.experiments.results.archive import Archived
from eigenrnn.experiments.results.costs import Unpaid, ratios
from eigenrnn.experiments.results.layout import table
from eigenrnn.experiments.results.machines import had_one_thread
from eigenrnn.experiments.results.made import Made
from eigenrnn.experiments.results.outcomes import is_judged, misses
from eigenrnn.experiments.results.words import counted, duration, two_figures

__all__ = ["how_estimates_did", "overview", "totals"]

_HOUR = 3600
_SHARED = "shared"
_ABOUT_SHARED = "*Shared*: what is left of it are runs of other tables and figures as well."


def totals(
    rows: Mapping[str, Sequence[Made]], runs: Sequence[Archived], left: Sequence[Unpaid]
) -> list[str]:
    """Count what is run, which numbers are the papers', and what is left."""
    return [
        line
        for said in (_run(rows, runs), _agreement(rows), _left(left))
        for line in (said, "")
        if said
    ]


def overview(rows: Mapping[str, Sequence[Made]], left: Sequence[Unpaid]) -> list[str]:
    """Give each recipe a line."""
    columns: dict[str, list[str]] = {
        name: [] for name in ("recipe", "rows run", "agree", "differ", "hours done", "hours left")
    }
    for name, of_recipe in rows.items():
        judged = [made for made in of_recipe if made.has_own and is_judged(made.outcome)]
        differ = sum(misses(made.outcome) for made in judged)
        can_run = [made for made in of_recipe if made.can_run]
        own = [run for made in of_recipe for run in made.runs if run.trained_for is None]
        known = [each for each in left if each.row.recipe.name == name]
        cells = (
            f"[{name}](#{_anchor(name)})",
            f"{sum(not made.left for made in can_run)} / {len(can_run)}",
            str(len(judged) - differ) if judged else "",
            str(differ) if judged else "",
            _hours(sum(run.seconds for run in own)) if own else "",
            _hours_left(known) or _why_none(of_recipe),
        )
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    return (
        [*table(columns), "", _ABOUT_SHARED]
        if _SHARED in columns["hours left"]
        else table(columns)
    )


def how_estimates_did(rows: Mapping[str, Sequence[Made]]) -> str:
    """Set the runs that were made beside their estimates."""
    found = ratios(made for of_recipe in rows.values() for made in of_recipe)
    if not found:
        return "no training is there yet to judge it by."
    if len(found) == 1:
        return f"the one training that is there took {two_figures(found[0])} times its estimate."
    low, middle, high = min(found), statistics.median(found), max(found)
    return (
        f"the {len(found)} trainings that are there{_on_one_thread(rows)} took "
        f"{two_figures(middle)} times their estimates in the median, the quickest "
        f"{two_figures(low)} times and the slowest {two_figures(high)} times."
    )


def _on_one_thread(rows: Mapping[str, Sequence[Made]]) -> str:
    """Count the trainings that had one thread of their machine."""
    runs = [run for of_recipe in rows.values() for made in of_recipe for run in made.runs]
    own = [run for run in runs if run.trained_for is None and run.state != "computed"]
    alone = sum(had_one_thread(run) for run in own)
    if not alone:
        return ""
    return f", {'all' if alone == len(own) else alone} of them on one thread,"


def _run(rows: Mapping[str, Sequence[Made]], runs: Sequence[Archived]) -> str:
    can_run = [made for of_recipe in rows.values() for made in of_recipe if made.can_run]
    full = sum(not made.left for made in can_run)
    part = sum(bool(made.runs) for made in can_run) - full
    of = f"{len(rows)} tables and figures" if len(rows) != 1 else "one table or figure"
    text = f"**{full} of {counted(len(can_run), 'row')}** of {of} are run in full"
    own = [run for run in runs if run.trained_for is None]
    trained = sum(run.state != "computed" for run in own)
    text += f", {part} more in part." if part else "."
    if trained:
        took = duration(sum(run.seconds for run in own))
        text += f" {counted(trained, 'training')} took {took} of machine time."
    shared = len(runs) - len(own)
    if shared:
        times = "Once" if shared == 1 else f"{shared} times"
        text += f" {times} a run counts for another table or figure that shows the same one."
    return text


def _agreement(rows: Mapping[str, Sequence[Made]]) -> str:
    own = [made for of_recipe in rows.values() for made in of_recipe if made.has_own]
    judged = [misses(made.outcome) for made in own if is_judged(made.outcome)]
    if not judged:
        return ""
    differ, agree = sum(judged), len(judged) - sum(judged)
    if len(judged) == 1:
        verb = "differs" if differ else "agrees"
        return f"One number of ours stands beside a paper's number or bound, and {verb}."
    return (
        f"{len(judged)} numbers of ours stand beside a paper's number or bound: {agree} agree"
        f"{'s' if agree == 1 else ''}, {differ} differ{'s' if differ == 1 else ''}."
    )


def _left(left: Sequence[Unpaid]) -> str:
    if not left:
        return ""
    known = [each for each in left if each.row.cost is not None]
    unknown = len(left) - len(known)
    text = (
        f"{counted(sum(each.runs for each in known), 'training')} of "
        f"{counted(len(known), 'row')} are left, about "
        f"{duration(sum(each.seconds for each in known))} on two cores and "
        f"{duration(sum(each.gpu_seconds for each in known))} on one GPU"
    )
    if unknown:
        text += f", and those of {counted(unknown, 'row')} more, whose data was not at hand"
    return f"{text}. `eigenrnn reproduce --all --plan` lists them in the order of their turn."


def _anchor(heading: str) -> str:
    """Name a heading as GitHub does."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _why_none(rows: Sequence[Made]) -> str:
    """Say why what is left of a recipe takes no time of its own; nothing if nothing is left."""
    left = [made for made in rows if made.left]
    if any(isinstance(made.row, Row) for made in left):
        return _SHARED
    return "no training" if left else ""


def _hours(seconds: float) -> str:
    return two_figures(seconds / _HOUR) if seconds >= _HOUR / 10 else "< 0.1"


def _hours_left(left: Sequence[Unpaid]) -> str:
    known = [each.seconds for each in left if each.row.cost is not None]
    if not known:
        return "not estimated" if left else ""
    return f"{'over ' if len(known) < len(left) else ''}{_hours(sum(known))}"
