"""Points proposed by Optuna, stored so that a search can be resumed."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch

from eigenrnn.experiments.sweep.folder import SUGGESTIONS, read_json
from eigenrnn.experiments.sweep.search_space import Choice, Range, Search
from eigenrnn.experiments.training.files import write_json

__all__ = ["OBJECTIVE", "ResumableSearch", "SuggestedPoint", "read_suggestions"]

OBJECTIVE = "objective"
"""The key under which a trial reports the value that the search optimises."""


@dataclass(frozen=True)
class SuggestedPoint:
    """A point proposed by the search.

    Args:
        number: The number of the point, from zero.
        parameters: The values of the parameters.
        objective: The value of the objective; None if a trial has none.
        is_over: Whether all trials of the point are finished.
    """

    number: int
    parameters: Mapping[str, Any]
    objective: float | None = None
    is_over: bool = False


class ResumableSearch(Searcher):
    """Ray Tune's Optuna search, which continues with the same points after an interruption.

    Optuna is told the results of the finished points; the unfinished ones are proposed again.
    """

    def __init__(
        self, search: Search, mode: str, out: Path, previous: Sequence[SuggestedPoint]
    ) -> None:
        super().__init__(metric=OBJECTIVE, mode=mode)
        self._out = out
        self._points = list(previous)
        unfinished = [point for point in previous if not point.is_over]
        self._unfinished = deque(unfinished)
        self._search = OptunaSearch(
            {name: _distribution(domain) for name, domain in search.space.items()},
            metric=OBJECTIVE,
            mode=mode,
            points_to_evaluate=[dict(point.parameters) for point in unfinished],
            # with the same seed the first proposals would be the same again
            seed=search.seed + len(previous),
        )
        for point in previous:
            if point.is_over:
                failed = point.objective is None
                value = 0.0 if point.objective is None else point.objective
                self._search.add_evaluated_point(dict(point.parameters), value, error=failed)

    def suggest(self, trial_id: str) -> dict[str, Any]:
        parameters = self._search.suggest(trial_id) or {}
        if self._unfinished:
            point = self._unfinished.popleft()
        else:
            point = SuggestedPoint(len(self._points), parameters)
            self._points.append(point)
            listed = [{"number": p.number, "parameters": p.parameters} for p in self._points]
            write_json(self._out / SUGGESTIONS, {"points": listed})
        return {"number": point.number, "parameters": dict(point.parameters)}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        del trial_id, result  # no trial is stopped early, so only its final result counts

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        objective = (result or {}).get(OBJECTIVE)
        if error or objective is None:
            self._search.on_trial_complete(trial_id, None, error=True)
        else:
            self._search.on_trial_complete(trial_id, {OBJECTIVE: objective})

    def save(self, checkpoint_path: str) -> None:
        self._search.save(checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        self._search.restore(checkpoint_path)


def read_suggestions(out: Path) -> list[SuggestedPoint]:
    """Read the points that were proposed before a search was interrupted.

    Raises:
        ValueError: If their file is damaged.
    """
    path = out / SUGGESTIONS
    listed = read_json(path, ("points",))["points"] if path.exists() else []
    if not isinstance(listed, list) or not all(map(_is_point, cast("list[Any]", listed))):
        raise ValueError(f"{path} is damaged: expected points with a number and parameters")
    points = cast("list[dict[str, Any]]", listed)
    return [SuggestedPoint(point["number"], point["parameters"]) for point in points]


def _is_point(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("number"), int)
        and isinstance(value.get("parameters"), dict)
    )


def _distribution(domain: Range | Choice) -> BaseDistribution:
    if isinstance(domain, Choice):
        return CategoricalDistribution(domain.values)
    if not domain.is_integer:
        return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)
    return IntDistribution(
        int(domain.low), int(domain.high), log=domain.log, step=int(domain.step or 1)
    )
