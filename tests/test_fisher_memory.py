"""Fisher memory against closed forms, and against the noise it is about."""

import numpy as np
import pytest
import torch

from eigenrnn.analysis import fisher_memory
from eigenrnn.constraints import ScaledCayley

N = 12
FIRST = np.eye(N)[0]


def chain(alpha):
    return np.diag(np.full(N - 1, alpha), -1)


@pytest.mark.parametrize("radius", [0.3, 0.9, 0.99])
def test_a_scaled_orthogonal_matrix_forgets_geometrically_and_has_a_total_of_one(radius):
    W = radius * ScaledCayley(N)().detach()
    found = fisher_memory(W, FIRST, 3000)
    k = np.arange(3000)
    np.testing.assert_allclose(found.curve, radius ** (2 * k) * (1 - radius**2), atol=1e-7)
    assert found.total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("alpha", [0.9, 1.05, 1.3])
def test_a_chain_has_the_published_curve(alpha):
    # the paper writes sqrt(alpha) on the chain for its formula
    found = fisher_memory(chain(np.sqrt(alpha)), FIRST, N + 5)
    k = np.arange(N)
    expected = alpha**k * (alpha - 1) / (alpha ** (k + 1) - 1)
    np.testing.assert_allclose(found.curve[:N], expected, rtol=1e-10)
    np.testing.assert_array_equal(found.curve[N:], 0)


def test_a_diagonal_matrix_is_a_sum_of_scalars():
    d, v = np.array([0.2, 0.5, -0.9]), np.array([1.0, 2.0, 3.0])
    k = np.arange(7)[:, None]
    expected = (v**2 * d ** (2 * k) * (1 - d**2)).sum(1)
    np.testing.assert_allclose(fisher_memory(np.diag(d), v, 7).curve, expected, rtol=1e-12)


def test_the_noise_of_some_steps_alone_can_be_asked_for():
    W = 1.1 * np.eye(2)
    found = fisher_memory(W, [1.0, 0.0], 4, noise_steps=8)
    covariance = sum(1.1 ** (2 * k) for k in range(8))
    np.testing.assert_allclose(found.curve, [1.1 ** (2 * k) / covariance for k in range(4)])


def test_it_is_the_information_that_noisy_states_carry():
    generator = np.random.default_rng(0)
    W, v = chain(1.1)[:4, :4] + 0.1 * np.eye(4), np.eye(4)[0]
    h = np.zeros((200_000, 4))
    for _ in range(80):
        h = h @ W.T + generator.standard_normal(h.shape)
    C = np.cov(h.T)
    state = np.linalg.matrix_power(W, 3) @ v
    assert fisher_memory(W, v, 4).curve[3] == pytest.approx(
        state @ np.linalg.solve(C, state), rel=0.02
    )


@pytest.mark.parametrize(
    ("W", "source", "steps", "message"),
    [
        (np.eye(3), np.ones(3), 5, "expected a spectral radius below 1.*got 1; scale W down"),
        (2 * np.eye(3), np.ones(3), 5, "got 2"),
        (np.ones((2, 3)), np.ones(2), 5, r"expected W \(N, N\)"),
        (np.eye(3), np.ones(2), 5, r"expected W \(N, N\) and source \(N,\)"),
        (np.full((2, 2), np.nan), np.ones(2), 5, "expected finite numbers"),
        (0.5 * np.eye(2), np.ones(2), 0, "expected steps >= 1"),
    ],
)
def test_what_has_no_curve_is_refused(W, source, steps, message):
    with pytest.raises(ValueError, match=message):
        fisher_memory(torch.as_tensor(W), source, steps)
