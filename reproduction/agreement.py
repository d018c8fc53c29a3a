"""Whether our number of a row agrees with the paper's, or which of the two is better."""

import math
from decimal import Decimal
from typing import Literal

from eigenrnn_experiments.recipes import Outcome

__all__ = ["AT_CHANCE", "DIFFERENT", "Agreement", "agreement", "margin"]

Agreement = Literal[
    "agrees",
    "better here",
    "worse here",
    "differs",
    "at chance in both",
    "cannot be judged",
]
"""How our number stands beside the paper's; it *differs* if neither side is better."""

DIFFERENT = ("better here", "worse here", "differs")
"""The agreements of numbers that differ."""

AT_CHANCE = 0.95
"""The share of the chance-level loss from which a network counts as being at the chance level."""

_ZERO = 5e-4  # for a curve that reaches zero in the figure
_PAPERS_AT_CHANCE = 0.1  # the largest distance from the chance-level loss, as a share of it
_ROUNDING = 1 + 1e-9


def agreement(outcome: Outcome) -> Agreement | None:
    """Compare our mean with the paper's number or bound; None if one of the two is missing.

    It is better or worse here if it is farther from the paper's number than the margin. A bound is
    exceeded if our mean is above it by more than the margin, or if most of our runs are above it
    by more than half a unit of its last digit or the accuracy of reading. The second rule does not
    loosen when the runs vary widely.
    """
    ours = outcome.mean
    theirs = outcome.reported if outcome.at_most is None else outcome.at_most
    if ours is None or theirs is None:
        return None
    if outcome.unjudged:
        return "cannot be judged"
    chance = outcome.baseline
    if chance is not None and outcome.at_most is None:
        papers_is = abs(theirs - chance) <= _PAPERS_AT_CHANCE * chance
        if papers_is and AT_CHANCE * chance <= ours < math.inf:
            return "at chance in both"
    differs = not abs(ours - theirs) <= margin(outcome) * _ROUNDING  # a NaN differs
    if outcome.at_most is not None:
        limit = _precision(outcome) * _ROUNDING
        above = sum(not each - theirs <= limit for each in outcome.counted_values)
        is_above = not ours - theirs <= margin(outcome) * _ROUNDING
        differs = is_above or 2 * above > len(outcome.counted_values)
    if not differs:
        return "agrees"
    if outcome.better is None:
        return "differs"
    if math.isfinite(ours) and (ours > theirs) == (outcome.better == "higher"):
        return "better here"
    return "worse here"


def margin(outcome: Outcome) -> float:
    """Return how far our number may be from the paper's, or above its bound.

    This is the largest of the error that the paper prints, half a unit of the last printed digit,
    the accuracy of reading a figure, and twice our standard error.
    """
    return max(_precision(outcome), outcome.error or 0.0, 2 * (outcome.standard_error or 0.0))


def _precision(outcome: Outcome) -> float:
    """Return half a unit of the last printed digit, or the accuracy of reading if it is larger."""
    number = outcome.reported if outcome.at_most is None else outcome.at_most
    if not number:
        half_a_digit = _ZERO
    elif outcome.decimals is not None:
        half_a_digit = 0.5 * 10.0**-outcome.decimals
    else:
        half_a_digit = 0.5 * 10.0 ** int(Decimal(repr(number)).as_tuple().exponent)
    return max(half_a_digit, outcome.reading or 0.0)
