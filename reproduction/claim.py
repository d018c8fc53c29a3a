"""A central claim of a paper as data: what it says, the runs that decide it, and the verdict."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, product
from statistics import fmean, median
from typing import Literal, Protocol

from eigenrnn.experiments.training.run_key import Length
from reproduction.archive import ArchivedRun, RunName

__all__ = [
    "AGREEING_SHARE",
    "CHANCE",
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

CHANCE = 0.95
"""The share of the chance-level loss from which a network counts as being at the chance level."""


def is_at_chance(run: ArchivedRun) -> bool:
    """Whether a network never got more than 5 % below the chance-level loss of its task.

    The loss is that of the best evaluation, on the test set if there is one. A run without a
    chance-level loss is not at chance.
    """
    measured = run.best.get("test") or run.best.get("validation") or {}
    loss = measured.get("loss")
    if run.state == "diverged":
        return True
    return bool(run.baseline) and loss is not None and loss >= CHANCE * (run.baseline or 0.0)


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
        amount: The number in that sentence, such as `at {} of chance`.
        diverged: The number of a run that diverged.
        unit: How it is written: as a plain number, a percentage, or a number of updates.
        grows: Whether it depends on how long the network was trained, so that two networks have
            to be compared at equal lengths.
        counts: Whether it is read from a run at all; other runs are left out.
    """

    name: str
    of: Callable[[ArchivedRun], float | None]
    verb: str = "reaches"
    amount: str = "{}"
    diverged: float = math.inf
    unit: Literal["number", "percent", "updates"] = "number"
    grows: bool = True
    counts: Callable[[ArchivedRun], bool] = always

    def read(self, run: ArchivedRun) -> float | None:
        """Return the number of a run; None if the run does not have it."""
        if run.state == "diverged":
            return self.diverged
        return self.of(run)

    def say(self, number: float) -> str:
        """Return the amount as it stands in a sentence."""
        if self.unit == "updates" and math.isinf(number):
            return "never"
        if self.unit == "updates":
            return self.amount.format(f"{number:,.0f} updates")
        if math.isinf(number):
            return "diverges"
        if self.unit == "percent":
            percent = 100 * number
            digits = 2
            if percent >= 1:
                digits = 1
            return self.amount.format(f"{percent:.{digits}f} %")
        return self.amount.format(f"{number:.3g}")


value = Number("number by the paper's rule", lambda run: run.value)
"""The number that the recipe compares with the paper's; lower is better."""

accuracy = Number("accuracy on the test set", lambda run: run.value, diverged=0.0, unit="percent")
"""The accuracy that the recipe compares with the paper's."""

success = Number(
    "share of successful runs",
    lambda run: run.value,
    verb="succeeds",
    amount="in {} of its runs",
    diverged=0.0,
    unit="percent",
)
"""1 for a run that succeeds by the paper's rule, 0 for one that fails."""


def last(column: str, amount: str = "at a loss of {}") -> Number:
    """Return the last number of a curve, such as ``"test_loss"``."""

    def of(run: ArchivedRun) -> float | None:
        for _, number in reversed(_curve(run, column)):
            if number is not None:
                return number
        return None

    return Number(f"last {column.replace('_', ' ')}", of, "ends", amount)


def of_baseline(number: Number) -> Number:
    """Return a loss as a share of the chance-level loss of its task."""

    def of(run: ArchivedRun) -> float | None:
        found = number.of(run)
        if found is None or not run.baseline:
            return None
        return found / run.baseline

    name = f"{number.name} as a share of the chance level"
    return Number(name, of, "ends", "at {} of the chance level", unit="percent")


def steps_below(fraction: float, column: str = "test_loss") -> Number:
    """Return the first step at which a curve is below a fraction of the chance-level loss.

    It is infinite if the curve never falls below.
    """

    def of(run: ArchivedRun) -> float | None:
        return _first_below(run, column, fraction)

    verb = f"falls below {100 * fraction:g} % of the chance level"
    return Number(verb, of, verb, "after {}", unit="updates", grows=False)


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

    verb = f"falls from {100 * high:g} to {100 * low:g} % of the chance level"
    return Number(verb, of, verb, "in {}", unit="updates", grows=False)


def score(name: str) -> Number:
    """Return a further score of the best model of a run."""
    words = name.replace("_", " ")
    return Number(words, lambda run: run.scores.get(name), "has", f"a {words} of {{}}")


def of_success(number: Number, fraction: float = 0.5) -> Number:
    """Return a number of the runs alone that ended and fell below a fraction of chance."""

    def succeeded(run: ArchivedRun) -> bool:
        below = _first_below(run, "test_loss", fraction)
        return run.state == "ended" and below is not None and below < math.inf

    return replace(number, counts=succeeded)


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
    """

    recipe: str
    row: str
    seeds: tuple[int, ...] = (0,)
    points: tuple[str, ...] = ("",)
    least: Length | None = None

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
        share: The share of runs, or of pairs of runs, in which it is true; None if a number is
            missing, or if all pairs are of networks at the chance level, which have no order.
        numbers: The median number of each network, in the order of the comparison.
        runs: The runs that were compared.
        at_chance: Whether all compared networks are at the chance level.
    """

    share: float | None
    numbers: tuple[float, ...] = ()
    runs: tuple[ArchivedRun, ...] = ()
    at_chance: bool = False

    @property
    def is_true(self) -> bool:
        """Whether the comparison is true in at least `AGREEING_SHARE` of the runs or pairs."""
        return self.share is not None and self.share >= AGREEING_SHARE


class Check(ABC):
    """A comparison of a number of one or two networks; a subclass holds their runs as fields."""

    number: Number

    @property
    def networks(self) -> tuple[Runs, ...]:
        """The networks that it compares."""
        return tuple(each for each in vars(self).values() if isinstance(each, Runs))

    @abstractmethod
    def holds(self, *numbers: float) -> bool:
        """Whether it is true of the numbers of one run of each network."""

    @abstractmethod
    def say_not(self) -> str:
        """Say that it is not true."""

    def check(self, evidence: Evidence) -> CheckResult:
        """Compare all combinations of one run of each network."""
        found = [list(filter(self.number.counts, runs)) for runs in self._comparable(evidence)]
        numbers: list[list[float]] = []  # of each network, those of its runs
        for runs in found:
            known: list[float] = []
            for run in runs:
                number = self.number.read(run)
                if number is None:
                    return CheckResult(None)
                known.append(float(number))
            if not known:
                return CheckResult(None)
            numbers.append(known)
        medians = tuple(map(median, numbers))
        compared = tuple(chain.from_iterable(found))
        share = self._share(found, numbers)
        return CheckResult(share, medians, compared, all(map(is_at_chance, compared)))

    def _comparable(self, evidence: Evidence) -> list[list[ArchivedRun]]:
        """Return the runs of each network; of one length, if the number depends on it."""
        by_length = [evidence.runs(network) for network in self.networks]
        if not self.number.grows or len(by_length) < 2:
            return [_longest_of_each_seed(its) for its in by_length]
        chosen: list[list[ArchivedRun]] = [[] for _ in by_length]
        most = 0
        # the length with the most seeds, of these the longest, which comes first
        for length in by_length[0]:
            runs = [its.get(length, []) for its in by_length]
            fewest = min(map(len, runs))
            if fewest > most:
                chosen = runs
                most = fewest
        return chosen

    def _share(
        self, runs: Sequence[Sequence[ArchivedRun]], numbers: Sequence[Sequence[float]]
    ) -> float | None:
        outcomes: list[bool] = []
        for its, pair in zip(product(*runs), product(*numbers), strict=True):
            # networks that have both learnt nothing have no order
            if len(its) < 2 or not all(map(is_at_chance, its)):
                outcomes.append(self.holds(*pair))
        if not outcomes:
            return None
        return fmean(outcomes)


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

    def holds(self, *numbers: float) -> bool:
        return self.factor * numbers[0] + self.margin < numbers[1]

    def say_not(self) -> str:
        return self.say_not_below([self.larger.row])

    def say_not_below(self, larger: Sequence[str]) -> str:
        """Say that the network is not below several others, by their labels."""
        *first, last = larger
        others = f"{', '.join(first)} or {last}" if first else last
        sentence = f"{self.smaller.row} is not below {others}"
        if self.factor != 1:
            sentence += f" by a factor of {self.factor:g}"
        return sentence


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

    def holds(self, *numbers: float) -> bool:
        return numbers[0] > numbers[1]

    def say_not(self) -> str:
        return f"{self.more.row} does not succeed more often than {self.rarer.row}"

    def _share(
        self,
        runs: Sequence[Sequence[ArchivedRun]],  # noqa: ARG002
        numbers: Sequence[Sequence[float]],
    ) -> float | None:
        return float(self.holds(*map(fmean, numbers)))


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

    def holds(self, *numbers: float) -> bool:
        return abs(numbers[0] - numbers[1]) <= self.within

    def say_not(self) -> str:
        return f"{self.one.row} and {self.other.row} differ by more than {self.within:g}"


@dataclass(frozen=True)
class AtMost(Check):
    """A number of a network is at most a bound.

    Args:
        network: The network.
        bound: The bound.
        number: The number to compare.
    """

    network: Runs
    bound: float
    number: Number = value

    def holds(self, *numbers: float) -> bool:
        return numbers[0] <= self.bound

    def say_not(self) -> str:
        return f"{self.network.row} is above the bound of {self.bound:g}"


@dataclass(frozen=True)
class AtLeast(Check):
    """A number of a network is at least a bound.

    Args:
        network: The network.
        bound: The bound.
        number: The number to compare.
    """

    network: Runs
    bound: float
    number: Number = value

    def holds(self, *numbers: float) -> bool:
        return numbers[0] >= self.bound

    def say_not(self) -> str:
        return f"{self.network.row} is below the bound of {self.bound:g}"


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
        changed: When the comparisons were last changed, in ISO 8601.
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
        if all(result.at_chance for result in results):
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
    def is_computed(self) -> bool:
        """Whether no network is trained for it."""
        return not any(each.is_trained for each in self.progress.values())

    @property
    def runs(self) -> list[ArchivedRun]:
        """The runs that were compared, each once."""
        found: dict[RunName, ArchivedRun] = {}  # several checks may compare one run
        for result in self.results:
            for run in result.runs:
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
