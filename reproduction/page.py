"""RESULTS.md: what our runs say about the papers' claims, and the numbers."""

import math
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from eigenrnn import ENRNN, NCGRU, NnRNN, ScoRNN
from eigenrnn.experiments.recipes import Computed, Entry, Outcome, Recipe, Row
from eigenrnn.experiments.recipes.nc_gru.released import ReleasedNCGRU
from eigenrnn.experiments.recipes.results_files import columns
from eigenrnn.experiments.tasks import StateTracking
from reproduction.agreement import DIFFERENT, Agreement, agreement
from reproduction.archive import (
    Archive,
    ArchivedRun,
    current_runs,
    outcome_of,
    paper_of,
    rows_by_name,
    runs_by_row,
)
from reproduction.claim import Check, CheckResult, Claim, Judgement, Less, Number, Runs, plain
from reproduction.evidence import ArchivedEvidence, row_of, share_of_full

__all__ = [
    "PAPERS",
    "TEXTS",
    "describe_judgement",
    "describe_quantity",
    "duration",
    "evidence",
    "markdown_table",
    "to_markdown",
]

NAMED = 3
"""A sentence of the evidence names all of so many networks; of more, the best ones."""

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

OWN_LAYERS = {
    "scornn": (ScoRNN,),
    "enrnn": (ENRNN,),
    "nnrnn": (NnRNN,),
    "nc_gru": (NCGRU, ReleasedNCGRU),
}
"""The layers that a paper proposes; its other networks are baselines."""


# Rows of the recipes with their runs


@dataclass(frozen=True)
class PageRow:
    """A row of a recipe with its archived runs of full length.

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
    def kind(self) -> Literal["computed", "computed bound", "bound", "own", "baseline"]:
        """Whether the paper's number is of no training, a bound, or of a trained network.

        A trained network is the paper's own, or a baseline.
        """
        is_bound = self.row.reported.at_most is not None
        if isinstance(self.row, Computed):
            if is_bound:
                return "computed bound"
            return "computed"
        if is_bound:
            return "bound"
        if isinstance(self.row, Row) and is_own_network(self.row, paper_of(self.recipe.name)):
            return "own"
        return "baseline"

    @property
    def has_own_runs(self) -> bool:
        """Whether a run was trained for this row; a shared run stands at its own row only."""
        return any(run.trained_for is None for run in self.runs)

    @property
    def is_state_tracking(self) -> bool:
        """Whether it is a word problem of a group, which has a page of its own."""
        return isinstance(self.row, Row) and isinstance(self.row.task, StateTracking)


def is_own_network(row: Row, paper: str) -> bool:
    """Whether a row is of the network that its paper proposes, and not of a baseline."""
    if paper == "nonnormal":  # which proposes initialisers
        return row.options.get("kind") in ("chain", "feedback_chain")
    return row.layer in OWN_LAYERS.get(paper, ())


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
        ValueError: If a text is about an unknown paper, row or claim.
    """
    runs, changed = current_runs(recipes, archive.runs())
    judgements = ArchivedEvidence(recipes, archive).judge(claims)
    by_row = runs_by_row(recipes, runs)
    own_rows: list[PageRow] = []
    for recipe in recipes.values():
        for entry in recipe.rows:
            row = PageRow(recipe, entry, by_row.get((recipe.name, entry.label), ()))
            if row.has_own_runs:
                own_rows.append(row)
    trained = [run for run in runs if run.trained_for is None and run.state != "computed"]
    texts_of_papers, remarks = read_texts(texts, recipes, claims)
    papers: list[dict[str, Any]] = []
    for folder, name in PAPERS.items():
        of_paper = [each for each in judgements if each.claim.paper == name]
        text = texts_of_papers.get(folder, "")
        papers.append({"folder": folder, "name": name, "text": text, "tests": _tests(of_paper)})
    agreements = _agreements(own_rows)
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
        claims=_claims(judgements),
        verdicts=pd.Series([each.verdict for each in judgements]).value_counts(),
        decided=[each for each in judgements if each.is_decided],
        computed=sum(each.verdict == "holds" and each.is_computed for each in judgements),
        untrained=sum(not each.is_decided and each.lacks_a_run for each in judgements),
        judgements=judgements,
        work=_work(trained),
        agreements=agreements,
        printed=agreements.loc[["own", "baseline"]].sum() if agreements.to_numpy().sum() else None,
        papers=papers,
        numbers=_numbers_by_paper(own_rows),
        shorter=_shorter(trained, recipes),
        differences=_differences(own_rows, judgements, remarks),
        machines=_machines(trained),
        changed=changed,
    )


# Claims


def _claims(judgements: Sequence[Judgement]) -> pd.DataFrame:
    """Return one line per claim, those that are decided first."""
    return pd.DataFrame(
        {
            "claim": f"{judgement.claim.paper}: {judgement.claim.sentence}",
            "verdict": _verdict(judgement),
            "evidence": f"{evidence(judgement)} {_link(judgement.claim.paper)}",
        }
        for judgement in sorted(judgements, key=lambda each: not each.is_decided)
    )


def _link(paper: str) -> str:
    """Link to the numbers of a paper."""
    return f"[Numbers](#numbers-of-{paper.lower().replace(' ', '-')})"


def _tests(judgements: Sequence[Judgement]) -> list[str]:
    """Say of each test of a paper what a reader of the verdict has to know."""
    found: list[str] = []
    for judgement in judgements:
        sentences: list[str] = []
        if judgement.claim.note:
            sentences.append(judgement.claim.note)
        before = judgement.runs_before_test
        if judgement.is_decided and before:
            count = sum(run.state != "computed" for run in judgement.runs)
            # a copied run looks as if it had ended when it was copied
            of = f"at least {before} of the {count}"
            if before == count:
                of = f"all {count}"
            sentences.append(f"The test was last changed after {of} runs had ended.")
        if sentences:
            found.append(
                f"*{judgement.claim.id}* ({judgement.claim.place}): {' '.join(sentences)}"
            )
    return found


def _verdict(judgement: Judgement) -> str:
    if not judgement.is_decided:
        return judgement.verdict
    return f"**{judgement.verdict}**"


def evidence(judgement: Judgement) -> str:
    """Say in words what the runs show, or what they lack."""
    if not judgement.is_decided:
        return _what_is_missing(judgement)
    sentences = [_what_we_see(judgement), _how_much(judgement)]
    not_true = _not_true(judgement)
    if not_true:
        sentences.append(f"But {'; '.join(not_true)}.")
    return " ".join(sentences)


def _not_true(judgement: Judgement) -> list[str]:
    """Say which comparisons are not true, those of one network with others in one clause."""
    clauses: list[str] = []
    larger: dict[Runs, list[str]] = {}  # by the network that is compared with them
    for check, result in zip(judgement.claim.test, judgement.results, strict=True):
        if result.is_true:
            continue
        if isinstance(check, Less):
            larger.setdefault(check.smaller, []).append(check.say_larger(result))
        else:
            clauses.append(check.say_not(result))
    for smaller, relations in larger.items():
        clauses.append(f"{smaller.title} is {join(relations, 'and')}")
    return clauses


def join(words: Sequence[str], conjunction: str) -> str:
    """Return `a, b or c`."""
    *first, last = words
    if not first:
        return last
    return f"{', '.join(first)} {conjunction} {last}"


def _what_is_missing(judgement: Judgement) -> str:
    without = [each for each in judgement.progress.values() if each.share == 0]
    if without:
        return f"{len(without)} of its {len(judgement.progress)} networks have no run."
    if judgement.share < 1:
        noun = "seeds"
        if judgement.claim.seeds == 1:
            noun = "seed"
        return (
            f"{_percent(judgement.share)} of the least length, {judgement.seeds} of "
            f"{judgement.claim.seeds} {noun}."
        )
    if judgement.seeds < judgement.claim.seeds and not judgement.is_computed:
        return f"The least length, {judgement.seeds} of {judgement.claim.seeds} seeds."
    if any(result.is_at_chance for result in judgement.results):
        return "Networks that are to be compared are both at the chance level."
    return "A number that the test needs is missing."


def _what_we_see(judgement: Judgement) -> str:
    """State the median of each network, the numbers of one kind in one sentence.

    Of many networks that one network is compared with, only the best is named.
    """
    compared: dict[str, list[tuple[Check, CheckResult]]] = {}
    for check, result in zip(judgement.claim.test, judgement.results, strict=True):
        compared.setdefault(check.number.name, []).append((check, result))
    sentences: list[str] = []
    for pairs in compared.values():
        medians: dict[Runs, float] = {}
        rivals: dict[Runs, dict[Runs, float]] = {}  # by the network that is compared with them
        for check, result in pairs:
            medians |= result.medians
            if isinstance(check, Less):
                rivals.setdefault(check.smaller, {}).update(result.medians)
        number = pairs[0][0].number
        if len(medians) <= NAMED or not all(isinstance(check, Less) for check, _ in pairs):
            sentences.append(_amounts(number, medians))
        else:
            sentences += [_beside_the_best(number, leader, its) for leader, its in rivals.items()]
    return " ".join(sentences)


def _amounts(number: Number, medians: Mapping[Runs, float]) -> str:
    """State the number of each network."""
    # after a first "never" the sentence would not read
    (first, amount), *others = sorted(medians.items(), key=lambda pair: math.isinf(pair[1]))
    parts = [_amount(number, first, amount)]
    parts += [f"{network.title} {number.say(each)}" for network, each in others]
    return _sentence(f"{join(parts, 'and')} {number.after}")


def _amount(number: Number, network: Runs, amount: float) -> str:
    """State the number of one network, with its verb."""
    if math.isinf(amount) and number.unit != "updates":
        return f"{network.title} diverges"
    words = (network.title, number.verb, number.what, number.say(amount))
    return " ".join(filter(None, words))


def _beside_the_best(number: Number, leader: Runs, medians: Mapping[Runs, float]) -> str:
    """State the number of one network, and the best of the others."""
    others = {network: amount for network, amount in medians.items() if network != leader}
    if len(others) == 1:
        return _amounts(number, medians)
    choose = max if number.higher_is_better else min
    best = choose(others, key=lambda network: others[network])
    return _sentence(
        f"{_amount(number, leader, medians[leader])}, and the best of {len(others)} others, "
        f"{best.title}, {number.say(others[best])} {number.after}"
    )


def _sentence(words: str) -> str:
    """Begin and end a sentence; the name of a network keeps its first letter."""
    article, rest = words.strip().split(" ", 1)
    if article in ("a", "an", "the", "one"):
        article = article.capitalize()
    return f"{article} {rest}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _how_much(judgement: Judgement) -> str:
    """State the seeds and the length of the runs."""
    if judgement.is_computed:
        return "Computed, without training."
    fewest, most = judgement.seeds_compared
    seeds = f"{fewest} to {most} seeds"
    if fewest == most == 1:
        seeds = "1 seed"
    elif fewest == most:
        seeds = f"{most} seeds"
    length = "the paper's length"
    shortest, longest = judgement.lengths
    if shortest < 1:
        share = _percent(shortest)
        if longest > shortest:
            share += f" to {_percent(longest)}"
        length = f"{share} of {length}"
    return f"{seeds}, {length}."


def describe_judgement(judgement: Judgement, recipes: Mapping[str, Recipe]) -> dict[str, Any]:
    """Return a judgement as data for JSON; a number that is not finite becomes None."""
    claim = judgement.claim
    comparisons: list[dict[str, Any]] = []
    for check, result in zip(claim.test, judgement.results, strict=True):
        comparisons.append(
            {
                "kind": type(check).__name__,
                "number": check.number.name,
                "share": result.share,
                "ours": [_json_number(number) for number in result.medians.values()],
                "outcomes": len(result.outcomes),
                "decisive": check in claim.decisive,
            }
        )
    networks: list[dict[str, Any]] = []
    for network, progress in judgement.progress.items():
        networks.append(
            {
                **asdict(network),
                "share_of_least": progress.share,
                "share_of_full": progress.longest,
                "seeds_so_far": progress.seeds,
                "paper": _reported(row_of(recipes, network)),
            }
        )
    return {
        "id": claim.id,
        "paper": claim.paper,
        "sentence": claim.sentence,
        "place": claim.place,
        "verdict": judgement.verdict,
        "share": judgement.share,
        "seeds": judgement.seeds,
        "least_seeds": claim.seeds,
        "evidence": evidence(judgement),
        "test_changed": claim.changed,
        "networks": networks,
        "comparisons": comparisons,
    }


def _reported(row: Entry) -> float | None:
    if row.reported.value is None:
        return row.reported.at_most
    return row.reported.value


def _json_number(number: float) -> float | None:
    if not abs(number) < float("inf"):  # which JSON cannot hold
        return None
    return number


# Headline


def _work(trained: Sequence[ArchivedRun]) -> dict[str, Any]:
    """Count the runs of the papers' rows and our own, and their time."""
    frame = pd.DataFrame(
        {
            "network": f"{run.recipe}: {run.row}",
            "is_papers": paper_of(run.recipe) in PAPERS,
            "hours": run.seconds / 3600,
            "processor_hours": (run.processor_seconds or float("nan")) / 3600,
        }
        for run in trained
    )
    if frame.empty:
        return {}
    groups = frame.groupby("is_papers").agg(
        runs=("hours", "size"), networks=("network", "nunique")
    )
    work: dict[str, Any] = {"papers": None, "own": None}
    for is_papers, group in groups.iterrows():
        work["papers" if is_papers else "own"] = group
    return work | {
        "time": duration(3600 * frame.hours.sum()),
        "processor_time": duration(3600 * frame.processor_hours.sum()),
        "timed": int(frame.processor_hours.count()),
        "without_revision": sum(run.revision is None for run in trained),
    }


def _agreements(rows: Sequence[PageRow]) -> pd.DataFrame:
    """Count our numbers beside the papers', by kind and agreement."""
    compared = [row for row in rows if row.agreement and paper_of(row.recipe.name) in PAPERS]
    kinds = pd.Categorical(
        [row.kind for row in compared], ["own", "baseline", "bound", "computed", "computed bound"]
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
    known = columns([row.outcome for row in rows])  # without those that are empty
    empty = [""] * len(rows)
    printed = known.get("paper", empty)
    ours = known.get("ours", empty)
    selected = known.get("ours, selected on validation", empty)
    records: list[dict[str, str]] = []
    for k, row in enumerate(rows):
        parameters = ""
        if row.outcome.parameters is not None:
            parameters = f"{row.outcome.parameters:,}"
        records.append(
            {
                "recipe": row.recipe.name,
                "network": known["network"][k],
                "compared": describe_quantity(row.row),
                "parameters": parameters,
                "paper": printed[k],
                "ours": _ours(row, ours[k]),
                "selected on validation": selected[k],
                "updates": _updates(row.runs),
                "processor time": _processor_time(row.runs),
            }
        )
    return pd.DataFrame(records)


def _ours(row: PageRow, cell: str) -> str:
    """Write our number, or why there is none.

    It is in bold if it is worse than the paper's. It is in italics if it is better, or differs in
    a quantity for which neither higher nor lower is better.
    """
    parts: list[str] = []
    unfinished = [run for run in row.runs if run.state == "unfinished"]
    if row.outcome.values:
        number = cell
        if row.agreement == "worse here":
            number = f"**{cell}**"
        elif row.agreement in DIFFERENT:
            number = f"*{cell}*"
        parts.append(number + _run_count(row))
    elif not unfinished:
        parts.append("no valid run")
    for run in unfinished:
        if run.value is None:
            parts.append("no number yet")
        else:
            parts.append(f"{run.value:#.4g} so far")
    return "; ".join(parts)


def _run_count(row: PageRow) -> str:
    """Count the runs in the mean, and those above the paper's bound."""
    if isinstance(row.row, Computed):
        return ""
    outcome = row.outcome
    values = outcome.counted_values
    parts = [str(len(values))]
    if outcome.at_most is not None:
        # a NaN is above any bound
        above = sum(not each <= outcome.at_most for each in values)
        if above:
            parts.append(f"{above} above")
    if outcome.failed:
        parts.append(f"{len(outcome.failed)} diverged")
    if outcome.best_point:
        parts.append(f"best of {len(set(outcome.points))}: {outcome.best_point}")
    return f" ({', '.join(parts)})"


def _updates(runs: Sequence[ArchivedRun]) -> str:
    """Write the number of updates of finished runs, and the progress of unfinished ones."""
    steps = {run.steps for run in runs if run.state in ("ended", "diverged")} - {0}
    parts: list[str] = []
    if len(steps) == 1:
        parts.append(f"{min(steps):,}")
    elif steps:
        parts.append(f"{min(steps):,} to {max(steps):,}")
    for run in runs:
        if run.state == "unfinished" and run.all_steps:
            parts.append(f"{run.steps:,} of {run.all_steps:,}")
        elif run.state == "unfinished":
            parts.append(f"{run.steps:,}")
    return "; ".join(parts)


def _processor_time(runs: Sequence[ArchivedRun]) -> str:
    """Write the mean processor time of a run, over all its threads, if it was recorded."""
    ended = [run for run in runs if run.state != "unfinished"]
    seconds = [run.processor_seconds for run in ended if run.processor_seconds is not None]
    if not seconds:
        return ""
    return duration(statistics.fmean(seconds))


def _shorter(trained: Sequence[ArchivedRun], recipes: Mapping[str, Recipe]) -> pd.DataFrame:
    """Return the runs shorter than the paper's, one line per network, point and length."""
    rows = rows_by_name(recipes)
    lines: list[dict[str, str]] = []
    groups: dict[tuple[str, str, str, Any], list[ArchivedRun]] = {}
    for run in trained:
        if run.reduced is not None:
            groups.setdefault((run.recipe, run.row, run.point, run.reduced), []).append(run)
    for (recipe, label, point, length), its in groups.items():
        row = rows[recipe, label]
        values = [run.value for run in its if run.value is not None]
        ours = "no successful run"
        if values:
            ours = f"{statistics.fmean(values):#.4g} ({len(values)})"
        diverged = sum(run.state == "diverged" for run in its)
        if diverged:
            ours += f"; {diverged} diverged"
        share = ""
        if isinstance(row, Row):
            share = f"{share_of_full(row, length):.2g}"
        lines.append(
            {
                "recipe": recipe,
                "network": label,
                "point": point,
                "compared": describe_quantity(row),
                "length": str(length),
                "share": share,
                "ours": ours,
                "updates": _updates(its),
            }
        )
    return pd.DataFrame(lines)


# Differences


@dataclass(frozen=True)
class Remark:
    """A paragraph on numbers of ours that differ from the paper's, or on a claim.

    Args:
        kind: `explained`, `open`, or `cannot be judged`.
        text: The paragraph.
        recipe: The recipe of the rows; empty for a remark on a claim.
        rows: The labels of the rows.
        claim: The name of the claim; empty for a remark on rows.
    """

    kind: str
    text: str
    recipe: str = ""
    rows: tuple[str, ...] = ()
    claim: str = ""


def read_texts(
    path: Path, recipes: Mapping[str, Recipe], claims: Mapping[str, Claim]
) -> tuple[dict[str, str], list[Remark]]:
    """Read what we say about each paper, and the remarks on what differs.

    Raises:
        ValueError: If a text is about an unknown paper, row or claim, or of an unknown kind.
    """
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    papers = {name: " ".join(text.split()) for name, text in content.get("papers", {}).items()}
    unknown = papers.keys() - PAPERS.keys()
    if unknown:
        raise ValueError(f"expected papers among {', '.join(PAPERS)} in {path}, got {unknown}")
    known = rows_by_name(recipes)
    remarks: list[Remark] = []
    for entry in content.get("remark", []):
        remark = Remark(
            kind=entry["kind"],
            text=" ".join(entry["text"].split()),
            recipe=entry.get("recipe", ""),
            rows=tuple(entry.get("rows", ())),
            claim=entry.get("claim", ""),
        )
        if remark.kind not in ("explained", "open", "cannot be judged"):
            raise ValueError(f"expected a kind of remark in {path}, got {remark.kind!r}")
        for row in remark.rows:
            if (remark.recipe, row) not in known:
                raise ValueError(f"expected a row of {remark.recipe} in {path}, got {row!r}")
        if remark.claim and remark.claim not in claims:
            raise ValueError(f"expected the name of a claim in {path}, got {remark.claim!r}")
        remarks.append(remark)
    return papers, remarks


def _differences(
    rows: Sequence[PageRow], judgements: Sequence[Judgement], remarks: Sequence[Remark]
) -> dict[str, list[str]]:
    """Return the paragraphs on what differs, by kind."""
    paragraphs: dict[str, list[str]] = {"explained": [], "open": [], "cannot be judged": []}
    decided = {each.claim.id for each in judgements if each.is_decided}
    shown = {(row.recipe.name, row.row.label): row for row in rows}
    explained: set[tuple[str, str]] = set()
    for remark in remarks:
        its: list[PageRow] = []
        for label in remark.rows:
            explained.add((remark.recipe, label))
            row = shown.get((remark.recipe, label))
            if row is not None and row.agreement in (*DIFFERENT, "cannot be judged"):
                its.append(row)
        if its or remark.claim in decided:
            paragraphs[remark.kind].append(f"{_subject(remark, its)}: {remark.text}")
    for name, row in shown.items():
        if row.agreement not in DIFFERENT or name in explained:
            continue
        subject = f"{row.recipe.name}, **{row.row.label}**{_difference(row)}"
        paragraphs["open"].append(f"{subject}: not explained yet.")
    return {kind: texts for kind, texts in paragraphs.items() if texts}


def _subject(remark: Remark, rows: Sequence[PageRow]) -> str:
    """Name the rows of a paragraph and by how much each differs, or its claim."""
    if remark.claim:
        return f"Claim {remark.claim}"
    labels = ", ".join(f"**{row.row.label}**{_difference(row)}" for row in rows)
    return f"{remark.recipe}, {labels}"


def _difference(row: PageRow) -> str:
    """Describe how a number differs from the paper's; empty if it agrees."""
    outcome = row.outcome
    if row.agreement not in DIFFERENT:
        return ""
    seed = ""
    if outcome.seeds and len(outcome.counted_values) == 1:
        seed = ", from one seed"
    if outcome.at_most is not None:
        return f" (above the bound of the paper's curve{seed})"
    distance = (outcome.mean or 0.0) - (outcome.reported or 0.0)
    side = "above" if distance > 0 else "below"
    return f" ({plain(abs(distance))} {side} the paper's number{seed})"


# How it was run


def _machines(trained: Sequence[ArchivedRun]) -> pd.DataFrame:
    """Return the table of machines."""
    frame = pd.DataFrame(
        {
            "processor": run.versions.get("processor", "unknown"),
            "torch": run.versions.get("torch", "unknown"),
            "seconds": run.seconds,
        }
        for run in trained
    )
    if frame.empty:
        return frame
    groups = frame.groupby(["processor", "torch"], sort=False)["seconds"].agg(["size", "sum"])
    groups = groups.reset_index()
    return pd.DataFrame(
        {
            "processor": groups.processor,
            "torch": groups.torch,
            "runs": groups["size"].map("{:,}".format),
            "time": groups["sum"].map(duration),
        }
    )


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


def describe_quantity(row: Entry) -> str:
    """Describe the quantity that a row compares, and the rule that picks one number per run."""
    reported = row.reported
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
