"""Whether our number of a row agrees with the paper's, or which of the two is better."""

import math
from decimal import Decimal
from typing import Literal

from eigenrnn_experiments.recipes import Comparison

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


def agreement(compared: Comparison) -> Agreement | None:
    """Compare our mean with the paper's number or bound; None if one of the two is missing.

    It is better or worse here if it is farther from the paper's number than the margin. A bound is
    exceeded if our mean is above it by more than the margin, or if most of our runs are above it
    by more than half a unit of its last digit or the accuracy of reading. The second rule does not
    loosen when the runs vary widely.
    """
    ours = compared.ours.value
    at_most = compared.reported.at_most
    theirs = compared.reported.value if at_most is None else at_most
    if not compared.values or theirs is None:
        return None
    if compared.reason:
        return "cannot be judged"
    chance = compared.baseline
    if chance is not None and at_most is None:
        papers_is = abs(theirs - chance) <= _PAPERS_AT_CHANCE * chance
        if papers_is and AT_CHANCE * chance <= ours < math.inf:
            return "at chance in both"
    differs = not abs(ours - theirs) <= margin(compared) * _ROUNDING  # a NaN differs
    if at_most is not None:
        limit = _precision(compared) * _ROUNDING
        above = sum(not each - theirs <= limit for each in compared.values)
        is_above = not ours - theirs <= margin(compared) * _ROUNDING
        differs = is_above or 2 * above > len(compared.values)
    if not differs:
        return "agrees"
    better = compared.reported.better
    if better is None:
        return "differs"
    if math.isfinite(ours) and (ours > theirs) == (better == "higher"):
        return "better here"
    return "worse here"


def margin(compared: Comparison) -> float:
    """Return how far our number may be from the paper's, or above its bound.

    This is the largest of the error that the paper prints, half a unit of the last printed digit,
    the accuracy of reading a figure, and twice our standard error.
    """
    return max(
        _precision(compared), compared.reported.error or 0.0, 2 * (compared.ours.error or 0.0)
    )


def _precision(compared: Comparison) -> float:
    """Return half a unit of the last printed digit, or the accuracy of reading if it is larger."""
    reported = compared.reported
    number = reported.value if reported.at_most is None else reported.at_most
    if not number:
        half_a_digit = _ZERO
    elif reported.decimals is not None:
        half_a_digit = 0.5 * 10.0**-reported.decimals
    else:
        half_a_digit = 0.5 * 10.0 ** int(Decimal(repr(number)).as_tuple().exponent)
    return max(half_a_digit, reported.reading or 0.0)
