"""The total Fisher memory of triangular matrices: table 6."""

import numpy as np

from eigenrnn.analysis import fisher_memory
from eigenrnn.experiments.recipes.base import Computed, Recipe, Reported
from eigenrnn.experiments.recipes.nnrnn.source import SOURCE
from eigenrnn.experiments.recipes.nnrnn.triangular import UNITS, triangular

__all__ = ["RECIPES", "total_memory"]

_STEPS, _NOISE_STEPS = 150, 10_000

_PRINTED = {
    (0.95, 0.0, 0.0): 3.03,
    (1.0, 0.0, 0.0): 5.19,
    (1.05, 0.0, 0.0): 12.1,
    (0.95, 0.005, 0.0): 3.18,
    (1.0, 0.005, 0.0): 5.30,
    (1.05, 0.005, 0.0): 12.1,
    (0.95, 0.0, 0.2): 12.0,
    (1.0, 0.0, 0.2): 16.2,
    (1.05, 0.0, 0.2): 20.5,
    (0.95, 0.005, 0.2): 12.1,
    (1.0, 0.005, 0.2): 16.3,
    (1.05, 0.005, 0.2): 20.4,
}


def total_memory(alpha: float, beta: float, d: float) -> float:
    """Sum the Fisher memory of a signal that enters at the first unit, over 150 steps."""
    first = np.eye(UNITS)[0]
    theta = triangular(alpha, beta, d)
    return fisher_memory(theta, first, _STEPS, noise_steps=_NOISE_STEPS).total


def _row(alpha: float, beta: float, d: float, printed: float) -> Computed:
    return Computed(
        label=f"alpha={alpha:g} beta={beta:g} d={d:g}",
        compute=lambda: total_memory(alpha, beta, d),
        reported=Reported(
            printed, "table 6", quantity="total Fisher memory", decimals=1 if printed >= 10 else 2
        ),
    )


RECIPES = (
    Recipe(
        name="nnrnn/table6",
        summary="The total Fisher memory of a chain, with feed-forward links and with a diagonal.",
        rows=tuple(_row(*key, printed) for key, printed in _PRINTED.items()),
        source=f"{SOURCE}, section 3.2 and table 6",
        departures=(
            "the printed numbers need alpha itself below the diagonal, where proposition 1 has "
            "its root",
            "with d = 0.2 the noise has a condition number of 5e14 to over 1e26: printed totals "
            "are off by up to 0.5, ours agree with exact arithmetic to seven digits",
        ),
    ),
)
"""The twelve matrices of the table."""
