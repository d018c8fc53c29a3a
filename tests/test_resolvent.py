"""Smallest singular values of shifted matrices, against a decomposition at each point."""

import numpy as np
import pytest

from eigenrnn.analysis.resolvent import smallest_singular_values, triangular


def points(count, reach=1.3):
    generator = np.random.default_rng(7)
    return reach * (generator.uniform(-1, 1, count) + 1j * generator.uniform(-1, 1, count))


def by_decompositions(W, z):
    return np.linalg.svd(z[:, None, None] * np.eye(len(W)) - W, compute_uv=False)[:, -1]


def matrices():
    generator = np.random.default_rng(3)
    gauss = generator.standard_normal((40, 40)) / np.sqrt(40)
    yield pytest.param(gauss, id="full")
    yield pytest.param(gauss + 0.5j * gauss.T, id="complex")
    yield pytest.param(np.diag(np.full(29, 1.0), -1), id="lower chain")
    yield pytest.param(np.diag(np.full(29, 1.0), 1), id="upper chain")
    yield pytest.param(np.eye(33) + 1e-3 * generator.standard_normal((33, 33)), id="near one")
    yield pytest.param(np.array([[0.5]]), id="one unit")
    yield pytest.param(np.array([[0.5, 3.0], [0.0, 0.5]]), id="two units")


@pytest.mark.parametrize("W", list(matrices()))
def test_they_are_those_of_a_decomposition_at_each_point(W):
    z = points(200)
    found = smallest_singular_values(triangular(W), z, tolerance=1e-6)
    expected = by_decompositions(W, z)
    # a decomposition knows them to within eps of the largest
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=100 * np.finfo(float).eps * 4)


def test_what_does_not_converge_is_decomposed(monkeypatch):
    monkeypatch.setattr("eigenrnn.analysis.resolvent._MOST_STEPS", 2)
    W = np.random.default_rng(3).standard_normal((20, 20))
    z = points(30)
    found = smallest_singular_values(triangular(W), z)
    np.testing.assert_allclose(found, by_decompositions(W, z), rtol=1e-6)


def test_points_that_are_taken_piece_by_piece_give_the_same(monkeypatch):
    T, z = triangular(np.random.default_rng(3).standard_normal((10, 10))), points(50)
    whole = smallest_singular_values(T, z)
    monkeypatch.setattr("eigenrnn.analysis.resolvent._NUMBERS_AT_ONCE", 70)
    np.testing.assert_allclose(smallest_singular_values(T, z), whole, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 60, 300])
def test_at_an_eigenvalue_round_off_is_what_is_left(n):
    T = np.triu(np.ones((n, n), complex))
    found = smallest_singular_values(T, np.array([1.0 + 0j]))
    np.testing.assert_allclose(found, np.finfo(float).eps * (1 + np.linalg.norm(T, 2)))


def test_a_triangular_form_keeps_the_singular_values():
    W = np.random.default_rng(0).standard_normal((12, 12))
    T = triangular(W)
    np.testing.assert_array_equal(np.tril(T, -1), 0)
    np.testing.assert_allclose(
        np.linalg.svd(T, compute_uv=False), np.linalg.svd(W, compute_uv=False), rtol=1e-12
    )


@pytest.mark.parametrize("transposed", [False, True])
def test_eigenvalues_of_a_triangular_matrix_are_kept_to_the_last_digit(transposed):
    W = np.triu(np.random.default_rng(0).standard_normal((9, 9)))
    T = triangular(W.T if transposed else W)
    np.testing.assert_array_equal(np.sort(T.diagonal().real), np.sort(W.diagonal()))
