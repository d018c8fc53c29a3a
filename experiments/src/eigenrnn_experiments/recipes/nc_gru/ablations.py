"""Ablations of NC-GRU on the parenthesis task: figures 5, 7 and 8."""

from collections.abc import Mapping, Sequence

from eigenrnn_experiments.recipes.nc_gru.paper import SOURCE, nc_gru, with_order
from eigenrnn_experiments.recipes.nc_gru.parenthesis import (
    DEPARTURES,
    GATES_NOTE,
    LENGTH_100,
    NC_GRU_ONE,
    NC_GRU_ONE_RELEASED,
    TABLE_1,
)
from eigenrnn_experiments.recipes.panels import Curves
from eigenrnn_experiments.recipes.recipe import Panel, Recipe
from eigenrnn_experiments.recipes.reproduce import TrainedRow

__all__ = ["RECIPES"]


_LABEL = "NC-GRU(U_c) 56 T=100"


def _draw_norms(trained: Mapping[str, Sequence[TrainedRow]]) -> Curves:
    run = trained[_LABEL][0]
    steps, norms = run.files.read_column("neumann_norm")
    series = {_LABEL: norms, "1, below which the series converges": [1.0] * len(steps)}
    return Curves(
        steps, series, x_name="step of training", y_name="2-norm of (I + A)⁻¹ δA", log=True
    )


# the update gate, too, has an orthogonal matrix
_NC_GRU_THREE = nc_gru("U_r,U_u,U_c", 56, parameters=6_990, negative=40, reset_every=50)

_INVERSE = LENGTH_100.reported_as(
    place="figure 5",
    note="no number is printed; order 2 ends slightly below orders 1 and 3, the inverse well "
    "above them",
)
_LENGTH = "the paper does not state T; we take 100"

RECIPES = (
    Recipe(
        name="nc_gru/fig5",
        summary="Counting brackets: the exact inverse and Neumann series of order 1, 2 and 3.",
        rows=(
            _INVERSE.row(with_order(NC_GRU_ONE, None)),
            _INVERSE.row(with_order(NC_GRU_ONE, 1)),
            _INVERSE.row(with_order(NC_GRU_ONE, 2)),
            _INVERSE.row(with_order(NC_GRU_ONE, 3)),
            _INVERSE.row(with_order(NC_GRU_ONE_RELEASED, None)),
            _INVERSE.row(with_order(NC_GRU_ONE_RELEASED, 1)),
            _INVERSE.row(with_order(NC_GRU_ONE_RELEASED, 2)),
            _INVERSE.row(with_order(NC_GRU_ONE_RELEASED, 3)),
        ),
        source=f"{SOURCE}, section 5.1 and figure 5",
        departures=(
            *DEPARTURES,
            _LENGTH,
            "the paper solves for the inverse by least squares",
        ),
    ),
    Recipe(
        name="nc_gru/fig7",
        summary="Counting brackets: NC-GRU with one, two and three orthogonal matrices.",
        rows=(
            *TABLE_1.rows_at("figure 7"),
            LENGTH_100.row(_NC_GRU_THREE, place="figure 7", note=GATES_NOTE),
        ),
        source=f"{SOURCE}, section 5.2 and figure 7",
        departures=(
            *DEPARTURES,
            "the paper does not state the task; we take counting brackets with T=100",
        ),
    ),
    Recipe(
        name="nc_gru/fig8",
        summary="Counting brackets: the norm of the terms of the Neumann series during training.",
        rows=TABLE_1.rows_at("figure 8"),
        source=f"{SOURCE}, section 5.3 and figure 8",
        departures=(*DEPARTURES, _LENGTH),
        panels=(
            Panel(
                "norm",
                "The norm of the terms of the series",
                draw=_draw_norms,
                required_rows=(_LABEL,),
            ),
        ),
    ),
)
"""Three figures; figure 6 is in `text`."""
