"""How gradients go through a trained nnRNN, and how they went while it was trained: figure 6."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from eigenrnn.analysis import gradient_norms
from eigenrnn.experiments.recipes.base import Recipe, Reported, Row
from eigenrnn.experiments.recipes.nnrnn import text
from eigenrnn.experiments.recipes.nnrnn.source import SOURCE
from eigenrnn.experiments.recipes.panel import Panel, Trained
from eigenrnn.experiments.recipes.pictures import Curves

__all__ = ["RECIPES"]

_NOTE = "the curves of the gradient print no number; here is the loss of the run"
_SEQUENCES = 16


def _rows() -> tuple[Row, ...]:
    """Take the networks of table 7, whose moduli are free, or clamped at one of two values."""
    table = next(recipe for recipe in text.RECIPES if recipe.name == "nnrnn/table7")
    reported = Reported(None, "figure 6", "test", "bits", "validation", _NOTE)
    return tuple(
        replace(row, reported=reported, seeds=(0,))
        for row in table.rows
        if isinstance(row, Row) and row.label.endswith("T=150")
    )


def _backwards(trained: Mapping[str, Sequence[Trained]]) -> Curves:
    series = {label: _norms(runs[0]) for label, runs in trained.items()}
    length = max(map(len, series.values()))
    return Curves(
        np.arange(length),
        {label: norms[::-1] for label, norms in series.items()},
        "steps back from the end",
        "norm of dL/dh",
        f"Backpropagation through {length} steps",
        log=True,
    )


def _norms(run: Trained) -> np.ndarray:
    batch = run.batch(_SEQUENCES)
    found = gradient_norms(
        run.model(), batch.inputs, lambda outputs: run.row.task.loss(outputs, batch.targets)
    )
    return found.curves["l0"]


def _in_training(trained: Mapping[str, Sequence[Trained]]) -> Curves:
    columns = {label: runs[0].column("train_grad_norm") for label, runs in trained.items()}
    # a run that ended early is blank after its end
    steps = max((steps for steps, _ in columns.values()), key=len)
    return Curves(
        steps,
        {
            label: np.append(norms, np.full(len(steps) - len(norms), np.nan))
            for label, (_, norms) in columns.items()
        },
        "step of training",
        "norm of the gradient of all weights",
        "Training",
        log=True,
    )


_ROWS = _rows()
_LABELS = tuple(row.label for row in _ROWS)

RECIPES = (
    Recipe(
        name="nnrnn/fig6",
        summary="Penn Treebank: gradients of nnRNN from step to step, and while it is trained.",
        rows=_ROWS,
        source=f"{SOURCE}, appendix F and figure 6",
        departures=(
            f"the gradient from step to step is that of {_SEQUENCES} sequences of training data "
            "together",
        ),
        panels=(
            Panel("left", "The gradient's norm, going back through time", _backwards, _LABELS),
            Panel("right", "The gradient's norm over training", _in_training, _LABELS),
        ),
    ),
)
"""One figure of two parts."""
