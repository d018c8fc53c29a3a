"""Hidden chains against known chains, in any order of their units."""

from functools import partial

import numpy as np
import pytest
import torch

from eigenrnn import GRU, RNN
from eigenrnn.analysis import hidden_chain
from eigenrnn.constraints import ScaledCayley

N = 9


def network(W, source, inputs=1):
    layer = torch.nn.RNN(inputs, len(W), nonlinearity="relu", bias=False)
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


def test_units_peak_when_the_pulse_reaches_them():
    result = hidden_chain(network(chain(0.5), np.eye(N)[0]), steps=N + 4, pulse=2.0)
    np.testing.assert_array_equal(result.peak_times, np.arange(N))
    expected = np.zeros((N + 4, N))
    expected[np.arange(N), np.arange(N)] = 2.0 * 0.5 ** np.arange(N)
    np.testing.assert_array_equal(result.responses, expected)


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


def test_ties_are_broken_at_random():
    layer = network(np.zeros((N, N)), np.ones(N))
    orders = [
        hidden_chain(layer, generator=np.random.default_rng(seed)).order.tolist()
        for seed in range(3)
    ]
    assert len(set(map(tuple, orders))) == 3
    assert hidden_chain(layer).order.tolist() == hidden_chain(layer).order.tolist()


def test_pulse_enters_through_the_selected_input():
    layer = network(chain(), np.eye(N)[0], inputs=3)
    assert hidden_chain(layer, input=2).responses.any()
    assert not hidden_chain(layer, input=1).responses.any()


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


def test_responses_are_the_outputs_of_the_layer():
    layer = torch.nn.LSTM(2, N).double()
    x = torch.zeros(7, 1, 2, dtype=torch.float64)
    x[0, 0, 1] = 0.5
    expected = layer(x)[0][:, 0].detach().numpy()
    result = hidden_chain(layer, steps=7, pulse=0.5, input=1, baseline=False)
    np.testing.assert_allclose(result.responses, expected, atol=1e-14)


def test_baseline_subtracts_the_states_without_the_pulse():
    layer, pulse = torch.nn.GRU(1, N).double(), torch.zeros(7, 1, 1, dtype=torch.float64)
    without = layer(pulse)[0][:, 0].detach().numpy()
    pulse[0] = 2
    expected = layer(pulse)[0][:, 0].detach().numpy() - without
    result = hidden_chain(layer, steps=7, pulse=2.0)
    np.testing.assert_allclose(result.responses, expected, atol=1e-14)
    np.testing.assert_array_equal(result.peak_times, expected.argmax(0))


def test_baseline_reveals_a_chain_in_a_network_with_biases():
    layer = torch.nn.RNN(1, N, nonlinearity="relu")
    with torch.no_grad():
        layer.weight_hh_l0.copy_(torch.from_numpy(0.5 * chain()))
        layer.weight_hh_l0[0, 0] = 0.9  # without a pulse the first unit grows for long
        layer.weight_ih_l0.zero_()[0] = 1
        layer.bias_ih_l0.fill_(1)
        layer.bias_hh_l0.zero_()
    assert hidden_chain(layer).order.tolist() == list(range(N))
    assert hidden_chain(layer, baseline=False).order.tolist() != list(range(N))


def test_torch_generator_raises():
    with pytest.raises(TypeError, match=r"a numpy\.random\.Generator.*got torch"):
        hidden_chain(torch.nn.RNN(1, 3), generator=torch.Generator())


def test_reverse_direction_gets_the_pulse_at_its_first_step():
    layer = torch.nn.RNN(1, N, bidirectional=True, bias=False)
    result = hidden_chain(layer, steps=3, which="l0_reverse")
    first = torch.tanh(layer.weight_ih_l0_reverse[:, 0]).detach().numpy()
    np.testing.assert_allclose(result.responses[0], first, rtol=1e-6)


def test_later_layer_can_be_selected():
    layer = torch.nn.RNN(1, N, num_layers=2)
    profile = hidden_chain(layer, which="l1", input=3).profiles["hh"]
    assert profile[N - 1] == pytest.approx(
        layer.weight_hh_l1.detach().diagonal().mean().item(), rel=1e-5
    )


@pytest.mark.parametrize("layer", [torch.nn.LSTM(2, N), torch.nn.RNN(1, 1)])
def test_figure_and_table_are_written(layer, tmp_path):
    result = hidden_chain(layer)
    picture, table = result.save(tmp_path / "profile")
    assert picture.stat().st_size > 0
    assert table.read_text().splitlines()[0] == ",".join(["difference", *result.profiles])


def test_headline_is_the_asymmetry():
    result = hidden_chain(network(chain(), np.eye(N)[0])).headline()
    assert result == {
        "hh: forward minus backward weight": pytest.approx(1 / (N - 1)),
        "hh: difference of the largest weight": 1,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "expected steps to be a positive integer"),
        ({"pulse": 0.0}, "expected a finite pulse other than 0"),
        ({"pulse": np.inf}, "expected a finite pulse other than 0"),
        ({"input": 1}, r"expected input in \[0, 1\), got 1"),
        ({"input": -1}, r"expected input in \[0, 1\), got -1"),
        ({"which": "l1"}, "expected which to be one of l0, got 'l1'"),
        ({"network": torch.nn.Linear(1, 2)}, "expected a recurrent layer"),
        (
            {"network": RNN(1, 4, constraint=partial(ScaledCayley, dtype=torch.complex64))},
            "expected a layer with real states",
        ),
        ({"network": network(1e30 * np.eye(2), [1, 1]), "steps": 20}, "that stay finite"),
    ],
)
def test_invalid_argument_raises(options, message):
    with pytest.raises(ValueError, match=message):
        hidden_chain(**{"network": torch.nn.RNN(1, 3), **options})
