"""A central claim of a paper as data: what it says, the runs that decide it, and the verdict."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from itertools import chain, product
from statistics import fmean, median
from typing import Literal, Protocol

from eigenrnn.experiments.training.run_key import Length
from reproduction.agreement import AT_CHANCE
from reproduction.archive import ArchivedRun, RunName

__all__ = [
    "AGREEING_SHARE",
    "AtLeast",
    "AtMost",
    "Check",
    "CheckResult",
    "Claim",
    "Close",
    "Evidence",
    "Judgement",
    "Less",
    "MoreOften",
    "Number",
    "Paper",
    "Progress",
    "Runs",
    "Verdict",
    "accuracy",
    "is_at_chance",
    "last",
    "of_baseline",
    "of_success",
    "plain",
    "score",
    "steps_below",
    "steps_between",
    "success",
    "value",
]

Paper = Literal["scoRNN", "ENRNN", "nnRNN", "NC-GRU", "non-normal initialisers"]

Verdict = Literal["holds", "partly", "fails", "not decided yet"]

AGREEING_SHARE = 0.75
"""The share of runs, or of pairs of runs, in which a comparison must be true."""


def is_at_chance(run: ArchivedRun) -> bool:
    """Whether a network never got more than 5 % below the chance-level loss of its task.

    The loss is that of the best evaluation, on the test set if there is one. A run that diverged
    has learnt nothing either. A run without a chance-level loss is not at chance.
    """
    measured = run.best.get("test") or run.best.get("validation") or {}
    loss = measured.get("loss")
    if run.state == "diverged":
        return True
    if loss is None or not run.baseline:
        return False
    return loss >= AT_CHANCE * run.baseline


# Numbers of a run


def always(_: ArchivedRun) -> bool:
    """Whether a number is read from a run, where it is read from each."""
    return True


@dataclass(frozen=True)
class Number:
    """A number of a run, and how a sentence states it.

    Args:
        name: What it is.
        of: Returns it; None if the run does not have it.
        verb: What the network does in a sentence, such as `ends`.
        what: The words after the verb, such as `a total memory`.
        preposition: The word before the number, such as `at`.
        after: The words after the number, such as `of the chance level`.
        diverged: The number of a run that diverged.
        unit: How it is written: as a plain number, a percentage, or a number of updates.
        relation: The words for a smaller number, such as `faster than`.
        higher_is_better: Whether the best of several networks has the highest number.
        grows: Whether it depends on how long the network was trained, so that two networks have
            to be compared at equal lengths.
        is_first_update: Whether it is the update at which something first happens, which is
            unknown of a run that ended before.
        counts: Whether it is read from a run at all; other runs are left out.
    """

    name: str
    of: Callable[[ArchivedRun], float | None]
    verb: str = "reaches"
    what: str = ""
    preposition: str = ""
    after: str = ""
    diverged: float = math.inf
    unit: Literal["number", "percent", "updates"] = "number"
    relation: str = "below"
    higher_is_better: bool = False
    grows: bool = True
    is_first_update: bool = False
    counts: Callable[[ArchivedRun], bool] = always

    def read(self, run: ArchivedRun) -> float | None:
        """Return the number of a run; None if the run does not have it."""
        if run.state == "diverged":
            return self.diverged
        return self.of(run)

    def say(self, number: float) -> str:
        """Return the amount as it stands in a sentence, without the words around it."""
        if not math.isinf(number):
            return f"{self.preposition} {self.write(number)}".strip()
        if self.unit == "updates":
            return "never"
        return "diverges"

    def write(self, number: float) -> str:
        """Write a finite amount."""
        if self.unit == "updates":
            return f"{number:,.0f} updates"
        if self.unit == "number":
            return plain(number)
        percent = 100 * number
        if percent >= 1:
            return f"{percent:.1f}".removesuffix(".0") + " %"
        if percent >= 0.01:
            return f"{percent:.2g} %"
        return "less than 0.01 %"


def plain(number: float) -> str:
    """Round to three significant digits, without an exponent."""
    return format(Decimal(f"{number:.3g}"), "f")


value = Number("number by the paper's rule", lambda run: run.value)
"""The number that the recipe compares with the paper's; lower is better."""

accuracy = Number(
    "accuracy on the test set",
    lambda run: run.value,
    what="an accuracy",
    preposition="of",
    diverged=0.0,
    unit="percent",
    higher_is_better=True,
)
"""The accuracy that the recipe compares with the paper's."""

success = Number(
    "share of successful runs",
    lambda run: run.value,
    verb="succeeds",
    preposition="in",
    after="of its runs",
    diverged=0.0,
    unit="percent",
    higher_is_better=True,
)
"""1 for a run that succeeds by the paper's rule, 0 for one that fails."""


def last(column: str, what: str = "at a loss") -> Number:
    """Return the last number of a curve, such as ``"test_loss"``."""

    def of(run: ArchivedRun) -> float | None:
        for _, number in reversed(_curve(run, column)):
            if number is not None:
                return number
        return None

    return Number(f"last {column.replace('_', ' ')}", of, "ends", what, "of")


def of_baseline(number: Number, verb: str = "ends", preposition: str = "at") -> Number:
    """Return a loss as a share of the chance-level loss of its task."""

    def of(run: ArchivedRun) -> float | None:
        found = number.of(run)
        if found is None or not run.baseline:
            return None
        return found / run.baseline

    name = f"{number.name} as a share of the chance level"
    after = "of the chance level"
    return Number(name, of, verb, preposition=preposition, after=after, unit="percent")


def steps_below(fraction: float, column: str = "test_loss") -> Number:
    """Return the first update at which a curve is below a fraction of the chance-level loss.

    It is infinite if the curve never falls below.
    """

    def of(run: ArchivedRun) -> float | None:
        return _first_below(run, column, fraction)

    level = f"{100 * fraction:g} % of the chance level"
    return Number(
        f"first update with a {column.replace('_', ' ')} below {level}",
        of,
        f"falls below {level}",
        preposition="after",
        unit="updates",
        relation="faster than",
        grows=False,
        is_first_update=True,
    )


def steps_between(high: float, low: float, column: str = "test_loss") -> Number:
    """Return the number of steps in which a curve falls from one share of chance to another."""

    def of(run: ArchivedRun) -> float | None:
        start = _first_below(run, column, high)
        end = _first_below(run, column, low)
        if start is None or end is None:
            return None
        if math.isinf(end):  # start may be, too, and their difference is no number
            return math.inf
        return end - start

    fall = f"from {100 * high:g} to {100 * low:g} % of the chance level"
    return Number(
        f"updates in which the {column.replace('_', ' ')} falls {fall}",
        of,
        f"falls {fall}",
        preposition="in",
        unit="updates",
        relation="steeper than",
        grows=False,
    )


def score(name: str) -> Number:
    """Return a further score of the best model of a run."""
    words = name.replace("_", " ")
    return Number(words, lambda run: run.scores.get(name), "has", f"a {words}", "of")


def of_success(number: Number, fraction: float = 0.5) -> Number:
    """Return a number of the runs alone that ended and fell below a fraction of chance."""

    def succeeded(run: ArchivedRun) -> bool:
        below = _first_below(run, "test_loss", fraction)
        return run.state == "ended" and below is not None and below < math.inf

    name = f"{number.name} of runs that fall below {fraction:g} of the chance level"
    return replace(number, name=name, counts=succeeded)


def _first_below(run: ArchivedRun, column: str, fraction: float) -> float | None:
    curve = _curve(run, column)
    if run.baseline is None or not curve:
        return None
    for step, number in curve:
        if step is not None and number is not None and number < fraction * run.baseline:
            return step
    return math.inf


def _curve(run: ArchivedRun, column: str) -> list[tuple[float | None, float | None]]:
    """Return the steps of a curve with its numbers; empty if the run does not have it."""
    for curve in (run.evaluated, run.training):
        if column in curve:
            return list(zip(curve["step"], curve[column], strict=True))
    return []


# Runs of a network


@dataclass(frozen=True)
class Runs:
    """The runs of one network that decide a claim.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        seeds: The seeds to train; runs of further seeds count as well.
        points: The points of the row's grid.
        least: The shortest length that decides; None for the paper's full length.
        name: How a sentence calls the network; empty for its label.
    """

    recipe: str
    row: str
    seeds: tuple[int, ...] = (0,)
    points: tuple[str, ...] = ("",)
    least: Length | None = None
    name: str = ""

    @property
    def title(self) -> str:
        """How a sentence calls the network."""
        return self.name or self.row

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.points) * len(self.seeds)


@dataclass(frozen=True)
class Progress:
    """How far the runs of a network have come.

    Args:
        share: The longest run, as a share of the least length; at most 1.
        seeds: The number of seeds with a run of the least length, or of the longest one so far.
        longest: The longest run, as a share of the paper's length; at most 1.
        is_trained: Whether the network is trained at all; a number without training is not.
    """

    share: float
    seeds: int
    longest: float
    is_trained: bool = True


class Evidence(Protocol):
    """What the archive holds of a network."""

    def runs(self, network: Runs) -> dict[Length | None, list[ArchivedRun]]:
        """Return the runs that have at least the least length, by their length, longest first."""
        ...

    def progress(self, network: Runs) -> Progress:
        """Return how far the runs have come."""
        ...


# Comparisons


@dataclass(frozen=True)
class CheckResult:
    """The result of one comparison.

    Args:
        outcomes: Whether it is true, of each run or pair of runs that has an order. It is empty if
            a number is missing.
        medians: The median number of each network.
        runs: The runs of each network that were compared.
    """

    outcomes: tuple[bool, ...] = ()
    medians: Mapping[Runs, float] = field(default_factory=dict)
    runs: Mapping[Runs, Sequence[ArchivedRun]] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """The share of the outcomes that are true; None if there are none."""
        if not self.outcomes:
            return None
        return fmean(self.outcomes)

    @property
    def is_true(self) -> bool:
        """Whether the comparison is true in at least `AGREEING_SHARE` of the runs or pairs."""
        return self.share is not None and self.share >= AGREEING_SHARE

    @property
    def is_at_chance(self) -> bool:
        """Whether all compared networks are at the chance level."""
        return bool(self.runs) and all(map(is_at_chance, chain(*self.runs.values())))


class Check(ABC):
    """A comparison of a number of one or two networks."""

    number: Number

    @property
    @abstractmethod
    def networks(self) -> tuple[Runs, ...]:
        """The networks that it compares."""

    @abstractmethod
    def holds(self, *numbers: float) -> bool:
        """Whether it is true of the numbers of one run of each network, in the same order."""

    @abstractmethod
    def say_not(self, result: CheckResult) -> str:
        """Say that it is not true."""

    def describe(self) -> str:
        """Return what it compares and how, without the words of sentences."""
        parts = [type(self).__name__]
        for name, its in vars(self).items():
            words = repr(its)
            if isinstance(its, Runs):
                words = repr(replace(its, name=""))
            elif isinstance(its, Number):
                rules = (its.diverged, its.grows, its.is_first_update)
                words = f"{its.name} {rules}"
            parts.append(f"{name}={words}")
        return ", ".join(parts)

    def check(self, evidence: Evidence) -> CheckResult:
        """Compare all combinations of one run of each network."""
        runs: dict[Runs, list[ArchivedRun]] = {}
        numbers: dict[Runs, list[float]] = {}
        for network, its in self._comparable(evidence).items():
            runs[network] = list(filter(self.number.counts, its))
            read = [self.number.read(run) for run in runs[network]]
            numbers[network] = [float(number) for number in read if number is not None]
            if not read or len(numbers[network]) < len(read):
                return CheckResult()
        medians = {network: median(its) for network, its in numbers.items()}
        outcomes = self._outcomes(list(runs.values()), list(numbers.values()))
        return CheckResult(outcomes, medians, runs)

    def _comparable(self, evidence: Evidence) -> dict[Runs, list[ArchivedRun]]:
        """Return the runs of each network; of one length, if the number depends on it."""
        by_length = {network: evidence.runs(network) for network in self.networks}
        if not self.number.grows or len(by_length) < 2:
            return {network: _longest_of_each_seed(its) for network, its in by_length.items()}
        chosen: dict[Runs, list[ArchivedRun]] = {network: [] for network in by_length}
        most = 0
        # the length with the most seeds, of these the longest, which comes first
        for length in by_length[self.networks[0]]:
            runs = {network: its.get(length, []) for network, its in by_length.items()}
            fewest = min(map(len, runs.values()))
            if fewest > most:
                chosen = runs
                most = fewest
        return chosen

    def _outcomes(
        self, runs: Sequence[Sequence[ArchivedRun]], numbers: Sequence[Sequence[float]]
    ) -> tuple[bool, ...]:
        """Compare each run of one network with each of the other; pairs without an order fall out.

        Two networks have none if both have learnt nothing, or if what is awaited happens in
        neither before the shorter of their trainings ends.
        """
        outcomes: list[bool] = []
        for its, read in zip(product(*runs), product(*numbers), strict=True):
            compared = read
            if self.number.is_first_update:
                end = min(run.steps for run in its)
                compared = tuple(each if each <= end else math.inf for each in read)
            is_pair = len(its) > 1
            if is_pair and (all(map(is_at_chance, its)) or all(map(math.isinf, compared))):
                continue
            outcomes.append(self.holds(*compared))
        return tuple(outcomes)


def _longest_of_each_seed(
    by_length: dict[Length | None, list[ArchivedRun]],
) -> list[ArchivedRun]:
    found: dict[tuple[str, int | None], ArchivedRun] = {}
    for runs in by_length.values():  # the longest come first
        for run in runs:
            found.setdefault((run.point, run.seed), run)
    return list(found.values())


@dataclass(frozen=True)
class Less(Check):
    """`factor` times the number of one network, plus a margin, is below that of another.

    Args:
        smaller: The network with the smaller number.
        larger: The network with the larger number.
        factor: By how much the smaller number is multiplied before they are compared.
        margin: The difference below which two numbers are a tie.
        number: The number to compare.
    """

    smaller: Runs
    larger: Runs
    factor: float = 1.0
    margin: float = 0.0
    number: Number = value

    @property
    def networks(self) -> tuple[Runs, ...]:
        return self.smaller, self.larger

    def holds(self, *numbers: float) -> bool:
        smaller, larger = numbers
        return self.factor * smaller + self.margin < larger

    def say_not(self, result: CheckResult) -> str:
        return f"{self.smaller.title} is {self.say_larger(result)}"

    def say_larger(self, result: CheckResult) -> str:
        """Name the larger network, and in how many pairs of runs it is the larger one."""
        relation = f"{self.number.relation} {self.larger.title}"
        # a network that is not even below the other is not below it by a factor either
        if self.factor != 1 and result.medians[self.smaller] < result.medians[self.larger]:
            relation += f" by a factor of {self.factor:g}"
        if len(result.outcomes) < 2:
            return f"not {relation}"
        count = sum(result.outcomes)
        if not count:
            return f"{relation} in none of {len(result.outcomes)} pairs"
        return f"{relation} in only {count} of {len(result.outcomes)} pairs"


@dataclass(frozen=True)
class MoreOften(Check):
    """One network succeeds in a larger share of its runs than another.

    Args:
        more: The network that succeeds more often.
        rarer: The other network.
        number: 1 for a run that succeeds, 0 for one that fails.
    """

    more: Runs
    rarer: Runs
    number: Number = success

    @property
    def networks(self) -> tuple[Runs, ...]:
        return self.more, self.rarer

    def holds(self, *numbers: float) -> bool:
        more, rarer = numbers
        return more > rarer

    def say_not(self, result: CheckResult) -> str:  # noqa: ARG002
        return f"{self.more.title} does not succeed more often than {self.rarer.title}"

    def _outcomes(
        self,
        runs: Sequence[Sequence[ArchivedRun]],  # noqa: ARG002
        numbers: Sequence[Sequence[float]],
    ) -> tuple[bool, ...]:
        return (self.holds(*map(fmean, numbers)),)


@dataclass(frozen=True)
class Close(Check):
    """A number of two networks differs by at most an amount.

    Args:
        one: One network.
        other: The other network.
        within: The largest difference.
        number: The number to compare.
    """

    one: Runs
    other: Runs
    within: float
    number: Number = value

    @property
    def networks(self) -> tuple[Runs, ...]:
        return self.one, self.other

    def holds(self, *numbers: float) -> bool:
        one, other = numbers
        return abs(one - other) <= self.within

    def say_not(self, result: CheckResult) -> str:  # noqa: ARG002
        within = self.number.write(self.within)
        return f"{self.one.title} and {self.other.title} differ by more than {within}"


@dataclass(frozen=True)
class Bound(Check):
    """A bound on a number of a network.

    Args:
        network: The network.
        bound: The bound.
        number: The number to compare.
    """

    network: Runs
    bound: float
    number: Number = value

    @property
    def networks(self) -> tuple[Runs, ...]:
        return (self.network,)

    def say_beyond(self, where: str, result: CheckResult) -> str:
        """Say on which side of the bound it is, and in how many runs, if there are several."""
        words = f"{self.network.title} is {where} {self.number.write(self.bound)}"
        if self.number.after:
            words += f" {self.number.after}"
        if len(result.outcomes) > 1:
            beyond = len(result.outcomes) - sum(result.outcomes)
            words += f" in {beyond} of {len(result.outcomes)} runs"
        return words


@dataclass(frozen=True)
class AtMost(Bound):
    """A number of a network is at most a bound."""

    def holds(self, *numbers: float) -> bool:
        (number,) = numbers
        return number <= self.bound

    def say_not(self, result: CheckResult) -> str:
        return self.say_beyond("above", result)


@dataclass(frozen=True)
class AtLeast(Bound):
    """A number of a network is at least a bound."""

    def holds(self, *numbers: float) -> bool:
        (number,) = numbers
        return number >= self.bound

    def say_not(self, result: CheckResult) -> str:
        return self.say_beyond("below", result)


# Claims


@dataclass(frozen=True)
class Claim:
    """A central claim of a paper, with the test that decides it.

    It *holds* if every comparison is true in at least `AGREEING_SHARE` of the runs, or of the
    pairs of runs. It holds *partly* if all decisive ones are, and *fails* otherwise. It is *not
    decided yet* as long as a network lacks a run of its least length or a seed, or if two networks
    to be compared are both at the chance level.

    Args:
        id: Its short name.
        paper: The paper.
        sentence: What the paper claims, in one sentence.
        place: Where the paper claims it.
        decisive: The comparisons without which nothing of it is left.
        changed: When the comparisons were last changed, in ISO 8601. A test pins them by their
            `digest`, so that none changes without this.
        further: The other comparisons.
        seeds: The number of seeds below which it is not decided.
        note: How the test differs from the claim; empty if it does not.
    """

    id: str
    paper: Paper
    sentence: str
    place: str
    decisive: tuple[Check, ...]
    changed: str
    further: tuple[Check, ...] = ()
    seeds: int = 1
    note: str = ""

    @property
    def test(self) -> tuple[Check, ...]:
        """All comparisons, the decisive ones first."""
        return (*self.decisive, *self.further)

    @property
    def networks(self) -> tuple[Runs, ...]:
        """The networks that it compares, each once."""
        return tuple(dict.fromkeys(network for check in self.test for network in check.networks))

    @property
    def digest(self) -> str:
        """A fingerprint of the comparisons and of the number of seeds."""
        parts = [f"{self.seeds} seeds, {AGREEING_SHARE} of the pairs, chance from {AT_CHANCE}"]
        for check in self.test:
            kind = "decisive" if check in self.decisive else "further"
            parts.append(f"{kind}: {check.describe()}")
        return sha256("\n".join(parts).encode()).hexdigest()[:12]

    def judge(self, evidence: Evidence) -> "Judgement":
        """Decide the claim by the archived runs."""
        progress = {network: evidence.progress(network) for network in self.networks}
        results = tuple(check.check(evidence) for check in self.test)
        return Judgement(self, self._verdict(progress, results), results, progress)

    def _verdict(self, progress: dict[Runs, Progress], results: Sequence[CheckResult]) -> Verdict:
        for each in progress.values():
            if each.share < 1 or (each.is_trained and each.seeds < self.seeds):
                return "not decided yet"
        if any(result.share is None for result in results):
            return "not decided yet"
        if all(result.is_at_chance for result in results):
            return "not decided yet"
        if all(result.is_true for result in results):
            return "holds"
        decisive = results[: len(self.decisive)]
        if all(result.is_true for result in decisive):
            return "partly"
        return "fails"


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim.

    Args:
        claim: The claim.
        verdict: The verdict.
        results: The result of each comparison, in the order of the claim's test.
        progress: How far the runs of each network have come.
    """

    claim: Claim
    verdict: Verdict
    results: tuple[CheckResult, ...]
    progress: dict[Runs, Progress]

    @property
    def is_decided(self) -> bool:
        """Whether the runs are long and many enough for a verdict."""
        return self.verdict != "not decided yet"

    @property
    def share(self) -> float:
        """The length of the runs of the network that is behind, as a share of the least length."""
        return min(each.share for each in self.progress.values())

    @property
    def lengths(self) -> tuple[float, float]:
        """The shares of the paper's length of the shortest- and the longest-trained network."""
        shares = [each.longest for each in self.progress.values()]
        return min(shares), max(shares)

    @property
    def seeds(self) -> int:
        """The number of seeds of the network with the fewest; 0 for numbers without training."""
        return min((each.seeds for each in self.progress.values() if each.is_trained), default=0)

    @property
    def lacks_a_run(self) -> bool:
        """Whether one of its networks has no run at all."""
        return any(each.share == 0 for each in self.progress.values())

    @property
    def is_computed(self) -> bool:
        """Whether no network is trained for it."""
        return not any(each.is_trained for each in self.progress.values())

    @property
    def seeds_compared(self) -> tuple[int, int]:
        """The fewest and the most seeds that a comparison has of a trained network."""
        counts: set[int] = set()
        for result in self.results:
            for network, runs in result.runs.items():
                if self.progress[network].is_trained:
                    counts.add(len({run.seed for run in runs}))
        return min(counts, default=0), max(counts, default=0)

    @property
    def runs(self) -> list[ArchivedRun]:
        """The runs that were compared, each once."""
        found: dict[RunName, ArchivedRun] = {}  # several checks may compare one run
        for result in self.results:
            for run in chain(*result.runs.values()):
                found[run.name] = run
        return list(found.values())

    @property
    def runs_before_test(self) -> int:
        """The number of its trained runs that ended before the test was last changed."""
        changed = datetime.fromisoformat(self.claim.changed)
        count = 0
        for run in self.runs:
            if run.state != "computed" and run.ended is not None:
                count += datetime.fromisoformat(run.ended) < changed
        return count
