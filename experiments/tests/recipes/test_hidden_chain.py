"""Hidden chains against known chains, in any order of their units."""

import numpy as np
import pytest
import torch

from eigenrnn import GRU, RNN
from eigenrnn_experiments.recipes.nonnormal.hidden_chains import hidden_chain

N = 9


def network(W, source):
    layer = torch.nn.RNN(1, len(W), nonlinearity="relu", bias=False)
    with torch.no_grad():
        layer.weight_hh_l0.copy_(torch.as_tensor(W))
        layer.weight_ih_l0.zero_()[:, -1] = torch.as_tensor(source)
    return layer


def chain(alpha=1.0):
    return np.diag(np.full(N - 1, alpha), -1)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5])
def test_chain_has_a_single_peak_at_one(alpha):
    result = hidden_chain(network(chain(alpha), np.eye(N)[0]))
    np.testing.assert_array_equal(result.profiles["hh"], alpha * (result.differences == 1))


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_chain_has_the_same_profile(seed):
    shuffled = np.random.default_rng(seed).permutation(N)
    W = chain()[np.ix_(shuffled, shuffled)]
    result = hidden_chain(network(W, np.eye(N)[0][shuffled]))
    np.testing.assert_array_equal(result.profiles["hh"], result.differences == 1)
    np.testing.assert_array_equal(shuffled[result.order], np.arange(N))


def test_profile_is_the_mean_over_pairs_of_units():
    W = np.random.default_rng(0).standard_normal((N, N))
    result = hidden_chain(network(W / 10, np.arange(N) + 1.0))
    rank = np.argsort(result.order)
    sums, counts = dict.fromkeys(range(1 - N, N), 0.0), dict.fromkeys(range(1 - N, N), 0)
    for i in range(N):
        for j in range(N):
            sums[rank[i] - rank[j]] += W[i, j] / 10
            counts[rank[i] - rank[j]] += 1
    means = [sums[d] / counts[d] for d in result.differences]
    np.testing.assert_allclose(result.profiles["hh"], means, rtol=1e-6)


@pytest.mark.parametrize(
    ("layer", "gates"),
    [
        (torch.nn.LSTM(2, N), ["input", "forget", "cell", "output"]),
        (torch.nn.GRU(2, N), ["reset", "update", "candidate"]),
        (GRU(2, N), ["reset", "update", "candidate"]),
        (RNN(2, N), ["hh"]),
    ],
)
def test_every_gate_has_a_profile(layer, gates):
    result = hidden_chain(layer)
    assert list(result.profiles) == gates
    assert result.responses.shape == (N, N)


def test_responses_are_outputs_with_the_pulse_minus_those_without():
    layer = torch.nn.GRU(1, N).double()
    pulse = torch.zeros(N, 1, 1, dtype=torch.float64)
    without = layer(pulse)[0][:, 0].detach().numpy()
    pulse[0] = 1
    expected = layer(pulse)[0][:, 0].detach().numpy() - without
    result = hidden_chain(layer)
    np.testing.assert_allclose(result.responses, expected, atol=1e-14)
    assert (np.diff(expected.argmax(0)[result.order]) >= 0).all()


@pytest.mark.parametrize("layer", [torch.nn.LSTM(2, N), torch.nn.RNN(1, 1)])
def test_figure_and_table_are_written(layer, tmp_path):
    result = hidden_chain(layer)
    picture, table = result.save(tmp_path / "profile")
    assert picture.stat().st_size > 0
    assert table.read_text().splitlines()[0] == ",".join(["difference", *result.profiles])
