"""The convergence condition and error bound of a Neumann series against the series."""

import copy
import math

import numpy as np
import pytest
import torch

from eigenrnn.analysis import neumann_condition
from eigenrnn.constraints import NeumannCayley
from eigenrnn.linalg import skew

N = 7
EPS = np.finfo(np.float64).eps


def skew_matrix(size, seed):
    A = size * np.random.default_rng(seed).standard_normal((N, N))
    return A - A.T


def step(size):
    before = skew_matrix(1.0, 0)
    return before, before - skew_matrix(size, 1)


def test_two_by_two_norm_has_the_closed_form():
    J = np.array([[0.0, -1.0], [1.0, 0.0]])
    result = neumann_condition(3.0 * J, 2.5 * J)
    # both matrices are multiples of J, whose eigenvalues are i and -i
    assert result.norm == pytest.approx(0.5 / math.sqrt(1 + 9), rel=4 * EPS)


@pytest.mark.parametrize("size", [1e-3, 0.03, 0.1, 2.0])
def test_ratio_relates_one_inverse_to_the_next(size):
    before, after = step(size)
    result, I = neumann_condition(before, after), np.eye(N)
    next_inverse = np.linalg.inv(I - result.ratio) @ np.linalg.inv(I + before)
    np.testing.assert_allclose(next_inverse, np.linalg.inv(I + after), atol=1e3 * N * EPS)
    assert result.norm == pytest.approx(
        np.sqrt(np.linalg.eigvalsh(result.ratio.T @ result.ratio)[-1])
    )


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1e-3, 0.03, 0.1])
def test_truncation_error_is_below_the_bound(size, order):
    before, after = step(size)
    result, I = neumann_condition(before, after, order=order), np.eye(N)
    series = sum(np.linalg.matrix_power(result.ratio, i) for i in range(order + 1))
    error = np.linalg.norm(series @ np.linalg.inv(I + before) - np.linalg.inv(I + after), 2)
    assert result.converges
    assert result.error_bound == pytest.approx(result.norm ** (order + 1) / (1 - result.norm))
    assert error <= result.error_bound + 1e3 * EPS


def test_terms_are_norms_of_powers():
    result = neumann_condition(*step(0.1))
    expected = [np.linalg.norm(np.linalg.matrix_power(result.ratio, i), 2) for i in range(9)]
    np.testing.assert_allclose(result.terms, expected, rtol=1e-12)


def test_large_step_has_no_bound():
    result = neumann_condition(*step(5.0))
    assert result.norm > 1
    assert not result.converges
    assert result.error_bound == math.inf


def test_zero_step_has_zero_error():
    result = neumann_condition(*step(0.0))
    assert (result.norm, result.error_bound) == (0, 0)
    result.plot()


def before_and_after(order):
    before = NeumannCayley(N, order=order)
    after = copy.deepcopy(before)
    with torch.no_grad():
        after.cayley.raw += 0.01
    return before, after


@pytest.mark.parametrize(("order", "expected_order"), [(1, 1), (3, 3), (None, 2)])
def test_matrix_and_order_come_from_the_constraint(order, expected_order):
    before, after = before_and_after(order)
    result = neumann_condition(before, after)
    A, B = (skew(each.cayley.raw.detach().double(), N).numpy() for each in (before, after))
    assert result.norm == pytest.approx(neumann_condition(A, B).norm, rel=1e-12)
    assert result.order == expected_order
    assert neumann_condition(before, after, order=4).order == 4


def test_error_of_the_stored_inverse_is_below_the_bound():
    before, after = before_and_after(order=2)
    known, updated = before.double(), after.double()
    with torch.no_grad():
        updated.inverse.copy_(known.inverse)
        updated.known.copy_(known.known)
        updated.advance()
    exact = np.linalg.inv(np.eye(N) + skew(updated.cayley.raw.detach(), N).numpy())
    error = np.linalg.norm(updated.inverse.numpy() - exact, 2)
    bound = neumann_condition(before, after).error_bound
    assert 0 < error <= bound


def test_figure_and_table_show_the_terms():
    result = neumann_condition(*step(0.05))
    (axes,) = result.plot().axes
    terms, bounds = (line.get_ydata() for line in axes.lines)
    np.testing.assert_array_equal(terms, result.table()["term_norm"])
    np.testing.assert_array_equal(bounds, result.table()["error_bound"])
    assert result.table()["error_bound"][2] == result.error_bound
    assert result.headline() == {"norm": result.norm, "error bound": result.error_bound}


A, B = step(0.1)


@pytest.mark.parametrize(
    ("before", "after", "order", "message"),
    [
        (np.ones((2, 3)), A, 2, "expected a square matrix before"),
        (A, np.full((N, N), np.nan), 2, "expected finite numbers in after"),
        (np.eye(N), A, 2, "expected a skew-symmetric matrix before.*up to 1; take"),
        (A, A + 1e-3, 2, "expected a skew-symmetric matrix after"),
        (A, B[:3, :3], 2, r"expected two matrices of one size, got \(7, 7\) before"),
        (A, B, 0, "expected order to be a positive integer"),
        (torch.nn.Linear(2, 2), A, 2, "expected a recurrent layer"),
    ],
)
def test_invalid_argument_raises(before, after, order, message):
    with pytest.raises(ValueError, match=message):
        neumann_condition(before, after, order=order)
