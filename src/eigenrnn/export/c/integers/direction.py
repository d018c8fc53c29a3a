"""A layer whose recurrent matrices are rounded, and the ranges of its numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from eigenrnn.export.c.integers.source import LARGEST, Vector
from eigenrnn.export.c.source import Layer
from eigenrnn.export.rounding import RoundedMatrix
from eigenrnn.layers.direction import AbstractDirection

__all__ = ["IntegerLayer", "RoundedDirection", "places_for"]

_D = TypeVar("_D", bound=AbstractDirection)

_MARGIN = 1.25  # of the range, over the largest number of the calibration


@dataclass(frozen=True)
class RoundedDirection(Generic[_D]):
    """One layer in one direction, ready to be written.

    Args:
        direction: The layer.
        matrices: Its recurrent matrices.
        largest: The largest absolute numbers in the calibration: of the ``state``, of the ``cell``
            of an LSTM, and of the ``output``.
    """

    direction: _D
    matrices: Sequence[RoundedMatrix]
    largest: Mapping[str, float]

    def places(self, part: str) -> int:
        """Return the places with which a part fits into 16 bits."""
        return places_for(self.largest[part])


@dataclass(frozen=True)
class IntegerLayer:
    """A layer that is written.

    Args:
        layer: Its function in C.
        output: Its output: a part of the state, or an array that the function fills.
        limits: The largest number of each part that saturates.
    """

    layer: Layer
    output: Vector
    limits: Mapping[str, float]


def places_for(largest: float, range_: float = LARGEST) -> int:
    """Return the most places with which a number fits into a range, with a margin."""
    if largest <= 0:
        return 15
    return min(24, math.floor(math.log2(range_ / (_MARGIN * largest))))
