"""The points that Optuna proposes, numbered and written down, so that a search can go on."""

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

from eigenrnn.experiments.sweep.files import read_json
from eigenrnn.experiments.sweep.folder import SUGGESTIONS
from eigenrnn.experiments.sweep.plan import Choice, Range, Search
from eigenrnn.experiments.training.run_directory import write_json

__all__ = ["OBJECTIVE", "Suggested", "Suggestions", "suggested_before"]

OBJECTIVE = "objective"
"""What a trial tells the search."""


@dataclass(frozen=True)
class Suggested:
    """A point that was proposed.

    Args:
        number: Its number, from zero.
        parameters: Its values.
        objective: What came out; None if nothing did.
        is_over: Whether its trials have come to their ends.
    """

    number: int
    parameters: Mapping[str, Any]
    objective: float | None = None
    is_over: bool = False


class Suggestions(Searcher):
    """Ray Tune's search with Optuna, which goes on after a stop with the same points.

    What was proposed and has ended is told to Optuna again; what has not ended is proposed again.
    """

    def __init__(self, search: Search, mode: str, out: Path, known: Sequence[Suggested]) -> None:
        super().__init__(metric=OBJECTIVE, mode=mode)
        self._out = out
        self._known = list(known)
        waiting = [point for point in known if not point.is_over]
        self._waiting = deque(waiting)
        self._search = OptunaSearch(
            {name: _distribution(domain) for name, domain in search.space.items()},
            metric=OBJECTIVE,
            mode=mode,
            points_to_evaluate=[dict(point.parameters) for point in waiting],
            # the same seed again would begin with the same proposals again
            seed=search.seed + len(known),
        )
        for point in known:
            if point.is_over:
                failed = point.objective is None
                value = 0.0 if point.objective is None else point.objective
                self._search.add_evaluated_point(dict(point.parameters), value, error=failed)

    def suggest(self, trial_id: str) -> dict[str, Any]:
        parameters = self._search.suggest(trial_id) or {}
        if self._waiting:
            point = self._waiting.popleft()
        else:
            point = Suggested(len(self._known), parameters)
            self._known.append(point)
            listed = [{"number": p.number, "parameters": p.parameters} for p in self._known]
            write_json(self._out / SUGGESTIONS, {"points": listed})
        return {"number": point.number, "parameters": dict(point.parameters)}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        del trial_id, result  # only how a trial ends counts: none is cut short

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        found = (result or {}).get(OBJECTIVE)
        if error or found is None:
            self._search.on_trial_complete(trial_id, None, error=True)
        else:
            self._search.on_trial_complete(trial_id, {OBJECTIVE: found})

    def save(self, checkpoint_path: str) -> None:
        self._search.save(checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        self._search.restore(checkpoint_path)


def suggested_before(out: Path) -> list[Suggested]:
    """Read what was proposed before a search was stopped.

    Raises:
        ValueError: If the file of it is damaged.
    """
    path = out / SUGGESTIONS
    listed = read_json(path, ("points",))["points"] if path.exists() else []
    if not isinstance(listed, list) or not all(map(_is_point, cast("list[Any]", listed))):
        raise ValueError(f"{path} is damaged: expected points with a number and parameters")
    points = cast("list[dict[str, Any]]", listed)
    return [Suggested(point["number"], point["parameters"]) for point in points]


def _is_point(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("number"), int)
        and isinstance(value.get("parameters"), dict)
    )


def _distribution(domain: Range | Choice) -> BaseDistribution:
    if isinstance(domain, Choice):
        return CategoricalDistribution(domain.values)
    if not domain.whole:
        return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)
    return IntDistribution(
        int(domain.low), int(domain.high), log=domain.log, step=int(domain.step or 1)
    )
