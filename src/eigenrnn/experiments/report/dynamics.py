"""What was seen of the recurrent matrices while a run was trained."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eigenrnn.experiments.report.collect import RunRecord
from eigenrnn.experiments.report.numbers import listed, thinned

__all__ = ["watched"]

_MEASURES = {
    "orthogonality_error": "orthogonality error",
    "henrici": "departure from normality",
    "gamma": "mean modulus of the Schur form",
}
_MOST_EIGENVALUES, _MOST, _FEWEST = 10_000, 60, 12
_MOST_TIMES = 200


def watched(run: RunRecord) -> dict[str, Any] | None:
    """Collect eigenvalues, measures and gradients over the steps of a run.

    Of many looks some are left out, evenly; the first and the last stay.

    Returns:
        Lists for the page; None if nobody watched the run.
    Raises:
        ValueError: If the file is damaged.
    """
    # a run that went on from a checkpoint has seen some steps twice
    by_step = {int(look["step"]): look for look in run.dynamics if look.get("spectrum")}
    if not by_step:
        return None
    try:
        return _collected([by_step[step] for step in sorted(by_step)])
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{run.folder / 'dynamics.jsonl'} is damaged or of another version: {error!r}"
        ) from None


def _collected(looks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = list(looks[0]["spectrum"])
    size = max(len(look["spectrum"][name]) for look in looks for name in names)
    most = min(_MOST, max(_FEWEST, _MOST_EIGENVALUES // max(size, 1)))
    chosen = [looks[index] for index in thinned(len(looks), most)]
    spectra = {name: [_plane(look["spectrum"][name]) for look in chosen] for name in names}
    return {
        "steps": [int(look["step"]) for look in chosen],
        "left_out": len(looks) - len(chosen),
        "spectra": spectra,
        "measures": _measures(chosen, names),
        "gradients": _gradients(chosen),
    }


def _plane(eigenvalues: Sequence[Sequence[float]]) -> dict[str, Any]:
    table = np.asarray(eigenvalues, dtype=np.float64).reshape(-1, 2)
    return {"re": listed(table[:, 0], 4), "im": listed(table[:, 1], 4)}


def _measures(
    looks: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        "spectral radius": {
            name: listed([_radius(look["spectrum"][name]) for look in looks], 6) for name in names
        }
    }
    for key, said in _MEASURES.items():
        if any(look.get(key) for look in looks):
            found[said] = {
                name: listed([_number(look, key, name) for look in looks], 4) for name in names
            }
    return found


def _radius(eigenvalues: Sequence[Sequence[float]]) -> float:
    return max((math.hypot(re, im) for re, im in eigenvalues), default=math.nan)


def _number(look: Mapping[str, Any], key: str, name: str) -> float:
    number = (look.get(key) or {}).get(name)
    if isinstance(number, dict):
        number = number["mean"]
    return math.nan if number is None else float(number)


def _gradients(looks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Take the gradient's norm by time step, for each layer that all looks have."""
    given = [look.get("gradient_norms") or {} for look in looks]
    found: dict[str, Any] = {}
    for name in given[0]:
        if not all(name in norms and len(norms[name]) for norms in given):
            continue
        at = thinned(min(len(norms[name]) for norms in given), _MOST_TIMES)
        curves = [np.asarray(norms[name], dtype=np.float64)[at] for norms in given]
        found[name] = {"time": at, "norms": [listed(curve, 4) for curve in curves]}
    return found
