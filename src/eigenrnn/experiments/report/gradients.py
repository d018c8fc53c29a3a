"""Pictures of how gradients travel back through time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn.analysis import recurrences
from eigenrnn.analysis.gradient_map import gradient_map
from eigenrnn.experiments.report.numbers import by_blocks, in_powers, positive

__all__ = ["gradient_pictures"]

_MOST_CELLS = 128
_MOST_PRODUCTS = 4e10  # multiplications; some seconds
_MOST_NUMBERS = 2**25  # of derivatives at once, in double precision
_FLOOR = 1e-16  # of the largest norm


def gradient_pictures(
    model: nn.Module,
    inputs: Tensor,  # (T, B, M)
) -> dict[str, Any]:
    """Draw how strongly each state depends on each earlier one, by layer and part of the state.

    Of one sequence, and of no more of its first steps than take some seconds.

    Raises:
        ValueError: If the model has no recurrent layer, or the inputs do not fit it.
    """
    found = recurrences(model)
    pictures: dict[str, Any] = {}
    for recurrence in found:
        steps = _affordable(len(inputs), recurrence.state_size, len(found))
        x = inputs[:steps, :1]
        maps = gradient_map(model, x, of=("state",), which=recurrence.name).by_state
        for block, norms in maps.items():
            name = recurrence.name if block == "whole" else f"{recurrence.name}, {block}"
            pictures[name] = _picture(norms, len(inputs))
    return pictures


def _affordable(steps: int, size: int, layers: int) -> int:
    by_time = (_MOST_PRODUCTS / layers / size**3) ** 0.5
    return max(2, min(steps, int(by_time), _MOST_NUMBERS // size**2))


def _picture(
    norms: NDArray[np.float64],  # (T, T)
    steps: int,
) -> dict[str, Any]:
    T = len(norms)
    cells, block, _ = by_blocks(norms, _MOST_CELLS)
    places = list(range(1, T + 1, block))
    lags = np.array([_mean(norms.diagonal(-lag)) for lag in range(T)])
    note = "Of one sequence; from its last step to its first the norm is "
    note += f"{norms[-1, 0]:.3g}."
    if steps > T:
        note += f" The first {T} of {steps} steps: more would take long."
    if block > 1:
        note += f" Each cell is the largest of {block} x {block} pairs of steps."
    return {
        "map": {
            "z": in_powers(cells, _FLOOR),
            "x": places,
            "y": places,
            "x_name": "step t",
            "y_name": "step τ",
            "name": "gradient norm",
            "log": True,
        },
        "profile": {
            "x": list(range(T)),
            "y": positive(lags, _FLOOR),
            "x_name": "steps back from τ to t",
            "y_name": "mean gradient norm",
            "log": True,
        },
        "note": note,
    }


def _mean(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")
