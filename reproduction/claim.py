"""A central claim of a paper: what it says, what decides it, and what our runs show of it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from typing import Literal

from eigenrnn_experiments.training.run_key import Length
from reproduction.agreement import AT_CHANCE
from reproduction.archive import ArchivedRun

Verdict = Literal["holds", "partly", "fails", "not decided yet"]

AGREEING_SHARE = 0.75
"""The share of runs, or of pairs of runs, in which a comparison must be true."""


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


# Numbers of a run


@dataclass(frozen=True)
class Number:
    """A number of a run.

    Args:
        name: What it is; numbers of one name are the same.
        of: Returns it; None if the run does not have it.
        diverged: The number of a run that diverged.
        grows: Whether it depends on how long the network was trained, so that two networks have
            to be compared at equal lengths.
        is_first_update: Whether it is the update at which something first happens, which is
            unknown of a run that ended before.
        counts: Whether a run counts; others are left out. None if all count.
    """

    name: str
    of: Callable[[ArchivedRun], float | None] = field(repr=False, compare=False)
    diverged: float = math.inf
    grows: bool = True
    is_first_update: bool = False
    counts: Callable[[ArchivedRun], bool] | None = field(default=None, repr=False, compare=False)

    def read(self, run: ArchivedRun) -> float | None:
        """Return the number of a run; None if the run does not have it."""
        if run.state == "diverged":
            return self.diverged
        return self.of(run)


value = Number("number by the paper's rule", lambda run: run.value)
"""The number that the recipe compares with the paper's, where lower is better."""

accuracy = replace(value, name="accuracy", diverged=0.0)
"""The accuracy that the recipe compares with the paper's."""

success = replace(value, name="success", diverged=0.0)
"""1 for a run that succeeds by the paper's rule, 0 for one that fails."""


def of_chance(number: Number) -> Number:
    """Return a loss in percent of the chance-level loss of its task."""

    def of(run: ArchivedRun) -> float | None:
        loss = number.of(run)
        if loss is None or not run.baseline:
            return None
        return 100 * loss / run.baseline

    return replace(number, name=f"{number.name} in percent of the chance level", of=of)


def last(column: str) -> Number:
    """Return the last number of a curve, such as ``"test_loss"``."""

    def of(run: ArchivedRun) -> float | None:
        known = [number for _, number in _curve(run, column) if number is not None]
        return known[-1] if known else None

    return Number(f"last {column}", of)


def steps_below(fraction: float, column: str = "test_loss") -> Number:
    """Return the first update at which a curve is below a fraction of the chance-level loss.

    It is infinite if the curve never falls below.
    """

    def of(run: ArchivedRun) -> float | None:
        curve = _curve(run, column)
        if run.baseline is None or not curve:
            return None
        for step, number in curve:
            if step is not None and number is not None and number < fraction * run.baseline:
                return step
        return math.inf

    name = f"first update with {column} below {fraction:g} of the chance level"
    return Number(name, of, grows=False, is_first_update=True)


def steps_between(high: float, low: float) -> Number:
    """Return the number of steps in which the test loss falls from one share of chance to another.

    It is infinite if the loss never falls so far.
    """

    def of(run: ArchivedRun) -> float | None:
        start = steps_below(high).of(run)
        end = steps_below(low).of(run)
        if start is None or end is None or math.isinf(end):  # inf - inf is no number
            return end
        return end - start

    return Number(f"updates from {high:g} to {low:g} of the chance level", of, grows=False)


def score(name: str) -> Number:
    """Return a further score of the best model of a run."""
    return Number(name, lambda run: run.scores.get(name))


def of_success(number: Number, fraction: float = 0.5) -> Number:
    """Return a number of the runs alone that ended and fell below a fraction of chance."""

    def succeeded(run: ArchivedRun) -> bool:
        return run.state == "ended" and steps_below(fraction).of(run) not in (None, math.inf)

    name = f"{number.name} of runs that fall below {fraction:g} of the chance level"
    return replace(number, name=name, counts=succeeded)


def _curve(run: ArchivedRun, column: str) -> list[tuple[float | None, float | None]]:
    """Return the steps of a curve with its numbers; empty if the run does not have it."""
    for curve in (run.evaluated, run.training):
        if column in curve:
            return list(zip(curve["step"], curve[column], strict=True))
    return []


# Comparisons


@dataclass(frozen=True)
class Check:
    """A comparison of a number of one or two networks.

    Args:
        networks: The networks, one or two.
        number: The number.
        rule: What is asked of the numbers a and b of one run of each network.
        holds: Whether it is true of these numbers.
        of_means: Whether the means over all runs are compared, and not each pair of runs.
    """

    networks: tuple[Runs, ...]
    number: Number
    rule: str
    holds: Callable[[Sequence[float]], bool] = field(repr=False, compare=False)
    of_means: bool = False


def less(
    smaller: Runs, larger: Runs, number: Number = value, factor: float = 1.0, margin: float = 0.0
) -> Check:
    """`factor` times the number of one network, plus a margin, is below that of another."""
    rule = f"{factor:g} a + {margin:g} < b"
    return Check((smaller, larger), number, rule, lambda n: factor * n[0] + margin < n[1])


def close(one: Runs, other: Runs, within: float, number: Number = value) -> Check:
    """A number of two networks differs by at most an amount."""
    return Check(
        (one, other), number, f"|a - b| <= {within:g}", lambda n: abs(n[0] - n[1]) <= within
    )


def more_often(more: Runs, rarer: Runs) -> Check:
    """One network succeeds in a larger share of its runs than another."""
    return Check((more, rarer), success, "a > b", lambda n: n[0] > n[1], of_means=True)


def at_most(network: Runs, bound: float, number: Number = value) -> Check:
    """A number of a network is at most a bound."""
    return Check((network,), number, f"a <= {bound!r}", lambda n: n[0] <= bound)


def at_least(network: Runs, bound: float, number: Number = value) -> Check:
    """A number of a network is at least a bound."""
    return Check((network,), number, f"a >= {bound!r}", lambda n: n[0] >= bound)


# Claims


@dataclass(frozen=True)
class Median:
    """A number in a sentence: the median over the runs of a network.

    Args:
        text: The rounded number as the sentence states it; `never` if it is infinite.
        network: The network.
        number: What is compared of it in the claim's test.
    """

    text: str
    network: Runs
    number: Number

    def agrees(self, found: float) -> bool:
        """Whether a number rounds to the stated one."""
        if self.text == "never" or math.isinf(found):
            return self.text == "never" and math.isinf(found)
        stated = Decimal(self.text.replace(",", ""))
        return round(found, -int(stated.as_tuple().exponent)) == float(stated)


@dataclass(frozen=True)
class TrueIn:
    """A number in a sentence: the runs, or pairs of runs, that bear a comparison out.

    Args:
        text: The number as the sentence states it, such as `4 of 9`.
        check: The comparison.
    """

    text: str
    check: Check


@dataclass(frozen=True)
class Claim:
    """A central claim of a paper, with the test that decides it, and what our runs show.

    Its sentences are written by hand. No page is written while its verdict, or a number in
    `seen`, differs from the archive.

    Args:
        id: Its short name.
        paper: The paper.
        place: Where the paper claims it.
        sentence: What the paper claims, in one sentence.
        decides: What decides it, in words.
        decisive: The comparisons without which nothing of it is left.
        changed: When the comparisons were last changed, in ISO 8601. A test pins them by their
            `digest`, so that none changes without this.
        further: The other comparisons.
        seeds: The number of seeds below which it is not decided.
        verdict: The verdict.
        seen: What our runs show, with the names of `numbers` in braces.
        numbers: The numbers in `seen`, by name.
        tried: What was tried where our runs differ from the paper, and what is known of it.
        hours: The processor time that is still needed; None once it is decided.
    Units:
        `hours` of one core.
    """

    id: str
    paper: str
    place: str
    sentence: str
    decides: str
    decisive: tuple[Check, ...]
    changed: str
    further: tuple[Check, ...] = ()
    seeds: int = 1
    verdict: Verdict = "not decided yet"
    seen: str = ""
    numbers: Mapping[str, Median | TrueIn] = field(default_factory=dict[str, Median | TrueIn])
    tried: str = ""
    hours: float | None = None

    @property
    def test(self) -> tuple[Check, ...]:
        """All comparisons, the decisive ones first."""
        return (*self.decisive, *self.further)

    @property
    def networks(self) -> tuple[Runs, ...]:
        """The networks that it compares, each once."""
        return tuple(dict.fromkeys(network for check in self.test for network in check.networks))

    @property
    def evidence(self) -> str:
        """What our runs show, with the numbers."""
        return self.seen.format_map({name: its.text for name, its in self.numbers.items()})

    @property
    def digest(self) -> str:
        """A fingerprint of the comparisons and of the number of seeds."""
        test = (self.decisive, self.further, self.seeds, AGREEING_SHARE, AT_CHANCE)
        return sha256(repr(test).encode()).hexdigest()[:12]
