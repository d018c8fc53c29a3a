"""A central claim of a paper: what it says, what decides it, and what our runs show of it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from typing import Literal

from eigenrnn_experiments.training.run import Length, Run
from reproduction.agreement import AT_CHANCE

Verdict = Literal["holds", "partly", "refuted at our settings", "not decided", "other data"]

LEAST_SEEDS = 3
"""The number of seeds from which their spread is known."""


@dataclass(frozen=True)
class Runs:
    """The runs of one network that decide a claim.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        seeds: The seeds to train; runs of further seeds count as well.
        points: The points of the row's grid.
        least: The shortest length that decides; None for the paper's full length.
        arms: The same network at other learning rates or with clipping. The best stands for it.
    """

    recipe: str
    row: str
    seeds: tuple[int, ...] = (0,)
    points: tuple[str, ...] = ("",)
    least: Length | None = None
    arms: tuple["Runs", ...] = ()


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
        is_in_updates: Whether it is a number of updates. A network that never gets there counts
            with the length of its training.
        is_ratio: Whether two of them are compared by their ratio, and not by their difference.
        examples: The number of examples of which it is the share; None for another number.
        is_reported: Whether it is made of the number that the recipe compares with the paper's.
        counts: Whether a run counts; others are left out. None if all count.
    """

    name: str
    of: Callable[[Run], float | None] = field(repr=False, compare=False)
    diverged: float = math.inf
    grows: bool = True
    is_in_updates: bool = False
    is_ratio: bool = True
    examples: int | None = None
    is_reported: bool = False
    counts: Callable[[Run], bool] | None = field(default=None, repr=False, compare=False)

    def read(self, run: Run) -> float | None:
        """Return the number of a run; None if the run does not have it."""
        if run.state == "diverged":
            return self.diverged
        return self.of(run)

    def scaled(self, number: float) -> float:
        """Return the logarithm of a number that is compared by its ratio, or the number."""
        if not self.is_ratio or math.isinf(number):
            return number
        return math.log(number) if number > 0 else -math.inf

    def described(self, scaled: float) -> str:
        """Write the difference of two scaled numbers, as a factor if it is one of logarithms."""
        if math.isfinite(scaled) and self.is_ratio:
            return f"{math.exp(scaled):.3g} times"
        return f"{scaled:.3g}"


value = Number("number by the paper's rule", lambda run: run.value, is_reported=True)
"""The number that the recipe compares with the paper's, where lower is better."""

accuracy = replace(value, name="accuracy", diverged=0.0, is_ratio=False, examples=10_000)
"""The accuracy on 10,000 images that the recipe compares with the paper's."""

success = replace(value, name="success", diverged=0.0, is_ratio=False)
"""1 for a run that succeeds by the paper's rule, 0 for one that fails."""


def of_chance(number: Number) -> Number:
    """Return a loss in percent of the chance-level loss of its task."""

    def of(run: Run) -> float | None:
        loss = number.of(run)
        if loss is None or not run.baseline:
            return None
        return 100 * loss / run.baseline

    return replace(number, name=f"{number.name} in percent of the chance level", of=of)


def last(column: str) -> Number:
    """Return the last number of a curve, such as ``"test_loss"``."""

    def of(run: Run) -> float | None:
        known = [number for _, number in _curve(run, column) if number is not None]
        return known[-1] if known else None

    return Number(f"last {column}", of)


def loss_after(steps: int) -> Number:
    """Return the test loss after so many updates, also of a run that was longer.

    Curves are thinned, so this is the last number at or before that update.
    """

    def of(run: Run) -> float | None:
        if run.steps < steps:
            return None
        known = [
            number
            for step, number in _curve(run, "test_loss")
            if step is not None and step <= steps and number is not None
        ]
        return known[-1] if known else None

    return Number(f"test loss after {steps:,} updates", of)


def steps_below(fraction: float, column: str = "test_loss") -> Number:
    """Return the first update at which a curve is below a fraction of the chance-level loss.

    It is infinite if the curve never falls below.
    """

    def of(run: Run) -> float | None:
        for first in run.first_below or ():
            if (first.column, first.fraction) == (column, fraction):
                return math.inf if first.step is None else first.step
        # of a run that did not keep it: read off the thinned curve
        curve = _curve(run, column)
        if run.baseline is None or not curve:
            return None
        for step, number in curve:
            if step is not None and number is not None and number < fraction * run.baseline:
                return step
        return math.inf

    name = f"first update with {column} below {fraction:g} of the chance level"
    return Number(name, of, grows=False, is_in_updates=True)


def steps_between(high: float, low: float) -> Number:
    """Return the number of steps in which the test loss falls from one share of chance to another.

    It is infinite if the loss never falls so far.
    """

    def of(run: Run) -> float | None:
        start = steps_below(high).of(run)
        end = steps_below(low).of(run)
        if start is None or end is None or math.isinf(end):  # inf - inf is no number
            return end
        return end - start

    name = f"updates from {high:g} to {low:g} of the chance level"
    return Number(name, of, grows=False, is_in_updates=True)


def score(name: str) -> Number:
    """Return a further score of the best model of a run."""
    return Number(name, lambda run: run.scores.get(name), is_ratio=False)


def of_success(number: Number, fraction: float = 0.5) -> Number:
    """Return a number of the runs alone that ended and fell below a fraction of chance."""

    def succeeded(run: Run) -> bool:
        return run.state == "ended" and steps_below(fraction).of(run) not in (None, math.inf)

    name = f"{number.name} of runs that fall below {fraction:g} of the chance level"
    return replace(number, name=name, counts=succeeded)


def _curve(run: Run, column: str) -> list[tuple[float | None, float | None]]:
    """Return the steps of a curve with its numbers; empty if the run does not have it."""
    for curve in run.curves.values():
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
        rule: What is asked of the numbers a and b of the networks.
        margin: By how much it is true of two scaled numbers; negative if it is false.
        printed: The numbers that the paper prints or draws, where the recipes have none.
    """

    networks: tuple[Runs, ...]
    number: Number
    rule: str
    margin: Callable[[Sequence[float]], float] = field(repr=False, compare=False)
    printed: tuple[float, ...] | None = None


def less(smaller: Runs, larger: Runs, number: Number = value, factor: float = 1.0) -> Check:
    """`factor` times the number of one network is below that of another."""
    times = number.scaled(factor) if number.is_ratio else 0.0
    rule = "a < b" if factor == 1 else f"{factor:g} a < b"
    return Check((smaller, larger), number, rule, lambda n: n[1] - n[0] - times)


def close(
    one: Runs, other: Runs, within: float, number: Number, printed: float | None = None
) -> Check:
    """A number of two networks differs by at most an amount; the paper's by `printed`."""
    numbers = None if printed is None else (printed, 0.0)
    rule = f"|a - b| <= {within:g}"
    return Check((one, other), number, rule, lambda n: within - abs(n[0] - n[1]), numbers)


def more_often(more: Runs, rarer: Runs) -> Check:
    """One network succeeds more often than another, by Fisher's exact test after each pair."""
    return Check((more, rarer), success, "a > b", lambda n: n[0] - n[1])


def at_most(network: Runs, bound: float, number: Number = value) -> Check:
    """A number of a network is at most a bound."""
    limit = number.scaled(bound)
    return Check((network,), number, f"a <= {bound!r}", lambda n: limit - n[0])


def at_least(network: Runs, bound: float, number: Number = value) -> Check:
    """A number of a network is at least a bound."""
    limit = number.scaled(bound)
    return Check((network,), number, f"a >= {bound!r}", lambda n: n[0] - limit)


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
        other_data: Whether our data is not the paper's, so that our runs do not decide it.
        verdict: The verdict.
        before: The verdict by the rule before this one; the same if it is empty.
        why: Why the verdict is another one now, or what a single seed decides.
        seen: What our runs show, with the names of `numbers` in braces.
        numbers: The numbers in `seen`, by name.
        tried: What was tried where our runs differ from the paper, and what is known of it.
        hours: The processor time that is still needed; None if none is.
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
    other_data: bool = False
    verdict: Verdict = "not decided"
    before: str = ""
    why: str = ""
    seen: str = ""
    numbers: Mapping[str, Median] = field(default_factory=dict[str, Median])
    tried: str = ""
    hours: float | None = None

    @property
    def test(self) -> tuple[Check, ...]:
        """All comparisons, the decisive ones first."""
        return (*self.decisive, *self.further)

    @property
    def networks(self) -> tuple[Runs, ...]:
        """The networks that it compares, each once, with their arms."""
        named = dict.fromkeys(network for check in self.test for network in check.networks)
        return tuple(arm for network in named for arm in (network, *network.arms))

    @property
    def evidence(self) -> str:
        """What our runs show, with the numbers."""
        return self.seen.format_map({name: its.text for name, its in self.numbers.items()})

    @property
    def digest(self) -> str:
        """A fingerprint of the comparisons."""
        test = (self.decisive, self.further, LEAST_SEEDS, AT_CHANCE)
        return sha256(repr(test).encode()).hexdigest()[:12]
