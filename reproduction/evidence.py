"""What the archive says of each claim: the verdict, and the runs that are missing.

The rule: a comparison decides if its margin is above its noise, whichever way it points.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain, product
from statistics import fmean, median, stdev
from typing import Any

from scipy.stats import fisher_exact

from eigenrnn import ENRNN, NCGRU, NnRNN, ScoRNN
from eigenrnn_experiments.recipes import Entry, Recipe, Row
from eigenrnn_experiments.recipes.nc_gru.released import ReleasedNCGRU
from eigenrnn_experiments.training.run import Length, Run, RunNumber
from reproduction.agreement import AT_CHANCE
from reproduction.archive import Archive, current_runs, paper_of, rows_by_name
from reproduction.claim import LEAST_SEEDS, Check, Claim, Runs, Verdict, success

__all__ = [
    "HELD_OUT",
    "ArchivedEvidence",
    "CheckResult",
    "Judgement",
    "is_at_chance",
    "is_own_network",
    "missing_runs",
    "share_of_full",
]

HELD_OUT = (11, 12)
"""The seeds that decide nothing; their runs show whether a verdict lasts."""

OWN_LAYERS = {
    "scornn": (ScoRNN,),
    "enrnn": (ENRNN,),
    "nnrnn": (NnRNN,),
    "nc_gru": (NCGRU, ReleasedNCGRU),
}
"""The layers that a paper proposes; its other networks are baselines."""

TRAINED = 0.5  # of the chance-level loss: a baseline below it has trained
RATES = 3  # at which a baseline has to fail, without and with clipping, before it counts
ONE_SEED_ERRORS = 10.0  # standard errors of the evaluation that a single seed needs
ONE_SEED_SPREADS = 4.0  # of the largest spread of seeds on the task
LEVEL = {True: 0.05, False: 0.025}  # of Fisher's test, up to so many pairs and beyond
_ROUNDING = 1e-9  # three successes of three pairs are at 5 %
EARLY_PAIRS = 8


def is_own_network(row: Row, paper: str) -> bool:
    """Whether a row is of the network that its paper proposes, and not of a baseline."""
    if paper == "nonnormal":  # which proposes initialisers
        return row.options.get("kind") in ("chain", "feedback_chain")
    return row.layer in OWN_LAYERS.get(paper, ())


def share_of_chance(run: Run) -> float:
    """Return the loss of the best evaluation, on the test set if there is one, as a share.

    It is infinite for a run that diverged, and NaN without a loss or a chance-level loss.
    """
    measured = run.best.get("test") or run.best.get("validation") or {}
    if run.state == "diverged":
        return math.inf
    if "loss" not in measured or not run.baseline:
        return math.nan
    return measured["loss"] / run.baseline


def is_at_chance(run: Run) -> bool:
    """Whether a network never got more than 5 % below the chance-level loss of its task."""
    return share_of_chance(run) >= AT_CHANCE


def share_of_full(row: Row, length: Length | None) -> float:
    """Return a length as a share of the paper's."""
    if length is None:
        return 1.0
    return length.number / getattr(row.settings, length.unit)


@dataclass(frozen=True)
class CheckResult:
    """The result of one comparison.

    Args:
        numbers: The median number of each network.
        runs: The runs of each network that were compared.
        margin: By how much it is true; negative if it is false, NaN if a number is missing.
        noise: What the margin has to exceed.
        undecided: Why it is neither true nor false; empty if it is one of them.
    """

    numbers: Mapping[Runs, float]
    runs: Mapping[Runs, Sequence[Run]]
    margin: float = math.nan
    noise: float = math.nan
    undecided: str = ""

    @property
    def outcome(self) -> bool | None:
        """Whether it is true; None if it is not decided."""
        return None if self.undecided else self.margin > 0


@dataclass(frozen=True)
class Judgement:
    """What the runs say of a claim.

    Args:
        claim: The claim.
        verdict: The verdict.
        results: The result of each comparison, the decisive ones first.
    """

    claim: Claim
    verdict: Verdict
    results: Mapping[Check, CheckResult]

    @property
    def runs(self) -> list[Run]:
        """The runs that were compared, each once."""
        compared = chain(*(chain(*result.runs.values()) for result in self.results.values()))
        return list({run.key: run for run in compared}.values())

    @property
    def trained(self) -> list[Run]:
        """The runs that were compared, without numbers that are computed."""
        return [run for run in self.runs if run.state != "computed"]

    @property
    def reasons(self) -> list[str]:
        """Why comparisons are not decided, each once."""
        reasons = [result.undecided for result in self.results.values() if result.undecided]
        return list(dict.fromkeys(reasons))

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
            why = "; ".join(self.reasons) or "every comparison decides"
            said = f"its verdict is {claim.verdict!r}, got {self.verdict!r}: {why}"
            found.append(f"{claim.id}: {said}")
        for name, stated in claim.numbers.items():
            ours = math.nan
            for check, result in self.results.items():
                if check.number == stated.number:
                    ours = result.numbers.get(stated.network, ours)
            if not stated.agrees(ours):
                found.append(f"{claim.id}: its {name!r} is {stated.text}, got {ours}")
        return found


class ArchivedEvidence:
    """What an archive holds of each network.

    Args:
        recipes: All recipes, by name.
        archive: The archive.
        held_out: Whether the seeds that are held out are judged, in place of the others.
    """

    def __init__(
        self, recipes: Mapping[str, Recipe], archive: Archive, *, held_out: bool = False
    ) -> None:
        self.recipes = recipes
        self.rows: Mapping[tuple[str, str], Entry] = rows_by_name(recipes)
        self._runs: dict[tuple[str, str], list[Run]] = {}
        for run in current_runs(recipes, archive.runs())[0]:
            if (run.key.seed in HELD_OUT) == held_out:
                self._runs.setdefault((run.key.recipe, run.key.row), []).append(run)

    def judge(self, claims: Mapping[str, Claim]) -> list[Judgement]:
        """Return what the runs say of each claim, in order."""
        return [self._judge(claim) for claim in claims.values()]

    def _judge(self, claim: Claim) -> Judgement:
        results = {check: self.compare(check) for check in claim.test}
        decisive = [results[check] for check in claim.decisive]
        verdict: Verdict = "not decided"
        if not all(result.runs for result in decisive):  # partial evidence decides nothing
            pass
        elif claim.other_data:
            verdict = "other data"
        elif any(result.outcome is False for result in decisive):
            verdict = "refuted at our settings"
        elif all(result.outcome for result in results.values()):
            verdict = "holds"
        elif all(result.outcome for result in decisive):
            verdict = "partly"
        return Judgement(claim, verdict, results)

    def compare(self, check: Check) -> CheckResult:
        """Compare the medians of the networks, beside the noise of seeds and of the evaluation.

        Two networks at the chance level have no order.
        """
        runs = self._comparable(check)
        numbers: dict[Runs, list[float]] = {}
        scaled: list[list[float]] = []
        for network, its in runs.items():
            runs[network] = [
                run for run in its if not check.number.counts or check.number.counts(run)
            ]
            read = [check.number.read(run) for run in runs[network]]
            numbers[network] = [number for number in read if number is not None]
            if not read or len(numbers[network]) < len(read):
                return CheckResult({}, {}, undecided="not trained for long enough")
            bounds = [math.inf] * len(read)
            if check.number.is_in_updates:  # of a network that never gets there
                bounds = [run.steps for run in runs[network]]
            at_least = map(min, numbers[network], bounds)
            scaled.append([check.number.scaled(number) for number in at_least])
        if check.number == success:
            return self._successes(runs, numbers)
        margin = check.margin([median(its) for its in scaled])
        noise = self._noise(check, runs, scaled)
        medians = {network: median(its) for network, its in numbers.items()}
        result = CheckResult(medians, runs, margin, noise)
        return replace(result, undecided=self._undecided(check, result))

    def _undecided(self, check: Check, result: CheckResult) -> str:
        """Return why a comparison decides nothing; empty if it does."""
        every = list(chain(*result.runs.values()))
        printed = self.printed(check, result)
        if printed is not None and not check.margin(printed) >= 0:
            return "the paper's own numbers fail this test"
        if len(result.runs) > 1 and all(map(is_at_chance, every)):
            return "both networks are at the chance level"
        if not abs(result.margin) > result.noise:
            if (
                min(len({run.key.seed for run in its}) for its in result.runs.values())
                < LEAST_SEEDS
            ):
                return "fewer than three seeds"
            return "the margin is within the noise"
        if result.margin < 0:
            for network in check.networks:
                if self._is_untrained_baseline(network, result.runs[network]):
                    return f"{network.row} does not train, and was not tried at {RATES} rates"
        return ""

    def printed(self, check: Check, result: CheckResult) -> list[float] | None:
        """Return the paper's numbers in place of ours, scaled; None if it has none."""
        if check.printed is not None:
            return list(check.printed)
        if not check.number.is_reported:
            return None
        found: list[float] = []
        for network in check.networks:
            first = self.rows[network.recipe, network.row].reported[0]
            if first.value is None:
                return None
            papers = {first.measure: RunNumber(first.value)}
            number = check.number.of(replace(result.runs[network][0], numbers=papers))
            if number is None:
                return None
            found.append(check.number.scaled(number))
        return found

    def _is_untrained_baseline(self, network: Runs, runs: Sequence[Run]) -> bool:
        """Whether a baseline has not trained, and has not failed at enough rates either."""
        row = self.rows[network.recipe, network.row]
        if not isinstance(row, Row) or is_own_network(row, paper_of(network.recipe)):
            return False
        if median(map(share_of_chance, runs)) < TRAINED:
            return False
        tried = self.tried(network)
        return min(len(tried[False]), len(tried[True])) < RATES

    def tried(self, network: Runs) -> dict[bool, set[float]]:
        """Return the learning rates of a network, by whether the gradient was clipped."""
        found: dict[bool, set[float]] = {False: set(), True: set()}
        for arm in (network, *network.arms):
            for run in chain(*self.runs(arm).values()):
                if run.state == "computed":
                    continue
                found[run.settings.get("clip_norm") is not None].add(run.settings["lr"])
        return found

    def _noise(
        self,
        check: Check,
        runs: Mapping[Runs, Sequence[Run]],
        scaled: Sequence[Sequence[float]],
    ) -> float:
        """Return the spread of the seeds or the standard error, of the difference.

        With fewer than three seeds it is ten standard errors, or four times the largest spread of
        seeds in the archive on the same task; without a standard error it is infinite.
        """
        its = list(chain(*runs.values()))
        if all(run.state == "computed" for run in its):
            return 0.0
        error = math.inf
        if check.number.examples is not None:
            shares = [median(numbers) for numbers in scaled]
            error = math.sqrt(sum(p * (1 - p) for p in shares) / check.number.examples)
        if min(len({run.key.seed for run in of}) for of in runs.values()) < LEAST_SEEDS:
            spread = self._largest_spread(check, its[0])
            return max(ONE_SEED_ERRORS * error, ONE_SEED_SPREADS * spread)
        spread = math.hypot(*map(_spread, scaled))
        return max(spread, 0.0 if math.isinf(error) else error)

    def _largest_spread(self, check: Check, like: Run) -> float:
        """Return the largest spread of seeds on a task; infinite if it has no three seeds."""
        groups: dict[Any, list[float]] = {}
        for run in chain(*self._runs.values()):
            number = check.number.read(run)
            if run.task == like.task and number is not None and run.state == "ended":
                name = (run.key.recipe, run.key.row, run.key.point, run.key.reduced)
                groups.setdefault(name, []).append(check.number.scaled(number))
        spreads = [_spread(its) for its in groups.values() if len(its) >= LEAST_SEEDS]
        return max(spreads, default=math.inf)

    def _successes(
        self, runs: Mapping[Runs, Sequence[Run]], numbers: Mapping[Runs, Sequence[float]]
    ) -> CheckResult:
        """Compare two success rates by Fisher's exact test after each pair, in order."""
        shares = {network: fmean(its) for network, its in numbers.items()}
        more, rarer = numbers.values()
        pairs = min(len(more), len(rarer))
        for k in sorted({*range(1, min(pairs, EARLY_PAIRS) + 1), pairs}):
            a, b = round(sum(more[:k])), round(sum(rarer[:k]))
            level = LEVEL[k <= EARLY_PAIRS]
            if min(_fisher(k, a, b), _fisher(k, b, a)) <= level + _ROUNDING:
                return CheckResult(shares, runs, (a - b) / k, 0.0)
        margin = fmean(more) - fmean(rarer)
        why = f"{pairs} pairs do not tell the rates of success apart"
        return CheckResult(shares, runs, margin, undecided=why)

    def _comparable(self, check: Check) -> dict[Runs, list[Run]]:
        """Return the runs of each network; of one length, if the number depends on it."""
        by_length = {network: self.runs(self.best_arm(network)) for network in check.networks}
        if not check.number.grows or len(by_length) < 2:
            found: dict[Runs, list[Run]] = {}
            for network, its in by_length.items():
                longest: dict[tuple[str, int | None], Run] = {}
                for run in chain(*its.values()):  # the longest come first
                    longest.setdefault((run.key.point, run.key.seed), run)
                found[network] = list(longest.values())
            return found
        chosen: dict[Runs, list[Run]] = {network: [] for network in by_length}
        # the length with the most seeds, of these the longest, which comes first
        for length in by_length[check.networks[0]]:
            runs = {network: its.get(length, []) for network, its in by_length.items()}
            if min(map(len, runs.values())) > min(map(len, chosen.values())):
                chosen = runs
        return chosen

    def best_arm(self, network: Runs) -> Runs:
        """Return the network at the rate with the lowest loss, by the median over its seeds."""
        losses: dict[float, Runs] = {}
        for arm in (network, *network.arms):
            its = [run.deciding for run in chain(*self.runs(arm).values())]
            losses.setdefault(median(its) if its else math.inf, arm)
        return losses[min(losses)]

    def runs(self, network: Runs) -> dict[Length | None, list[Run]]:
        """Return the runs that have at least the least length, by their length, longest first.

        A seed counts if it has a run of every point.
        """
        found: dict[Length | None, list[Run]] = {}
        row = self.rows[network.recipe, network.row]
        finished = self._all(network)
        if isinstance(row, Row):
            finished.sort(
                key=lambda run: (-share_of_full(row, run.key.reduced), run.key.seed or 0)
            )
            least = share_of_full(row, network.least)
            finished = [run for run in finished if share_of_full(row, run.key.reduced) >= least]
        for run in finished:
            found.setdefault(run.key.reduced, []).append(run)
        for length, its in found.items():
            seeds = [run.key.seed for run in its]
            found[length] = [
                run for run in its if seeds.count(run.key.seed) == len(network.points)
            ]
        return {length: its for length, its in found.items() if its}

    def _all(self, network: Runs) -> list[Run]:
        its = self._runs.get((network.recipe, network.row), [])
        return [run for run in its if run.key.point in network.points]


def _spread(scaled: Sequence[float]) -> float:
    """Return the standard deviation; infinite if a number is."""
    return stdev(scaled) if all(map(math.isfinite, scaled)) else math.inf


@cache
def _fisher(pairs: int, more: int, rarer: int) -> float:
    """Return the chance of so many more successes if both rates are equal."""
    table = [[more, pairs - more], [rarer, pairs - rarer]]
    result: Any = fisher_exact(table, alternative="greater")
    return result.pvalue


def missing_runs(claims: Mapping[str, Claim], evidence: ArchivedEvidence) -> dict[Runs, str]:
    """Return the runs that claims need and the archive lacks, each with a claim that needs it.

    Args:
        claims: The claims, by name.
        evidence: What the archive holds.
    """
    missing: dict[Runs, str] = {}
    for claim in claims.values():
        for network in claim.networks:
            for seed, point in product(network.seeds, network.points):
                run = replace(network, seeds=(seed,), points=(point,))
                known = [its.key.seed for its in chain(*evidence.runs(run).values())]
                if seed not in known and None not in known:
                    missing.setdefault(run, claim.id)
    return missing
