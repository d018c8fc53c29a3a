"""Where a text is cut into the sequences that a network reads one after the other."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from eigenrnn.experiments.tasks.streams import stream

__all__ = ["Window", "Windows", "fixed", "lines_of", "passes", "random"]

_HALVED = 0.05  # the share of windows with half the length
_SPREAD = 5.0
_SHORTEST = 5

Windows = Callable[[int], NDArray[np.int64]]
"""Gives the cuts of a pass by its number: where each window begins, and at last where all end."""


class Window(NamedTuple):
    """The symbols from `begin` up to `end`, the first of a pass or not."""

    begin: int
    end: int
    is_first: bool


def fixed(length: int, window: int) -> NDArray[np.int64]:  # (windows + 1)
    """Cut `length` symbols into windows of the same length; the last may be shorter."""
    return np.append(np.arange(0, length, window), length)


def random(length: int, window: int, seed: int, number: int) -> NDArray[np.int64]:
    r"""Cut `length` symbols into windows whose lengths are drawn as AWD-LSTM draws them.

    A length is the base, or one time in twenty half of it, plus :math:`N(0, 5)`, and at least 5.
    There, a pass has as many windows as fit; here all have the expected number of windows, and
    what is drawn above 5 is stretched (by one in a hundred, for hundreds of windows) until they
    fill the text. So the number of a step tells its pass and its place.

    Args:
        length: The number of symbols.
        window: The base.
        seed: That of the run.
        number: That of the pass.
    """
    count = _expected_count(length, window)
    generator = stream(seed, "windows", number)
    halved = torch.rand(count, generator=generator) < _HALVED
    noise = _SPREAD * torch.randn(count, generator=generator, dtype=torch.float64)
    drawn = torch.where(halved, window / 2, float(window)).double() + noise
    shortest = min(_SHORTEST, length // count)
    spare = (drawn - shortest).clamp(min=1e-3).cumsum(0).numpy()
    stretched = (length - count * shortest) * spare / spare[-1]
    return np.append(0, np.arange(1, count + 1) * shortest + np.rint(stretched).astype(np.int64))


def _expected_count(length: int, window: int) -> int:
    # AWD-LSTM drops the fractions of what it draws, half a symbol on average
    return max(1, round(length / ((1 - _HALVED / 2) * window - 0.5)))


def passes(cuts: Windows, start: int, *, endless: bool) -> Iterator[Window]:
    """Yield the windows of one pass, or of all passes, that all have the same number of them.

    Args:
        cuts: Those of each pass.
        start: The number of windows to skip; none of them is looked at.
        endless: Whether another pass follows.
    """
    first_pass, skipped = divmod(start, len(cuts(0)) - 1)
    for number in itertools.count(first_pass) if endless else range(first_pass, 1):
        places = cuts(number).tolist()
        for k in range(skipped, len(places) - 1):
            yield Window(places[k], places[k + 1], k == 0)
        skipped = 0


def lines_of(
    numbers: NDArray[Any], end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # (lines), (lines)
    """Find the lines of a text that have something to guess: two symbols or more.

    Args:
        numbers: The text.
        end: The number that ends a line, and is no part of it.

    Returns:
        Where each begins, and its length.
    """
    ends = np.append(np.flatnonzero(numbers == end), len(numbers))
    begins = np.append(0, ends[:-1] + 1)
    some = ends - begins > 1
    return begins[some], (ends - begins)[some]


def count_steps(length: int, window: int, *, drawn: bool) -> int:
    """Count the windows of a pass."""
    return _expected_count(length, window) if drawn else math.ceil(length / window)
