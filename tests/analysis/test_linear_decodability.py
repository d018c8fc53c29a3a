"""Linear decoding against the closed form for linear networks."""

import numpy as np
import pytest
import torch

from eigenrnn import RNN
from eigenrnn.analysis import linear_decodability

N = 8
CHAIN = np.diag(np.ones(N - 1), -1)


def rng(seed=0):
    return np.random.default_rng(seed)


def closed_form(W, v, noise, steps):
    """Return the variance that the best linear decoder explains, from the state zero."""
    paths = [np.linalg.matrix_power(W, k) @ v for k in range(steps)]
    powers = [np.linalg.matrix_power(W, k) for k in range(steps)]
    C = sum(np.outer(p, p.conj()) for p in paths)
    C = C + noise**2 * sum(P @ P.conj().T for P in powers)
    return np.array([(p.conj() @ np.linalg.solve(C, p)).real for p in paths])


def test_noiseless_chain_is_decoded_up_to_its_length():
    result = linear_decodability(CHAIN, N + 5, samples=4000, generator=rng())
    np.testing.assert_allclose(result.r_squared[:N], 1, atol=1e-12)
    # beyond its length the state holds no information
    np.testing.assert_allclose(result.r_squared[N:], 0, atol=0.02)


def matrices():
    generator = rng(5)
    orthogonal = np.linalg.qr(generator.standard_normal((N, N)))[0]
    yield pytest.param(1.1 * CHAIN, np.eye(N)[0], id="chain")
    yield pytest.param(0.9 * orthogonal, np.eye(N)[0], id="orthogonal")
    yield pytest.param(0.95 * np.eye(N), np.ones(N), id="identity")
    yield pytest.param(generator.standard_normal((N, N)) / 3, np.arange(N) / 4, id="full")


@pytest.mark.parametrize(("W", "v"), list(matrices()))
def test_noisy_linear_network_is_decoded_optimally(W, v):
    steps, noise, samples = 14, 0.4, 40_000
    result = linear_decodability(W, steps, noise=noise, source=v, samples=samples, generator=rng())
    expected = closed_form(W, v, noise, steps)
    # the standard error of a correlation, and the loss of the fit
    spread = 5 * 2 / np.sqrt(samples / 2)
    np.testing.assert_allclose(result.r_squared, expected, atol=spread)


def test_rectifier_over_one_step_has_the_closed_form():
    # the squared correlation of a normal s with max(s, 0) is 1/4 / (1/2 - 1/(2 pi))
    result = linear_decodability([[0.0]], 1, nonlinearity="relu", samples=100_000, generator=rng())
    expected = 0.25 / (0.5 - 1 / (2 * np.pi))
    assert result.r_squared[0] == pytest.approx(expected, abs=0.01)


def test_signal_enters_a_layer_through_its_first_input():
    layer = torch.nn.RNN(2, N, bias=False)
    options = {"noise": 0.1, "samples": 200}
    result = linear_decodability(layer, 4, generator=rng(), **options)
    expected = linear_decodability(
        layer.weight_hh_l0,
        4,
        source=layer.weight_ih_l0[:, 0],
        nonlinearity="tanh",
        generator=rng(),
        **options,
    )
    np.testing.assert_allclose(result.r_squared, expected.r_squared, rtol=1e-9)


def test_our_layer_agrees_with_its_matrix():
    layer = RNN(2, N, nonlinearity="tanh", bias=False).double()
    direction = layer.all_directions()[0]
    result = linear_decodability(layer, 4, samples=200, generator=rng())
    expected = linear_decodability(
        direction.weight_hh,
        4,
        source=direction.weight_ih[:, 0],
        nonlinearity="tanh",
        samples=200,
        generator=rng(),
    )
    np.testing.assert_allclose(result.r_squared, expected.r_squared, rtol=1e-9)


def test_gated_layer_is_decoded_from_its_output():
    result = linear_decodability(torch.nn.LSTM(1, 6), 3, generator=rng())
    assert result.samples == 4000
    assert result.r_squared[0] > 0.9


def test_longest_delay_sets_the_length_of_sequences():
    some = linear_decodability(CHAIN, [6, 0], noise=0.2, samples=100, generator=rng())
    every = linear_decodability(CHAIN, range(7), noise=0.2, samples=100, generator=rng())
    np.testing.assert_allclose(some.r_squared, every.r_squared[[6, 0]])


def test_default_is_forty_sequences_per_feature():
    chain = np.diag(np.ones(101 - 1), -1)
    assert linear_decodability(chain, 1, generator=rng()).samples == 40 * 101
    gated = torch.nn.LSTM(1, 101)  # whose cells are not decoded
    assert linear_decodability(gated, 1, generator=rng()).samples == 40 * 101


def test_standard_deviation_between_draws_is_as_documented():
    options = {"noise": 0.7, "samples": 400}
    result = [linear_decodability([[0.0]], 1, generator=rng(k), **options) for k in range(200)]
    spread = np.std([each.r_squared[0] for each in result])
    assert 0.5 * 1.1 / np.sqrt(400) < spread < 1.1 * 1.1 / np.sqrt(400)


def test_the_capacity_of_a_chain_is_its_length():
    chain = np.diag(np.ones(4), -1)
    headline = linear_decodability(chain, 12).headline()
    assert headline["memory capacity"] == pytest.approx(5, abs=0.02)
    # a delay that cannot be decoded counts zero, and not less
    assert headline["mean R squared"] < headline["memory capacity"] / 12
