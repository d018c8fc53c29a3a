"""Norms of powers against closed forms, and ensembles against a plain loop."""

from functools import partial

import numpy as np
import pytest
import torch

from eigenrnn import RNN, LeakyRNN
from eigenrnn.analysis import analyse, fisher_memory, state_maps, transient_growth

EPS = np.finfo(np.float64).eps


def rotation(n):
    return np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))[0]


@pytest.mark.parametrize("n", [1, 5, 200])
@pytest.mark.parametrize("radius", [0.9, 1.0, 1.02])
def test_scaled_rotation_grows_with_its_scale(n, radius):
    result = transient_growth(radius * rotation(n), 12)
    np.testing.assert_allclose(result.norms, radius ** np.arange(13.0), rtol=100 * n * EPS)


@pytest.mark.parametrize("n", [6, 180])
def test_chain_grows_until_its_end(n):
    result = transient_growth(np.diag(np.full(n - 1, 1.01), -1), n + 2)
    k = np.arange(n + 3)
    np.testing.assert_allclose(result.norms, np.where(k < n, 1.01**k, 0), rtol=10 * n * EPS)
    assert result.peak_at == n - 1
    assert result.peak == result.norms[n - 1]


def test_jordan_block_has_the_closed_form():
    lam, c = 0.9, 2.0
    k = np.arange(31)
    # W^k is [[x, y], [0, x]], whose larger singular value has a closed form
    x, y = lam**k, c * k * lam ** (k - 1.0)
    expected = (y + np.sqrt(y**2 + 4 * x**2)) / 2
    result = transient_growth([[lam, c], [0, lam]], 30)
    np.testing.assert_allclose(result.norms, expected, rtol=1e-12)
    assert result.peak_at == expected.argmax()


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("n", [4, 160, 161])
def test_norms_are_the_largest_singular_values(n, is_complex):
    real, imaginary = np.random.default_rng(0).standard_normal((2, n, n)) / np.sqrt(n)
    W = real + 1j * imaginary if is_complex else real
    expected = [np.linalg.svd(np.linalg.matrix_power(W, k), compute_uv=False)[0] for k in range(6)]
    np.testing.assert_allclose(transient_growth(W, 5).norms, expected, rtol=1e-10)


LEAKY = {
    "rates": partial(LeakyRNN, leak=0.1),
    "currents": partial(LeakyRNN, leak=[0.1, 0.9, 0.5, 0.3], state="current"),
    "trained leak": partial(LeakyRNN, leak=0.3, trainable_leak=True),
    "zoneout": partial(RNN, zoneout=0.7),
    "no leak": RNN,
}


@pytest.mark.parametrize("make", LEAKY.values(), ids=LEAKY)
def test_powers_are_those_of_the_step_of_a_leaky_layer(make):
    layer = make(1, 4, nonlinearity="tanh", bias=False, dtype=torch.float64)
    (state_map,) = state_maps(layer)
    J, _ = state_map.jacobians(torch.zeros(1, 1).double(), torch.zeros(1, 4).double())
    expected = [np.linalg.norm(np.linalg.matrix_power(J[0].numpy(), k), 2) for k in range(31)]
    source = layer.directions[0].weight_ih.detach()[:, 0]
    memory = fisher_memory(layer, source, 6, noise_steps=9).curve
    np.testing.assert_allclose(memory, fisher_memory(J[0], source, 6, noise_steps=9).curve)
    for network in (layer, state_map):
        np.testing.assert_allclose(transient_growth(network, 30).norms, expected, rtol=1e-10)
        in_all = analyse(network).results["transient_growth_hh_l0"]
        np.testing.assert_allclose(in_all.norms[:31], expected, rtol=1e-10)


def test_ensemble_agrees_with_a_loop_over_states():
    W = np.diag(np.full(4, 1.3), -1) + 0.2
    result = transient_growth(W, 6, ensemble=7, generator=np.random.default_rng(3))
    first = np.random.default_rng(3).standard_normal((5, 7)).T
    norms, spreads = np.zeros((7, 7)), np.zeros((7, 7))
    for n in range(7):
        h = first[n] / np.sqrt((first[n] ** 2).sum())
        for k in range(7):
            norms[k, n] = np.sqrt((h**2).sum())
            spreads[k, n] = np.sqrt(((h - h.mean()) ** 2).mean())
            h = W @ h
    np.testing.assert_allclose(result.state_norm_mean, norms.mean(1), rtol=1e-12)
    np.testing.assert_allclose(result.state_norm_std, norms.std(1), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(result.spread_mean, spreads.mean(1), rtol=1e-12)
    np.testing.assert_allclose(result.spread_std, spreads.std(1), rtol=1e-11)


def test_mean_square_of_the_ensemble_is_that_of_the_sphere():
    W, n = np.diag(np.full(9, 1.2), -1), 20_000
    result = transient_growth(W, 5, ensemble=n)
    mean_square = result.state_norm_mean**2 + result.state_norm_std**2
    # the mean of |W^k h|^2 over the sphere is |W^k|_F^2 / N; its standard deviation is smaller
    powers = [np.linalg.matrix_power(W, k) for k in range(6)]
    expected = [np.linalg.norm(power) ** 2 / 10 for power in powers]
    np.testing.assert_allclose(mean_square, expected, rtol=5 / np.sqrt(n))


def test_figure_and_table_include_an_ensemble_if_present():
    alone, both = (transient_growth(rotation(3), 4, ensemble=n) for n in (0, 6))
    assert list(alone.table()) == ["step", "norm"]
    assert {len(column) for column in both.table().values()} == {5}
    assert [len(result.plot().axes) for result in (alone, both)] == [1, 2]
    np.testing.assert_array_equal(both.plot().axes[1].lines[0].get_ydata(), both.spread_mean)
    assert both.headline()["largest norm of a power"] == both.peak
