"""Fisher memory against closed forms and simulated noise."""

import numpy as np
import pytest
import scipy.linalg
import torch

from crossing import some
from eigenrnn.analysis import fisher_memory
from eigenrnn.constraints import ScaledCayley

N = 12
FIRST = np.eye(N)[0]
EPS = np.finfo(np.float64).eps


def chain(alpha):
    return np.diag(np.full(N - 1, alpha), -1)


@pytest.mark.parametrize("radius", [0.3, 0.9, 0.99])
def test_scaled_orthogonal_matrix_decays_geometrically_with_total_one(radius):
    W = radius * ScaledCayley(N, dtype=torch.float64)().detach()
    result = fisher_memory(W, FIRST, 3000)
    k = np.arange(3000)
    np.testing.assert_allclose(result.curve, radius ** (2 * k) * (1 - radius**2), 1e-9, 1e-300)
    assert result.total == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.9, 1.05, 1.3])
def test_chain_has_the_published_curve(alpha):
    # the paper's formula is for sqrt(alpha) on the chain
    result = fisher_memory(chain(np.sqrt(alpha)), FIRST, N + 5)
    k = np.arange(N)
    expected = alpha**k * (alpha - 1) / (alpha ** (k + 1) - 1)
    np.testing.assert_allclose(result.curve[:N], expected, rtol=1e-10)
    np.testing.assert_array_equal(result.curve[N:], 0)


def test_diagonal_matrix_is_a_sum_of_scalar_networks():
    d, v = np.array([0.2, 0.5, -0.9]), np.array([1.0, 2.0, 3.0])
    k = np.arange(7)[:, None]
    expected = (v**2 * d ** (2 * k) * (1 - d**2)).sum(1)
    np.testing.assert_allclose(fisher_memory(np.diag(d), v, 7).curve, expected, rtol=1e-12)


def test_noise_steps_limits_the_noise():
    W = 1.1 * np.eye(2)
    result = fisher_memory(W, [1.0, 0.0], 4, noise_steps=8)
    covariance = sum(1.1 ** (2 * k) for k in range(8))
    np.testing.assert_allclose(result.curve, [1.1 ** (2 * k) / covariance for k in range(4)])


def test_curve_is_the_information_in_simulated_noisy_states():
    generator = np.random.default_rng(0)
    W, v = chain(1.1)[:4, :4] + 0.1 * np.eye(4), np.eye(4)[0]
    h = np.zeros((200_000, 4))
    for _ in range(20):  # 0.1 to this power is negligible
        h = h @ W.T + generator.standard_normal(h.shape)
    C = np.cov(h.T)
    state = np.linalg.matrix_power(W, 3) @ v
    assert fisher_memory(W, v, 4).curve[3] == pytest.approx(
        state @ np.linalg.solve(C, state), rel=0.02
    )


@pytest.mark.parametrize("number", [1, 2, 3, 5, 7, 12, 100])
def test_noise_steps_is_the_exact_number_of_terms(number):
    W, v = 0.98 * rotation(5), np.arange(5.0)
    C, power = np.zeros((5, 5)), np.eye(5)
    for _ in range(number):
        C, power = C + power @ power.T, W @ power
    states = [np.linalg.matrix_power(W, k) @ v for k in range(4)]
    expected = [h @ np.linalg.solve(C, h) for h in states]
    result = fisher_memory(W, v, 4, noise_steps=number).curve
    np.testing.assert_allclose(result, expected, rtol=1e-10)


def rotation(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def random_matrix(n, radius, is_complex=False):
    generator = np.random.default_rng(1)
    W = generator.standard_normal((n, n)) + 1j * is_complex * generator.standard_normal((n, n))
    W = W if is_complex else W.real
    return radius * W / np.abs(np.linalg.eigvals(W)).max()


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("radius", [0.5, 0.95])
def test_covariance_solves_the_lyapunov_equation(radius, is_complex):
    W, v = random_matrix(9, radius, is_complex), np.ones(9)
    C = scipy.linalg.solve_discrete_lyapunov(W, np.eye(9), method="direct")
    states = np.array([np.linalg.matrix_power(W, k) @ v for k in range(6)])
    expected = np.einsum("kn,nk->k", states.conj(), np.linalg.solve(C, states.T)).real
    np.testing.assert_allclose(fisher_memory(W, v, 6).curve, expected, rtol=1e-9)


# table 6 of nnRNN in fixed point with a unit of 2^-256, so that rounding is negligible

UNITS, STEPS, BITS = 100, 150, 256


def fixed(x):
    numerator, denominator = x.as_integer_ratio()
    return (numerator << BITS) // denominator


def pulses(alpha, beta, d):  # (K, N)
    """The states after a pulse at the first unit, until they vanish: first columns of powers."""
    alpha, beta, d = map(fixed, (alpha, beta, d))
    state = np.array([1 << BITS] + [0] * (UNITS - 1), dtype=object)
    states = []
    while len(states) < STEPS or max(state) >> (BITS // 2):
        states.append(state)
        after = d * state
        after[1:] += alpha * state[:-1]
        after[2:] += beta * np.cumsum(state)[:-2]
        state = after >> BITS
    return np.array(states)


def exact_curve(alpha, beta, d):
    """Fisher memory by elimination; W and its powers are constant along diagonals.

    So C[i, j] - C[i - 1, j - 1] is a sum over powers of products of entries of their column 0.
    """
    M = pulses(alpha, beta, d)
    C = np.zeros((UNITS, UNITS), dtype=object)
    for i in range(UNITS):
        C[i, : i + 1] = (M[:, i] @ M[:, : i + 1]) >> BITS
        C[i, 1 : i + 1] += C[i - 1, :i] if i else 0
    left, curve = M[:STEPS].T.copy(), np.zeros(STEPS, dtype=object)
    for j in range(UNITS):
        curve += left[j] ** 2 // C[j, j]
        factors = (C[j + 1 :, j] << BITS) // C[j, j]
        for i, factor in enumerate(factors, j + 1):
            C[i, j + 1 : i + 1] -= (factor * C[j + 1 : i + 1, j]) >> BITS
        left[j + 1 :] -= (factors[:, None] * left[j]) >> BITS
    return np.array([value / (1 << BITS) for value in curve])


TABLE_6 = {
    (0.95, 0.0, 0.0): 3.03,
    (1.0, 0.0, 0.0): 5.19,
    (1.05, 0.0, 0.0): 12.1,
    (0.95, 0.005, 0.0): 3.18,
    (1.0, 0.005, 0.0): 5.30,
    (1.05, 0.005, 0.0): 12.1,
    (0.95, 0.0, 0.2): 12.0,
    (1.0, 0.0, 0.2): 16.2,
    (1.05, 0.0, 0.2): 20.5,
    (0.95, 0.005, 0.2): 12.1,
    (1.0, 0.005, 0.2): 16.3,
    (1.05, 0.005, 0.2): 20.4,
}


def triangular(alpha, beta, d):
    W = np.diag(np.full(UNITS - 1, alpha), -1) + np.diag(np.full(UNITS, d))
    return W + np.tril(np.full((UNITS, UNITS), beta), -2)


@pytest.mark.parametrize("key", some(list(TABLE_6), list(TABLE_6)[::5]))
def test_table_6_agrees_with_exact_arithmetic(key):
    W = triangular(*key)
    result = fisher_memory(W, np.eye(UNITS)[0], STEPS, noise_steps=10_000).curve
    # with a diagonal the noise has a condition number up to 1e27; the error scales with its root
    error = 1e-6 if key[2] else UNITS**2 * np.finfo(np.float64).eps
    np.testing.assert_allclose(result, exact_curve(*key), atol=error, rtol=0)


@pytest.mark.parametrize("key", TABLE_6)
def test_table_6_agrees_with_the_printed_totals(key):
    printed = TABLE_6[key]
    total = fisher_memory(triangular(*key), np.eye(UNITS)[0], STEPS, noise_steps=10_000).total
    # three digits are printed; with a diagonal they show the authors' rounding errors
    assert abs(total - printed) < (0.5 if key[2] else 0.005 if printed < 10 else 0.05)
