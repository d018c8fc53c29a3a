"""The results of a recipe: its runs as outcomes, and the pages written from them."""

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eigenrnn_experiments.atomic import write_atomically
from eigenrnn_experiments.recipes.outcome import Outcome, not_run
from eigenrnn_experiments.recipes.recipe import Computed, Panel, Recipe
from eigenrnn_experiments.recipes.runs import runs_in
from eigenrnn_experiments.report.tables import Table, comparison
from eigenrnn_experiments.training import records
from eigenrnn_experiments.training.files import write_json
from eigenrnn_experiments.training.fingerprint import revision, versions
from eigenrnn_experiments.training.records import ComputedNumber
from eigenrnn_experiments.training.run_folder import RunFolder
from eigenrnn_experiments.training.run_key import Length, RunKey, run_path

__all__ = [
    "Note",
    "columns",
    "computed_path",
    "note_text",
    "notes",
    "notice_of",
    "read_computed",
    "read_outcomes",
    "recipe_of_folder",
    "to_markdown",
    "write_computed",
    "write_results",
]

_LEFT_OUT = ("where", "runs", "diverged")  # columns of the report

Note = tuple[str, str]
"""The label of a row, or an empty string for all rows, and a text."""


def write_results(
    folder: Path,
    recipe: Recipe,
    outcomes: Mapping[str, Sequence[Outcome]],
    *,
    quick: bool,
    drawn: Sequence[Panel] | None = None,
) -> list[Outcome]:
    """Write `results.json` and `results.md`; return the outcomes in the recipe's order."""
    in_order: list[Outcome] = []
    for row in recipe.rows:
        in_order += outcomes.get(row.label, ())
    listed = notes(recipe, in_order)
    content: dict[str, Any] = {
        "recipe": recipe.name,
        "source": recipe.source,
        "quick": quick,
        "versions": versions(),
        "rows": [outcome.to_json() for outcome in in_order],
        "notes": {title: list(map(note_text, items)) for title, items in listed.items()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "results.json", content)
    page = to_markdown(recipe, in_order, quick=quick, drawn=drawn)
    write_atomically(folder / "results.md", page.encode())
    return in_order


def write_computed(folder: Path, recipe: Recipe, row: Computed, *, quick: bool) -> list[Outcome]:
    """Compute a number without training, store it in its own folder, and return its outcomes."""
    began = time.monotonic()
    value = row.compute()
    seconds = time.monotonic() - began
    record = ComputedNumber(
        recipe=recipe.name,
        row=row.label,
        quick=quick,
        value=value,
        seconds=seconds,
        revision=revision(),
        versions=versions(),
    )
    file = folder / computed_path(row.label)
    file.parent.mkdir(parents=True, exist_ok=True)
    records.write(file, record)
    return [outcome.with_value(value, seconds) for outcome in not_run(row)]


def read_computed(folder: Path, label: str) -> ComputedNumber | None:
    """Read what `write_computed` has written; None if the number has not been computed.

    Raises:
        ValueError: If the file is damaged.
    """
    file = folder / computed_path(label)
    if not file.exists():
        return None
    return records.read(file, ComputedNumber)


def computed_path(label: str) -> Path:
    """Return the file of a number without training, relative to the folder of its recipe."""
    return run_path(label, "", 0).with_name("computed.json")


def recipe_of_folder(folder: Path) -> tuple[str, bool, Length | None] | None:
    """Return the name of the recipe that was run in a folder, and the kind of its runs.

    Returns:
        The name, whether the runs are quick, and the length of reduced runs; None if
        the folder is not that of a recipe.
    Raises:
        ValueError: If the first file found is damaged.
    """
    patterns = ("*/computed.json", "*/seed-*/config.json", "*/*/seed-*/config.json")
    files: list[Path] = []
    for pattern in patterns:
        files += sorted(folder.glob(pattern))
    for file in files:
        if file.name == "computed.json":
            number = records.read(file, ComputedNumber)
            key = RunKey(number.recipe, number.row, "", 0, number.quick)
        else:
            key = RunFolder(file.parent).config.key
        # a folder of folders of recipes has the names of the recipes there
        if key is not None and file.relative_to(folder).parts[0] == key.path.parts[0]:
            return key.kind
    return None


def read_outcomes(folder: Path, recipe: Recipe, *, quick: bool) -> dict[str, list[Outcome]]:
    """Read the outcomes of the rows that have been run in a folder, by label.

    Raises:
        ValueError: If a file of a run is damaged, or of another version.
    """
    found: dict[str, list[Outcome]] = {}
    for row in recipe.rows:
        outcomes = not_run(row)
        if isinstance(row, Computed):
            computed = read_computed(folder, row.label)
            if computed is not None:
                value, seconds = computed.value, computed.seconds
                outcomes = [outcome.with_value(value, seconds) for outcome in outcomes]
        for run in runs_in(folder, recipe, row, quick=quick):
            outcomes = run.add_to(outcomes)
        if outcomes != not_run(row):
            found[row.label] = outcomes
    return found


def to_markdown(
    recipe: Recipe,
    outcomes: Sequence[Outcome],
    *,
    quick: bool = False,
    drawn: Sequence[Panel] | None = None,
) -> str:
    """Write a Markdown page: the table, the pictures if `drawn` is given, and the notes."""
    lines = [f"# {recipe.name}", "", recipe.summary, "", f"Source: {recipe.source}.", ""]
    if notice := notice_of(recipe, quick=quick):
        lines += [f"**{notice}**", ""]
    table = columns(outcomes)
    rules: list[str] = []
    for name in table:
        if name in ("network", "quantity"):
            rules.append("---")
        else:  # numbers stand at the right
            rules.append("---:")
    lines += [_markdown_row(list(table)), _markdown_row(rules, "")]
    lines += [_markdown_row(list(cells)) for cells in zip(*table.values(), strict=True)]
    if drawn is not None:
        lines += _pictures(recipe, drawn)
    for title, items in notes(recipe, outcomes).items():
        lines += ["", f"## {title}", ""]
        lines += [f"- {note_text(item)}" for item in items]
    return "\n".join(lines) + "\n"


def notice_of(recipe: Recipe, *, quick: bool) -> str:
    """Return why the numbers are not comparable with the paper's; empty for full runs."""
    if quick:
        return (
            "A quick run: it shows that the recipe works; its numbers are not comparable with the "
            "paper's."
        )
    if recipe.reduced_to is None:
        return ""
    return f"Reduced runs of {recipe.reduced_to}: the paper trains for longer."


def _pictures(recipe: Recipe, drawn: Sequence[Panel]) -> list[str]:
    """Embed the pictures that were drawn, and name the others."""
    lines: list[str] = []
    for panel in recipe.panels:
        if panel in drawn:
            lines += ["", f"![{panel.caption}]({panel.name}.png)", "", f"{panel.caption}."]
        else:
            lines += ["", f"{panel.name}, not drawn because a run is missing: {panel.caption}."]
    return lines


def columns(outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return the cells of each column by its heading, without empty columns."""
    table = Table.of([comparison(outcome.to_json()) for outcome in outcomes])
    columns: dict[str, list[str]] = {}
    for number, heading in enumerate(table.headings):
        if heading not in _LEFT_OUT:
            columns[heading] = [row[number] for row in table.rows]
    return columns


def notes(recipe: Recipe, outcomes: Sequence[Outcome]) -> dict[str, list[Note]]:
    """Collect notes, scores, diverged runs, best points and departures, by heading."""
    departures_of = {row.label: row.departures for row in recipe.rows}
    noted: list[Note] = []
    unjudged: list[Note] = []
    scores: list[Note] = []
    diverged: list[Note] = []
    best_points: list[Note] = []
    departures: list[Note] = [("", text) for text in recipe.departures]
    for outcome in outcomes:
        label = outcome.label
        if outcome.note:
            noted.append((f"{label}, {outcome.place}", outcome.note))
        if outcome.unjudged:
            unjudged.append((label, outcome.unjudged))
        if outcome.scores:
            scores.append((label, _mean_scores(outcome)))
        if outcome.failed:
            failed = len(outcome.failed)
            # a run that diverged counts no seconds
            runs = failed + sum(seconds > 0 for seconds in outcome.seconds)
            diverged.append((label, f"{failed} of {runs} runs ({', '.join(outcome.failed)})"))
        if outcome.best_point is not None:
            points = len(set(outcome.points))
            best_points.append((label, f"{outcome.best_point}, of {points} points"))
        departures += [(label, text) for text in departures_of[label]]
    sections = {
        "Not comparable": unjudged,
        "Notes": noted,
        "Scores of the best models": scores,
        "Diverged": diverged,
        "Best points": best_points,
        "Departures": departures,
    }
    # the numbers of one row share what is noted of the row
    return {title: list(dict.fromkeys(items)) for title, items in sections.items() if items}


def note_text(note: Note) -> str:
    """Write a note as a sentence."""
    label, text = note
    if not label:
        return f"{text}."
    return f"{label}: {text}."


def _mean_scores(outcome: Outcome) -> str:
    """Format the mean of each score over the runs."""
    texts: list[str] = []
    for name in outcome.scores[0]:
        mean = statistics.fmean(scores[name] for scores in outcome.scores)
        texts.append(f"{name} {mean:.4g}")
    return ", ".join(texts)


def _markdown_row(cells: Sequence[str], space: str = " ") -> str:
    return f"|{space}{f'{space}|{space}'.join(cells)}{space}|"
