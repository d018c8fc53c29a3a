"""The sections of the page: what is run of a recipe, and what is not."""

import statistics
from collections.abc import Mapping, Sequence

from eigenrnn.experiments.recipes import Computed, Outcome, Row
from eigenrnn.experiments.recipes.results_files import columns, remarks
from eigenrnn.experiments.results.archive import Archived
from eigenrnn.experiments.results.layout import table
from eigenrnn.experiments.results.machines import Machines
from eigenrnn.experiments.results.made import Made
from eigenrnn.experiments.results.outcomes import margin, misses
from eigenrnn.experiments.results.words import compared, duration, grouped, two_figures

__all__ = ["of_not_made", "of_runs"]

_NO_REMARK = "No remark yet."


def of_runs(rows: Sequence[Made], machines: Machines, said: Mapping[str, str]) -> list[str]:
    """Write the section of a recipe that has runs."""
    made = [row for row in rows if row.runs]
    recipe, outcomes = made[0].recipe, [row.outcome for row in made]
    lines = _heading(made)
    for what in dict.fromkeys(compared(row.row) for row in made):
        same = [row for row in made if compared(row.row) == what]
        lines += ["", f"Compared: {what}.", "", *table(_beside(same, machines))]
    lines += _paragraphs(outcomes, said)
    notes = [f"{o.label}: {o.note}." for o in outcomes if o.note]
    labels = [outcome.label for outcome in outcomes]
    listed = {**remarks(recipe, outcomes), **({"Notes": notes} if notes else {})}
    for title, items in listed.items():
        heading = "What differs" if title == "Departures" else title
        lines += ["", f"{heading}:", "", *(f"- {item}" for item in grouped(items, labels))]
    others = [row for row in rows if not row.runs]
    return [*lines, "", "Not made:", "", *table(_estimates(others))] if others else lines


def of_not_made(rows: Sequence[Made]) -> list[str]:
    """Write the section of a recipe without a run."""
    what = "; ".join(dict.fromkeys(compared(row.row) for row in rows))
    return [*_heading(rows), "", f"Compared: {what}.", "", *table(_estimates(rows))]


def _heading(rows: Sequence[Made]) -> list[str]:
    recipe = rows[0].recipe
    return ["", f"### {recipe.name}", "", recipe.summary, "", f"Source: {recipe.source}."]


def _beside(rows: Sequence[Made], machines: Machines) -> dict[str, list[str]]:
    """Set our numbers beside the paper's."""
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
        "time a run": [_time(row) for row in rows],
        "processor time": [_processor_time(row) for row in rows],
        "machine": [machines.of(row.runs) for row in rows],
    }


def _estimates(rows: Sequence[Made]) -> dict[str, list[str]]:
    """List what is not made with what it would take."""
    known = columns([row.outcome for row in rows])
    printed = zip(known["paper"], rows, strict=True)
    return {
        "network": known["network"],
        "parameters": _parameters(rows),
        "paper": [f"{cell} ({row.outcome.place})" for cell, row in printed],
        "two cores": [_estimate(row) for row in rows],
        "one GPU": [_gpu_estimate(row) for row in rows],
    }


def _parameters(rows: Sequence[Made]) -> list[str]:
    """Write the numbers that were trained, or else that the row states."""
    stated = [row.row.parameters if isinstance(row.row, Row) else None for row in rows]
    known = [row.outcome.parameters or count for row, count in zip(rows, stated, strict=True)]
    return ["" if count is None else f"{count:,}" for count in known]


def _paragraphs(outcomes: Sequence[Outcome], said: Mapping[str, str]) -> list[str]:
    """Write what is known of the numbers that are not the paper's, each paragraph once."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        text, kind = said.get(outcome.label, ""), _kind(outcome)
        if text or kind:
            groups.setdefault((kind, text or _NO_REMARK), []).append(outcome)
    lines: list[str] = []
    for (kind, text), about in groups.items():
        labels = ", ".join(f"**{outcome.label}**" for outcome in about)
        off = f"{kind}. " if kind else ""
        lines += ["", f"{labels}: {off}{text}"]
    return lines


def _kind(outcome: Outcome) -> str:
    """Say in which way a number is not the paper's; nothing if it is."""
    if not misses(outcome):
        return ""
    if outcome.at_most is not None:
        return "above what the paper's curve stays below"
    return f"off the paper's number by more than {margin(outcome):.3g}"


def _ours(row: Made, cell: str) -> str:
    """Write our number, or why there is none; in bold where it differs from the paper's."""
    parts: list[str] = []
    if row.outcome.values:
        parts.append((f"**{cell}**" if misses(row.outcome) else cell) + _of_how_many(row))
    elif not row.begun:
        parts.append("no run counts")
    parts += [_so_far(run) for run in row.begun]
    begun, left = len(row.begun), row.left - len(row.begun)
    if left > 0:
        parts.append(f"{begun} begun, {left} not made" if begun else f"{left} not made")
    return "; ".join(parts)


def _of_how_many(row: Made) -> str:
    """Count the runs of a mean, and those above the paper's bound."""
    if isinstance(row.row, Computed):
        return ""
    values, bound = row.outcome.counted_values, row.outcome.at_most
    above = 0 if bound is None else sum(not value <= bound for value in values)
    return f" ({len(values)}, {above} above)" if above else f" ({len(values)})"


def _so_far(run: Archived) -> str:
    return "no number so far" if run.value is None else f"{run.value:#.4g} so far"


def _updates(runs: Sequence[Archived]) -> str:
    """Write how many updates the runs took, and how far those are that have not ended.

    Of these the epochs as well, where the run is so many.
    """
    steps = {run.steps for run in runs if run.state in ("ended", "diverged")} - {0}
    parts = [" to ".join(f"{n:,}" for n in sorted({min(steps), max(steps)}))] if steps else []
    parts += [_so_many(run) for run in runs if run.state == "unfinished"]
    return "; ".join(parts)


def _so_many(run: Archived) -> str:
    if not run.all_steps:
        return f"{run.steps:,}"
    told = f"{run.steps:,} of {run.all_steps:,}"
    epochs = run.settings.get("epochs")
    if epochs is None:
        return told
    return f"{told}, {two_figures(run.steps / run.all_steps * epochs)} of {epochs} epochs"


def _time(row: Made) -> str:
    """Write what a run took, and what is estimated as long as one is left."""
    ended = [run.seconds for run in row.runs if run.state != "unfinished" and run.seconds > 0]
    parts = [duration(statistics.fmean(ended))] if ended else []
    parts += [f"{duration(run.seconds)} so far" for run in row.begun]
    if row.left and row.cost is not None:
        parts.append(f"estimated {duration(row.cost.two_cores)}")
    return "; ".join(parts)


def _processor_time(row: Made) -> str:
    """Write what all threads of a run computed, where it was recorded."""
    known = [run.processor_seconds for run in row.runs if run.state != "unfinished"]
    seconds = [each for each in known if each is not None]
    return duration(statistics.fmean(seconds)) if seconds else ""


def _estimate(row: Made) -> str:
    """Write what the runs of a row would take, or why there will be none."""
    if not row.can_run:
        return "no such layer" if isinstance(row.row, Row) else "quoted"
    if not isinstance(row.row, Row):
        return "no training"
    if row.cost is None:
        return "not estimated: its data was not at hand"
    runs = "" if row.wanted == 1 else f"{row.wanted} runs of "
    return f"{runs}{duration(row.cost.two_cores)}"


def _gpu_estimate(row: Made) -> str:
    if row.cost is None or not (row.can_run and isinstance(row.row, Row)):
        return ""
    return duration(row.cost.one_gpu)
