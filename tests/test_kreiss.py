"""The Kreiss constant against closed forms, and against the powers that it bounds."""

import numpy as np
import pytest

from eigenrnn.analysis import kreiss
from eigenrnn.constraints import ScaledCayley

CLOSE = 1e-7  # what the docstring promises where a closed form is known


@pytest.mark.parametrize("a", [0.5, 1, 2, 2.1, 3, 8, 100, 1e4, 1e6])
def test_of_a_block_of_two_it_is_the_closed_form(a):
    # at |z| = r the resolvent's norm is exp(u) / r, where sinh u = a / (2 r); u is eliminated
    expected = a / 4 + 1 / a if a > 2 else 1
    assert kreiss([[0, a], [0, 0]]).constant == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("a", [3, 8, 1e4])
def test_it_is_reached_where_the_closed_form_says(a):
    found = kreiss([[0, a], [0, 0]]).where
    assert abs(found) == pytest.approx(2 * a**2 / (a**2 - 4), rel=1e-3)


@pytest.mark.parametrize("turn", [0, 0.7, 3.0])
@pytest.mark.parametrize("a", [1, 4, 100])
def test_near_eigenvalues_on_the_circle_it_is_the_norm_of_their_projections(a, turn):
    W = np.exp(1j * turn) * np.array([[1, a], [0, -1]])
    assert kreiss(W).constant == pytest.approx(np.hypot(1, a / 2), rel=CLOSE)


@pytest.mark.parametrize("scale", [0.0, 0.5, 0.999, 1.0])
def test_of_a_normal_matrix_inside_of_the_circle_it_is_one(scale):
    found = kreiss(scale * ScaledCayley(20).double()().detach())
    assert found.constant == 1
    assert np.isinf(found.where)


@pytest.mark.parametrize("seed", range(3))
def test_no_point_of_a_finer_grid_is_above_it(seed):
    generator = np.random.default_rng(seed)
    W = np.triu(generator.standard_normal((8, 8)), 1) + np.diag(generator.uniform(-0.9, 0.9, 8))
    r = 1 + np.geomspace(1e-4, 1e2, 150)
    z = (r[:, None] * np.exp(1j * np.linspace(0, np.pi, 150))).ravel()
    sigma = np.linalg.svd(z[:, None, None] * np.eye(8) - W, compute_uv=False)[:, -1]
    finest = ((np.abs(z) - 1) / sigma).max()
    assert finest <= kreiss(W).constant * (1 + CLOSE) <= finest * 1.01


@pytest.mark.parametrize("alpha", [1.0, 1.1, 1.5])
def test_powers_of_a_chain_are_between_its_bounds(alpha):
    n = 12
    found = kreiss(np.diag(np.full(n - 1, alpha), -1))
    highest = max(1, alpha ** (n - 1))  # a chain only shifts, and each step gives alpha
    assert found.lower <= highest <= found.upper
    assert found.upper == pytest.approx(np.e * n * found.constant)


def test_of_blocks_it_is_that_of_the_largest():
    W = np.zeros((4, 4))
    W[0, 1], W[2, 3] = 5, 9
    assert kreiss(W).constant == pytest.approx(9 / 4 + 1 / 9, rel=CLOSE)


def test_it_does_not_depend_on_the_basis():
    generator = np.random.default_rng(0)
    W = np.triu(generator.standard_normal((9, 9)), 1) + 0.5 * np.eye(9)
    Q = ScaledCayley(9).double()().detach().numpy()
    assert kreiss(Q @ W @ Q.T).constant == pytest.approx(kreiss(W).constant, rel=CLOSE)


@pytest.mark.parametrize(
    "W",
    [
        pytest.param([[1.1]], id="outside"),
        pytest.param([[0.2, 1.0], [0.0, -1.001]], id="outside on the left"),
        pytest.param([[1.0, 1.0], [0.0, 1.0]], id="defective"),
        pytest.param([[1j, 1.0], [0.0, 1j]], id="defective and complex"),
    ],
)
def test_where_powers_have_no_bound_it_is_infinite_and_can_be_drawn(W, tmp_path):
    found = kreiss(W)
    assert (found.constant, found.lower, found.upper) == (np.inf, np.inf, np.inf)
    assert found.save(tmp_path / "curve")[0].stat().st_size > 0


def test_of_huge_matrices_there_is_a_picture(tmp_path):
    found = kreiss(1e200 * np.triu(np.ones((5, 5))))
    assert found.constant == np.inf
    assert np.isfinite(found.curve).all()
    assert found.save(tmp_path / "curve")[0].stat().st_size > 0


def test_the_curve_is_what_is_drawn_and_written(tmp_path):
    found = kreiss([[0, 8], [0, 0]])
    r = 1 + found.distances
    t = 4 / r
    expected = found.distances / r * (t + np.sqrt(1 + t * t))
    np.testing.assert_allclose(found.curve, expected, rtol=1e-2)
    lines = found.save(tmp_path / "curve")[1].read_text().splitlines()
    assert len(lines) == 1 + len(found.curve)
    assert found.headline() == {"Kreiss constant": found.constant}


def test_what_is_no_matrix_is_refused():
    with pytest.raises(ValueError, match=r"expected a square matrix W \(N, N\)"):
        kreiss(np.ones((2, 3)))
