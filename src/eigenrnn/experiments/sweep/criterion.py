"""By what the trials of a sweep are compared."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eigenrnn.experiments.sweep.status import Status

__all__ = ["Criterion", "Score"]


class Score(NamedTuple):
    """What a run comes to.

    Args:
        value: The figure.
        step: The step at which it was measured.
    """

    value: float
    step: int | None


@dataclass(frozen=True)
class Criterion:
    """A figure by which trials are compared.

    Args:
        metric: A split and what is measured on it, such as `test loss`.
        mode: Whether it should be small, `min`, or large, `max`.
        named: Whether a search asks for this very figure: then the best evaluation of a run is
            the best by it, else by what the task decides by.
    """

    metric: str
    mode: str
    named: bool = False

    def score(self, status: Status) -> Score | None:
        """Read a trial's figure at its best evaluation; None if it has not ended or has none.

        Raises:
            ValueError: If the journal of the run, which holds a named figure, is damaged.
        """
        result = status.result
        if result is None:
            return None
        split, _, name = self.metric.partition(" ")
        if not self.named:
            value = result.best.get(split, {}).get(name)
            return None if value is None else Score(value, result.best_step)
        measured = status.evaluations.get(f"{split}_{name}", {}).items()
        scores = [Score(value, step) for step, value in measured if not math.isnan(value)]
        best = max if self.mode == "max" else min
        return best(scores, key=lambda score: score.value, default=None)

    def best_first(self, statuses: Sequence[Status]) -> list[tuple[Score, Status]]:
        """Sort the trials that have a score, the best first."""
        known = [(score, each) for each in statuses if (score := self.score(each)) is not None]
        return sorted(known, key=lambda pair: pair[0].value, reverse=self.mode == "max")
