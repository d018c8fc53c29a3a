"""Smallest singular values of shifted matrices, against a decomposition at each point."""

from importlib import import_module

import numpy as np
import pytest

from eigenrnn.analysis.pseudospectrum import smallest_singular_values, triangular

# the function of this name hides the module from attribute access
MODULE = import_module("eigenrnn.analysis.pseudospectrum")


def points(count, reach=1.3):
    generator = np.random.default_rng(7)
    return reach * (generator.uniform(-1, 1, count) + 1j * generator.uniform(-1, 1, count))


def exact_values(W, z):
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
def test_values_agree_with_a_decomposition_at_each_point(W):
    z = points(200)
    result = smallest_singular_values(triangular(W), z, tolerance=1e-6)
    expected = exact_values(W, z)
    # a decomposition is accurate to eps times the largest value
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=100 * np.finfo(float).eps * 4)


def test_points_that_do_not_converge_are_decomposed(monkeypatch):
    monkeypatch.setattr(MODULE, "_MAX_STEPS", 2)
    W = np.random.default_rng(3).standard_normal((20, 20))
    z = points(30)
    result = smallest_singular_values(triangular(W), z)
    np.testing.assert_allclose(result, exact_values(W, z), rtol=1e-6)


def test_chunks_of_points_do_not_change_the_result(monkeypatch):
    T, z = triangular(np.random.default_rng(3).standard_normal((10, 10))), points(50)
    whole = smallest_singular_values(T, z)
    monkeypatch.setattr(MODULE, "_CHUNK_ENTRIES", 70)
    np.testing.assert_allclose(smallest_singular_values(T, z), whole, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 60, 300])
def test_value_at_an_eigenvalue_is_the_rounding_error(n):
    T = np.triu(np.ones((n, n), complex))
    result = smallest_singular_values(T, np.array([1.0 + 0j]))
    np.testing.assert_allclose(result, np.finfo(float).eps * (1 + np.linalg.norm(T, 2)))


def test_triangular_form_keeps_the_singular_values():
    W = np.random.default_rng(0).standard_normal((12, 12))
    T = triangular(W)
    np.testing.assert_array_equal(np.tril(T, -1), 0)
    np.testing.assert_allclose(
        np.linalg.svd(T, compute_uv=False), np.linalg.svd(W, compute_uv=False), rtol=1e-12
    )


@pytest.mark.parametrize("transposed", [False, True])
def test_triangular_matrix_keeps_its_eigenvalues_exactly(transposed):
    W = np.triu(np.random.default_rng(0).standard_normal((9, 9)))
    T = triangular(W.T if transposed else W)
    np.testing.assert_array_equal(np.sort(T.diagonal().real), np.sort(W.diagonal()))
