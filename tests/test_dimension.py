"""Dimensions of spectra that are known."""

import numpy as np
import pytest
import torch

from eigenrnn.analysis import effective_rank, participation_ratio

EPS = np.finfo(float).eps


def states_with_variances(variances):
    """Two states on each axis, so that the covariance is exactly diagonal."""
    n = len(variances)
    reach = np.sqrt(np.asarray(variances) * (2 * n - 1) / 2)
    return np.concatenate([np.diag(reach), -np.diag(reach)])


def turned(states):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((states.shape[1],) * 2))[0]
    return states @ Q


@pytest.mark.parametrize("n", [1, 2, 7])
def test_an_isotropic_cloud_has_all_dimensions(n):
    assert participation_ratio(states_with_variances(np.full(n, 3.0))).value == pytest.approx(n)


def test_a_line_has_one_dimension_wherever_it_lies():
    along = np.linspace(-1, 2, 30)[:, None] * np.array([1.0, -2, 3]) + 100
    assert participation_ratio(along).value == pytest.approx(1, rel=1e-10)


@pytest.mark.parametrize("variances", [[4.0, 1], [3.0, 2, 1], [1.0, 1, 1e-3, 0]])
def test_the_ratio_is_that_of_the_variances(variances):
    found = participation_ratio(turned(states_with_variances(variances)))
    expected = sum(variances) ** 2 / sum(v * v for v in variances)
    assert found.value == pytest.approx(expected, rel=100 * EPS)
    np.testing.assert_allclose(found.spectrum, variances, atol=100 * EPS)


def test_the_variances_are_those_of_the_covariance():
    states = np.random.default_rng(1).standard_normal((50, 4)) + 3
    expected = np.sort(np.linalg.eigvalsh(np.cov(states.T)))[::-1]
    np.testing.assert_allclose(participation_ratio(states).spectrum, expected, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_equal_singular_values_have_full_rank(n):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((n + 3, n)))[0]
    assert effective_rank(2.5 * Q).value == pytest.approx(n, rel=100 * EPS)


def test_an_outer_product_has_rank_one():
    found = effective_rank(np.outer([1.0, 2, 3], [4.0, 5]))
    assert found.value == pytest.approx(1, rel=1e-13)


@pytest.mark.parametrize("sigma", [[4.0, 1], [3.0, 2, 1], [1.0, 1, 1e-3, 0]])
def test_the_rank_is_the_weighted_geometric_mean_of_inverse_shares(sigma):
    p = np.array(sigma) / sum(sigma)
    # exp of the entropy, without a logarithm
    expected = np.prod([share**-share for share in p if share])
    found = effective_rank(turned(np.diag(sigma)))
    assert found.value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(found.spectrum, sigma, atol=100 * EPS)


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
def test_steps_and_sequences_are_taken_together(measure):
    states = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))
    assert measure(states).value == measure(states.reshape(15, 4).double().numpy()).value


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
@pytest.mark.parametrize("scale", [1e-170, 1e200, 1e307])
def test_a_scale_changes_nothing_and_can_be_drawn(measure, scale, tmp_path):
    states = np.random.default_rng(0).uniform(-1, 1, (9, 4))
    found, expected = measure(scale * states), measure(states)
    assert found.value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(
        found.table()["cumulative_share"], expected.table()["cumulative_share"], rtol=1e-10
    )
    assert found.save(tmp_path / "far")[0].stat().st_size > 0


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
def test_a_phase_changes_nothing(measure):
    states = np.random.default_rng(0).standard_normal((9, 4))
    phases = np.exp(1j * np.arange(4))
    assert measure(states * phases).value == pytest.approx(measure(states).value, rel=1e-12)


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
def test_zeros_have_no_dimension_and_can_be_drawn(measure, tmp_path):
    found = measure(np.zeros((5, 3)))
    assert found.value == 0
    assert found.save(tmp_path / "none")[0].stat().st_size > 0


def test_the_matrix_of_a_layer_has_a_rank():
    layer = torch.nn.RNN(2, 5)
    assert effective_rank(layer).value == effective_rank(layer.weight_hh_l0.double()).value


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
def test_the_shares_add_up_in_the_table(measure, tmp_path):
    found = measure(np.random.default_rng(0).standard_normal((9, 4)))
    shares = found.table()["cumulative_share"]
    np.testing.assert_allclose(shares, np.cumsum(found.spectrum) / found.spectrum.sum())
    assert found.headline() == {found.name: found.value}
    assert len(found.save(tmp_path / "shares")[1].read_text().splitlines()) == 1 + 4


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
@pytest.mark.parametrize(
    ("states", "message"),
    [
        (np.ones(3), r"expected states \(T, B, N\) or \(n, N\), got shape \(3,\)"),
        (np.ones((0, 3)), r"got shape \(0, 3\)"),
        (np.full((2, 2), np.nan), "expected finite states"),
        ([[1, 2], [3]], "expected states to be numbers in rows of equal length, got list"),
        ("states", "expected states to be numbers"),
    ],
)
def test_what_are_no_states_is_refused(measure, states, message):
    with pytest.raises(ValueError, match=message):
        measure(states)


def test_a_single_state_does_not_vary():
    with pytest.raises(ValueError, match="expected at least 2 states"):
        participation_ratio(np.ones((1, 3)))
