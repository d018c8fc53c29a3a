"""RESULTS.md: the papers' numbers beside those of the archived runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from eigenrnn.recipes import Computed, Entry, Outcome, Recipe, Row
from eigenrnn.recipes.table import columns, remarks
from eigenrnn.results.archive import Archive, Archived
from eigenrnn.results.machines import Machines
from eigenrnn.results.outcomes import by_row, margin, misses, outcome_of
from eigenrnn.results.written import Remarks, read_estimates, read_remarks

__all__ = ["to_markdown"]

Estimates = Mapping[str, Mapping[str, int]]

_INTRODUCTION = """\
# Results

The numbers of the papers beside those of our own runs. `eigenrnn results write` makes this page
from the files under `results/`, one a run, each with its settings, versions, machine and curves.
Nothing stands here that was not measured.

*Ours* is the mean over the runs that count, with its standard error and their number; *selected on
validation* is the test number of the models that a validation set selects, whatever the paper's
own rule. Losses and metrics are in the units of the task.

A number differs from the paper's where it is further off than the error that the paper prints or,
where it prints none, than half a unit of its last digit (0.0005 of a curve at zero) or twice our
standard error; there a paragraph says what is known of it.

What is *not made* stands with an estimate of its cost on two cores, good to a factor of two. On a
GPU nothing was measured, so its cost there is not estimated.
"""
_HEAD = (
    *("network", "parameters", "paper", "ours", "difference", "selected on validation"),
    *("updates", "seconds a run", "machine"),
)
_TEXT = {"network", "machine"}


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
    of_rows = by_row(recipes, runs)
    costs, said = read_estimates(archive.folder), read_remarks(archive.folder, recipes)
    machines = Machines(runs)
    lines = [_INTRODUCTION, *_summary(recipes, of_rows, runs), "", *machines.lines()]
    for recipe in recipes.values():
        of_recipe = {row.label: of_rows.get((recipe.name, row.label), []) for row in recipe.rows}
        lines += _recipe(recipe, of_recipe, costs.get(recipe.name, {}), machines, said)
    return "\n".join(lines) + "\n"


def _summary(
    recipes: Mapping[str, Recipe],
    of_rows: Mapping[tuple[str, str], Sequence[Archived]],
    runs: Sequence[Archived],
) -> list[str]:
    """Count what is run, and which numbers are the papers'."""
    rows = [(r, row) for r in recipes.values() for row in r.rows if _can_run(row)]
    left = [_left(r, row, of_rows.get((r.name, row.label), ())) for r, row in rows]
    begun = [(r, row) for r, row in rows if (r.name, row.label) in of_rows]
    outcomes = [outcome_of(row, of_rows[r.name, row.label]) for r, row in begun]
    compared = [o for o in outcomes if o.difference is not None]
    own = [run for run in runs if run.trained_for is None]
    trained = sum(run.state != "computed" for run in own)
    hours = sum(run.seconds for run in own) / 3600
    return [
        f"**{left.count(0)} of {len(rows)} rows** of {len(recipes)} tables and figures are run in "
        f"full, {len(begun) - left.count(0)} more in part. {trained} trainings took {hours:.1f} "
        f"hours of machine time; {len(runs) - len(own)} times a run counts for another table or "
        "figure that shows the same one.",
        "",
        f"Of {len(compared)} numbers that papers print and that we have, "
        f"{sum(map(misses, compared))} differ.",
    ]


def _recipe(
    recipe: Recipe,
    runs: Mapping[str, Sequence[Archived]],
    costs: Mapping[str, int],
    machines: Machines,
    said: Remarks,
) -> list[str]:
    """Write the section of a recipe."""
    outcomes = [outcome_of(row, runs[row.label]) for row in recipe.rows]
    lines = ["", f"## {recipe.name}", "", recipe.summary, "", f"Source: {recipe.source}.", ""]
    quantities = {outcome.quantity for outcome in outcomes}
    if len(quantities) == 1:
        lines += [f"Compared: {quantities.pop()}.", ""]
        named = [outcome.label for outcome in outcomes]
    else:
        named = [f"{outcome.label} ({outcome.quantity})" for outcome in outcomes]
    known = columns(outcomes)
    blank = [""] * len(outcomes)
    cells = {
        "network": named,
        "parameters": [_parameters(o, row) for o, row in zip(outcomes, recipe.rows, strict=True)],
        "paper": [f"{p} ({o.place})" for p, o in zip(known["paper"], outcomes, strict=True)],
        "ours": [
            _ours(recipe, row, outcome, runs[row.label], cell)
            for row, outcome, cell in zip(
                recipe.rows, outcomes, known.get("ours", blank), strict=True
            )
        ],
        "difference": known.get("difference", blank),
        "selected on validation": known.get("ours, selected on validation", blank),
        "updates": [_updates(runs[row.label]) for row in recipe.rows],
        "seconds a run": [
            known.get("seconds a run", blank)[i] or _estimate(recipe, row, costs)
            for i, row in enumerate(recipe.rows)
        ],
        "machine": [machines.of(runs[row.label]) for row in recipe.rows],
    }
    lines += [_line(_HEAD), _line(["---" if name in _TEXT else "---:" for name in _HEAD])]
    lines += [_line(row) for row in zip(*(cells[name] for name in _HEAD), strict=True)]
    lines += _paragraphs(outcomes, said.get(recipe.name, {}))
    notes = [f"{o.label}: {o.note}." for o in outcomes if o.note]
    for title, items in {
        **remarks(recipe, outcomes),
        **({"Notes": notes} if notes else {}),
    }.items():
        heading = "What differs" if title == "Departures" else title
        lines += ["", f"{heading}:", "", *(f"- {item}" for item in _grouped(items))]
    return lines


def _paragraphs(outcomes: Sequence[Outcome], said: Mapping[str, str]) -> list[str]:
    """Write what is known of the numbers that are not the paper's."""
    lines: list[str] = []
    for outcome in outcomes:
        text = said.get(outcome.label)
        if misses(outcome):
            about = f"differs from the paper's number by more than {margin(outcome):.3g}"
            lines += ["", f"**{outcome.label}** {about}. {text or 'No remark yet.'}"]
        elif text:
            lines += ["", f"**{outcome.label}**: {text}"]
    return lines


def _grouped(items: Sequence[str]) -> list[str]:
    """Say what is said of several rows once."""
    about: dict[str, list[str]] = {}
    for item in items:
        label, colon, text = item.partition(": ")
        about.setdefault(text if colon else item, []).extend([label] if colon else [])
    return [f"{', '.join(labels)}: {text}" if labels else text for text, labels in about.items()]


def _can_run(row: Entry) -> bool:
    return isinstance(row, Computed) or (isinstance(row, Row) and row.layer is not None)


def _wanted(recipe: Recipe, row: Entry) -> int:
    """Count the runs that a row asks for."""
    if not isinstance(row, Row):
        return int(_can_run(row))
    return len(row.points()) * len(row.seeds or recipe.seeds) if row.layer else 0


def _left(recipe: Recipe, row: Entry, runs: Sequence[Archived]) -> int:
    """Count the runs of a row that are not made; those of other seeds count as well."""
    ended = sum(run.state != "unfinished" for run in runs)
    return max(0, _wanted(recipe, row) - ended)


def _ours(
    recipe: Recipe, row: Entry, outcome: Outcome, runs: Sequence[Archived], cell: str
) -> str:
    """Write our number, or why there is none."""
    if not _can_run(row):
        return "quoted" if not isinstance(row, Row) else "no such layer"
    if not runs:
        return "not made"
    left, counted = _left(recipe, row, runs), len(outcome.counted)
    ours = [f"{cell} ({counted})" if isinstance(row, Row) and counted else cell]
    if not outcome.values:
        ours = ["no run counts" if not _unfinished(runs) else ""]
    ours += [_so_far(run) for run in _unfinished(runs)]
    if left:
        ours.append(f"{left} of {_wanted(recipe, row)} not made")
    return "; ".join(text for text in ours if text)


def _unfinished(runs: Sequence[Archived]) -> list[Archived]:
    return [run for run in runs if run.state == "unfinished"]


def _so_far(run: Archived) -> str:
    value = "no number" if run.value is None else f"{run.value:#.4g}"
    of = "" if run.all_steps is None else f" of {run.all_steps:,}"
    return f"{value} after {run.steps:,}{of} updates"


def _parameters(outcome: Outcome, row: Entry) -> str:
    known = outcome.parameters
    if known is None and isinstance(row, Row):
        known = row.parameters
    return "" if known is None else f"{known:,}"


def _updates(runs: Sequence[Archived]) -> str:
    steps = sorted({run.steps for run in runs if run.state in ("ended", "diverged")})
    if not steps or steps == [0]:
        return ""
    return f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"


def _estimate(recipe: Recipe, row: Entry, costs: Mapping[str, int]) -> str:
    """Write what the runs of a row would take."""
    if not isinstance(row, Row) or row.layer is None:
        return ""
    seconds, count = costs.get(row.label), _wanted(recipe, row)
    if seconds is None:
        return "not estimated: its data is not here"
    return f"{'' if count == 1 else f'{count} times '}about {seconds:,}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
