"""Trained nnRNNs: their Schur form in figures 3 and 5, their gradients in figure 6."""

from dataclasses import replace

import numpy as np

from eigenrnn.analysis import SchurStructure, gradient_norms, schur_structure
from eigenrnn_experiments.recipes.nnrnn import images, penn_treebank
from eigenrnn_experiments.recipes.nnrnn.paper import SOURCE, schur_scores
from eigenrnn_experiments.recipes.panels import FIGURE_NOTE, Curves
from eigenrnn_experiments.recipes.recipe import Panel, Recipe
from eigenrnn_experiments.recipes.reproduce import Trained, TrainedRow
from eigenrnn_experiments.recipes.row import Reported

__all__ = ["FIGURES_3_AND_5", "FIGURE_6"]


def _schur_panel(name: str, caption: str, label: str) -> Panel:
    """Return the panel of the Schur form of the first run of a row."""

    def draw(trained: Trained) -> SchurStructure:
        return schur_structure(trained[label][0].model())

    return Panel(name, caption, draw=draw, required_rows=(label,))


_COPYING = replace(
    images.FIGURE_2.row("nnRNN 128 copying"),
    reported=(
        Reported(None, "figure 3a", split="train", quantity="loss", rule="best", note=FIGURE_NOTE),
    ),
    seeds=(0,),
    score=schur_scores,
)
_INSET = (
    "the inset of figure 3c, the distribution of the entries next to the diagonal, is left out"
)
_ORDER = (
    "our recurrence is W h, and the paper's figure may show the transpose; in both the triangle "
    "is below the diagonal"
)

FIGURES_3_AND_5 = (
    Recipe(
        name="nnrnn/fig3",
        summary="The Schur form that nnRNN learns on copying and on Penn Treebank.",
        rows=(_COPYING, *penn_treebank.TABLE_1.rows_at("figures 3b and 3c")),
        source=f"{SOURCE}, section 5.3 and figure 3",
        departures=(_ORDER, _INSET),
        panels=(
            _schur_panel("a", "The Schur form after copying (T=200)", _COPYING.label),
            _schur_panel("b-c", "The Schur form after Penn Treebank (T=150)", "nnRNN 1024 T=150"),
        ),
    ),
    Recipe(
        name="nnrnn/fig5",
        summary="The Schur form that nnRNN learns on permuted MNIST.",
        rows=images.FIGURE_2.rows_at("figure 5"),
        source=f"{SOURCE}, appendix E and figure 5",
        departures=(_ORDER,),
        panels=(
            _schur_panel("theta", "The Schur form after permuted MNIST", "nnRNN 512 psMNIST"),
        ),
    ),
)
"""Two figures of matrices."""

_SEQUENCES = 16
# the networks of table 7: free moduli, and moduli clamped at two values
_NETWORKS = (
    *penn_treebank.TABLE_1.rows_at("figure 6"),
    *penn_treebank.TABLE_7.rows_at("figure 6"),
)
_LABELS = tuple(row.label for row in _NETWORKS)


def _draw_gradients_through_time(trained: Trained) -> Curves:
    series = {label: _norms(runs[0]) for label, runs in trained.items()}
    length = max(map(len, series.values()))
    return Curves(
        np.arange(length),
        {label: norms[::-1] for label, norms in series.items()},
        x_name="steps back from the end",
        y_name="norm of dL/dh",
        title=f"Backpropagation through {length} steps",
        log=True,
    )


def _norms(run: TrainedRow) -> np.ndarray:
    batch = run.batch(_SEQUENCES)
    gradients = gradient_norms(
        run.model(), batch.inputs, lambda outputs: run.row.task.loss(outputs, batch.targets)
    )
    return gradients.curves["l0"]


def _draw_gradients_of_training(trained: Trained) -> Curves:
    columns = {
        label: runs[0].files.read_column("train_grad_norm") for label, runs in trained.items()
    }
    # a run that ended early is padded with NaN
    steps = max((steps for steps, _ in columns.values()), key=len)
    return Curves(
        steps,
        {
            label: np.append(norms, np.full(len(steps) - len(norms), np.nan))
            for label, (_, norms) in columns.items()
        },
        x_name="step of training",
        y_name="norm of the gradient of all weights",
        title="Training",
        log=True,
    )


FIGURE_6 = Recipe(
    name="nnrnn/fig6",
    summary="Penn Treebank: gradients of nnRNN through time, and during training.",
    rows=_NETWORKS,
    source=f"{SOURCE}, appendix F and figure 6",
    departures=(
        f"the gradient through time is computed from one loss of {_SEQUENCES} training sequences",
    ),
    panels=(
        Panel(
            "left",
            "Norm of the gradient through time",
            draw=_draw_gradients_through_time,
            required_rows=_LABELS,
        ),
        Panel(
            "right",
            "Norm of the gradient during training",
            draw=_draw_gradients_of_training,
            required_rows=_LABELS,
        ),
    ),
)
