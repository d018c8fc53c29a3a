"""RESULTS.md: what our runs say about the papers' claims, and the numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from eigenrnn_experiments.recipes import Comparison, Computed, Entry, Recipe, Reported, Row
from eigenrnn_experiments.recipes.comparison import compared_numbers, table_of
from eigenrnn_experiments.statistics import mean_of
from eigenrnn_experiments.tasks import StateTracking
from eigenrnn_experiments.training import Run
from eigenrnn_experiments.training.table import table_of as runs_table
from reproduction.agreement import DIFFERENT, Agreement, agreement
from reproduction.archive import (
    Archive,
    comparison_of,
    current_runs,
    paper_of,
    rows_by_name,
    runs_by_row,
)
from reproduction.claim import Claim, Verdict
from reproduction.evidence import (
    ArchivedEvidence,
    CheckResult,
    Judgement,
    is_own_network,
    share_of_full,
)

__all__ = [
    "PAPERS",
    "TEXTS",
    "describe_quantity",
    "duration",
    "headline",
    "held_out",
    "markdown_table",
    "to_markdown",
]

HERE = Path(__file__).parent
TEXTS = HERE / "texts.toml"
"""What we say about each paper, and about numbers that differ."""

PAPERS = {
    "scornn": "scoRNN",
    "enrnn": "ENRNN",
    "nnrnn": "nnRNN",
    "nc_gru": "NC-GRU",
    "nonnormal": "non-normal initialisers",
}
"""The names of the papers by the folder of their recipes."""

MARKS = {"worse here": "**worse here**", "better here": "*better here*"}

# Rows of the recipes with their runs


@dataclass(frozen=True)
class PageRow:
    """A row of a recipe with one of its numbers and its archived runs of full length.

    Args:
        recipe: The recipe of the row.
        row: The row.
        reported: The number of the paper.
        runs: Its archived runs.
    """

    recipe: Recipe
    row: Entry
    reported: Reported
    runs: Sequence[Run]

    @cached_property
    def compared(self) -> Comparison:
        """The paper's number beside the runs."""
        return comparison_of(self.row, self.reported, self.runs)

    @cached_property
    def agreement(self) -> Agreement | None:
        """Whether our number agrees with the paper's; None if one of the two is missing."""
        return agreement(self.compared)

    @property
    def role(self) -> Literal["proposed", "baseline", ""]:
        """Whether a paper proposes the network or compares it; empty for a computed number."""
        paper = paper_of(self.recipe.name)
        if not isinstance(self.row, Row) or paper not in PAPERS:
            return ""
        if is_own_network(self.row, paper):
            return "proposed"
        return "baseline"

    @property
    def kind(self) -> str:
        """The role of the network, or that the paper's number is a bound or is not trained."""
        is_bound = self.reported.at_most is not None
        if isinstance(self.row, Computed):
            if is_bound:
                return "computed bound"
            return "computed"
        if is_bound:
            return "bound"
        return self.role

    @property
    def place(self) -> str:
        """The recipe, and the place of a number that is not the first of its row."""
        if self.reported is self.row.reported[0]:
            return self.recipe.name
        return f"{self.recipe.name}, {self.reported.place}"

    @property
    def is_state_tracking(self) -> bool:
        """Whether it is a word problem of a group, which has a page of its own."""
        return isinstance(self.row, Row) and isinstance(self.row.task, StateTracking)


def to_markdown(
    archive: Archive,
    recipes: Mapping[str, Recipe],
    claims: Mapping[str, Claim],
    texts: Path = TEXTS,
) -> str:
    """Return the page as Markdown.

    Args:
        archive: The archive of runs.
        recipes: All recipes, by name.
        claims: All claims, by name.
        texts: The file with our texts.
    Raises:
        ValueError: If a text is about an unknown paper or row, or if the verdict or a number of a
            claim is not that of the runs.
    """
    runs, changed = current_runs(recipes, archive.runs())
    evidence = ArchivedEvidence(recipes, archive)
    judgements = evidence.judge(claims)
    mismatches = [each for judgement in judgements for each in judgement.mismatches()]
    if mismatches:
        raise ValueError(
            "expected the numbers of the archive in reproduction/claims: " + "; ".join(mismatches)
        )
    by_row = runs_by_row(recipes, runs)
    rows: list[PageRow] = []
    for (name, _), entry in rows_by_name(recipes).items():
        its = by_row.get((name, entry.label))
        if its:
            rows += [PageRow(recipes[name], entry, each, its) for each in compared_numbers(entry)]
    trained = [run for run in runs if run.state != "computed"]
    table = runs_table(trained)
    ours = read_texts(texts, recipes)
    papers: list[dict[str, Any]] = []
    for folder, name in PAPERS.items():
        of_paper = [each for each in judgements if each.claim.paper == name]
        text = " ".join(ours.papers.get(folder, "").split())
        papers.append({"folder": folder, "name": name, "text": text, "judgements": of_paper})
    agreements = _agreements(rows)
    printed: Any = None
    if not agreements.empty:
        printed = agreements.loc[["proposed", "baseline"]].sum()
    environment = Environment(
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # the page is Markdown of our own texts and numbers
    )
    environment.filters["table"] = markdown_table
    return environment.get_template("RESULTS.md.jinja").render(
        headline=headline(judgements),
        claims=_claims(evidence, judgements),
        verdicts=get_args(Verdict),
        held_out=held_out(recipes, archive, judgements),
        hours=sum(claim.hours or 0 for claim in claims.values()),
        work=_work(table),
        agreements=agreements,
        printed=printed,
        papers=papers,
        numbers=_numbers_by_paper(rows),
        shorter=_shorter(trained, recipes),
        differences=_differences(rows, ours.remark),
        machines=_machines(table),
        changed=changed,
    )


# Claims


def _claims(evidence: ArchivedEvidence, judgements: Sequence[Judgement]) -> pd.DataFrame:
    """Return one line per claim."""
    lines: list[dict[str, str]] = []
    for judgement in judgements:
        claim = judgement.claim
        hours = sum(run.processor_seconds or run.seconds for run in judgement.trained) / 3600
        lines.append(
            {
                "paper": claim.paper,
                "claim": claim.sentence,
                "verdict": judgement.verdict,
                "before": claim.before,
                "why": claim.why or "; ".join(judgement.reasons),
                "what our runs show": claim.evidence,
                "seeds": _range(_seed_counts(judgement.results.values())),
                "rates tried": _rates(evidence, judgement),
                "length": _length(judgement, evidence),
                "core-hours": f"{hours:.1f}" if judgement.trained else "",
                "still needed": "" if claim.hours is None else f"{claim.hours:g}",
            }
        )
    return pd.DataFrame(lines)


def _seed_counts(results: Iterable[CheckResult]) -> set[int]:
    """Return how many seeds comparisons have of their trained networks."""
    seeds: set[int] = set()
    for result in results:
        for runs in result.runs.values():
            seeds.add(len({run.key.seed for run in runs if run.state != "computed"}))
    return seeds


def _rates(evidence: ArchivedEvidence, judgement: Judgement) -> str:
    """Write at how many rates, without and with clipping, a network was trained."""
    networks = chain(*(check.networks for check in judgement.results))
    tried = {sum(map(len, evidence.tried(each).values())) for each in networks}
    return _range(tried)


def _length(judgement: Judgement, evidence: ArchivedEvidence) -> str:
    """Write the lengths of the runs as a percentage of the paper's."""
    shares: set[int] = set()
    for run in judgement.trained:
        row = evidence.rows[run.key.recipe, run.key.row]
        if isinstance(row, Row):
            shares.add(round(100 * share_of_full(row, run.key.reduced)))
    if not shares:
        return "computed" if judgement.runs else ""
    return f"{_range(shares)} %"


def _range(numbers: Set[int]) -> str:
    """Write the lowest and the highest number, without zeros."""
    positive = numbers - {0}
    if not positive:
        return ""
    ends = dict.fromkeys([min(positive), max(positive)])
    return " to ".join(f"{number:,}" for number in ends)


def headline(judgements: Sequence[Judgement]) -> str:
    """Count the verdicts in one sentence."""
    counts = Counter(each.verdict for each in judgements)
    computed = sum(each.verdict == "holds" and not each.trained for each in judgements)
    verbs = {
        "holds": ("holds", "hold"),
        "partly": ("holds partly", "hold partly"),
        "refuted at our settings": ("is refuted at our settings", "are refuted at our settings"),
        "not decided": ("is not decided", "are not decided"),
        "other data": ("was tested on other data", "were tested on other data"),
    }
    parts: list[str] = []
    for verdict, (one, several) in verbs.items():
        parts.append(f"{counts[verdict]} {one if counts[verdict] == 1 else several}")
    if computed:
        parts[0] += f" ({computed} of them computed, without training)"
    decided = [each for each in judgements if each.verdict not in ("not decided", "other data")]
    single = 0
    for each in decided:
        # a comparison that is not decided may lack seeds: the verdict does not rest on it
        deciding = [result for result in each.results.values() if not result.undecided]
        if 1 in _seed_counts(deciding):
            single += 1
    if single:
        parts[-1] += f"; of those decided {single} rest{'s' * (single == 1)} on a single seed"
    return f"Of {len(judgements)} claims of the five papers, {', '.join(parts)}."


def held_out(
    recipes: Mapping[str, Recipe], archive: Archive, judgements: Sequence[Judgement]
) -> dict[str, list[bool]]:
    """Say which decided comparisons the seeds that are held out repeat, and how, by claim."""
    evidence = ArchivedEvidence(recipes, archive, held_out=True)
    found: dict[str, list[bool]] = {}
    for judgement in judgements:
        for check, result in judgement.results.items():
            again = evidence.compare(check)
            if result.outcome is not None and result.noise and again.runs:
                agrees = (again.margin > 0) == result.outcome
                found.setdefault(judgement.claim.id, []).append(agrees)
    return found


# Headline


def _work(trained: Any) -> dict[str, Any]:
    """Count the runs of the papers' rows and our own, and their time."""
    if trained.empty:
        return {}
    frame: Any = trained.assign(is_papers=[paper_of(name) in PAPERS for name in trained["recipe"]])
    frame["network"] = frame["recipe"] + ": " + frame["row"]
    work: dict[str, Any] = {"papers": None, "own": None}
    for is_papers, group in frame.groupby("is_papers"):
        counts = {"runs": len(group), "networks": group["network"].nunique()}
        work["papers" if is_papers else "own"] = counts
    return work | {
        "time": duration(frame["seconds"].sum()),
        "processor_time": duration(frame["processor_seconds"].sum()),
        "timed": int(frame["processor_seconds"].count()),
    }


def _agreements(rows: Sequence[PageRow]) -> pd.DataFrame:
    """Count our numbers beside the papers', by kind and agreement."""
    compared = [row for row in rows if row.agreement and paper_of(row.recipe.name) in PAPERS]
    kinds = pd.Categorical(
        [row.kind for row in compared],
        ["proposed", "baseline", "bound", "computed", "computed bound"],
    )
    found = pd.Categorical(
        [row.agreement for row in compared],
        list(get_args(Agreement)),
    )
    return pd.crosstab(kinds, found, dropna=False)


# Numbers


def _numbers_by_paper(rows: Sequence[PageRow]) -> dict[str, pd.DataFrame]:
    """Return one table per paper, with each row of full runs once."""
    rows_of: dict[str, list[PageRow]] = {name: [] for name in PAPERS}  # these come first
    for row in rows:
        if not row.is_state_tracking:  # which has a page of its own
            rows_of.setdefault(paper_of(row.recipe.name), []).append(row)
    numbers: dict[str, pd.DataFrame] = {}
    for name, its in rows_of.items():
        if its:
            numbers[PAPERS.get(name, name)] = _numbers(its)
    return numbers


def _numbers(rows: Sequence[PageRow]) -> pd.DataFrame:
    """Return the columns that compare our numbers with the paper's."""
    table = table_of([row.compared for row in rows])
    records: list[dict[str, str]] = []
    for row, texts in zip(rows, table.rows, strict=True):
        known = dict(zip(table.headings, texts, strict=True))  # without columns that are empty
        compared = row.compared
        parameters = ""
        if compared.parameters is not None:
            parameters = f"{compared.parameters:,}"
        records.append(
            {
                "recipe": row.place,
                "network": known["network"],
                "role": row.role,
                "compared": describe_quantity(row.row, row.reported),
                "parameters": parameters,
                "paper": known.get("paper", ""),
                "ours": known["ours"] + _run_count(row) if compared.values else "no valid run",
                "beside the paper": MARKS.get(row.agreement or "", row.agreement or ""),
                "selected on validation": known.get("ours, selected on validation", ""),
                "updates": _range({run.steps for run in row.runs}),
                "processor time": _processor_time(row.runs),
            }
        )
    return pd.DataFrame(records)


def _run_count(row: PageRow) -> str:
    """Count the runs in the mean, and those above the paper's bound."""
    if isinstance(row.row, Computed):
        return ""
    compared = row.compared
    at_most = row.reported.at_most
    parts = [str(len(compared.values))]
    if at_most is not None:
        # a NaN is above any bound
        above = sum(not each <= at_most for each in compared.values)
        if above:
            parts.append(f"{above} above")
    if compared.diverged:
        parts.append(f"{len(compared.diverged)} diverged")
    if compared.best_point:
        parts.append(f"best of {compared.counted['point'].nunique()}: {compared.best_point}")
    return f" ({', '.join(parts)})"


def _processor_time(runs: Sequence[Run]) -> str:
    """Write the mean processor time of a run, over all its threads, if it was recorded."""
    seconds = [run.processor_seconds for run in runs if run.processor_seconds is not None]
    if not seconds:
        return ""
    return duration(mean_of(seconds).value)


def _shorter(trained: Sequence[Run], recipes: Mapping[str, Recipe]) -> pd.DataFrame:
    """Return the runs shorter than the paper's, one line per network, point and length."""
    rows = rows_by_name(recipes)
    lines: list[dict[str, str]] = []
    groups: dict[tuple[str, str, str, Any], list[Run]] = {}
    for run in trained:
        if run.key.reduced is not None:
            groups.setdefault(
                (run.key.recipe, run.key.row, run.key.point, run.key.reduced), []
            ).append(run)
    for (recipe, label, point, length), its in groups.items():
        row = rows[recipe, label]
        share = ""
        if isinstance(row, Row):
            share = f"{share_of_full(row, length):.2g}"
        for reported in compared_numbers(row):
            found = [(run.numbers or {}).get(reported.measure) for run in its]
            mean = mean_of(number.value for number in found if number is not None)
            ours = "no successful run"
            if mean.count:
                ours = f"{mean.value:#.4g} ({mean.count})"
            diverged = sum(run.state == "diverged" for run in its)
            if diverged:
                ours += f"; {diverged} diverged"
            lines.append(
                {
                    "recipe": PageRow(recipes[recipe], row, reported, its).place,
                    "network": label,
                    "point": point,
                    "compared": describe_quantity(row, reported),
                    "length": str(length),
                    "share": share,
                    "ours": ours,
                    "updates": _range({run.steps for run in its}),
                }
            )
    return pd.DataFrame(lines)


# Differences


class Remark(msgspec.Struct, frozen=True):
    """A paragraph on numbers of ours that differ from the paper's.

    Args:
        kind: Whether we explain them.
        text: The paragraph.
        recipe: The recipe of the rows.
        rows: The labels of the rows.
        tried: What was tried; needed if ours is worse in one of the rows.
    """

    kind: Literal["explained", "open", "cannot be judged"]
    text: str
    recipe: str
    rows: tuple[str, ...]
    tried: str = ""


class Texts(msgspec.Struct, frozen=True):
    """Our texts: of each paper, by the folder of its recipes, and remarks on what differs."""

    papers: dict[str, str] = {}
    remark: tuple[Remark, ...] = ()


def read_texts(path: Path, recipes: Mapping[str, Recipe]) -> Texts:
    """Read what we say about each paper, and the remarks on what differs.

    Raises:
        ValueError: If a text is about an unknown paper or row, or of an unknown kind.
    """
    texts = msgspec.toml.decode(path.read_bytes(), type=Texts)
    unknown = texts.papers.keys() - PAPERS.keys()
    if unknown:
        raise ValueError(f"expected papers among {', '.join(PAPERS)} in {path}, got {unknown}")
    known = rows_by_name(recipes)
    for remark in texts.remark:
        for row in remark.rows:
            if (remark.recipe, row) not in known:
                raise ValueError(f"expected a row of {remark.recipe} in {path}, got {row!r}")
    return texts


def _differences(rows: Sequence[PageRow], remarks: Sequence[Remark]) -> dict[str, list[str]]:
    """Return the paragraphs on what differs, by kind."""
    paragraphs: dict[str, list[str]] = {"explained": [], "open": [], "cannot be judged": []}
    shown: dict[tuple[str, str], list[PageRow]] = {}
    for row in rows:
        shown.setdefault((row.recipe.name, row.row.label), []).append(row)
    explained: set[tuple[str, str]] = set()
    for remark in remarks:
        explained.update((remark.recipe, label) for label in remark.rows)
    others = [key for key in shown if key not in explained]
    unexplained = [Remark("open", "not explained yet.", name, (row,)) for name, row in others]
    for remark in (*remarks, *unexplained):
        found = chain(*(shown.get((remark.recipe, label), ()) for label in remark.rows))
        its = [row for row in found if row.agreement in (*DIFFERENT, "cannot be judged")]
        if not its:
            continue
        labels = ", ".join(f"**{row.row.label}**{_difference(row)}" for row in its)
        text = f"{remark.recipe}, {labels}: {' '.join(remark.text.split())}"
        if any(row.agreement == "worse here" for row in its):
            tried = " ".join(remark.tried.split()) or "nothing yet."
            text += f" *Tried:* {tried}"
        paragraphs[remark.kind].append(text)
    return {kind: texts for kind, texts in paragraphs.items() if texts}


def _difference(row: PageRow) -> str:
    """Describe how a number differs from the paper's; empty if it agrees."""
    compared = row.compared
    if row.agreement not in DIFFERENT:
        return ""
    side = ""
    if row.agreement != "differs":
        side = f"{row.agreement}, "
    seed = ""
    if not isinstance(row.row, Computed) and len(compared.values) == 1:
        seed = ", from one seed"
    if row.reported.at_most is not None:
        return f" ({side}above the bound of the paper's curve{seed})"
    distance = compared.ours.value - (row.reported.value or 0.0)
    direction = "above" if distance > 0 else "below"
    amount = format(Decimal(f"{abs(distance):.3g}"), "f")
    return f" ({side}{amount} {direction} the paper's number{seed})"


# How it was run


def _machines(trained: Any) -> pd.DataFrame:
    """Return the table of machines."""
    if trained.empty:
        return trained
    names = {"processor": "versions_processor", "torch": "versions_torch"}
    known = trained[list(names.values())].astype(object).fillna("unknown")
    frame: Any = known.set_axis(list(names), axis=1).assign(seconds=trained["seconds"])
    groups = frame.groupby(list(names), sort=False)["seconds"].agg(["size", "sum"]).reset_index()
    groups["runs"] = groups["size"].map("{:,}".format)
    groups["time"] = groups["sum"].map(duration)
    return groups.drop(columns=["size", "sum"])


# Formatting

UNITS = ((86_400, "days", 48 * 3_600), (3_600, "h", 90 * 60), (60, "min", 90))
QUANTITIES = {
    "bits": "bits per symbol",
    "henrici": "departure from normality",
    "padded_mse": "squared error with padded frames",
}
SPLITS = {
    "validation": "on the validation set",
    "test": "on the test set",
}
RULES_OF_RUNS = {
    "best": "best of the run",
    "last": "at the end of training",
    "validation": "of the model selected on the validation set",
}
RIGHT_ALIGNED = {
    "parameters",
    "selected on validation",
    "updates",
    "processor time",
    "runs",
    "time",
}


def describe_quantity(row: Entry, reported: Reported) -> str:
    """Describe the quantity that a row compares, and the rule that picks one number per run."""
    name = QUANTITIES.get(reported.quantity, reported.quantity.replace("_", " "))
    if not isinstance(row, Row):
        return name
    rule = RULES_OF_RUNS[reported.rule]
    if reported.quantity == "success":
        bound = f"{reported.success:g} of the chance level"
        return f"share of the runs whose best loss {SPLITS[reported.split]} is below {bound}"
    if reported.quantity == "epoch_seconds":
        return "processor seconds per epoch"
    if reported.quantity == "loss_mean":
        return f"training loss, mean over {row.settings.log_every} updates, {rule}"
    if reported.split == "train":
        return f"training {name}, {rule}"
    if reported.column is not None:  # a property of the network, not of a split
        return f"{name}, {rule}"
    return f"{name} {SPLITS[reported.split]}, {rule}"


def two_digits(number: float) -> str:
    """Round to two significant digits."""
    rounded = float(f"{number:.2g}")
    if rounded >= 10:
        return f"{rounded:,.0f}"
    return f"{rounded:g}"


def duration(seconds: float) -> str:
    """Write a duration with two significant digits, in a suitable unit."""
    for size, unit, minimum in UNITS:
        if seconds >= minimum:
            return f"{two_digits(seconds / size)} {unit}"
    return f"{two_digits(seconds)} s"


def markdown_table(frame: pd.DataFrame) -> str:
    """Return a table of strings as Markdown; empty columns are dropped."""
    kept = frame.loc[:, (frame != "").any()]
    rules: list[str] = []
    for name in kept:
        if name in RIGHT_ALIGNED:
            rules.append("---:")
        else:
            rules.append("---")
    lines = [list(kept), rules, *kept.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
