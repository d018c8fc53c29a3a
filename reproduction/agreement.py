"""Whether our number of a row agrees with the paper's."""

import math
from decimal import Decimal
from typing import Literal

from eigenrnn.experiments.recipes import Outcome

__all__ = ["AT_CHANCE", "DIFFERENT", "Agreement", "agreement", "margin"]

Agreement = Literal[
    "agrees",
    "better here",
    "worse here",
    "differs",
    "both at the chance level",
    "cannot be judged",
]
"""How our number stands beside the paper's; it *differs* if neither side is better."""

DIFFERENT = ("better here", "worse here", "differs")
"""The agreements of numbers that differ."""

AT_CHANCE = 0.95
"""The share of the chance-level loss from which a network counts as being at the chance level."""

_ZERO = 5e-4  # for a curve that reaches zero in the figure
_PAPERS_AT_CHANCE = 0.1  # the largest distance from the chance-level loss, as a share of it


def agreement(outcome: Outcome) -> Agreement | None:
    """Compare our mean with the paper's number or bound; None if one of the two is missing.

    It is better or worse here if it is farther from the paper's number than the margin. A bound is
    exceeded if our mean is above it by more than the margin, or if most of our runs are above it
    by more than half a unit of its last digit or the accuracy of reading. The second rule does not
    loosen when the runs vary widely.
    """
    if outcome.mean is None or _theirs(outcome) is None:
        return None
    if outcome.unjudged:
        return "cannot be judged"
    if _both_at_chance(outcome):
        return "both at the chance level"
    if not _differs(outcome):
        return "agrees"
    if outcome.better is None:
        return "differs"
    is_higher = outcome.mean > (_theirs(outcome) or 0.0)
    if math.isfinite(outcome.mean) and is_higher == (outcome.better == "higher"):
        return "better here"
    return "worse here"


def margin(outcome: Outcome) -> float:
    """Return how far our number may be from the paper's, or above its bound.

    This is the largest of the error that the paper prints, half a unit of the last printed digit,
    the accuracy of reading a figure, and twice our standard error.
    """
    return max(_precision(outcome), outcome.error or 0.0, 2 * (outcome.standard_error or 0.0))


def _differs(outcome: Outcome) -> bool:
    mean = outcome.mean
    bound = outcome.at_most
    if mean is None:
        return False
    if bound is None:
        return not _within(abs(mean - (outcome.reported or 0.0)), margin(outcome))
    above = [not _within(value - bound, _precision(outcome)) for value in outcome.counted_values]
    return 2 * sum(above) > len(above) or not _within(mean - bound, margin(outcome))


def _both_at_chance(outcome: Outcome) -> bool:
    mean = outcome.mean
    theirs = outcome.reported
    chance = outcome.baseline
    if mean is None or theirs is None or chance is None:
        return False
    ours_is = math.isfinite(mean) and mean >= AT_CHANCE * chance
    return ours_is and abs(theirs - chance) <= _PAPERS_AT_CHANCE * chance


def _within(number: float, limit: float) -> bool:
    # the factor allows for rounding; a NaN is not within any limit
    return number <= limit * (1 + 1e-9)


def _theirs(outcome: Outcome) -> float | None:
    if outcome.at_most is not None:
        return outcome.at_most
    return outcome.reported


def _precision(outcome: Outcome) -> float:
    """Return half a unit of the last printed digit, or the accuracy of reading if it is larger."""
    number = _theirs(outcome)
    if not number:
        half_a_digit = _ZERO
    elif outcome.decimals is not None:
        half_a_digit = 0.5 * 10.0**-outcome.decimals
    else:
        half_a_digit = 0.5 * 10.0 ** int(Decimal(repr(number)).as_tuple().exponent)
    return max(half_a_digit, outcome.reading or 0.0)
