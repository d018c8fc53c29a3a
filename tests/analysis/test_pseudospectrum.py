"""Pseudospectra against distances to eigenvalues and decompositions at each point."""

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

from crossing import some
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


@pytest.mark.long
@pytest.mark.parametrize("W", [np.diag(np.ones(20), -1), np.eye(3), [[0.0]]])
def test_figure_and_table_are_written(W, tmp_path):
    result = pseudospectrum(W, resolution=6)
    picture, table = result.save(tmp_path / "map")
    assert picture.stat().st_size > 0
    assert len(table.read_text().splitlines()) == 1 + 36


def test_headline_is_the_radius_with_and_without_perturbation():
    result = pseudospectrum(np.diag(np.full(29, 1.0), -1), resolution=5)
    # for a chain of 30 units the radius has |z|^30 of about 0.01
    assert result.headline()["spectral radius"] == 0
    assert 0.85 < result.headline()["pseudospectral radius at 0.01"] < 1


def two_by_two(a):
    return np.array([[0.0, a], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("W", "radius"),
    [
        (0.5 * np.eye(3), 0.51),
        (np.diag([0.3, -0.8]), 0.81),
        # sigma_min sigma_max = |z|^2, and their squares sum to 2 |z|^2 + a^2
        (two_by_two(2.0), (0.01**2 + 0.01 * 2) ** 0.5),
        (two_by_two(0.1), (0.01**2 + 0.01 * 0.1) ** 0.5),
    ],
)
@pytest.mark.parametrize("resolution", [5, 60])
def test_radius_does_not_depend_on_the_grid(W, radius, resolution):
    result = pseudospectrum(W, resolution=resolution)
    assert result.radius == pytest.approx(radius, rel=1e-4)
    assert result.headline()["pseudospectral radius at 0.01"] == result.radius


@pytest.mark.pairs
@pytest.mark.parametrize("epsilon", [1e-6, 1e-2])
@pytest.mark.parametrize("a", [0.1, 10, 100, 1e3, 1e4])
@pytest.mark.parametrize("modulus", [0.0, 0.9])
def test_radius_of_two_equal_eigenvalues_is_the_closed_form(modulus, a, epsilon):
    W = modulus * np.eye(2) + two_by_two(a)
    radius = modulus + (epsilon**2 + epsilon * a) ** 0.5
    assert pseudospectrum(W, epsilon=epsilon, resolution=2).radius == pytest.approx(radius)


def blocks(n):
    """Return two equal eigenvalues of modulus 0.9 at each of n angles, apart by powers of 10."""
    parts = []
    for k in range(n):
        z = 0.9 * np.exp(2j * np.pi * k / n)
        parts.append(np.array([[z, 10.0 ** (k % 4)], [0, z]]))
    return scipy.linalg.block_diag(*parts)


def matrices():
    g = np.random.default_rng(0)
    grcar = np.diag(-np.ones(7), -1) + sum(np.diag(np.ones(8 - j), j) for j in range(4))
    return {
        "normal numbers": g.standard_normal((12, 12)) / 12**0.5,
        "complex": (g.standard_normal((8, 8)) + 1j * g.standard_normal((8, 8))) / 4,
        "Grcar": grcar,
        "triangular": np.triu(g.standard_normal((16, 16))),
        "blocks": blocks(6),
    }


def deepest_on_circle(W, r):
    """Return the smallest singular value on a circle, at many angles and those of eigenvalues."""
    angles = np.append(np.linspace(0, 2 * np.pi, 4000), np.angle(np.linalg.eigvals(W)))
    z = r * np.exp(1j * angles)
    return np.linalg.svd(z[:, None, None] * np.eye(len(W)) - W, compute_uv=False)[:, -1].min()


@pytest.mark.parametrize("epsilon", some([1e-1, 1e-2, 1e-3], [1e-2]))
@pytest.mark.parametrize("W", matrices().values(), ids=matrices())
def test_circles_around_the_radius_are_inside_and_outside_of_the_region(W, epsilon):
    # a part of the region beyond a circle without a point inside would have no eigenvalue
    radius = pseudospectrum(W, epsilon=epsilon, resolution=2).radius
    assert deepest_on_circle(W, radius * (1 - 1e-4)) < epsilon
    assert deepest_on_circle(W, radius * (1 + 1e-5)) > epsilon


@pytest.mark.parametrize("turn", [1, 1j, np.exp(0.3j)])  # onto and off the real axis
@pytest.mark.parametrize("epsilon", [1e-3, 1e-6])
@pytest.mark.parametrize("n", [2, 10, 64])
def test_radius_of_a_jordan_block_is_the_closed_form(n, epsilon, turn):
    def excess(kappa):
        return 0.8 * np.sinh(kappa) / np.sinh((n + 1) * kappa) - epsilon

    # The squared singular values of a bidiagonal matrix with r on the diagonal and c beside it
    # are those of a tridiagonal Toeplitz matrix with one other corner. For the smallest,
    # r / c = sinh(n k) / sinh((n + 1) k) and sigma / c = sinh(k) / sinh((n + 1) k).
    kappa = scipy.optimize.brentq(excess, 1e-9, 700 / (n + 1), rtol=1e-14)
    r = 0.8 * np.sinh(n * kappa) / np.sinh((n + 1) * kappa)
    W = turn * (0.3 * np.eye(n) + np.diag(np.full(n - 1, 0.8), 1))
    assert pseudospectrum(W, epsilon=epsilon, resolution=2).radius == pytest.approx(0.3 + r)


@pytest.mark.parametrize("epsilon", [0.1, 0.03])
def test_radius_is_that_of_the_worst_perturbation(epsilon):
    W = np.random.default_rng(3).standard_normal((6, 6)) / 3
    radius = pseudospectrum(W, epsilon=epsilon, resolution=2).radius
    angles = np.linspace(0, np.pi, 1000)
    # a rank-one perturbation of norm epsilon reaches the radius, and no point lies beyond it
    z = radius * np.exp(1j * angles)
    U, sigma, V = np.linalg.svd(z[:, None, None] * np.eye(6) - W)
    worst = sigma[:, -1].argmin()
    assert sigma[worst, -1] == pytest.approx(epsilon, rel=1e-3)
    E = sigma[worst, -1] * np.outer(U[worst, :, -1], V[worst, -1])
    assert np.abs(np.linalg.eigvals(W + E)).max() == pytest.approx(radius, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"W": np.eye(2), "epsilon": 0}, "expected a finite epsilon > 0, got 0"),
        ({"W": np.ones((2, 3))}, r"expected a square matrix W \(N, N\)"),
        ({"W": [[np.inf]]}, "expected finite numbers in W"),
        ({"W": np.eye(2), "resolution": 1}, "expected resolution >= 2, got 1"),
        ({"W": np.eye(2), "resolution": 2.5}, "expected resolution to be a positive integer"),
    ],
)
def test_invalid_argument_raises(options, message):
    with pytest.raises(ValueError, match=message):
        pseudospectrum(**options)
