"""The points of a search, which Optuna proposes."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState, create_trial

from eigenrnn.experiments.sweep.folder import POINTS
from eigenrnn.experiments.sweep.search_space import Choice, Range, Search
from eigenrnn.experiments.training.files import check_types, read_json, write_json

__all__ = ["propose", "read_points", "write_points"]


def propose(
    search: Search,
    mode: str,
    number: int,
    results: Sequence[tuple[Mapping[str, Any], float | None]],
) -> Mapping[str, Any]:
    """Return the parameters of the next point.

    They depend on the arguments alone. Given the same finished points, a search that was stopped
    therefore continues with the same next point.

    Args:
        search: The space and the seed.
        mode: `min` or `max`.
        number: The number of the point, from zero; each has its own random numbers.
        results: The parameters and the objective of each finished point, in the order of their
            numbers; the objective is None if a trial has none.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {name: _distribution(domain) for name, domain in search.space.items()}
    seed = random.Random(f"{search.seed} {number}").getrandbits(32)
    sampler = optuna.samplers.TPESampler(seed=seed)
    direction = "minimize"
    if mode == "max":
        direction = "maximize"
    study = optuna.create_study(sampler=sampler, direction=direction)
    # a study from scratch for each point: its state is then the arguments alone
    for parameters, value in results:
        state = TrialState.COMPLETE
        if value is None:  # it diverged
            state = TrialState.FAIL
        study.add_trial(
            create_trial(params=dict(parameters), distributions=space, value=value, state=state)
        )
    return study.ask(space).params


def _distribution(domain: Range | Choice) -> BaseDistribution:
    if isinstance(domain, Choice):
        return CategoricalDistribution(domain.values)
    if not domain.is_integer:
        return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)
    return IntDistribution(
        int(domain.low), int(domain.high), log=domain.log, step=int(domain.step or 1)
    )


def read_points(out: Path, search: Search) -> list[Mapping[str, Any]]:
    """Read the parameters of the points that were proposed before a search was stopped.

    Raises:
        ValueError: If their file is damaged.
    """
    path = out / POINTS
    if not path.exists():
        return []
    content = read_json(path, ("points",))
    check_types(path, content, {"points": list[dict[str, object]]})
    points = cast("list[Mapping[str, Any]]", content["points"])
    if any(set(point) != set(search.space) for point in points):
        raise ValueError(f"{path} is damaged: expected points with {', '.join(search.space)}")
    return points


def write_points(out: Path, points: Sequence[Mapping[str, Any]]) -> None:
    """Write the parameters of all points proposed so far."""
    write_json(out / POINTS, {"points": list(points)})
