"""Pseudospectra against distances to eigenvalues and decompositions at each point."""

import numpy as np
import pytest

from eigenrnn.analysis import pseudospectrum
from eigenrnn.constraints import ScaledCayley


def grid(result):
    return result.x + 1j * result.y[:, None]


def normal(n):
    return ScaledCayley(n).double()().detach().numpy()


@pytest.mark.parametrize("scale", [1, 0.7, 0.5j])
def test_normal_matrix_gives_the_distance_to_the_nearest_eigenvalue(scale):
    W = scale * normal(16)
    result = pseudospectrum(W, resolution=24)
    distances = np.abs(grid(result)[..., None] - np.linalg.eigvals(W)).min(-1)
    np.testing.assert_allclose(result.sigma_min, distances, atol=16 * 100 * np.finfo(float).eps)


@pytest.mark.parametrize("n", [1, 2, 9, 30])
def test_jordan_block_agrees_with_a_decomposition_at_each_point(n):
    W = 0.3 * np.eye(n) + np.diag(np.full(n - 1, 0.8), 1)
    result = pseudospectrum(W, resolution=21)
    shifted = grid(result)[..., None, None] * np.eye(n) - W
    expected = np.linalg.svd(shifted, compute_uv=False)[..., -1]
    np.testing.assert_allclose(
        result.sigma_min, expected, rtol=5e-5, atol=100 * n * np.finfo(float).eps
    )


@pytest.mark.parametrize("resolution", [7, 8])
def test_mirrored_half_agrees_with_a_full_computation(resolution):
    W = np.random.default_rng(0).standard_normal((8, 8)) / 3
    mirrored = pseudospectrum(W, resolution=resolution)
    whole = pseudospectrum(W.astype(complex), resolution=resolution)
    np.testing.assert_allclose(mirrored.sigma_min, whole.sigma_min, rtol=1e-4)


def test_default_extent_includes_eigenvalues_and_unit_circle():
    result = pseudospectrum(np.diag([3.0, -0.5]), resolution=4)
    assert result.x[0] < -3
    assert result.x[-1] > 3
    assert pseudospectrum(0.1 * np.eye(2), resolution=4).y[-1] > 1
