"""RESULTS.md: the numbers of the papers beside those of the archived runs."""

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from eigenrnn.experiments.recipes import Computed, Outcome, Recipe, Row
from eigenrnn.experiments.recipes.results_files import columns, remarks
from eigenrnn.experiments.results.annotations import read_estimates, read_remarks
from eigenrnn.experiments.results.archive import Archive, ArchivedRun
from eigenrnn.experiments.results.formatting import (
    MachineNames,
    describe_quantity,
    duration,
    markdown_table,
    merge_remarks,
    pluralise,
    two_digits,
    used_one_thread,
)
from eigenrnn.experiments.results.outcomes import disagrees, is_comparable, margin, runs_by_row
from eigenrnn.experiments.results.row_status import (
    RemainingRuns,
    RowStatus,
    estimate_ratios,
    remaining_runs,
    row_statuses,
)

__all__ = [
    "estimate_accuracy",
    "overview",
    "section_with_runs",
    "section_without_runs",
    "to_markdown",
    "totals",
]

_INTRODUCTION = """\
# Results

The numbers of the papers beside those of our own runs. `eigenrnn results write` generates this
page from the files under `results/`: one file per run, with its settings, versions, machine and
curves. Every number of ours was measured. The costs of the remaining runs are estimates.
"""
_READING = """\
## How to read it

*Ours* is the mean over the runs that follow the paper's rule, with its standard error and the
number of runs. *Selected on validation* is the test number of the models selected on the
validation set, whatever the paper's own rule. Losses and metrics are in the units of the task.

A number in bold differs from the paper's by more than the margin. The margin is the error printed
in the paper. If the paper prints none, it is half a unit of the last printed digit (0.0005 for a
curve at zero) or twice our standard error, whichever is larger. Some papers only show that a curve
stays below a bound: their column reads *at most*, and ours counts the runs above the bound. Such a
number differs if our mean exceeds the bound by more than the margin, or if most runs exceed it by
more than half a unit of its last digit. A paragraph explains each number that differs.

The time of a run is wall-clock time. The runs shared their machines with other work, so an idle
machine is faster. *Processor time*, where it was recorded, is the total time of all threads of the
run; other work hardly changes it.

The tables of rows that were *not run* give the cost of a run on two cores and on one GPU. The
estimates are rough; `docs/reproducing.md` has the formula. On two shared cores,"""
_GPU = """\
The GPU column was not measured. It assumes a data-centre GPU, our layers on the loop backend,
8 microseconds to launch each kernel, and cuDNN for torch's own layers. Use it only for
planning."""
_NOT_RUN = """
## Not run

The numbers that each paper reports, and the estimated time of our runs."""


def to_markdown(folder: str | Path, recipes: Mapping[str, Recipe]) -> str:
    """Return the page as Markdown.

    Args:
        folder: The folder of the archive.
        recipes: All recipes, by name.
    Raises:
        ValueError: If a file is damaged, has another format, or does not belong to the archive.
    """
    archive = Archive(folder)
    runs = archive.runs()
    row_remarks = read_remarks(archive.folder, recipes)
    rows = row_statuses(recipes, runs_by_row(recipes, runs), read_estimates(archive.folder))
    remaining, machines = remaining_runs(recipes, rows, runs), MachineNames(runs)
    with_runs = {
        name: statuses for name, statuses in rows.items() if any(r.runs for r in statuses)
    }
    lines = [_INTRODUCTION, *totals(rows, runs, remaining), *overview(rows, remaining), ""]
    lines += [f"{_READING} {estimate_accuracy(rows)}", "", _GPU]
    if with_runs:
        lines += ["", "Machines:", "", *machines.lines(), "", "## Runs"]
    for name, statuses in with_runs.items():
        lines += section_with_runs(statuses, machines, row_remarks.get(name, {}))
    without_runs = [statuses for name, statuses in rows.items() if name not in with_runs]
    lines += [_NOT_RUN] if without_runs else []
    for statuses in without_runs:
        lines += section_without_runs(statuses)
    return "\n".join(lines) + "\n"


_HOUR = 3600
_SHARED = "shared"
_SHARED_NOTE = "*Shared*: all remaining runs also belong to other tables or figures."


def totals(
    rows: Mapping[str, Sequence[RowStatus]],
    runs: Sequence[ArchivedRun],
    remaining: Sequence[RemainingRuns],
) -> list[str]:
    """Count the rows that were run, the numbers that agree, and the remaining runs."""
    return [
        line
        for text in (_completed(rows, runs), _agreement(rows), _remaining(remaining))
        for line in (text, "")
        if text
    ]


def overview(
    rows: Mapping[str, Sequence[RowStatus]], remaining: Sequence[RemainingRuns]
) -> list[str]:
    """Return a table with one line per recipe."""
    columns: dict[str, list[str]] = {
        name: [] for name in ("recipe", "rows run", "agree", "differ", "hours done", "hours left")
    }
    for name, statuses in rows.items():
        compared = [row for row in statuses if row.has_own_runs and is_comparable(row.outcome)]
        differ = sum(disagrees(row.outcome) for row in compared)
        can_run = [row for row in statuses if row.can_run]
        own = [run for row in statuses for run in row.runs if run.trained_for is None]
        of_recipe = [each for each in remaining if each.row.recipe.name == name]
        cells = (
            f"[{name}](#{_anchor(name)})",
            f"{sum(not row.remaining for row in can_run)} / {len(can_run)}",
            str(len(compared) - differ) if compared else "",
            str(differ) if compared else "",
            _hours(sum(run.seconds for run in own)) if own else "",
            _hours_left(of_recipe) or _no_hours_left(statuses),
        )
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    return (
        [*markdown_table(columns), "", _SHARED_NOTE]
        if _SHARED in columns["hours left"]
        else markdown_table(columns)
    )


def estimate_accuracy(rows: Mapping[str, Sequence[RowStatus]]) -> str:
    """Compare the time of the archived trainings with their estimates."""
    ratios = estimate_ratios(row for statuses in rows.values() for row in statuses)
    if not ratios:
        return "no training has been archived to check them."
    if len(ratios) == 1:
        return f"the one archived training took {two_digits(ratios[0])} times its estimate."
    low, median, high = min(ratios), statistics.median(ratios), max(ratios)
    return (
        f"the {len(ratios)} archived trainings{_on_one_thread(rows)} took {two_digits(median)} "
        f"times their estimates in the median, {two_digits(low)} times at the fastest and "
        f"{two_digits(high)} times at the slowest."
    )


def _on_one_thread(rows: Mapping[str, Sequence[RowStatus]]) -> str:
    """Count the trainings that used one thread."""
    runs = [run for statuses in rows.values() for row in statuses for run in row.runs]
    own = [run for run in runs if run.trained_for is None and run.state != "computed"]
    single = sum(used_one_thread(run) for run in own)
    if not single:
        return ""
    return f", {'all' if single == len(own) else single} of them on one thread,"


def _completed(rows: Mapping[str, Sequence[RowStatus]], runs: Sequence[ArchivedRun]) -> str:
    can_run = [row for statuses in rows.values() for row in statuses if row.can_run]
    full = sum(not row.remaining for row in can_run)
    part = sum(bool(row.runs) for row in can_run) - full
    where = f"{len(rows)} tables and figures" if len(rows) != 1 else "one table or figure"
    text = f"**{full} of {pluralise(len(can_run), 'row')}** in {where} have all their runs"
    own = [run for run in runs if run.trained_for is None]
    trained = sum(run.state != "computed" for run in own)
    text += f", {part} more {'has' if part == 1 else 'have'} some." if part else "."
    if trained:
        time = duration(sum(run.seconds for run in own))
        text += f" {pluralise(trained, 'training')} took {time} of machine time."
    shared = len(runs) - len(own)
    if shared:
        verb = "belongs" if shared == 1 else "belong"
        text += f" {pluralise(shared, 'run')} {verb} to a second table or figure as well."
    return text


def _agreement(rows: Mapping[str, Sequence[RowStatus]]) -> str:
    own = [row for statuses in rows.values() for row in statuses if row.has_own_runs]
    compared = [disagrees(row.outcome) for row in own if is_comparable(row.outcome)]
    if not compared:
        return ""
    differ, agree = sum(compared), len(compared) - sum(compared)
    if len(compared) == 1:
        verb = "differs from" if differ else "agrees with"
        return f"One number of ours {verb} the paper's number or bound."
    return (
        f"We compare {len(compared)} numbers with a paper's number or bound: {agree} agree"
        f"{'s' if agree == 1 else ''}, {differ} differ{'s' if differ == 1 else ''}."
    )


def _remaining(remaining: Sequence[RemainingRuns]) -> str:
    if not remaining:
        return ""
    known = [each for each in remaining if each.row.cost is not None]
    unknown = len(remaining) - len(known)
    text = (
        f"{pluralise(sum(each.runs for each in known), 'training')} of "
        f"{pluralise(len(known), 'row')} remain: about "
        f"{duration(sum(each.seconds for each in known))} on two cores, or "
        f"{duration(sum(each.gpu_seconds for each in known))} on one GPU"
    )
    if unknown:
        text += f". Another {pluralise(unknown, 'row')} could not be estimated without their data"
    return f"{text}. `eigenrnn reproduce --all --plan` lists the remaining runs in order."


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _no_hours_left(rows: Sequence[RowStatus]) -> str:
    """Say why a recipe needs no time of its own; empty if all its runs are done."""
    remaining = [row for row in rows if row.remaining]
    if any(isinstance(row.row, Row) for row in remaining):
        return _SHARED
    return "no training" if remaining else ""


def _hours(seconds: float) -> str:
    return two_digits(seconds / _HOUR) if seconds >= _HOUR / 10 else "< 0.1"


def _hours_left(remaining: Sequence[RemainingRuns]) -> str:
    known = [each.seconds for each in remaining if each.row.cost is not None]
    if not known:
        return "not estimated" if remaining else ""
    return f"{'over ' if len(known) < len(remaining) else ''}{_hours(sum(known))}"


_NO_REMARK = "No remark yet."


def section_with_runs(
    rows: Sequence[RowStatus], machines: MachineNames, row_remarks: Mapping[str, str]
) -> list[str]:
    """Write the section of a recipe that has runs."""
    with_runs = [row for row in rows if row.runs]
    recipe, outcomes = with_runs[0].recipe, [row.outcome for row in with_runs]
    lines = _heading(with_runs)
    for quantity in dict.fromkeys(describe_quantity(row.row) for row in with_runs):
        same = [row for row in with_runs if describe_quantity(row.row) == quantity]
        lines += ["", f"Compared: {quantity}.", "", *markdown_table(_comparison(same, machines))]
    lines += _paragraphs(outcomes, row_remarks)
    notes = [f"{o.label}: {o.note}." for o in outcomes if o.note]
    labels = [outcome.label for outcome in outcomes]
    lists = {**remarks(recipe, outcomes), **({"Notes": notes} if notes else {})}
    for title, items in lists.items():
        heading = "Departures from the paper" if title == "Departures" else title
        lines += ["", f"{heading}:", "", *(f"- {item}" for item in merge_remarks(items, labels))]
    others = [row for row in rows if not row.runs]
    return [*lines, "", "Not run:", "", *markdown_table(_estimates(others))] if others else lines


def section_without_runs(rows: Sequence[RowStatus]) -> list[str]:
    """Write the section of a recipe without a run."""
    quantities = "; ".join(dict.fromkeys(describe_quantity(row.row) for row in rows))
    return [*_heading(rows), "", f"Compared: {quantities}.", "", *markdown_table(_estimates(rows))]


def _heading(rows: Sequence[RowStatus]) -> list[str]:
    recipe = rows[0].recipe
    return ["", f"### {recipe.name}", "", recipe.summary, "", f"Source: {recipe.source}."]


def _comparison(rows: Sequence[RowStatus], machines: MachineNames) -> dict[str, list[str]]:
    """Return the columns that compare our numbers with the paper's."""
    outcomes = [row.outcome for row in rows]
    known, blank = columns(outcomes), [""] * len(rows)
    ours = known.get("ours", blank)
    return {
        "network": known["network"],
        "parameters": _parameters(rows),
        "paper": [f"{p} ({o.place})" for p, o in zip(known["paper"], outcomes, strict=True)],
        "ours": [_ours(row, cell) for row, cell in zip(rows, ours, strict=True)],
        "difference": known.get("difference", blank),
        "selected on validation": known.get("ours, selected on validation", blank),
        "updates": [_updates(row.runs) for row in rows],
        "time per run": [_time(row) for row in rows],
        "processor time": [_processor_time(row) for row in rows],
        "machine": [machines.of_runs(row.runs) for row in rows],
    }


def _estimates(rows: Sequence[RowStatus]) -> dict[str, list[str]]:
    """Return the columns of rows without runs: the paper's number and the estimated time."""
    known = columns([row.outcome for row in rows])
    paper = zip(known["paper"], rows, strict=True)
    return {
        "network": known["network"],
        "parameters": _parameters(rows),
        "paper": [f"{cell} ({row.outcome.place})" for cell, row in paper],
        "two cores": [_estimate(row) for row in rows],
        "one GPU": [_gpu_estimate(row) for row in rows],
    }


def _parameters(rows: Sequence[RowStatus]) -> list[str]:
    """Return the numbers of trained parameters, from the runs or else from the row."""
    stated = [row.row.parameters if isinstance(row.row, Row) else None for row in rows]
    known = [row.outcome.parameters or count for row, count in zip(rows, stated, strict=True)]
    return ["" if count is None else f"{count:,}" for count in known]


def _paragraphs(outcomes: Sequence[Outcome], row_remarks: Mapping[str, str]) -> list[str]:
    """Write the remarks on numbers that differ from the paper's, each paragraph once."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        text, difference = row_remarks.get(outcome.label, ""), _difference(outcome)
        if text or difference:
            groups.setdefault((difference, text or _NO_REMARK), []).append(outcome)
    lines: list[str] = []
    for (difference, text), group in groups.items():
        labels = ", ".join(f"**{outcome.label}**" for outcome in group)
        lines += ["", f"{labels}: {f'{difference}. ' if difference else ''}{text}"]
    return lines


def _difference(outcome: Outcome) -> str:
    """Describe how a number differs from the paper's; empty if it agrees."""
    if not disagrees(outcome):
        return ""
    if outcome.at_most is not None:
        return "above the bound of the paper's curve"
    return f"more than {margin(outcome):.3g} from the paper's number"


def _ours(row: RowStatus, cell: str) -> str:
    """Write our number, in bold if it differs from the paper's, or why there is none."""
    parts: list[str] = []
    if row.outcome.values:
        parts.append((f"**{cell}**" if disagrees(row.outcome) else cell) + _run_count(row))
    elif not row.unfinished_runs:
        parts.append("no valid run")
    parts += [_so_far(run) for run in row.unfinished_runs]
    unfinished, not_run = len(row.unfinished_runs), row.remaining - len(row.unfinished_runs)
    if not_run > 0:
        text = f"{not_run} not run"
        parts.append(f"{unfinished} unfinished, {text}" if unfinished else text)
    return "; ".join(parts)


def _run_count(row: RowStatus) -> str:
    """Count the runs in the mean, and those above the paper's bound."""
    if isinstance(row.row, Computed):
        return ""
    values, bound = row.outcome.counted_values, row.outcome.at_most
    above = 0 if bound is None else sum(not value <= bound for value in values)
    return f" ({len(values)}, {above} above)" if above else f" ({len(values)})"


def _so_far(run: ArchivedRun) -> str:
    return "no number yet" if run.value is None else f"{run.value:#.4g} so far"


def _updates(runs: Sequence[ArchivedRun]) -> str:
    """Write the number of updates of finished runs, and the progress of unfinished ones."""
    steps = {run.steps for run in runs if run.state in ("ended", "diverged")} - {0}
    parts = [" to ".join(f"{n:,}" for n in sorted({min(steps), max(steps)}))] if steps else []
    parts += [_progress(run) for run in runs if run.state == "unfinished"]
    return "; ".join(parts)


def _progress(run: ArchivedRun) -> str:
    if not run.all_steps:
        return f"{run.steps:,}"
    steps = f"{run.steps:,} of {run.all_steps:,}"
    epochs = run.settings.get("epochs")
    if epochs is None:
        return steps
    return f"{steps}, {two_digits(run.steps / run.all_steps * epochs)} of {epochs} epochs"


def _time(row: RowStatus) -> str:
    """Write the mean time of a run, and its estimate while runs remain."""
    ended = [run.seconds for run in row.runs if run.state != "unfinished" and run.seconds > 0]
    parts = [duration(statistics.fmean(ended))] if ended else []
    parts += [f"{duration(run.seconds)} so far" for run in row.unfinished_runs]
    if row.remaining and row.cost is not None:
        parts.append(f"estimated {duration(row.cost.two_cores)}")
    return "; ".join(parts)


def _processor_time(row: RowStatus) -> str:
    """Write the mean processor time of a run, over all its threads, if it was recorded."""
    known = [run.processor_seconds for run in row.runs if run.state != "unfinished"]
    seconds = [each for each in known if each is not None]
    return duration(statistics.fmean(seconds)) if seconds else ""


def _estimate(row: RowStatus) -> str:
    """Write the estimated time of the runs of a row, or why it has none."""
    if not row.can_run:
        return "layer not implemented" if isinstance(row.row, Row) else "quoted"
    if not isinstance(row.row, Row):
        return "no training"
    if row.cost is None:
        return "not estimated: its data was not available"
    runs = "" if row.requested == 1 else f"{row.requested} runs of "
    return f"{runs}{duration(row.cost.two_cores)}"


def _gpu_estimate(row: RowStatus) -> str:
    if row.cost is None or not (row.can_run and isinstance(row.row, Row)):
        return ""
    return duration(row.cost.one_gpu)
