"""RESULTS.md: what holds of the papers' claims, and the runs that show it."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from eigenrnn.experiments.claims import Claim, Judgement, Runs, Verdict
from eigenrnn.experiments.claims.claim import Paper
from eigenrnn.experiments.claims.claim import value as papers_quantity
from eigenrnn.experiments.recipes import Computed, Entry, Outcome, Recipe, Row
from eigenrnn.experiments.recipes.results_files import columns
from eigenrnn.experiments.results.agreement import Agreement, agreement, margin
from eigenrnn.experiments.results.archive import Archive, current_runs, outcome_of, runs_by_row
from eigenrnn.experiments.results.plan import remaining_rows
from eigenrnn.experiments.results.remarks import Remark, read_remarks
from eigenrnn.experiments.results.verdicts import Verdicts
from eigenrnn.experiments.tasks import StateTracking
from eigenrnn.experiments.training.archived_run import ArchivedRun
from eigenrnn.experiments.training.run_key import Length

__all__ = ["PICTURES", "describe_quantity", "duration", "to_markdown"]

PICTURES = "<!-- pictures -->"
"""The line of the page after which the documentation draws the pictures."""

_INTRODUCTION = """\
# What holds of the five papers

`eigenrnn claims write` generates this page from the runs archived under `results/`. Every number
of ours was measured or computed."""
_CLAIMS = """\
*Ours* is the median over the seeds, in the order of the networks that the claim compares. A claim
*holds* if every comparison of its test is true in at least three quarters of the runs, or of the
pairs of runs. It holds *partly* if some comparisons are. *Reduced* means that a network trained
for less time than in the paper. *Paper's* are its numbers of the same networks at full length,
where it prints them."""
_RULES = """\
### Rules

*Ours* is the mean over the runs that follow the paper's rule, with its standard error and the
number of runs. *Selected on validation* is the test number of the models selected on the
validation set, whatever the paper's own rule. Losses and metrics are in the units of the task.

A number in bold differs from the paper's by more than the margin. The margin is the largest of:
the error printed in the paper, half a unit of the last printed digit (0.0005 for a curve at zero),
the accuracy of reading a figure, and twice our standard error. Some papers only show that a curve
stays below a bound: their column reads *at most*, and ours counts the runs above the bound. Such a
number differs if our mean exceeds the bound by more than the margin, or if most runs exceed it by
more than half a unit of its last digit.

Two kinds of numbers neither agree nor differ. A loss is *at the chance level* in both if ours is
within 5 % of the chance-level loss or above it, and the paper's within 10 %. A number *cannot be
judged* if double precision does not determine it.

*Processor time* is the total time of all threads of a run, where it was recorded. `eigenrnn list
recipes --json` lists how each row departs from its paper."""
_REDUCED = """
## Reduced experiments

These runs train for less time than the paper. They count for the claims only, as *reduced*."""
_NOT_RUN = """
### Runs that were not made

One line per recipe. The runs of the claims come first: `eigenrnn claims run`."""
_CHANGED = """
### Runs of rows that have changed

These runs do not count, because their rows have changed since. Run the rows again."""
_COUNTED: dict[Verdict, tuple[str, str]] = {  # in the singular and the plural
    "holds": ("holds", "hold"),
    "holds reduced": ("holds in a reduced experiment", "hold in reduced experiments"),
    "partly": ("holds partly", "hold partly"),
    "fails": ("fails", "fail"),
    "cannot be judged": ("cannot be judged", "cannot be judged"),
    "not tried": ("is not tried", "are not tried"),
}
_PAPERS: dict[str, Paper] = {
    "scornn": "scoRNN",
    "enrnn": "ENRNN",
    "nnrnn": "nnRNN",
    "nc_gru": "NC-GRU",
    "nonnormal": "non-normal initialisers",
}


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

    @cached_property
    def agreement(self) -> Agreement | None:
        """Whether our number agrees with the paper's; None if one of the two is missing."""
        return agreement(self.outcome)

    @property
    def name(self) -> tuple[str, str]:
        """The names of the recipe and of the row."""
        return self.recipe.name, self.row.label

    @property
    def requested(self) -> int:
        """The number of runs of the full row."""
        if not isinstance(self.row, Row):
            return int(isinstance(self.row, Computed))
        seeds = self.row.seeds or self.recipe.seeds
        return len(self.row.points()) * len(seeds) if self.row.layer else 0

    @property
    def has_own_runs(self) -> bool:
        """Whether a run was trained for this row; a shared run stands at its own row only."""
        return any(run.trained_for is None for run in self.runs)

    @property
    def unfinished_runs(self) -> list[ArchivedRun]:
        """The archived runs that have not ended."""
        return [run for run in self.runs if run.state == "unfinished"]

    @property
    def remaining(self) -> int:
        """The number of runs still to finish; runs with other seeds count as done."""
        return max(0, self.requested - (len(self.runs) - len(self.unfinished_runs)))


def to_markdown(
    folder: str | Path, recipes: Mapping[str, Recipe], claims: Mapping[str, Claim]
) -> str:
    """Return the page as Markdown.

    Args:
        folder: The folder of the archive.
        recipes: All recipes, by name.
        claims: All claims, by name.
    Raises:
        ValueError: If a file is damaged, has another format, or does not belong to the archive.
    """
    archive = Archive(folder)
    runs, changed = current_runs(recipes, archive.runs())
    by_row, remarks = runs_by_row(recipes, runs), read_remarks(archive.folder, recipes, claims)
    rows = [
        PageRow(recipe, row, by_row.get((recipe.name, row.label), ()))
        for recipe in recipes.values()
        for row in recipe.rows
    ]
    own_rows = [row for row in rows if row.has_own_runs]
    reduced = [run for run in runs if run.reduced is not None and run.trained_for is None]
    judgements = Verdicts(claims, recipes, folder).judge()
    lines = [_INTRODUCTION, "", _how_much(judgements, own_rows, runs), ""]
    lines += [*_claims(judgements, recipes), "", _CLAIMS, "", PICTURES]
    lines += _runs_by_paper(own_rows)
    lines += _differences(own_rows, judgements, remarks)
    lines += [_REDUCED, "", *_reduced(reduced, recipes)] if reduced else []
    lines += ["", "## How it was run", "", _RULES, *_machines(runs)]
    lines += _not_run(rows, recipes, runs)
    lines += (
        [_CHANGED, "", *(f"- {path}: {why}." for path, why in changed.items())] if changed else []
    )
    return "\n".join(lines) + "\n"


# Claims


def _how_much(
    judgements: Sequence[Judgement], rows: Sequence[PageRow], runs: Sequence[ArchivedRun]
) -> str:
    """Say in how many runs which verdicts were reached."""
    verdicts = [judgement.verdict for judgement in judgements]
    counts = [
        f"{count} {forms[count > 1]}"
        for verdict, forms in _COUNTED.items()
        if (count := verdicts.count(verdict))
    ]
    own = [run for run in runs if run.trained_for is None]
    trained = [run for run in own if run.state != "computed"]
    networks = len({(run.recipe, run.row) for run in trained})
    text = f"**Of {pluralise(len(verdicts), 'central claim')}, {', '.join(counts)}.**"
    if not trained:
        return f"{text} No network has been trained yet."
    processor = [run.processor_seconds for run in trained if run.processor_seconds is not None]
    text += (
        f" We trained {pluralise(networks, 'network')} in {pluralise(len(trained), 'run')}, which "
        f"took {duration(sum(run.seconds for run in trained))}"
    )
    if processor:
        all_known = len(processor) == len(trained)
        of = "" if all_known else f" in the {len(processor)} runs that recorded it"
        text += f", and {duration(sum(processor))} of processor time{of}"
    compared = [row.agreement for row in rows if row.agreement]
    kinds = {
        "agree with the paper's number or bound": compared.count("agrees"),
        "differ": compared.count("differs"),
        "are at the chance level in both": compared.count("both at the chance level"),
        "cannot be judged": compared.count("cannot be judged"),
    }
    parts = ", ".join(f"{count} {said}" for said, count in kinds.items() if count)
    return f"{text}." + (f" Of {pluralise(len(compared), 'number')}, {parts}." if parts else "")


def _claims(judgements: Sequence[Judgement], recipes: Mapping[str, Recipe]) -> list[str]:
    """Return the table of claims, those that were not tried at the end."""
    rows: dict[str, list[str]] = {
        name: [] for name in ("paper", "claim", "verdict", "ours", "paper's", "seeds")
    }
    for judgement in sorted(judgements, key=lambda each: each.verdict == "not tried"):
        claim = judgement.claim
        is_tried = judgement.verdict != "not tried"
        counts = sorted({_seed_count(each, recipes) for each in claim.experiment})
        limits = {
            "reduced": claim.is_reduced and judgement.verdict != "holds reduced",
            "one seed": counts == [1],
        }
        said = [limit for limit, holds in limits.items() if holds and is_tried]
        verdict = ", ".join([judgement.verdict, *said])
        seeds = " to ".join(map(str, sorted({counts[0], counts[-1]})))
        cells = (
            claim.paper,
            f"{claim.sentence} ({claim.place}) {claim.note}".strip(),
            f"**{verdict}**" if is_tried else verdict,
            _our_numbers(judgement) if is_tried else "",
            _papers_numbers(judgement, recipes),
            "computed" if counts == [0] else seeds,
        )
        for column, cell in zip(rows.values(), cells, strict=True):
            column.append(cell)
    return markdown_table(rows) if judgements else []


def _seed_count(runs: Runs, recipes: Mapping[str, Recipe]) -> int:
    """Return the number of seeds; 0 for a number without training."""
    (row,) = (row for row in recipes[runs.recipe].rows if row.label == runs.row)
    return len(runs.seeds) if isinstance(row, Row) else 0


def _our_numbers(judgement: Judgement) -> str:
    """List the median of each network, and the quantity if it is not that of the paper."""
    found: dict[str, dict[str, float]] = {}
    for check, result in zip(judgement.claim.test, judgement.results, strict=True):
        for runs, number in zip(check.runs, result.numbers, strict=True):
            label = runs.row if runs.reduced is None else f"{runs.row} ({runs.reduced})"
            found.setdefault(check.number.name, {})[label] = number
    return "; ".join(
        (f"{name}: " if name != papers_quantity.name else "")
        + ", ".join(f"{label} {number:.3g}" for label, number in numbers.items())
        for name, numbers in found.items()
    )


def _papers_numbers(judgement: Judgement, recipes: Mapping[str, Recipe]) -> str:
    """List the paper's number of each network that has one."""
    rows = {
        row.label: row.reported
        for runs in judgement.claim.experiment
        for row in recipes[runs.recipe].rows
        if row.label == runs.row
    }
    cells = [
        f"{label} {'at most ' if reported.value is None else ''}{number:g}"
        for label, reported in rows.items()
        if (number := reported.at_most if reported.value is None else reported.value) is not None
    ]
    return ", ".join(cells)


# Runs


def _runs_by_paper(rows: Sequence[PageRow]) -> list[str]:
    """Return one table per paper, with each row of full runs once.

    The state-tracking runs, which are from no paper, have a page of their own.
    """
    lines = ["", "## Runs", "", "The documentation draws the learning curves."] if rows else []
    for folder, paper in _PAPERS.items():
        its = [row for row in rows if row.recipe.name.startswith(f"{folder}/")]
        lines += ["", f"### {paper}", "", *markdown_table(_comparison(its))] if its else []
    others = [row for row in rows if row.recipe.name.partition("/")[0] not in _PAPERS]
    shown = [
        row for row in others if not isinstance(getattr(row.row, "task", None), StateTracking)
    ]
    lines += ["", "### Others", "", *markdown_table(_comparison(shown))] if shown else []
    if len(shown) < len(others):
        count = len(others) - len(shown)
        lines += ["", f"`docs/state_tracking.md` compares {count} networks on word problems."]
    return lines


def _comparison(rows: Sequence[PageRow]) -> dict[str, list[str]]:
    """Return the columns that compare our numbers with the paper's."""
    known = {name: [""] * len(rows) for name in ("paper", "ours", "ours, selected on validation")}
    known |= columns([row.outcome for row in rows])
    return {
        "recipe": [row.recipe.name for row in rows],
        "network": known["network"],
        "compared": [describe_quantity(row.row) for row in rows],
        "parameters": ["" if (n := row.outcome.parameters) is None else f"{n:,}" for row in rows],
        "paper": known["paper"],
        "ours": [_ours(row, cell) for row, cell in zip(rows, known["ours"], strict=True)],
        "selected on validation": known["ours, selected on validation"],
        "updates": [_updates(row.runs) for row in rows],
        "processor time": [_processor_time(row) for row in rows],
    }


def _ours(row: PageRow, cell: str) -> str:
    """Write our number, in bold if it differs from the paper's, or why there is none."""
    parts: list[str] = []
    if row.outcome.values:
        parts.append((f"**{cell}**" if row.agreement == "differs" else cell) + _run_count(row))
    elif not row.unfinished_runs:
        parts.append("no valid run")
    parts += [
        "no number yet" if run.value is None else f"{run.value:#.4g} so far"
        for run in row.unfinished_runs
    ]
    return "; ".join([*parts, *([f"{row.remaining} not run"] if row.remaining else [])])


def _run_count(row: PageRow) -> str:
    """Count the runs in the mean, and those above the paper's bound."""
    if isinstance(row.row, Computed):
        return ""
    outcome, bound = row.outcome, row.outcome.at_most
    values = outcome.counted_values
    above = 0 if bound is None else sum(not each <= bound for each in values)
    parts = [
        str(len(values)),
        *([f"{above} above"] if above else []),
        *([f"{len(outcome.failed)} diverged"] if outcome.failed else []),
        *(
            [f"best of {len(set(outcome.points))}: {outcome.best_point}"]
            if outcome.best_point
            else []
        ),
    ]
    return f" ({', '.join(parts)})"


def _updates(runs: Sequence[ArchivedRun]) -> str:
    """Write the number of updates of finished runs, and the progress of unfinished ones."""
    steps = {run.steps for run in runs if run.state in ("ended", "diverged")} - {0}
    parts = [" to ".join(f"{n:,}" for n in sorted({min(steps), max(steps)}))] if steps else []
    parts += [
        f"{run.steps:,} of {run.all_steps:,}" if run.all_steps else f"{run.steps:,}"
        for run in runs
        if run.state == "unfinished"
    ]
    return "; ".join(parts)


def _processor_time(row: PageRow) -> str:
    """Write the mean processor time of a run, over all its threads, if it was recorded."""
    known = [run.processor_seconds for run in row.runs if run.state != "unfinished"]
    seconds = [each for each in known if each is not None]
    return duration(statistics.fmean(seconds)) if seconds else ""


def _reduced(runs: Sequence[ArchivedRun], recipes: Mapping[str, Recipe]) -> list[str]:
    """Return the table of reduced runs, one line per network, point and length."""
    groups: dict[tuple[str, str, str, Length], list[ArchivedRun]] = {}
    for run in runs:
        if run.reduced is not None:
            groups.setdefault((run.recipe, run.row, run.point, run.reduced), []).append(run)
    table: dict[str, list[str]] = {
        name: []
        for name in ("recipe", "network", "point", "compared", "length", "ours", "updates")
    }
    for (recipe, label, point, length), its in groups.items():
        (row,) = (row for row in recipes[recipe].rows if row.label == label)
        full = getattr(row.settings, length.unit) if isinstance(row, Row) else 0
        trained = f"{length.number:,} of {full:,} {length.unit}"
        values = [run.value for run in its if run.value is not None]
        ours = f"{statistics.fmean(values):#.4g} ({len(values)})" if values else "no number"
        diverged = sum(run.state == "diverged" for run in its)
        cells = (
            *(recipe, label, point, describe_quantity(row), trained),
            ours + (f"; {diverged} diverged" if diverged else ""),
            _updates(its),
        )
        for column, cell in zip(table.values(), cells, strict=True):
            column.append(cell)
    return markdown_table(table)


# Differences


def _differences(
    rows: Sequence[PageRow], judgements: Sequence[Judgement], remarks: Sequence[Remark]
) -> list[str]:
    """Return the paragraphs on what differs: explained, open, and what cannot be judged."""
    paragraphs: dict[str, list[str]] = {"explained": [], "open": [], "cannot be judged": []}
    by_name = {row.name: row for row in rows}
    known: set[tuple[str, str]] = set()
    for remark in remarks:
        known |= set(remark.about)
        group = [by_name[name] for name in remark.about if name in by_name]
        if group or not remark.about:
            paragraphs[remark.kind].append(f"{_subject(group, remark.claim)}: {remark.text}")
    for row in rows:
        if row.agreement == "differs" and row.name not in known:
            paragraphs["open"].append(f"{_subject([row], '')}: not explained yet.")
    claims = {remark.claim for remark in remarks}
    for judgement in judgements:
        if judgement.verdict in ("partly", "fails") and judgement.claim.id not in claims:
            sentence = f"the claim {judgement.claim.id} {_said(judgement.verdict)}"
            paragraphs["open"].append(f"**{judgement.claim.paper}**: {sentence}.")
    lines = ["", "## Where we differ"] if any(paragraphs.values()) else []
    for kind, texts in paragraphs.items():
        lines += ["", f"### {kind.capitalize()}"] if texts else []
        lines += [line for text in texts for line in ("", text)]
    return lines


def _said(verdict: Verdict) -> str:
    return "holds partly" if verdict == "partly" else verdict


def _subject(rows: Sequence[PageRow], claim: str) -> str:
    """Name the rows of a paragraph, and by how much each number differs."""
    by_recipe: dict[str, list[str]] = {}
    for row in rows:
        by_recipe.setdefault(row.recipe.name, []).append(f"**{row.row.label}**{_difference(row)}")
    names = [f"{recipe}, {', '.join(labels)}" for recipe, labels in by_recipe.items()]
    return "; ".join([*([f"Claim {claim}"] if claim else []), *names])


def _difference(row: PageRow) -> str:
    """Describe how a number differs from the paper's; empty if it agrees."""
    outcome = row.outcome
    if row.agreement != "differs":
        return ""
    is_trained = bool(outcome.seeds)
    seed = ", from one seed" if is_trained and len(outcome.counted_values) == 1 else ""
    if outcome.at_most is not None:
        return f" (above the bound of the paper's curve{seed})"
    return f" (more than {margin(outcome):.3g} from the paper's number{seed})"


# How it was run


def _machines(runs: Sequence[ArchivedRun]) -> list[str]:
    """Return the table of machines."""
    groups: dict[tuple[str, str], list[ArchivedRun]] = {}
    for run in runs:
        if run.trained_for is None and run.state != "computed":
            names = run.versions.get("processor", "unknown"), run.versions.get("torch", "unknown")
            groups.setdefault(names, []).append(run)
    table = {
        "processor": [processor for processor, _ in groups],
        "torch": [torch for _, torch in groups],
        "runs": [f"{len(its):,}" for its in groups.values()],
        "time": [duration(sum(run.seconds for run in its)) for its in groups.values()],
    }
    return ["", "### Machines", "", *markdown_table(table)] if groups else []


def _not_run(
    rows: Sequence[PageRow], recipes: Mapping[str, Recipe], runs: Sequence[ArchivedRun]
) -> list[str]:
    """Return one line per recipe with runs that were not made."""
    left = [row for row in remaining_rows(recipes, runs) if row.runs]
    table: dict[str, list[str]] = {"recipe": [], "rows done": [], "runs left": [], "command": []}
    for name in recipes:
        count = sum(len(each.runs) for each in left if each.recipe.name == name)
        its = [row for row in rows if row.recipe.name == name and row.requested]
        done = f"{sum(not row.remaining for row in its)} of {len(its)}"
        if count:
            cells = (name, done, f"{count:,}", f"`eigenrnn reproduce {name}`")
            for column, cell in zip(table.values(), cells, strict=True):
                column.append(cell)
    return [_NOT_RUN, "", *markdown_table(table)] if table["recipe"] else []


# Formatting

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
_RULES_OF_RUNS = {
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
    rule = _RULES_OF_RUNS[reported.rule]
    if reported.quantity == "success":
        bound = f"{reported.success:g} of the chance level"
        return f"share of the runs whose best loss {_SPLITS[reported.split]} is below {bound}"
    if reported.quantity == "epoch_seconds":
        return "processor seconds per epoch"
    if reported.quantity == "loss_mean":
        return f"training loss, mean over {row.settings.log_every} updates, {rule}"
    if reported.split == "train":
        return f"training {name}, {rule}"
    if reported.column is not None:  # a property of the network, not of a split
        return f"{name}, {rule}"
    return f"{name} {_SPLITS[reported.split]}, {rule}"


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


_TEXT_COLUMNS = {
    *("recipe", "network", "paper", "claim", "verdict", "ours", "paper's", "compared", "point"),
    *("processor", "command"),
}


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
