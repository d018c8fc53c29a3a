"""The Kreiss constant against closed forms and against the norms of powers."""

import numpy as np
import pytest

from eigenrnn.analysis import kreiss
from eigenrnn.constraints import ScaledCayley

CLOSE = 1e-7  # the error that the docstring states


@pytest.mark.parametrize("a", [0.5, 1, 2, 2.1, 3, 8, 100, 1e4, 1e6])
def test_two_by_two_block_has_the_closed_form(a):
    # at |z| = r the resolvent's norm is exp(u) / r, where sinh u = a / (2 r); u is eliminated
    expected = a / 4 + 1 / a if a > 2 else 1
    assert kreiss([[0, a], [0, 0]]).constant == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("a", [3, 8, 1e4])
def test_maximiser_has_the_closed_form(a):
    result = kreiss([[0, a], [0, 0]]).where
    assert abs(result) == pytest.approx(2 * a**2 / (a**2 - 4), rel=1e-3)


@pytest.mark.parametrize("turn", [0, 0.7, 3.0])
@pytest.mark.parametrize("a", [1, 4, 100])
def test_constant_for_eigenvalues_on_the_circle_is_the_norm_of_their_projections(a, turn):
    W = np.exp(1j * turn) * np.array([[1, a], [0, -1]])
    assert kreiss(W).constant == pytest.approx(np.hypot(1, a / 2), rel=CLOSE)


@pytest.mark.parametrize("scale", [0.0, 0.5, 0.999, 1.0])
def test_normal_matrix_inside_the_circle_has_constant_one(scale):
    result = kreiss(scale * ScaledCayley(20).double()().detach())
    assert result.constant == 1
    assert np.isinf(result.where)


@pytest.mark.parametrize("seed", range(3))
def test_constant_is_above_all_values_on_a_finer_grid(seed):
    generator = np.random.default_rng(seed)
    W = np.triu(generator.standard_normal((8, 8)), 1) + np.diag(generator.uniform(-0.9, 0.9, 8))
    r = 1 + np.geomspace(1e-4, 1e2, 150)
    z = (r[:, None] * np.exp(1j * np.linspace(0, np.pi, 150))).ravel()
    sigma = np.linalg.svd(z[:, None, None] * np.eye(8) - W, compute_uv=False)[:, -1]
    finest = ((np.abs(z) - 1) / sigma).max()
    assert finest <= kreiss(W).constant * (1 + CLOSE) <= finest * 1.01


@pytest.mark.parametrize("alpha", [1.0, 1.1, 1.5])
def test_powers_of_a_chain_lie_between_the_bounds(alpha):
    n = 12
    K = kreiss(np.diag(np.full(n - 1, alpha), -1)).constant
    highest = max(1, alpha ** (n - 1))  # a chain only shifts, with a factor alpha per step
    assert K <= highest <= np.e * n * K


def test_constant_of_a_block_matrix_is_that_of_the_largest_block():
    W = np.zeros((4, 4))
    W[0, 1], W[2, 3] = 5, 9
    assert kreiss(W).constant == pytest.approx(9 / 4 + 1 / 9, rel=CLOSE)


@pytest.mark.parametrize(
    "W",
    [
        pytest.param([[1.1]], id="outside"),
        pytest.param([[0.2, 1.0], [0.0, -1.001]], id="outside on the left"),
        pytest.param([[1.0, 1.0], [0.0, 1.0]], id="defective"),
        pytest.param([[1j, 1.0], [0.0, 1j]], id="defective and complex"),
    ],
)
def test_constant_is_infinite_for_unbounded_powers_and_can_be_drawn(W, tmp_path):
    result = kreiss(W)
    assert result.constant == np.inf
    assert result.save(tmp_path / "curve")[0].stat().st_size > 0


def test_figure_and_table_show_the_curve(tmp_path):
    result = kreiss([[0, 8], [0, 0]])
    r = 1 + result.distances
    t = 4 / r
    expected = result.distances / r * (t + np.sqrt(1 + t * t))
    np.testing.assert_allclose(result.curve, expected, rtol=1e-2)
    lines = result.save(tmp_path / "curve")[1].read_text().splitlines()
    assert len(lines) == 1 + len(result.curve)
    assert result.headline() == {"Kreiss constant": result.constant}


def test_matrix_that_is_not_square_raises():
    with pytest.raises(ValueError, match="got shape"):
        kreiss(np.ones((2, 3)))
