"""Lyapunov exponents against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from draws import normal
from eigenrnn.analysis import lyapunov, state_maps
from eigenrnn.analysis.dynamics import Lyapunov
from eigenrnn.analysis.trajectory import Trajectory
from eigenrnn.constraints import Unconstrained
from eigenrnn.layers import ENRNN, RNN, ScoRNN


def linear(W):
    W = torch.as_tensor(W, dtype=torch.float64)
    layer = RNN(1, len(W), nonlinearity="identity", bias=False, constraint=Unconstrained).double()
    layer.all_directions()[0].constraint.assign(W)
    return layer


def test_orthogonal_map_has_zero_exponents():
    layer = ScoRNN(1, 6, nonlinearity="identity").double()
    np.testing.assert_allclose(lyapunov(layer, normal(30, 2, 1)).exponents, 0, atol=1e-12)


def test_exponents_of_a_diagonal_map_are_log_entries():
    d = np.array([0.1, -2.0, 0.5])
    result = lyapunov(linear(np.diag(d)), normal(60, 1, 1), discard=40).exponents
    np.testing.assert_allclose(result, np.log([2, 0.5, 0.1]), rtol=1e-12)


@pytest.mark.parametrize("count", [1, 2, np.int64(1)])
@pytest.mark.parametrize("d", [[0.1, 0.5, 0.9], [0.9, 0.5, 0.1]])
def test_subset_of_exponents_is_the_largest_even_with_invariant_units(count, d):
    layer, x = linear(np.diag(d)), torch.zeros(100, 1, 1)
    result = lyapunov(layer, x, discard=60, exponents=count)
    np.testing.assert_allclose(result.exponents, np.log([0.9, 0.5][:count]), rtol=1e-12)


def test_exponent_of_a_scalar_network_is_the_mean_log_slope():
    layer, x = nn.RNN(1, 1).double(), normal(50, 3, 1)
    h, w = layer(x)[0].detach().numpy(), layer.weight_hh_l0.item()
    slopes = np.log(np.abs(w * (1 - h**2)))[10:, :, 0]
    result = lyapunov(layer, x, discard=10)
    np.testing.assert_allclose(result.exponents, slopes.mean(), rtol=1e-10)
    np.testing.assert_allclose(result.spread, slopes.mean(axis=0).std(), rtol=1e-8)


@pytest.mark.parametrize(
    "layer", [nn.GRU(2, 5), nn.LSTM(2, 3), ENRNN(2, 4)], ids=["gru", "lstm", "enrnn"]
)
def test_exponents_sum_to_the_log_determinant(layer):
    x = normal(12, 2, 2)
    state_map = state_maps(layer)[0]
    states = state_map.states(x)
    J = [state_map.jacobians(x_t, h)[0] for x_t, h in zip(x, states[:-1], strict=True)]
    expected = torch.linalg.slogdet(torch.stack(J)).logabsdet.mean().item()
    result = lyapunov(layer, x, burn_in=0)
    assert result.exponents.sum() == pytest.approx(expected, rel=1e-9)
    assert result.headline()["sum of the exponents (nats a step)"] == pytest.approx(
        expected, rel=1e-9
    )


def test_singular_map_has_an_exponent_of_minus_infinity():
    result = lyapunov(linear([[0.5, 0.0], [0.0, 0.0]]), torch.zeros(5, 1, 1), discard=1)
    assert result.exponents.tolist() == [pytest.approx(np.log(0.5)), -np.inf]
    np.testing.assert_array_equal(np.isnan(result.spread), [False, True])
    (axes,) = result.plot().axes
    assert axes.get_title() == "1 of 2 are minus infinity, after a burn-in of 1,000 steps"
    assert axes.get_xlim()[1] > 2  # the axis includes exponents that are not drawn


def test_map_that_is_singular_up_to_rounding_counts_as_singular():
    result = lyapunov(linear(0.3 * np.ones((3, 3))), torch.zeros(5, 1, 1), discard=1)
    assert result.exponents.tolist() == [pytest.approx(np.log(0.9)), -np.inf, -np.inf]
    assert result.dimension == 0


@pytest.mark.parametrize(
    ("exponents", "dimension"),
    [([-1, -2], 0), ([0.5, -1, -3], 1.5), ([1, 0.5, -3], 2.5), ([1, 2], 2), ([0, -1], 1)],
)
def test_dimension_is_that_of_kaplan_and_yorke(exponents, dimension):
    k = len(exponents)
    result = Lyapunov(np.array(exponents, dtype=float), np.zeros(k), k, 0, np.full(k, np.nan))
    assert result.dimension == pytest.approx(dimension)
    assert result.headline()["Kaplan-Yorke dimension"] == result.dimension


def test_orthogonal_map_has_full_dimension_despite_rounding():
    layer = ScoRNN(1, 30, nonlinearity="identity").double()
    assert lyapunov(layer, normal(20, 1, 1)).dimension == 30
    rounded = Lyapunov(np.array([0.0, -1e-15, -2e-15]), np.zeros(3), 3, 0, np.zeros(3))
    assert rounded.dimension == 3


def test_a_sum_of_zero_within_its_errors_counts_as_zero():
    def dimension(first, error):
        exponents = np.array([first, -0.5])
        zeros = np.zeros(2)
        return Lyapunov(exponents, zeros, 2, 0, np.array([error, 0.0])).dimension

    assert dimension(-3e-4, 2e-4) == 1
    assert dimension(-3e-4, 1e-4) == 0
    assert dimension(-3e-4, np.nan) == 0


def test_too_few_exponents_give_no_dimension_and_a_labelled_sum():
    result = lyapunov(ScoRNN(1, 6, nonlinearity="identity"), normal(20, 1, 1), exponents=2)
    assert np.isnan(result.dimension)
    assert list(result.headline()) == [
        "largest exponent (nats a step)",
        "its error (nats a step)",
        "sum of the first 2 exponents (nats a step)",
        "burn-in (steps)",
    ]
    enough = Lyapunov(np.array([0.5, -1.0]), np.zeros(2), 6, 0, np.zeros(2))
    assert enough.headline()["Kaplan-Yorke dimension"] == 1.5


def test_overflowing_derivatives_raise():
    state_map = replace(state_maps(nn.RNN(1, 2))[0], step=lambda x, h: x * h**3)
    path = Trajectory(state_map, normal(3, 1, 1) + 2, 1e200 * normal(4, 1, 2))
    with pytest.raises(ValueError, match="the derivatives of steps"):
        list(path.jacobians())
