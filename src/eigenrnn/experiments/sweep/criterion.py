"""The metric by which the trials of a sweep are compared."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eigenrnn.experiments.sweep.status import Status

__all__ = ["Criterion", "Score"]


class Score(NamedTuple):
    """The score of a trial.

    Args:
        value: The value of the metric.
        step: The step of the evaluation.
    """

    value: float
    step: int | None


@dataclass(frozen=True)
class Criterion:
    """A metric by which trials are compared.

    Args:
        metric: A split and the name of a metric, such as `test loss`.
        mode: `min` if lower is better, `max` if higher is.
        explicit: Whether a search names this metric. The score of a run is then its best value at
            any evaluation, otherwise its value at the evaluation that the task selects.
    """

    metric: str
    mode: str
    explicit: bool = False

    def score(self, status: Status) -> Score | None:
        """Return the score of a trial; None if it has not ended or lacks the metric.

        Raises:
            ValueError: If `metrics.csv`, which holds an explicit metric, is damaged.
        """
        result = status.result
        if result is None:
            return None
        split, _, name = self.metric.partition(" ")
        if not self.explicit:
            value = result.best.get(split, {}).get(name)
            return None if value is None else Score(value, result.best_step)
        evaluations = status.evaluations.get(f"{split}_{name}", {}).items()
        scores = [Score(value, step) for step, value in evaluations if not math.isnan(value)]
        best = max if self.mode == "max" else min
        return best(scores, key=lambda score: score.value, default=None)

    def best_first(self, statuses: Sequence[Status]) -> list[tuple[Score, Status]]:
        """Sort the trials that have a score, the best first."""
        scored = [(score, each) for each in statuses if (score := self.score(each)) is not None]
        return sorted(scored, key=lambda pair: pair[0].value, reverse=self.mode == "max")
