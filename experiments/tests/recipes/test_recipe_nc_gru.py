"""The recipes of NC-GRU: printed numbers, settings, and the norms of figure 8."""

from dataclasses import replace

import pytest
import torch

from eigenrnn_experiments.recipes import Computed, Row
from eigenrnn_experiments.recipes.nc_gru import RECIPES, penn_treebank
from eigenrnn_experiments.recipes.nc_gru.paper import TensorFlowGRU
from eigenrnn_experiments.recipes.nc_gru.parenthesis import NeumannNormCallback
from eigenrnn_experiments.tasks import Parenthesis
from eigenrnn_experiments.training import Callback, RunFolder, fit
from training_run import QUIET, one_thread

PLACES = {recipe.name.removeprefix("nc_gru/"): recipe for recipe in RECIPES}

# the widths of the embedding and of each layer


def rows(place):
    return {row.label: row for row in PLACES[place].rows}


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_figure_has_the_twelve_networks_of_its_table(number):
    rows = PLACES[f"fig{number}"].rows
    assert [row.recipe.name for row in rows] == [f"nc_gru/table{number}"] * 12


def test_the_times_of_a_step_are_medians_and_the_share_is_one_of_pairs(monkeypatch):
    inverse, _, series, *_ = PLACES["fig6"].rows
    seconds = {inverse.label: [5.0, 3.0, 4.0, 9.0], series.label: [4.0, 1.0, 5.0, 8.0]}
    monkeypatch.setattr(penn_treebank, "_step_seconds", lambda: seconds)
    computed = {
        row.label: row.compute() for row in PLACES["fig6"].rows if isinstance(row, Computed)
    }
    assert computed == {
        "NC-GRU(U_c) 435, time of a step with the inverse": 4.5,
        "NC-GRU(U_c) 435, time of a step with Neumann 2": 4.5,
        "NC-GRU(U_c) 435, Neumann 2 beside the inverse": 0.75,
    }


def test_the_gru_computes_the_equations_of_tensorflow():
    T, B, M, N = 5, 3, 4, 6
    layer = TensorFlowGRU(M, N, generator=torch.Generator().manual_seed(0))
    direction = layer.all_directions()[0]
    reset, update, candidate = layer.recurrent_matrices()
    U = dict(zip("ruc", direction.weight_ih.split(N), strict=True))
    x = torch.randn(T, B, M, generator=torch.Generator().manual_seed(1))
    h = torch.zeros(B, N)
    for x_t in x:
        r = torch.sigmoid(x_t @ U["r"].T + h @ reset.T + 1)
        u = torch.sigmoid(x_t @ U["u"].T + h @ update.T + 1)
        c = torch.tanh(x_t @ U["c"].T + (r * h) @ candidate.T)
        h = u * h + (1 - u) * c
    torch.testing.assert_close(layer(x)[1][0], h)


class SkewRecorder(Callback):
    """Records the skew-symmetric A after every step."""

    def __init__(self):
        self.recorded = {}

    def after_step(self, step, loss, model):  # noqa: ARG002
        raw = model.layer.all_directions()[0].candidate.cayley.raw.detach().double()
        below = torch.tril_indices(5, 5, -1)
        A = torch.zeros(5, 5, dtype=torch.float64)
        A[below[0], below[1]] = raw
        self.recorded[step] = A - A.T

    def norm(self, step):
        before, after = self.recorded[step - 1], self.recorded[step]
        terms = torch.linalg.inv(torch.eye(5).double() + before) @ (before - after)
        return torch.linalg.svdvals(terms)[0].item()


def tiny(steps):
    """The row of figure 8 with five units and an evaluation at every other step."""
    row: Row = PLACES["fig8"].networks[0].quick(steps)
    options = {**row.options, "negative": 2}
    settings = replace(row.settings, eval_every=2, accelerator="cpu")
    task = Parenthesis(6, test_examples=4)
    return replace(
        row, task=task, hidden_size=5, options=options, settings=settings, parameters=None
    )


def train(steps, folder, *callbacks, resume=False):
    row = tiny(steps)
    with one_thread():
        fit(
            row.build(0),
            row.task,
            row.settings,
            folder,
            callbacks=list(callbacks),
            console=QUIET,
            resume=resume,
        )


def norm_rows(folder):
    """Return the norms by step."""
    return dict(zip(*RunFolder(folder).read_column("neumann_norm"), strict=True))


def test_the_norm_is_that_of_the_optimiser_step(tmp_path):
    recorder = SkewRecorder()
    train(6, tmp_path, recorder, NeumannNormCallback(every=2))
    rows = norm_rows(tmp_path)
    assert list(rows) == [2, 4, 6]
    for step, norm in rows.items():
        assert norm == pytest.approx(recorder.norm(step), rel=1e-4)
        assert 0 < norm < 1


def test_a_resumed_run_keeps_the_earlier_norms(tmp_path):
    for folder, parts in (("whole", (6,)), ("parts", (4, 6))):
        for steps in parts:
            norms = NeumannNormCallback(every=2)
            train(steps, tmp_path / folder, norms, resume=steps != parts[0])
    assert norm_rows(tmp_path / "parts") == norm_rows(tmp_path / "whole")


def test_the_row_of_figure_8_writes_norms(tmp_path):
    callback_factory = PLACES["fig8"].networks[0].callback_factory
    train(20, tmp_path, callback_factory())
    assert list(norm_rows(tmp_path)) == [10, 20]
