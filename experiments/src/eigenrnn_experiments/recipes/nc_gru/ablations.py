"""Ablations of NC-GRU on the parenthesis task: figures 5, 7 and 8."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from eigenrnn.constraints import NeumannCayley
from eigenrnn.layers import NCGRU
from eigenrnn.linalg import skew
from eigenrnn_experiments.recipes.experiment import Network
from eigenrnn_experiments.recipes.nc_gru.paper import SOURCE, nc_gru_options, with_order
from eigenrnn_experiments.recipes.nc_gru.parenthesis import (
    DEPARTURES,
    LENGTH_100,
    NC_GRU_ONE,
    NC_GRU_ONE_RELEASED,
    TABLE_1,
)
from eigenrnn_experiments.recipes.panels import Curves
from eigenrnn_experiments.recipes.recipe import Panel, Recipe
from eigenrnn_experiments.recipes.runs import Run
from eigenrnn_experiments.training import Callback
from eigenrnn_experiments.training.callbacks import Measurements

__all__ = ["RECIPES", "NeumannNormCallback"]


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
    A = skew(before, size).double()
    difference = A - skew(after, size).double()
    # I + A is never singular, because the eigenvalues of a skew-symmetric A are imaginary
    ratio = torch.linalg.solve(A + torch.eye(size).to(A), difference)
    return torch.linalg.matrix_norm(ratio, 2).item()


_LABEL = "NC-GRU(U_c) 56 T=100"


def _draw_norms(trained: Mapping[str, Sequence[Run]]) -> Curves:
    run = trained[_LABEL][0]
    steps, norms = run.files.read_column("neumann_norm")
    series = {_LABEL: norms, "1, below which the series converges": [1.0] * len(steps)}
    return Curves(
        steps, series, x_name="step of training", y_name="2-norm of (I + A)⁻¹ δA", log=True
    )


# the update gate, too, has an orthogonal matrix
_NC_GRU_THREE = Network(
    "NC-GRU(U_r,U_u,U_c) 56",
    NCGRU,
    56,
    parameters=6_990,
    options=nc_gru_options(("reset", "update", "candidate"), 40, reset_every=50),
)

_INVERSE = LENGTH_100.reported_as(
    place="figure 5",
    note="no number is printed; order 2 ends slightly below orders 1 and 3, the inverse well "
    "above them",
)
_GATES_NOTE = (
    "no number is printed; networks with one or two orthogonal matrices end below that with three"
)
_NORM_NOTE = (
    "the figure shows the norm, well below 1 at all steps, and prints no number; our norm is in "
    "norm.csv, and we list the loss of its run"
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
            TABLE_1.row("NC-GRU(U_c) 56 T=100").reported_as(
                value=None, place="figure 7", note=_GATES_NOTE
            ),
            TABLE_1.row("NC-GRU(U_c,U_r) 56 T=100").reported_as(
                value=None, place="figure 7", note=_GATES_NOTE
            ),
            LENGTH_100.row(_NC_GRU_THREE, place="figure 7", note=_GATES_NOTE),
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
        rows=(
            replace(
                TABLE_1.row(_LABEL).reported_as(value=None, place="figure 8", note=_NORM_NOTE),
                callback_factory=NeumannNormCallback,
            ),
        ),
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
