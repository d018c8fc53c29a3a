"""What makes NC-GRU work on counting brackets: figures 5, 7 and 8."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eigenrnn.experiments.recipes.base import Recipe, Row
from eigenrnn.experiments.recipes.nc_gru import parenthesis
from eigenrnn.experiments.recipes.nc_gru.neumann_norm import NeumannNorm
from eigenrnn.experiments.recipes.nc_gru.parenthesis import (
    LR,
    NEGATIVE,
    NETWORKS,
    RESET_EVERY_RELEASED,
)
from eigenrnn.experiments.recipes.nc_gru.source import SOURCE, Network, neumann, released
from eigenrnn.experiments.recipes.panel import Panel, Trained
from eigenrnn.experiments.recipes.pictures import Curves

__all__ = ["RECIPES"]

_ONE, _TWO = NETWORKS[-2:]
_GATES = ("reset", "update", "candidate")
# the free matrix of the update gate that becomes orthogonal
_THREE = Network(
    f"NC-GRU(U_r,U_u,U_c) {_TWO.size}",
    _TWO.layer,
    _TWO.size,
    _TWO.parameters - _TWO.size * (_TWO.size + 1) // 2,
    neumann(_GATES, NEGATIVE[1], reset_every=50),
)
_INVERSE_NOTE = (
    "no number is printed; order 2 ends a little below orders 1 and 3, the inverse well above"
)
_GATES_NOTE = "no number is printed; one or two orthogonal matrices end below three"
_NORM_NOTE = (
    "the figure shows the norm, well below 1 in all steps, and no number is printed; ours is in "
    "norm.csv, and here is the loss of its run"
)
_LENGTH = "the paper does not state T: 100"


def _row(network: Network, place: str, note: str, **facts: Any) -> Row:
    return parenthesis.row(network, 100, place, None, note, **facts)


def _inverses(network: Network) -> tuple[Row, ...]:
    """Compare the inverse with three orders of the series."""
    rows: list[Row] = []
    for name, order in (("inverse", None), *((f"Neumann {order}", order) for order in (1, 2, 3))):
        options = {**network.options, "order": order}
        chosen = replace(network, label=f"{network.label} {name}", options=options)
        rows.append(_row(chosen, "figure 5", _INVERSE_NOTE))
    return tuple(rows)


_WATCHED = _row(_ONE, "figure 8", _NORM_NOTE, watch=NeumannNorm)


def _norms(trained: Mapping[str, Sequence[Trained]]) -> Curves:
    (run,) = trained[_WATCHED.label][:1]
    (matrix,) = run.names("neumann_norm.csv")
    steps, norms = run.column(matrix, "neumann_norm.csv")
    series = {_WATCHED.label: norms, "1, below which the series converges": [1.0] * len(steps)}
    return Curves(steps, series, "step of training", "2-norm of (I + A)⁻¹ δA", log=True)


RECIPES = (
    Recipe(
        name="nc_gru/fig5",
        summary="Counting brackets: the exact inverse beside Neumann series of order 1, 2 and 3.",
        rows=(
            *_inverses(_ONE),
            *_inverses(released(_ONE, "tensorflow", LR, reset_every=RESET_EVERY_RELEASED)),
        ),
        source=f"{SOURCE}, section 5.1 and figure 5",
        departures=(
            *parenthesis.DEPARTURES,
            _LENGTH,
            "the paper solves for the inverse by least squares",
        ),
    ),
    Recipe(
        name="nc_gru/fig7",
        summary="Counting brackets: NC-GRU with one, two and three orthogonal matrices.",
        rows=tuple(_row(network, "figure 7", _GATES_NOTE) for network in (_ONE, _TWO, _THREE)),
        source=f"{SOURCE}, section 5.2 and figure 7",
        departures=(
            *parenthesis.DEPARTURES,
            "the paper does not state the problem: counting brackets, with T=100",
        ),
    ),
    Recipe(
        name="nc_gru/fig8",
        summary="Counting brackets: the norm of the terms of the Neumann series in training.",
        rows=(_WATCHED,),
        source=f"{SOURCE}, section 5.3 and figure 8",
        departures=(*parenthesis.DEPARTURES, _LENGTH),
        panels=(Panel("norm", "The norm of the terms of the series", _norms, (_WATCHED.label,)),),
    ),
)
"""Three figures; figure 6 is of characters."""
