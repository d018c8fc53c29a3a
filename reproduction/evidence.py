"""What the archive says of each claim: the verdict, and the runs that are missing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, product
from statistics import fmean, median

from eigenrnn_experiments.recipes import Computed, Entry, Recipe, Row
from eigenrnn_experiments.training.run_key import Length
from reproduction.agreement import AT_CHANCE
from reproduction.archive import Archive, ArchivedRun, current_runs, rows_by_name
from reproduction.claim import AGREEING_SHARE, Check, Claim, Median, Runs, Verdict
from reproduction.cost import estimated_seconds

__all__ = [
    "ArchivedEvidence",
    "CheckResult",
    "Job",
    "Judgement",
    "is_at_chance",
    "missing_jobs",
    "share_of_full",
]


def is_at_chance(run: ArchivedRun) -> bool:
    """Whether a network never got more than 5 % below the chance-level loss of its task.

    The loss is that of the best evaluation, on the test set if there is one. A run that diverged
    has learnt nothing either. A run without a chance-level loss is not at chance.
    """
    measured = run.best.get("test") or run.best.get("validation") or {}
    loss = measured.get("loss")
    if run.state == "diverged":
        return True
    return bool(loss is not None and run.baseline and loss >= AT_CHANCE * run.baseline)


def share_of_full(row: Row, length: Length | None) -> float:
    """Return a length as a share of the paper's."""
    if length is None:
        return 1.0
    return length.number / getattr(row.settings, length.unit)


@dataclass(frozen=True)
class CheckResult:
    """The result of one comparison.

    Args:
        outcomes: Whether it is true, of each run or pair of runs that has an order. It is empty if
            a number is missing.
        medians: The median number of each network.
        runs: The runs of each network that were compared.
    """

    outcomes: Sequence[bool]
    medians: Mapping[Runs, float]
    runs: Mapping[Runs, Sequence[ArchivedRun]]

    @property
    def is_true(self) -> bool:
        """Whether the comparison is true in at least `AGREEING_SHARE` of the runs or pairs."""
        return bool(self.outcomes) and fmean(self.outcomes) >= AGREEING_SHARE


@dataclass(frozen=True)
class Judgement:
    """What the runs say of a claim.

    Args:
        claim: The claim.
        verdict: The verdict.
        results: The result of each comparison, the decisive ones first.
        done: The share of the training asked for that the network furthest behind has done.
    """

    claim: Claim
    verdict: Verdict
    results: Mapping[Check, CheckResult]
    done: float

    @property
    def runs(self) -> list[ArchivedRun]:
        """The runs that were compared, each once."""
        compared = chain(*(chain(*result.runs.values()) for result in self.results.values()))
        return list({run.name: run for run in compared}.values())

    @property
    def trained(self) -> list[ArchivedRun]:
        """The runs that were compared, without numbers that are computed."""
        return [run for run in self.runs if run.state != "computed"]

    @property
    def before_test(self) -> int:
        """The number of its trained runs that ended before the test was last changed."""
        changed = datetime.fromisoformat(self.claim.changed)
        ended = [datetime.fromisoformat(run.ended) for run in self.trained if run.ended]
        return sum(each < changed for each in ended)

    def mismatches(self) -> list[str]:
        """Say where the text of the claim and the runs differ."""
        claim = self.claim
        found: list[str] = []
        if claim.verdict != self.verdict:
            found.append(f"{claim.id}: its verdict is {claim.verdict!r}, got {self.verdict!r}")
        for name, stated in claim.numbers.items():
            if isinstance(stated, Median):
                ours = self._median(stated)
                agrees = stated.agrees(ours)
            else:
                outcomes = self.results[stated.check].outcomes
                ours = f"{sum(outcomes)} of {len(outcomes)}"
                agrees = stated.text == ours
            if not agrees:
                found.append(f"{claim.id}: its {name!r} is {stated.text}, got {ours}")
        return found

    def _median(self, stated: Median) -> float:
        for check, result in self.results.items():
            if check.number == stated.number and stated.network in result.medians:
                return result.medians[stated.network]
        return math.nan


class ArchivedEvidence:
    """What an archive holds of each network.

    Args:
        recipes: All recipes, by name.
        archive: The archive.
    """

    def __init__(self, recipes: Mapping[str, Recipe], archive: Archive) -> None:
        self.recipes = recipes
        self.rows: Mapping[tuple[str, str], Entry] = rows_by_name(recipes)
        self._runs: dict[tuple[str, str], list[ArchivedRun]] = {}
        for run in current_runs(recipes, archive.runs())[0]:
            self._runs.setdefault((run.recipe, run.row), []).append(run)

    def judge(self, claims: Mapping[str, Claim]) -> list[Judgement]:
        """Return what the runs say of each claim, in order."""
        return [self._judge(claim) for claim in claims.values()]

    def _judge(self, claim: Claim) -> Judgement:
        results = {check: self.compare(check) for check in claim.test}
        done = min(map(self.done, claim.networks))
        judgement = Judgement(claim, "not decided yet", results, done)
        if any(self._refutes(check, results[check], claim.seeds) for check in claim.decisive):
            return replace(judgement, verdict="fails")
        has_seeds = all(self._has_seeds(network, claim.seeds) for network in claim.networks)
        if not has_seeds or not all(result.outcomes for result in results.values()):
            return judgement
        if all(map(is_at_chance, judgement.runs)):
            return judgement
        if all(result.is_true for result in results.values()):
            return replace(judgement, verdict="holds")
        if all(results[check].is_true for check in claim.decisive):
            return replace(judgement, verdict="partly")
        return replace(judgement, verdict="fails")

    def _refutes(self, check: Check, result: CheckResult, seeds: int) -> bool:
        """Whether a decisive comparison is false; those that are missing cannot change that."""
        if not result.outcomes or result.is_true:
            return False
        has_seeds = all(self._has_seeds(network, seeds) for network in check.networks)
        return has_seeds and not all(map(is_at_chance, chain(*result.runs.values())))

    def _has_seeds(self, network: Runs, least: int) -> bool:
        runs = list(chain(*self.runs(network).values()))
        seeds = {run.seed for run in runs}
        return len(seeds) >= least or seeds == {None}  # without training there are no seeds

    def compare(self, check: Check) -> CheckResult:
        """Compare all combinations of one run of each network.

        A pair in which both networks are at the chance level has no order, and none in which
        neither gets to what is awaited before the shorter of the two trainings ends.
        """
        runs: dict[Runs, list[ArchivedRun]] = {}
        numbers: dict[Runs, list[float]] = {}
        for network, its in self._comparable(check).items():
            runs[network] = [
                run for run in its if not check.number.counts or check.number.counts(run)
            ]
            read = [check.number.read(run) for run in runs[network]]
            numbers[network] = [float(number) for number in read if number is not None]
            if not read or len(numbers[network]) < len(read):
                return CheckResult((), {}, {})
        outcomes: list[bool] = []
        for its, read in zip(product(*runs.values()), product(*numbers.values()), strict=True):
            end = math.inf
            if check.number.is_first_update:
                end = min(run.steps for run in its)
            known = [number if number <= end else math.inf for number in read]
            is_pair = len(its) > 1
            if is_pair and (all(map(is_at_chance, its)) or all(map(math.isinf, known))):
                continue
            outcomes.append(check.holds(known))
        if check.of_means:
            outcomes = [check.holds(list(map(fmean, numbers.values())))]
        return CheckResult(outcomes, {its: median(of) for its, of in numbers.items()}, runs)

    def _comparable(self, check: Check) -> dict[Runs, list[ArchivedRun]]:
        """Return the runs of each network; of one length, if the number depends on it."""
        by_length = {network: self.runs(network) for network in check.networks}
        if not check.number.grows or len(by_length) < 2:
            found: dict[Runs, list[ArchivedRun]] = {}
            for network, its in by_length.items():
                longest: dict[tuple[str, int | None], ArchivedRun] = {}
                for run in chain(*its.values()):  # the longest come first
                    longest.setdefault((run.point, run.seed), run)
                found[network] = list(longest.values())
            return found
        chosen: dict[Runs, list[ArchivedRun]] = {network: [] for network in by_length}
        # the length with the most seeds, of these the longest, which comes first
        for length in by_length[check.networks[0]]:
            runs = {network: its.get(length, []) for network, its in by_length.items()}
            if min(map(len, runs.values())) > min(map(len, chosen.values())):
                chosen = runs
        return chosen

    def runs(self, network: Runs) -> dict[Length | None, list[ArchivedRun]]:
        """Return the runs that have at least the least length, by their length, longest first.

        A seed counts if it has a run of every point.
        """
        found: dict[Length | None, list[ArchivedRun]] = {}
        row = self.rows[network.recipe, network.row]
        finished = [run for run in self._all(network) if run.state != "unfinished"]
        if isinstance(row, Row):
            finished.sort(key=lambda run: -share_of_full(row, run.reduced))
        for run in finished:
            if not isinstance(row, Row) or self._done(row, network, run) >= 1:
                found.setdefault(run.reduced, []).append(run)
        for length, its in found.items():
            seeds = [run.seed for run in its]
            found[length] = [run for run in its if seeds.count(run.seed) == len(network.points)]
        return {length: its for length, its in found.items() if its}

    def done(self, network: Runs) -> float:
        """Return the share of the training asked for that is done, over all seeds and points."""
        row = self.rows[network.recipe, network.row]
        if not isinstance(row, Row):
            return float(bool(self._all(network)))
        longest: dict[tuple[int | None, str], float] = {}
        for run in self._all(network):
            name = (run.seed, run.point)
            longest[name] = max(longest.get(name, 0.0), self._done(row, network, run))
        asked = len(network.seeds) * len(network.points)
        return min(1.0, sum(min(1.0, each) for each in longest.values()) / asked)

    def _done(self, row: Row, network: Runs, run: ArchivedRun) -> float:
        """Return how far a run has come, as a share of the least length."""
        share = share_of_full(row, run.reduced) / share_of_full(row, network.least)
        if run.state == "unfinished":
            return share * run.steps / (run.all_steps or math.inf)
        return share

    def _all(self, network: Runs) -> list[ArchivedRun]:
        its = self._runs.get((network.recipe, network.row), [])
        return [run for run in its if run.point in network.points]


@dataclass(frozen=True)
class Job:
    """A run that is missing.

    Args:
        claim: The claim that needs it; empty for a run that no claim needs.
        recipe: The recipe, with the length of the run.
        run: The network, with one point and one seed.
        seconds: A rough estimate of its time; infinite if data is missing.
        missing_data: The data that is not on this machine; None if none is missing.
    Units:
        `seconds` on one core.
    """

    claim: str
    recipe: Recipe
    run: Runs
    seconds: float
    missing_data: str | None = None


def missing_jobs(
    claims: Mapping[str, Claim], evidence: ArchivedEvidence, *, everything: bool = False
) -> list[Job]:
    """Return the runs that claims need and the archive lacks, those of the quickest claim first.

    Claims whose time is not known come last.

    Args:
        claims: The claims, by name.
        evidence: What the archive holds.
        everything: Whether the full runs of all rows of all recipes follow.
    """
    groups = [_missing(evidence, claim.networks, claim.id) for claim in claims.values()]
    groups.sort(key=lambda jobs: sum(job.seconds for job in jobs))
    if everything:
        groups.append(_missing(evidence, _all_networks(evidence.recipes)))
    planned: dict[Runs, Job] = {}
    for job in chain(*groups):
        planned.setdefault(job.run, job)
    return list(planned.values())


def _missing(evidence: ArchivedEvidence, networks: Sequence[Runs], claim: str = "") -> list[Job]:
    """Return the missing runs of each network."""
    jobs: list[Job] = []
    for network in networks:
        recipe = evidence.recipes[network.recipe]
        if network.least is not None:
            recipe = recipe.reduced(network.least)
        row = rows_by_name({recipe.name: recipe})[network.recipe, network.row]
        seconds = 0.0
        missing_data: str | None = None
        if isinstance(row, Row):
            seconds = estimated_seconds(row) or math.inf
            missing_data = row.task.missing_data()
        for seed, point in product(network.seeds, network.points):
            run = replace(network, seeds=(seed,), points=(point,))
            known = [its.seed for its in chain(*evidence.runs(run).values())]
            if seed not in known and None not in known:
                jobs.append(Job(claim, recipe, run, seconds, missing_data))
    return jobs


def _all_networks(recipes: Mapping[str, Recipe]) -> list[Runs]:
    """Return the full runs of all rows."""
    found: list[Runs] = []
    for recipe in recipes.values():
        for row in recipe.rows:
            if isinstance(row, Computed):
                found.append(Runs(recipe.name, row.label))
            elif isinstance(row, Row):
                seeds = tuple(row.seeds or recipe.seeds)
                found.append(Runs(recipe.name, row.label, seeds, tuple(row.points())))
    return found
