"""The numerical range against known shapes."""

import numpy as np
import pytest
import scipy.linalg

from eigenrnn.analysis import numerical_abscissa

EPS = np.finfo(float).eps


def test_range_of_a_two_by_two_block_is_a_disc():
    a = 3.0
    result = numerical_abscissa([[0.5, a], [0, 0.5]])
    np.testing.assert_allclose(np.abs(result.boundary - 0.5), a / 2, rtol=20 * EPS)
    assert result.abscissa == pytest.approx(0.5 + a / 2, rel=20 * EPS)
    assert result.radius == pytest.approx(0.5 + a / 2, rel=20 * EPS)


@pytest.mark.parametrize("n", [2, 5, 30])
def test_range_of_a_chain_is_a_disc_of_known_radius(n):
    result = numerical_abscissa(np.diag(np.ones(n - 1), -1))
    assert result.abscissa == pytest.approx(np.cos(np.pi / (n + 1)), rel=10 * n * EPS)
    assert result.radius == pytest.approx(np.cos(np.pi / (n + 1)), rel=10 * n * EPS)


def test_range_of_a_two_by_two_matrix_is_an_ellipse():
    # foci at the eigenvalues; the entry above the diagonal is the minor axis
    first, second, minor = -0.5, 1.0, 0.8
    result = numerical_abscissa([[first, minor], [0, second]])
    major = np.hypot(second - first, minor)
    sums = np.abs(result.boundary - first) + np.abs(result.boundary - second)
    np.testing.assert_allclose(sums, major, rtol=100 * EPS)
    assert result.abscissa == pytest.approx((first + second + major) / 2, rel=20 * EPS)


def test_radius_is_refined_between_the_angles():
    generator = np.random.default_rng(4)
    values = generator.standard_normal(6) + 1j * generator.standard_normal(6)
    Q = np.linalg.qr(generator.standard_normal((6, 6)))[0]
    W = Q @ np.diag(values) @ Q.T
    assert numerical_abscissa(W).radius == pytest.approx(np.abs(values).max(), rel=1e-12)


def test_mirrored_half_agrees_with_a_full_computation():
    W = np.random.default_rng(0).standard_normal((6, 6))
    half, whole = (numerical_abscissa(each) for each in (W, W.astype(complex)))
    np.testing.assert_allclose(half.boundary, whole.boundary, atol=1e-12)


def test_values_of_unit_vectors_lie_inside_the_range():
    generator = np.random.default_rng(2)
    W = generator.standard_normal((4, 4)) + 1j * generator.standard_normal((4, 4))
    result = numerical_abscissa(W)
    u = generator.standard_normal((500, 4)) + 1j * generator.standard_normal((500, 4))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    inside = np.einsum("kn,nm,km->k", u.conj(), W, u)
    # no value lies beyond the tangents in the computed directions
    rotation = np.exp(-1j * result.angles)
    reach = (rotation * result.boundary).real
    assert ((inside[:, None] * rotation).real <= reach + 1e-12).all()
    assert (np.abs(inside) <= result.radius).all()


def test_abscissa_is_the_largest_initial_growth_rate():
    W = np.random.default_rng(5).standard_normal((5, 5))
    t = 1e-6
    grown = np.linalg.norm(np.eye(5) + t * W, 2)
    assert (grown - 1) / t == pytest.approx(numerical_abscissa(W).abscissa, rel=1e-4)


@pytest.mark.parametrize("W", [np.diag(np.ones(9), -1), 0.5 * np.eye(3), [[1j]]])
def test_figure_and_table_are_written(W, tmp_path):
    picture, table = numerical_abscissa(W).save(tmp_path / "range")
    assert picture.stat().st_size > 0
    assert len(table.read_text().splitlines()) == 1 + 180


def test_headline_is_abscissa_and_radius():
    result = numerical_abscissa([[0.0, 2.0], [0.0, 0.0]])
    assert result.headline() == {
        "numerical abscissa": result.abscissa,
        "numerical radius": result.radius,
    }


def test_a_solver_that_finds_no_largest_eigenvalue_is_replaced(monkeypatch):
    eigh = scipy.linalg.eigh

    def finds_none(matrix, **options):
        values, vectors = eigh(matrix, **options)
        return (values[:0], vectors[:, :0]) if "subset_by_index" in options else (values, vectors)

    W = np.random.default_rng(2).standard_normal((6, 6))
    expected = numerical_abscissa(W)
    monkeypatch.setattr(scipy.linalg, "eigh", finds_none)
    found = numerical_abscissa(W)
    np.testing.assert_allclose(found.boundary, expected.boundary, atol=1e-9)
    assert found.abscissa == pytest.approx(expected.abscissa)
