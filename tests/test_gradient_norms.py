"""Gradients of losses by states against closed forms and loops written out."""

import numpy as np
import pytest
import torch
from torch import nn

from eigenrnn import LanguageModel, SequenceModel
from eigenrnn.analysis import gradient_norms
from eigenrnn.constraints import Unconstrained
from eigenrnn.layers import LSTM, RNN, ScoRNN

T, B, M, N = 7, 3, 2, 4


@pytest.fixture(autouse=True)
def same_weights_each_time():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def draw(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_a_linear_orthogonal_network_keeps_the_gradient_of_a_loss_on_its_last_state():
    layer = ScoRNN(M, N, nonlinearity="identity").double()
    found = gradient_norms(layer, draw(T, B, M), lambda h: h[-1].sum()).curves["l0"]
    np.testing.assert_allclose(found, (B * N) ** 0.5, rtol=1e-12)


@pytest.mark.parametrize("w", [0.5, 1.5])
def test_a_scalar_map_multiplies_it_at_every_step(w):
    layer = RNN(1, 1, nonlinearity="identity", bias=False, constraint=Unconstrained).double()
    layer.all_directions()[0].constraint.assign(torch.tensor([[w]], dtype=torch.float64))
    found = gradient_norms(layer, draw(T, 1, 1), lambda h: h[-1].sum())
    np.testing.assert_allclose(found.curves["l0"], w ** np.arange(T)[::-1], rtol=1e-12)
    assert found.headline()["l0: first step over last"] == pytest.approx(w ** (T - 1))


def test_an_lstm_has_the_gradients_of_its_cell_written_out():
    cell, x = nn.LSTMCell(M, N).double(), draw(T, B, M)
    layer = LSTM(M, N).double()
    layer.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    h = c = torch.zeros(B, N, dtype=torch.float64)
    states = []
    for x_t in x:
        state = torch.cat(cell(x_t, (h, c)), dim=1)
        state.retain_grad()
        h, c = state.chunk(2, dim=1)
        states.append(state)
    torch.stack(states)[..., :N].square().mean().backward()
    found = gradient_norms(layer, x, lambda h: h.square().mean()).curves["l0"]
    np.testing.assert_allclose(found, [float(s.grad.norm()) for s in states], rtol=1e-9)


def test_every_layer_and_direction_has_a_curve_in_its_order_of_reading():
    layer = nn.GRU(M, N, num_layers=2, bidirectional=True)
    found = gradient_norms(layer, draw(T, B, M), lambda h: h[0, :, N:].sum())
    assert list(found.curves) == ["l0", "l0_reverse", "l1", "l1_reverse"]
    # what the reverse direction shows at the first step is its last state
    assert found.curves["l1"].max() == 0
    assert found.curves["l1_reverse"][-1] == pytest.approx((B * N) ** 0.5)


@pytest.mark.parametrize("layer", [ScoRNN(M, N), nn.LSTM(M, N)], ids=["ours", "torch"])
def test_steps_after_the_end_of_all_sequences_have_the_gradient_of_the_last_state(layer):
    model, lengths = SequenceModel(layer, 3, "last"), torch.tensor([3, 4, 2])
    short = gradient_norms(model, draw(T, B, M)[:4], lambda y: y.sum(), lengths=lengths)
    found = gradient_norms(model, draw(T, B, M), lambda y: y.sum(), lengths=lengths)
    np.testing.assert_allclose(found.curves["l0"][:4], short.curves["l0"], rtol=1e-12)


def test_a_language_model_reads_symbols():
    model = LanguageModel(5, M, [ScoRNN(M, N), ScoRNN(N, N)])
    x = torch.randint(5, (T, B), generator=torch.Generator().manual_seed(0))
    found = gradient_norms(model, x, lambda y: y.logsumexp(2).mean())
    assert list(found.curves) == ["layers.0.l0", "layers.1.l0"]


def test_picture_and_table_have_the_curves():
    found = gradient_norms(nn.LSTM(M, N), draw(T, B, M), lambda h: h.sum())
    assert list(found.table()["t"]) == list(range(1, T + 1))
    (axes,) = found.plot().axes
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), found.curves["l0"])


@pytest.mark.parametrize(
    ("x", "loss", "message"),
    [
        (draw(T, B, M), lambda h: h.sum().item(), "as a tensor, got float"),
        (draw(T, B, M), lambda h: h.sum() / 0, "one finite number, got -?inf; states may grow"),
        (draw(T, B, M), lambda h: h.sum() * np.nan, "one finite number, got nan"),
        (draw(T, B, 3), lambda h: h.sum(), r"with M = 2.*got \(7, 3, 3\)"),
        (draw(0, B, M), lambda h: h.sum(), r"at least one step, got \(0, 3, 2\)"),
        (draw(T, 0, M), lambda h: h.sum(), r"got \(7, 0, 2\)"),
        (draw(M), lambda h: h.sum(), r"expected x of shape \(T, B, M\).*got \(2,\)"),
        (draw(T, B, M).long(), lambda h: h.sum(), "expected floating-point numbers in x, got int"),
        ([[1.0, 2.0]], lambda h: h.sum(), "expected x to be a tensor, got list"),
        (draw(T, B, M), lambda h: h, r"expected loss to give one finite number, got shape \(7"),
        (draw(T, B, M), lambda _: torch.ones(()), "expected a loss that depends on the states"),
        (draw(T, B, M) / 0, lambda h: h.sum(), "expected finite numbers in inputs"),
    ],
)
def test_what_has_no_gradient_is_refused(x, loss, message):
    with pytest.raises(ValueError, match=message):
        gradient_norms(nn.RNN(M, N), x, loss)


def test_what_a_model_does_not_take_is_told():
    model = LanguageModel(5, M, [ScoRNN(M, N)])
    with pytest.raises(ValueError, match=r"inputs that LanguageModel takes, got float64 of shape"):
        gradient_norms(model, draw(T, B), lambda y: y.sum())


def test_an_array_is_read_as_a_tensor():
    layer, x = nn.RNN(M, N), draw(T, B, M)
    found, expected = (gradient_norms(layer, each, lambda h: h.sum()) for each in (x.numpy(), x))
    np.testing.assert_array_equal(found.curves["l0"], expected.curves["l0"])


def test_a_curve_of_one_point_has_a_marker():
    found = gradient_norms(nn.RNN(M, N), draw(T, B, M), lambda h: h[0].sum())
    assert found.plot().axes[0].lines[0].get_marker() == "o"
    long = gradient_norms(nn.RNN(M, N), draw(T, B, M), lambda h: h.sum())
    assert long.plot().axes[0].lines[0].get_marker() == "None"
