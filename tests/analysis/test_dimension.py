"""Effective dimensions against closed forms."""

import numpy as np
import pytest
import torch

from eigenrnn.analysis import effective_rank, participation_ratio

EPS = np.finfo(float).eps


def states_with_variances(variances):
    """Return two states on each axis, whose covariance is exactly diagonal."""
    n = len(variances)
    reach = np.sqrt(np.asarray(variances) * (2 * n - 1) / 2)
    return np.concatenate([np.diag(reach), -np.diag(reach)])


def rotated(states):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((states.shape[1],) * 2))[0]
    return states @ Q


@pytest.mark.parametrize("n", [1, 2, 7])
def test_isotropic_cloud_has_full_dimension(n):
    assert participation_ratio(states_with_variances(np.full(n, 3.0))).value == pytest.approx(n)


def test_states_that_do_not_vary_have_no_dimension():
    assert participation_ratio(np.full((1000, 3), 0.1)).value == 0


def test_line_has_dimension_one():
    along = np.linspace(-1, 2, 30)[:, None] * np.array([1.0, -2, 3]) + 100
    assert participation_ratio(along).value == pytest.approx(1, rel=1e-10)


@pytest.mark.parametrize("variances", [[4.0, 1], [3.0, 2, 1], [1.0, 1, 1e-3, 0]])
def test_participation_ratio_follows_from_the_variances(variances):
    result = participation_ratio(rotated(states_with_variances(variances)))
    expected = sum(variances) ** 2 / sum(v * v for v in variances)
    assert result.value == pytest.approx(expected, rel=100 * EPS)
    np.testing.assert_allclose(result.spectrum, variances, atol=100 * EPS)


def test_spectrum_is_that_of_the_covariance():
    states = np.random.default_rng(1).standard_normal((50, 4)) + 3
    expected = np.sort(np.linalg.eigvalsh(np.cov(states.T)))[::-1]
    np.testing.assert_allclose(participation_ratio(states).spectrum, expected, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_equal_singular_values_give_full_effective_rank(n):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((n + 3, n)))[0]
    assert effective_rank(2.5 * Q).value == pytest.approx(n, rel=100 * EPS)


def test_outer_product_has_effective_rank_one():
    result = effective_rank(np.outer([1.0, 2, 3], [4.0, 5]))
    assert result.value == pytest.approx(1, rel=1e-13)


@pytest.mark.parametrize("sigma", [[4.0, 1], [3.0, 2, 1], [1.0, 1, 1e-3, 0]])
def test_effective_rank_is_the_weighted_geometric_mean_of_inverse_shares(sigma):
    p = np.array(sigma) / sum(sigma)
    # exp of the entropy, without a logarithm
    expected = np.prod([share**-share for share in p if share])
    result = effective_rank(rotated(np.diag(sigma)))
    assert result.value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(result.spectrum, sigma, atol=100 * EPS)


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
def test_steps_and_sequences_are_pooled(measure):
    states = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))
    assert measure(states).value == measure(states.reshape(15, 4).double().numpy()).value


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
def test_phase_does_not_matter(measure):
    states = np.random.default_rng(0).standard_normal((9, 4))
    phases = np.exp(1j * np.arange(4))
    assert measure(states * phases).value == pytest.approx(measure(states).value, rel=1e-12)


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
def test_zeros_have_dimension_zero_and_can_be_drawn(measure, tmp_path):
    result = measure(np.zeros((5, 3)))
    assert result.value == 0
    assert result.save(tmp_path / "none")[0].stat().st_size > 0


@pytest.mark.parametrize("measure", [participation_ratio, effective_rank])
def test_table_has_cumulative_shares(measure, tmp_path):
    result = measure(np.random.default_rng(0).standard_normal((9, 4)))
    shares = result.table()["cumulative_share"]
    np.testing.assert_allclose(shares, np.cumsum(result.spectrum) / result.spectrum.sum())
    assert result.headline() == {result.name: result.value}
    assert len(result.save(tmp_path / "shares")[1].read_text().splitlines()) == 1 + 4


def test_few_states_of_many_units_have_the_variances_of_their_covariance():
    states = np.random.default_rng(0).normal(size=(5, 9)) @ np.diag(np.arange(1, 10))
    expected = np.linalg.eigvalsh(np.cov(states.T))[::-1]
    result = participation_ratio(states)
    np.testing.assert_allclose(result.spectrum, expected, atol=1e-12)
    assert result.value == pytest.approx(expected.sum() ** 2 / (expected**2).sum())
