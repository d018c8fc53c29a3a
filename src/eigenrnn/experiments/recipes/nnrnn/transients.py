"""What non-normal dynamics are good for: figure 1."""

from collections.abc import Mapping, Sequence

import numpy as np

from eigenrnn.analysis import fisher_memory, transient_growth
from eigenrnn.experiments.recipes.base import Computed, Recipe, Reported
from eigenrnn.experiments.recipes.nnrnn.fisher import total_memory
from eigenrnn.experiments.recipes.nnrnn.source import SOURCE
from eigenrnn.experiments.recipes.nnrnn.triangular import UNITS, named, triangular
from eigenrnn.experiments.recipes.panel import Panel, Trained
from eigenrnn.experiments.recipes.pictures import Curves, SideBySide

__all__ = ["RECIPES"]

_STEPS, _NOISE_STEPS, _STARTS = 150, 10_000, 1_000


def _trajectories(_: Mapping[str, Sequence[Trained]]) -> SideBySide:
    growths = {
        name: transient_growth(
            triangular(alpha, beta), _STEPS, ensemble=_STARTS, generator=np.random.default_rng(0)
        )
        for name, alpha, beta in named()
    }
    steps = np.arange(_STEPS + 1)
    spread = Curves(
        steps,
        {name: growth.spread_mean for name, growth in growths.items()},
        "step",
        "standard deviation across units",
        "Trajectories",
        bands={name: growth.spread_std for name, growth in growths.items()},
    )
    size = Curves(
        steps,
        {name: growth.state_norm_mean for name, growth in growths.items()},
        "step",
        "norm of the state",
        f"{_STARTS:,} starts on the unit sphere",
        bands={name: growth.state_norm_std for name, growth in growths.items()},
    )
    return SideBySide([spread, size])


def _memory(_: Mapping[str, Sequence[Trained]]) -> SideBySide:
    first = np.eye(UNITS)[0]
    parts = [
        Curves(
            np.arange(_STEPS),
            {
                name: fisher_memory(
                    triangular(alpha, beta, d), first, _STEPS, noise_steps=_NOISE_STEPS
                ).curve
                for name, alpha, beta in named()
            },
            "steps ago",
            "Fisher information",
            f"Memory with d={d:g}",
        )
        for d in (0.0, 0.2)
    ]
    return SideBySide(parts)


def _row(name: str, alpha: float, beta: float, d: float) -> Computed:
    note = "the curve prints no number; its sum is in table 6"
    return Computed(
        label=f"{name} d={d:g}",
        compute=lambda: total_memory(alpha, beta, d),
        reported=Reported(None, "figure 1c", quantity="total Fisher memory", note=note),
    )


RECIPES = (
    Recipe(
        name="nnrnn/fig1",
        summary="Triangular matrices: transients of the states, and Fisher memory.",
        rows=tuple(_row(*one, d) for d in (0.0, 0.2) for one in named()),
        source=f"{SOURCE}, section 3 and figure 1",
        departures=(
            "the printed totals need alpha itself below the diagonal, where proposition 1 has "
            "its root",
        ),
        panels=(
            Panel(
                "b", "Transients of 1,000 trajectories, mean and standard deviation", _trajectories
            ),
            Panel("c", "Fisher memory of the input of some steps ago", _memory),
        ),
    ),
)
"""The figure, whose first part is a drawing."""
