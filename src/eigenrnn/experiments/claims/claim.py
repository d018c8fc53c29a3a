"""A central claim of a paper as data: what it says, the runs that test it, and the test."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean, median
from typing import Any, Literal, cast

from eigenrnn.experiments.training.archived_run import ArchivedRun
from eigenrnn.experiments.training.run_key import Length

__all__ = [
    "AGREEING_SHARE",
    "AtLeast",
    "AtMost",
    "Check",
    "CheckResult",
    "Claim",
    "Close",
    "Judgement",
    "Less",
    "MoreOften",
    "Number",
    "Paper",
    "Runs",
    "Verdict",
    "accuracy",
    "last",
    "of_baseline",
    "score",
    "selected",
    "steps_below",
    "success",
    "value",
]

Paper = Literal["scoRNN", "ENRNN", "nnRNN", "NC-GRU", "non-normal initialisers"]

Verdict = Literal["holds", "partly", "fails", "holds reduced", "cannot be judged", "not tried"]

AGREEING_SHARE = 0.75
"""The share of runs, or of pairs of runs, in which a comparison must be true."""


@dataclass(frozen=True)
class Number:
    """A number of a run.

    Args:
        name: What it is, with its unit, for the page.
        of: Returns it; None if the run does not have it.
        diverged: The number of a run that diverged.
    """

    name: str
    of: Callable[[ArchivedRun], float | None]
    diverged: float = math.inf

    def read(self, run: ArchivedRun) -> float | None:
        """Return the number of a run; None if the run does not have it."""
        return self.diverged if run.state == "diverged" else self.of(run)


value = Number("our number by the paper's rule", lambda run: run.value)
"""The number that the recipe compares with the paper's; lower is better."""

accuracy = Number("our accuracy by the paper's rule", lambda run: run.value, diverged=0.0)
"""The accuracy that the recipe compares with the paper's."""

success = Number("success", lambda run: run.value, diverged=0.0)
"""1 for a run that succeeds by the paper's rule, 0 for one that fails."""

selected = Number("test number of the selected model", lambda run: run.selected)
"""The test number of the model that is best on the validation set."""


def last(column: str) -> Number:
    """Return the last number of a curve, such as ``"test_loss"``."""

    def of(run: ArchivedRun) -> float | None:
        _, numbers = _curve(run, column)
        known = [number for number in numbers if number is not None]
        return known[-1] if known else None

    return Number(f"last {column.replace('_', ' ')}", of)


def of_baseline(number: Number) -> Number:
    """Return a loss divided by the chance-level loss of its task."""

    def of(run: ArchivedRun) -> float | None:
        found = number.of(run)
        return None if found is None or not run.baseline else found / run.baseline

    return Number(f"{number.name} / chance-level loss", of)


def steps_below(fraction: float, column: str = "test_loss") -> Number:
    """Return the first step at which a curve is below a fraction of the chance-level loss.

    It is infinite if the curve never falls below.
    """

    def of(run: ArchivedRun) -> float | None:
        steps, numbers = _curve(run, column)
        if run.baseline is None or not numbers:
            return None
        bound = fraction * run.baseline
        pairs = zip(steps, numbers, strict=True)
        return next(
            (s for s, n in pairs if s is not None and n is not None and n < bound), math.inf
        )

    return Number(f"first step below {fraction:g} of the chance-level loss", of)


def score(name: str) -> Number:
    """Return a further score of the best model of a run."""
    return Number(name.replace("_", " "), lambda run: run.scores.get(name))


def _curve(run: ArchivedRun, column: str) -> tuple[Sequence[float | None], Sequence[float | None]]:
    """Return the steps and the numbers of a curve; both are empty if the run does not have it."""
    for curve in (run.evaluated, run.training):
        if column in curve:
            return curve["step"], curve[column]
    return (), ()


@dataclass(frozen=True)
class Runs:
    """The runs of one network that a claim needs.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        seeds: The seeds.
        points: The points of the row's grid.
        reduced: The length of the runs, if they are reduced; None for full runs.
    """

    recipe: str
    row: str
    seeds: tuple[int, ...] = (0,)
    points: tuple[str, ...] = ("",)
    reduced: Length | None = None

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.points) * len(self.seeds)

    def includes(self, point: str, seed: int) -> bool:
        """Whether a run of the row is one of them."""
        return point in self.points and seed in self.seeds


FindRuns = Callable[[Runs], Sequence[ArchivedRun]]
"""Returns the archived runs of a network."""


@dataclass(frozen=True)
class CheckResult:
    """The result of one comparison.

    Args:
        share: The share of runs, or of pairs of runs, in which it is true; None if a number is
            missing.
        numbers: The median number of each network, in the order of the comparison.
    """

    share: float | None
    numbers: tuple[float, ...] = ()

    @property
    def is_true(self) -> bool:
        """Whether the comparison is true in at least `AGREEING_SHARE` of the runs or pairs."""
        return self.share is not None and self.share >= AGREEING_SHARE


class Check(ABC):
    """A comparison of a number of one or two networks; a subclass holds their runs as fields."""

    number: Number

    @property
    def runs(self) -> tuple[Runs, ...]:
        """The runs that it needs."""
        return tuple(each for each in vars(self).values() if isinstance(each, Runs))

    @abstractmethod
    def holds(self, *numbers: float) -> bool:
        """Whether it is true of the numbers of one run of each network."""

    def check(self, find: FindRuns) -> CheckResult:
        """Compare all combinations of one run of each network."""
        known = [numbers for runs in self.runs if (numbers := _numbers(self.number, find(runs)))]
        if len(known) < len(self.runs):
            return CheckResult(None)
        outcomes = [self.holds(*numbers) for numbers in product(*known)]
        return CheckResult(sum(outcomes) / len(outcomes), tuple(map(median, known)))

    def of_full_runs(self) -> "Check":
        """Return the comparison of the full runs."""
        networks = {name: runs for name, runs in vars(self).items() if isinstance(runs, Runs)}
        full = {name: replace(runs, reduced=None) for name, runs in networks.items()}
        return replace(cast("Any", self), **full)


@dataclass(frozen=True)
class Less(Check):
    """`factor` times the number of one network is below the number of another.

    Args:
        smaller: The network with the smaller number.
        larger: The network with the larger number.
        factor: By how much the smaller number is multiplied before they are compared.
        number: The number to compare.
    """

    smaller: Runs
    larger: Runs
    factor: float = 1.0
    number: Number = value

    def holds(self, *numbers: float) -> bool:
        return self.factor * numbers[0] < numbers[1]


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

    def check(self, find: FindRuns) -> CheckResult:
        known = [_numbers(self.number, find(runs)) for runs in self.runs]
        shares = [fmean(numbers) for numbers in known if numbers is not None]
        if len(shares) < len(known):
            return CheckResult(None)
        return CheckResult(float(self.holds(*shares)), tuple(shares))


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


def _numbers(number: Number, runs: Sequence[ArchivedRun]) -> list[float] | None:
    """Return the number of every run; None if there is no run or one has no such number."""
    found = [number.read(run) for run in runs]
    known = [x for x in found if x is not None]
    return known if known and len(known) == len(found) else None


@dataclass(frozen=True)
class Claim:
    """A central claim of a paper.

    It holds if every comparison of its test is true, partly if some are, and fails if none is.

    Args:
        id: Its short name.
        paper: The paper.
        sentence: What the paper claims, in one sentence.
        place: Where the paper claims it.
        test: The comparisons; their runs are the experiment.
        note: How the test differs from the claim; empty if it does not.
        unjudged: Why it cannot be judged; empty if it can.
    """

    id: str
    paper: Paper
    sentence: str
    place: str
    test: tuple[Check, ...]
    note: str = ""
    unjudged: str = ""

    @property
    def experiment(self) -> tuple[Runs, ...]:
        """The runs that its test needs, each once."""
        return tuple(dict.fromkeys(runs for check in self.test for runs in check.runs))

    @property
    def is_reduced(self) -> bool:
        """Whether a run of its experiment is reduced."""
        return any(runs.reduced is not None for runs in self.experiment)

    def with_full_runs(self, find: FindRuns) -> "Claim":
        """Return the claim whose comparisons use full runs where all of theirs are archived."""
        tests = ((check, check.of_full_runs()) for check in self.test)
        chosen = (full if all(map(find, full.runs)) else check for check, full in tests)
        return replace(self, test=tuple(chosen))

    def judge(self, find: FindRuns) -> "Judgement":
        """Decide the claim by the archived runs.

        Args:
            find: Returns the archived runs of a network.
        """
        claim = self.with_full_runs(find)
        results = tuple(check.check(find) for check in claim.test)
        return Judgement(claim, _verdict(claim, results), results)


def _verdict(claim: Claim, results: Sequence[CheckResult]) -> Verdict:
    if claim.unjudged:
        return "cannot be judged"
    if any(result.share is None for result in results):
        return "not tried"
    if all(result.is_true for result in results):
        return "holds reduced" if claim.is_reduced else "holds"
    return "partly" if any(result.is_true for result in results) else "fails"


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim.

    Args:
        claim: The claim.
        verdict: The verdict.
        results: The result of each comparison, in the order of the claim's test.
    """

    claim: Claim
    verdict: Verdict
    results: tuple[CheckResult, ...]
