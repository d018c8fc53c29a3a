"""The bound of Fisher memory against the curve that it bounds."""

import numpy as np
import pytest

from eigenrnn.analysis import fisher_bound, fisher_memory

N = 10
EPS = np.finfo(np.float64).eps


def triangular(alpha, size, seed=0):
    """Draw a strictly lower triangular matrix with the root of alpha below the diagonal."""
    below = np.random.default_rng(seed).standard_normal((N, N))
    return np.diag(np.full(N - 1, np.sqrt(alpha)), -1) + size * np.tril(below, -2)


def gram_schmidt(W):
    """Make columns orthogonal, the last that is not zero first; return what leads back to W."""
    A, directions = np.eye(N), np.zeros((N, N))
    for j in reversed(range(N - 1)):
        direction = W[:, j].copy()
        for i in range(j + 1, N - 1):
            A[i, j] = directions[:, i] @ W[:, j] / (directions[:, i] @ directions[:, i])
            direction -= A[i, j] * directions[:, i]
        directions[:, j] = direction
    return A


@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0, 1.05, 3.0])
@pytest.mark.parametrize("size", [1e-3, 0.03, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_triangular_matrix_remembers_less(alpha, size, seed):
    found = fisher_bound(triangular(alpha, size, seed), N)
    assert (found.curve >= found.bound * (1 - 1e3 * EPS)).all()
    assert (found.bound > 0).all()


@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0, 1 + 1e-12, 1.05, 3.0])
def test_the_bound_of_a_chain_is_its_memory(alpha):
    found = fisher_bound(triangular(alpha, 0.0), N + 3)
    assert found.sigma_max == 1
    np.testing.assert_allclose(found.bound, found.curve, rtol=1e3 * EPS)
    np.testing.assert_array_equal(found.bound[N:], 0)


@pytest.mark.parametrize("alpha", [0.5, 1.05, 2.0])
@pytest.mark.parametrize("size", [0.01, 1.0])
def test_it_is_the_published_formula(alpha, size):
    W, k = triangular(alpha, size), np.arange(N)
    sigma = np.linalg.norm(gram_schmidt(W), 2)
    chain = alpha**k * (alpha - 1) / (alpha ** (k + 1) - 1)
    found = fisher_bound(W, N)
    assert found.sigma_max == pytest.approx(sigma, rel=1e-12)
    assert found.alpha == pytest.approx(alpha, rel=1e-14)
    np.testing.assert_allclose(found.bound, chain / sigma ** (2 * (N - 1)), rtol=1e-10)


def test_the_sign_of_the_chain_is_of_no_matter():
    W = triangular(1.1, 0.1)
    np.testing.assert_allclose(fisher_bound(-W, N).bound, fisher_bound(W, N).bound, rtol=1e-12)


def test_a_bound_below_double_precision_keeps_its_logarithm():
    W = np.diag(np.ones(299), -1) + np.tril(np.full((300, 300), 0.1), -2)
    found = fisher_bound(W, 3)
    np.testing.assert_array_equal(found.bound, 0)
    expected = -np.log([1, 2, 3]) - 598 * np.log(found.sigma_max)
    np.testing.assert_allclose(found.log_bound, expected, rtol=1e-12)


def test_the_curve_beside_it_is_that_of_fisher_memory():
    W = triangular(1.1, 0.2)
    expected = fisher_memory(W, np.eye(N)[0], 7).curve
    np.testing.assert_array_equal(fisher_bound(W, 7).curve, expected)


def test_the_picture_and_the_table_show_both():
    found = fisher_bound(triangular(1.1, 0.05), N + 2)
    (axes,) = found.plot().axes
    curve, bound = (line.get_ydata() for line in axes.lines)
    np.testing.assert_array_equal(curve, found.table()["fisher_memory"])
    np.testing.assert_array_equal(bound, found.table()["bound"])
    assert found.headline()["total bound"] < found.headline()["total Fisher memory"]


@pytest.mark.parametrize(
    ("W", "steps", "message"),
    [
        (np.ones((2, 3)), 5, "expected a square matrix W"),
        (np.full((3, 3), np.nan), 5, "expected finite numbers in W"),
        (np.eye(3), 5, "expected a real, strictly lower triangular W.*up to 1 on or above"),
        (triangular(1, 0).T, 5, "expected a real, strictly lower triangular W"),
        (triangular(1, 0) * 1j, 5, "got complex numbers"),
        (np.zeros((1, 1)), 5, "at least 2 rows, got real numbers, 1 rows"),
        (np.zeros((3, 3)), 5, "expected the same number other than 0.*got 0 to 0"),
        (np.diag([1.0, 2.0], -1), 5, "expected the same number.*got 1 to 2; rescale"),
        (triangular(1, 0), 0, "expected steps to be a positive integer"),
        (triangular(1e100, 0), 5, "vanish within double precision"),
    ],
)
def test_what_has_no_bound_is_refused(W, steps, message):
    with pytest.raises(ValueError, match=message):
        fisher_bound(W, steps)
