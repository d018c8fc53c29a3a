"""RESULTS.md: the numbers of the papers beside those of the archived runs."""

import re
import statistics
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from eigenrnn.experiments.recipes import Computed, Entry, Outcome, Recipe, Row
from eigenrnn.experiments.recipes.results_files import columns, notes
from eigenrnn.experiments.results.agreement import Agreement, agreement, margin
from eigenrnn.experiments.results.archive import (
    Archive,
    ArchivedRun,
    current_runs,
    outcome_of,
    runs_by_row,
)
from eigenrnn.experiments.results.plan import PlannedRow, remaining_rows

__all__ = ["describe_quantity", "duration", "merge_notes", "read_remarks", "to_markdown"]

_INTRODUCTION = """\
# Results

The numbers of the papers beside those of our own runs. `eigenrnn results write` generates this
page from the files under `results/`: one file per run, with its network, settings, versions,
machine and curves. Every number of ours was measured.
"""
_READING = """\
## How to read it

*Ours* is the mean over the runs that follow the paper's rule, with its standard error and the
number of runs. *Selected on validation* is the test number of the models selected on the
validation set, whatever the paper's own rule. Losses and metrics are in the units of the task.

A number in bold differs from the paper's by more than the margin. The margin is the largest of:
the error printed in the paper, half a unit of the last printed digit (0.0005 for a curve at zero),
the accuracy of reading a figure, and twice our standard error. Some papers only show that a curve
stays below a bound: their column reads *at most*, and ours counts the runs above the bound. Such a
number differs if our mean exceeds the bound by more than the margin, or if most runs exceed it by
more than half a unit of its last digit. A paragraph explains each number that differs.

Two kinds of numbers neither agree nor differ. A loss is *at the chance level* in both if ours is
within 5 % of the chance-level loss or above it, and the paper's within 10 %. A number *cannot be
judged* if double precision does not determine it.

The time of a run is wall-clock time. The runs shared their machines with other work, so an idle
machine is faster. *Processor time*, where it was recorded, is the total time of all threads of the
run; other work hardly changes it."""
_NOT_RUN = """
## Not run

The numbers that each paper reports, and the number of runs that our recipe makes."""


_CHANGED = """
## Runs of rows that have changed

These runs do not count, because their rows have changed since. Run the rows again."""


@dataclass(frozen=True)
class PageRow:
    """A row of a recipe with its archived runs.

    Args:
        recipe: The recipe of the row.
        row: The row.
        runs: Its archived runs.
    """

    recipe: Recipe
    row: Entry
    runs: Sequence[ArchivedRun]

    @cached_property
    def outcome(self) -> Outcome:
        """The outcome of the runs, with the paper's number."""
        return outcome_of(self.row, self.runs)

    @property
    def agreement(self) -> Agreement | None:
        """Whether our number agrees with the paper's; None if the row has no run of its own."""
        return agreement(self.outcome) if self.has_own_runs else None

    @property
    def can_run(self) -> bool:
        """Whether the row can be run: it is not quoted, and its layer is implemented."""
        return isinstance(self.row, Computed) or (
            isinstance(self.row, Row) and self.row.layer is not None
        )

    @property
    def requested(self) -> int:
        """The number of runs of the full row."""
        if not isinstance(self.row, Row):
            return int(self.can_run)
        seeds = self.row.seeds or self.recipe.seeds
        return len(self.row.points()) * len(seeds) if self.row.layer else 0

    @property
    def has_own_runs(self) -> bool:
        """Whether a run was trained for this row; a shared run is compared at its own row only."""
        return any(run.trained_for is None for run in self.runs)

    @property
    def unfinished_runs(self) -> list[ArchivedRun]:
        """The archived runs that have not ended."""
        return [run for run in self.runs if run.state == "unfinished"]

    @property
    def remaining(self) -> int:
        """The number of runs still to finish; runs with other seeds count as done."""
        return max(0, self.requested - (len(self.runs) - len(self.unfinished_runs)))


def to_markdown(folder: str | Path, recipes: Mapping[str, Recipe]) -> str:
    """Return the page as Markdown.

    Args:
        folder: The folder of the archive.
        recipes: All recipes, by name.
    Raises:
        ValueError: If a file is damaged, has another format, or does not belong to the archive.
    """
    archive = Archive(folder)
    runs, changed = current_runs(recipes, archive.runs())
    by_row, remarks = runs_by_row(recipes, runs), read_remarks(archive.folder, recipes)
    rows = {
        name: [PageRow(recipe, row, by_row.get((name, row.label), ())) for row in recipe.rows]
        for name, recipe in recipes.items()
    }
    remaining = [row for row in remaining_rows(recipes, runs) if row.runs and row.minutes is None]
    with_runs = {name: of for name, of in rows.items() if any(row.runs for row in of)}
    lines = [_INTRODUCTION, *_totals(rows, runs, remaining), *_overview(rows, remaining), ""]
    lines += [_READING, *(["", "## Runs"] if with_runs else [])]
    for name, its in with_runs.items():
        lines += _section_with_runs(its, remarks.get(name, {}))
    without_runs = [its for name, its in rows.items() if name not in with_runs]
    lines += [_NOT_RUN] if without_runs else []
    for its in without_runs:
        lines += _section_without_runs(its)
    lines += (
        [_CHANGED, "", *(f"- {path}: {why}." for path, why in changed.items())] if changed else []
    )
    return "\n".join(lines) + "\n"


_HOUR = 3600
_SHARED = "shared"
_SHARED_NOTE = "*Shared*: all remaining runs also belong to other tables or figures."


def _totals(
    rows: Mapping[str, Sequence[PageRow]],
    runs: Sequence[ArchivedRun],
    remaining: Sequence[PlannedRow],
) -> list[str]:
    """Count the rows that were run, the numbers that agree, and the remaining runs."""
    return [
        line
        for text in (_completed(rows, runs), _agreement(rows), _remaining(remaining))
        for line in (text, "")
        if text
    ]


def _overview(rows: Mapping[str, Sequence[PageRow]], remaining: Sequence[PlannedRow]) -> list[str]:
    """Return a table with one line per recipe."""
    columns: dict[str, list[str]] = {
        name: [] for name in ("recipe", "rows run", "agree", "differ", "hours done", "runs left")
    }
    for name, statuses in rows.items():
        compared = [row.agreement for row in statuses if row.agreement]
        can_run = [row for row in statuses if row.can_run]
        own = [run for row in statuses for run in row.runs if run.trained_for is None]
        left = sum(len(planned.runs) for planned in remaining if planned.recipe.name == name)
        cells = (
            f"[{name}](#{_anchor(name)})",
            f"{sum(not row.remaining for row in can_run)} / {len(can_run)}",
            *(str(compared.count(kind)) if compared else "" for kind in ("agrees", "differs")),
            _hours(sum(run.seconds for run in own)) if own else "",
            f"{left:,}" if left else _nothing_left(statuses),
        )
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    return (
        [*markdown_table(columns), "", _SHARED_NOTE]
        if _SHARED in columns["runs left"]
        else markdown_table(columns)
    )


def _completed(rows: Mapping[str, Sequence[PageRow]], runs: Sequence[ArchivedRun]) -> str:
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


def _agreement(rows: Mapping[str, Sequence[PageRow]]) -> str:
    compared = [row.agreement for its in rows.values() for row in its if row.agreement]
    if not compared:
        return ""
    counts = {
        "agree with the paper's number or bound": compared.count("agrees"),
        "differ from it": compared.count("differs"),
        "are at the chance level in both": compared.count("both at the chance level"),
        "cannot be judged": compared.count("cannot be judged"),
    }
    parts = ", ".join(f"{count} {said}" for said, count in counts.items() if count)
    return f"Of {pluralise(len(compared), 'number')} that we compare, {parts}."


def _remaining(remaining: Sequence[PlannedRow]) -> str:
    if not remaining:
        return ""
    count = pluralise(sum(len(row.runs) for row in remaining), "training")
    return (
        f"{count} of {pluralise(len(remaining), 'row')} remain. `eigenrnn reproduce --all --plan` "
        "lists them in order, with a rough estimate of their time."
    )


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _nothing_left(rows: Sequence[PageRow]) -> str:
    """Say why a recipe needs no run of its own; empty if all its runs are done."""
    remaining = [row for row in rows if row.remaining]
    if any(isinstance(row.row, Row) for row in remaining):
        return _SHARED
    return "no training" if remaining else ""


def _hours(seconds: float) -> str:
    return two_digits(seconds / _HOUR) if seconds >= _HOUR / 10 else "< 0.1"


_NO_REMARK = "No remark yet."


def _section_with_runs(rows: Sequence[PageRow], row_remarks: Mapping[str, str]) -> list[str]:
    """Write the section of a recipe that has runs."""
    with_runs = [row for row in rows if row.runs]
    recipe, outcomes = with_runs[0].recipe, [row.outcome for row in with_runs]
    lines = _heading(with_runs)
    for quantity in dict.fromkeys(describe_quantity(row.row) for row in with_runs):
        same = [row for row in with_runs if describe_quantity(row.row) == quantity]
        lines += ["", f"Compared: {quantity}.", "", *markdown_table(_comparison(same))]
    lines += _paragraphs(outcomes, row_remarks)
    own_notes = [f"{o.label}: {o.note}." for o in outcomes if o.note]
    labels = [outcome.label for outcome in outcomes]
    lists = {**notes(recipe, outcomes), **({"Notes": own_notes} if own_notes else {})}
    for title, items in lists.items():
        heading = "Departures from the paper" if title == "Departures" else title
        lines += ["", f"{heading}:", "", *(f"- {item}" for item in merge_notes(items, labels))]
    others = [row for row in rows if not row.runs]
    return [*lines, "", "Not run:", "", *markdown_table(_not_run(others))] if others else lines


def _section_without_runs(rows: Sequence[PageRow]) -> list[str]:
    """Write the section of a recipe without a run."""
    quantities = "; ".join(dict.fromkeys(describe_quantity(row.row) for row in rows))
    return [*_heading(rows), "", f"Compared: {quantities}.", "", *markdown_table(_not_run(rows))]


def _heading(rows: Sequence[PageRow]) -> list[str]:
    recipe = rows[0].recipe
    return ["", f"### {recipe.name}", "", recipe.summary, "", f"Source: {recipe.source}."]


def _comparison(rows: Sequence[PageRow]) -> dict[str, list[str]]:
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
    }


def _not_run(rows: Sequence[PageRow]) -> dict[str, list[str]]:
    """Return the columns of rows without runs."""
    known = columns([row.outcome for row in rows])
    paper = zip(known["paper"], rows, strict=True)
    return {
        "network": known["network"],
        "parameters": _parameters(rows),
        "paper": [f"{cell} ({row.outcome.place})" for cell, row in paper],
        "runs": [_requested(row) for row in rows],
    }


def _parameters(rows: Sequence[PageRow]) -> list[str]:
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
    if agreement(outcome) != "differs":
        return ""
    is_trained = bool(outcome.seeds)
    seed = ", from one seed" if is_trained and len(outcome.counted_values) == 1 else ""
    if outcome.at_most is not None:
        return f"above the bound of the paper's curve{seed}"
    return f"more than {margin(outcome):.3g} from the paper's number{seed}"


def _ours(row: PageRow, cell: str) -> str:
    """Write our number, in bold if it differs from the paper's, or why there is none."""
    parts: list[str] = []
    if row.outcome.values:
        parts.append(
            (f"**{cell}**" if agreement(row.outcome) == "differs" else cell) + _run_count(row)
        )
    elif not row.unfinished_runs:
        parts.append("no valid run")
    parts += [_so_far(run) for run in row.unfinished_runs]
    unfinished, not_run = len(row.unfinished_runs), row.remaining - len(row.unfinished_runs)
    if not_run > 0:
        text = f"{not_run} not run"
        parts.append(f"{unfinished} unfinished, {text}" if unfinished else text)
    return "; ".join(parts)


def _run_count(row: PageRow) -> str:
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


def _time(row: PageRow) -> str:
    """Write the mean time of a run."""
    ended = [run.seconds for run in row.runs if run.state != "unfinished" and run.seconds > 0]
    parts = [duration(statistics.fmean(ended))] if ended else []
    parts += [f"{duration(run.seconds)} so far" for run in row.unfinished_runs]
    return "; ".join(parts)


def _processor_time(row: PageRow) -> str:
    """Write the mean processor time of a run, over all its threads, if it was recorded."""
    known = [run.processor_seconds for run in row.runs if run.state != "unfinished"]
    seconds = [each for each in known if each is not None]
    return duration(statistics.fmean(seconds)) if seconds else ""


def _requested(row: PageRow) -> str:
    """Write the number of runs of a row, or why it has none."""
    if not row.can_run:
        return "layer not implemented" if isinstance(row.row, Row) else "quoted"
    return f"{row.requested:,}" if isinstance(row.row, Row) else "no training"


def read_remarks(folder: Path, recipes: Mapping[str, Recipe]) -> dict[str, dict[str, str]]:
    """Read the remarks on rows, by recipe and row.

    Raises:
        ValueError: If the file is not TOML, names an unknown row, or has two remarks on one row.
    """
    path = folder / "remarks.toml"
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    known = {recipe.name: [row.label for row in recipe.rows] for recipe in recipes.values()}
    found: dict[str, dict[str, str]] = {}
    for name, remarks in content.items():
        recipe_remarks = found.setdefault(name, {})
        for label, text in (
            pair for key, remark in remarks.items() for pair in _by_row(key, remark, path)
        ):
            if label not in known.get(name, ()) or label in recipe_remarks:
                raise ValueError(
                    f"expected one remark on a row of a recipe in {path}, got {name}: {label}"
                )
            recipe_remarks[label] = " ".join(text.split())
    return found


def _by_row(key: str, remark: Any, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the labels of the rows of a remark, each with the text.

    Raises:
        ValueError: If the remark is neither a text nor a table of rows and text.
    """
    if isinstance(remark, str):
        yield key, remark
        return
    content = cast("dict[str, Any]", remark) if isinstance(remark, dict) else {}
    rows, text = content.get("rows"), content.get("text")
    if set(content) != {"rows", "text"} or not isinstance(rows, list) or not isinstance(text, str):
        raise ValueError(
            f"expected {key} in {path} to be a text, or rows and text, got {remark!r}"
        )
    for row in cast("list[str]", rows):
        yield row, text


_UNITS = ((86_400, "days", 48 * 3_600), (3_600, "h", 90 * 60), (60, "min", 90))
_QUANTITIES = {
    "bits": "bits per symbol",
    "henrici": "departure from normality",
    "padded_mse": "squared error with padded frames",
}
_SPLITS = {
    "validation": "on the validation set",
    "test": "on the test set",
}
_RULES = {
    "best": "best of the run",
    "last": "at the end of training",
    "validation": "of the model selected on the validation set",
}


def describe_quantity(row: Entry) -> str:
    """Describe the quantity that a row compares, and the rule that picks one number per run."""
    reported = row.reported
    name = _QUANTITIES.get(reported.quantity, reported.quantity.replace("_", " "))
    if not isinstance(row, Row):
        return name
    if reported.quantity == "success":
        bound = f"{reported.success:g} of the chance level"
        return f"share of the runs whose best loss {_SPLITS[reported.split]} is below {bound}"
    if reported.quantity == "epoch_seconds":
        return "seconds per epoch"
    if reported.quantity == "loss_mean":
        return (
            f"training loss, mean over {row.settings.log_every} updates, {_RULES[reported.rule]}"
        )
    if reported.split == "train":
        return f"training {name}, {_RULES[reported.rule]}"
    if reported.file is not None:  # a property of the network, not of a split
        return f"{name}, {_RULES[reported.rule]}"
    return f"{name} {_SPLITS[reported.split]}, {_RULES[reported.rule]}"


def pluralise(number: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def two_digits(number: float) -> str:
    """Round to two significant digits."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def duration(seconds: float) -> str:
    """Write a duration with two significant digits, in a suitable unit."""
    for size, unit, minimum in _UNITS:
        if seconds >= minimum:
            return f"{two_digits(seconds / size)} {unit}"
    return f"{two_digits(seconds)} s"


def merge_notes(items: Iterable[str], all_labels: Collection[str] = ()) -> list[str]:
    """Merge notes of equal text, and drop the labels of a note on all rows.

    An item is a label, a colon and a text.
    """
    labels_by_text: dict[str, list[str]] = {}
    for item in items:
        label, colon, text = item.partition(": ")
        labels_by_text.setdefault(text if colon else item, []).extend([label] if colon else [])
    return [
        text
        if not labels or (len(all_labels) > 1 and set(all_labels) <= set(labels))
        else f"{', '.join(labels)}: {text}"
        for text, labels in labels_by_text.items()
    ]


_TEXT_COLUMNS = {"recipe", "network"}


def markdown_table(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of a table; empty columns are dropped."""
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    return [
        _line(kept),
        _line("---" if name in _TEXT_COLUMNS else "---:" for name in kept),
        *map(_line, zip(*kept.values(), strict=True)),
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
