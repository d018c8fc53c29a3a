"""Whether our number of a row agrees with the paper's."""

from decimal import Decimal

from eigenrnn.experiments.recipes import Outcome
from eigenrnn.experiments.recipes.outcome import standard_error

__all__ = ["disagrees", "is_comparable", "margin"]

_ZERO = 5e-4  # for a curve that reaches zero in the figure


def is_comparable(outcome: Outcome) -> bool:
    """Whether we have a number, and the paper a number or a bound."""
    theirs = outcome.reported if outcome.at_most is None else outcome.at_most
    return outcome.mean is not None and theirs is not None


def margin(outcome: Outcome) -> float:
    """Return how far our number may be from the paper's, or above its bound.

    This is the paper's error if it prints one that is not zero. Otherwise it is half a unit of the
    last printed digit or twice our standard error, whichever is larger.
    """
    if outcome.error:
        return outcome.error
    theirs = outcome.reported if outcome.at_most is None else outcome.at_most
    ours = standard_error(outcome.counted_values)
    return max(_half_a_digit(theirs, outcome.decimals), 2 * (ours or 0.0))


def disagrees(outcome: Outcome) -> bool:
    """Whether our number differs from the paper's by more than the margin, or is not finite.

    A bound is exceeded if our mean is above it by more than the margin, or if most of our runs are
    above it by more than half a unit of its last digit. The second rule does not loosen when the
    runs vary widely.
    """
    if outcome.at_most is None:
        difference = outcome.difference
        return difference is not None and not _within(abs(difference), margin(outcome))
    if outcome.mean is None:
        return False
    digit = _half_a_digit(outcome.at_most)
    above = [not _within(value - outcome.at_most, digit) for value in outcome.counted_values]
    return 2 * sum(above) > len(above) or not _within(
        outcome.mean - outcome.at_most, margin(outcome)
    )


def _within(number: float, limit: float) -> bool:
    # the factor allows for rounding; a NaN is not within any limit
    return number <= limit * (1 + 1e-9)


def _half_a_digit(number: float | None, decimals: int | None = None) -> float:
    if not number:
        return 0.0 if number is None else _ZERO
    if decimals is not None:
        return 0.5 * 10.0**-decimals
    return 0.5 * 10.0 ** int(Decimal(repr(number)).as_tuple().exponent)
