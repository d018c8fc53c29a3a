"""Ablations of NC-GRU on the parenthesis task: figures 5, 7 and 8."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from eigenrnn.analysis import neumann_condition
from eigenrnn.constraints import NeumannCayley
from eigenrnn.experiments.recipes.nc_gru import parenthesis
from eigenrnn.experiments.recipes.nc_gru.paper import SOURCE, Network, nc_gru_options
from eigenrnn.experiments.recipes.nc_gru.parenthesis import (
    LR,
    NEGATIVE,
    NETWORKS,
    RESET_EVERY_RELEASED,
)
from eigenrnn.experiments.recipes.nc_gru.released import released
from eigenrnn.experiments.recipes.panels import Curves
from eigenrnn.experiments.recipes.recipe import Panel, Recipe, Row
from eigenrnn.experiments.recipes.runs import Run
from eigenrnn.experiments.training import Callback
from eigenrnn.experiments.training.callbacks import Measurements
from eigenrnn.linalg import skew

__all__ = ["RECIPES", "NeumannNormCallback"]

_ONE, _TWO = NETWORKS[-2:]
_GATES = ("reset", "update", "candidate")
# the update gate, too, has an orthogonal matrix
_THREE = Network(
    f"NC-GRU(U_r,U_u,U_c) {_TWO.size}",
    _TWO.layer,
    _TWO.size,
    _TWO.parameters - _TWO.size * (_TWO.size + 1) // 2,
    nc_gru_options(_GATES, NEGATIVE[1], reset_every=50),
)
_INVERSE_NOTE = (
    "no number is printed; order 2 ends slightly below orders 1 and 3, the inverse well above them"
)
_GATES_NOTE = (
    "no number is printed; networks with one or two orthogonal matrices end below that with three"
)
_NORM_NOTE = (
    "the figure shows the norm, well below 1 at all steps, and prints no number; our norm is in "
    "norm.csv, and we list the loss of its run"
)
_LENGTH = "the paper does not state T; we take 100"


def _row(network: Network, place: str, note: str, **row_fields: Any) -> Row:
    return parenthesis.row(network, 100, place, None, note, **row_fields)


def _inverses(network: Network) -> tuple[Row, ...]:
    """Return the network with the exact inverse and with three orders of the series."""
    rows: list[Row] = []
    for name, order in (("inverse", None), *((f"Neumann {order}", order) for order in (1, 2, 3))):
        options = {**network.options, "order": order}
        chosen = replace(network, label=f"{network.label} {name}", options=options)
        rows.append(_row(chosen, "figure 5", _INVERSE_NOTE))
    return tuple(rows)


class NeumannNormCallback(Callback):
    r"""Measures the norm of the terms of the Neumann series.

    .. math:: \| (I + A_{k-1})^{-1}\, \delta A_k \|_2, \qquad A_k = A_{k-1} - \delta A_k

    The series converges where this norm is below one. The inverse is exact here. With several
    orthogonal matrices it is the largest norm.

    Args:
        every: The number of steps between two measurements.

    Source:
        Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, section 5.3.
        https://arxiv.org/abs/2208.06496 (departures: not every step is measured).
    """

    columns = ("neumann_norm",)

    def __init__(self, every: int = 10) -> None:
        if every < 2:
            raise ValueError(f"expected every >= 2, got {every}: it needs the step before")
        self.every = every
        self._previous: dict[str, Tensor] = {}

    def after_step(self, step: int, loss: Tensor, model: nn.Module) -> None:  # noqa: ARG002
        """Store A one step before a measurement."""
        if step % self.every == self.every - 1:
            self._previous = {name: A.clone() for name, A in _skew_parts(model).items()}

    def measure(self, step: int, model: nn.Module) -> Measurements:
        if step % self.every or not self._previous:
            return {}
        parts = _skew_parts(model)
        norms = [_norm(A, parts[name]) for name, A in self._previous.items()]
        return {"neumann_norm": max(norms)}


def _skew_parts(model: nn.Module) -> dict[str, Tensor]:
    """Return the entries of each skew-symmetric A, by the name of its constraint."""
    return {
        name: module.cayley.raw.detach()
        for name, module in model.named_modules()
        if isinstance(module, NeumannCayley)
    }


def _norm(
    before: Tensor,  # (N (N - 1) / 2)
    after: Tensor,  # (N (N - 1) / 2)
) -> float:
    size = (1 + math.isqrt(1 + 8 * len(before))) // 2
    return neumann_condition(skew(before, size), skew(after, size)).norm


_NORM_ROW = _row(_ONE, "figure 8", _NORM_NOTE, callback_factory=NeumannNormCallback)


def _draw_norms(trained: Mapping[str, Sequence[Run]]) -> Curves:
    (run,) = trained[_NORM_ROW.label][:1]
    steps, norms = run.files.read_column("neumann_norm")
    series = {_NORM_ROW.label: norms, "1, below which the series converges": [1.0] * len(steps)}
    return Curves(steps, series, "step of training", "2-norm of (I + A)⁻¹ δA", log=True)


RECIPES = (
    Recipe(
        name="nc_gru/fig5",
        summary="Counting brackets: the exact inverse and Neumann series of order 1, 2 and 3.",
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
            "the paper does not state the task; we take counting brackets with T=100",
        ),
    ),
    Recipe(
        name="nc_gru/fig8",
        summary="Counting brackets: the norm of the terms of the Neumann series during training.",
        rows=(_NORM_ROW,),
        source=f"{SOURCE}, section 5.3 and figure 8",
        departures=(*parenthesis.DEPARTURES, _LENGTH),
        panels=(
            Panel("norm", "The norm of the terms of the series", _draw_norms, (_NORM_ROW.label,)),
        ),
    ),
)
"""Three figures; figure 6 is in `text`."""
