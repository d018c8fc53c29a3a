"""Gradients of losses at states against closed forms and explicit loops."""

import numpy as np
import pytest
import torch
from torch import nn

from draws import normal
from eigenrnn import LanguageModel, SequenceModel
from eigenrnn.analysis import gradient_norms
from eigenrnn.constraints import Unconstrained
from eigenrnn.layers import RNN, ScoRNN

T, B, M, N = 7, 3, 2, 4


def test_linear_orthogonal_network_preserves_the_gradient_norm():
    layer = ScoRNN(M, N, nonlinearity="identity").double()
    result = gradient_norms(layer, normal(T, B, M), lambda h: h[-1].sum()).curves["l0"]
    np.testing.assert_allclose(result, (B * N) ** 0.5, rtol=1e-12)


@pytest.mark.parametrize("w", [0.5, 1.5])
def test_scalar_map_multiplies_the_gradient_at_every_step(w):
    layer = RNN(1, 1, nonlinearity="identity", bias=False, constraint=Unconstrained).double()
    layer.all_directions()[0].constraint.assign(torch.tensor([[w]], dtype=torch.float64))
    result = gradient_norms(layer, normal(T, 1, 1), lambda h: h[-1].sum())
    np.testing.assert_allclose(result.curves["l0"], w ** np.arange(T)[::-1], rtol=1e-12)
    assert result.headline()["l0: first step over last"] == pytest.approx(w ** (T - 1))


def test_lstm_agrees_with_an_explicit_loop_over_cells():
    cell, x = nn.LSTMCell(M, N).double(), normal(T, B, M)
    layer = nn.LSTM(M, N).double()
    layer.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    h = c = torch.zeros(B, N, dtype=torch.float64)
    states = []
    for x_t in x:
        state = torch.cat(cell(x_t, (h, c)), dim=1)
        state.retain_grad()
        h, c = state.chunk(2, dim=1)
        states.append(state)
    torch.stack(states)[..., :N].square().mean().backward()
    result = gradient_norms(layer, x, lambda h: h.square().mean()).curves["l0"]
    np.testing.assert_allclose(result, [float(s.grad.norm()) for s in states], rtol=1e-9)


def test_every_layer_and_direction_has_a_curve_in_processing_order():
    layer = nn.GRU(M, N, num_layers=2, bidirectional=True)
    result = gradient_norms(layer, normal(T, B, M), lambda h: h[0, :, N:].sum())
    assert list(result.curves) == ["l0", "l0_reverse", "l1", "l1_reverse"]
    # the output of the reverse direction at the first time step is its last state
    assert result.curves["l1"].max() == 0
    assert result.curves["l1_reverse"][-1] == pytest.approx((B * N) ** 0.5)


@pytest.mark.parametrize("layer", [ScoRNN(M, N), nn.LSTM(M, N)], ids=["ours", "torch"])
def test_padding_after_the_end_of_sequences_does_not_matter(layer):
    model, lengths = SequenceModel(layer, 3, "last"), torch.tensor([3, 4, 2])
    short = gradient_norms(model, normal(T, B, M)[:4], lambda y: y.sum(), lengths=lengths)
    result = gradient_norms(model, normal(T, B, M), lambda y: y.sum(), lengths=lengths)
    np.testing.assert_allclose(result.curves["l0"][:4], short.curves["l0"], rtol=1e-12)


def squares(outputs):
    return outputs.square().sum()


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layer", [RNN, nn.LSTM], ids=["ours", "torch"])
def test_a_padded_batch_has_the_gradients_of_its_sequences(layer, bidirectional):
    model = SequenceModel(layer(M, N, 2, bidirectional=bidirectional), 3, "last")
    x, lengths = normal(T, B, M), [3, T, 2]
    result = gradient_norms(model, x, squares, lengths=lengths).curves
    for name, curve in result.items():
        expected = np.zeros(T)
        for b, length in enumerate(lengths):
            alone = gradient_norms(model, x[:length, b : b + 1], squares).curves[name]
            # in reverse, the padding comes first
            steps = slice(T - length, T) if name.endswith("reverse") else slice(length)
            expected[steps] += alone**2
        np.testing.assert_allclose(curve, np.sqrt(expected), rtol=1e-12)


@pytest.mark.parametrize("lengths", [[3, -1, 2], [T + 1, 4, 2]], ids=["below", "above"])
def test_lengths_have_to_fit(lengths):
    model = SequenceModel(ScoRNN(M, N), 3, "last")
    with pytest.raises(ValueError, match="expected 1 <= lengths <= T"):
        gradient_norms(model, normal(T, B, M), lambda y: y.sum(), lengths=lengths)


def test_language_model_takes_symbols():
    model = LanguageModel(5, M, [ScoRNN(M, N), ScoRNN(N, N)])
    x = torch.randint(5, (T, B), generator=torch.Generator().manual_seed(0))
    result = gradient_norms(model, x, lambda y: y.logsumexp(2).mean())
    assert list(result.curves) == ["layers.0.l0", "layers.1.l0"]
