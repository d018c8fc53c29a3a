"""What decides whether a Neumann series converges, against the series itself."""

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


def test_in_a_plane_the_norm_has_a_closed_form():
    J = np.array([[0.0, -1.0], [1.0, 0.0]])
    found = neumann_condition(3.0 * J, 2.5 * J)
    # both matrices are multiples of J, whose eigenvalues are i and -i
    assert found.norm == pytest.approx(0.5 / math.sqrt(1 + 9), rel=4 * EPS)


@pytest.mark.parametrize("size", [1e-3, 0.03, 0.1, 2.0])
def test_the_ratio_leads_from_one_inverse_to_the_next(size):
    before, after = step(size)
    found, I = neumann_condition(before, after), np.eye(N)
    led = np.linalg.inv(I - found.ratio) @ np.linalg.inv(I + before)
    np.testing.assert_allclose(led, np.linalg.inv(I + after), atol=1e3 * N * EPS)
    assert found.norm == pytest.approx(
        np.sqrt(np.linalg.eigvalsh(found.ratio.T @ found.ratio)[-1])
    )


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1e-3, 0.03, 0.1])
def test_the_error_of_the_series_keeps_to_its_bound(size, order):
    before, after = step(size)
    found, I = neumann_condition(before, after, order=order), np.eye(N)
    series = sum(np.linalg.matrix_power(found.ratio, i) for i in range(order + 1))
    error = np.linalg.norm(series @ np.linalg.inv(I + before) - np.linalg.inv(I + after), 2)
    assert found.converges
    assert found.error_bound == pytest.approx(found.norm ** (order + 1) / (1 - found.norm))
    assert error <= found.error_bound + 1e3 * EPS


def test_terms_are_the_norms_of_powers():
    found = neumann_condition(*step(0.1))
    expected = [np.linalg.norm(np.linalg.matrix_power(found.ratio, i), 2) for i in range(9)]
    np.testing.assert_allclose(found.terms, expected, rtol=1e-12)


def test_a_large_step_has_no_bound():
    found = neumann_condition(*step(5.0))
    assert found.norm > 1
    assert not found.converges
    assert found.error_bound == math.inf


def test_no_step_has_no_error():
    found = neumann_condition(*step(0.0))
    assert (found.norm, found.error_bound) == (0, 0)
    found.plot()


def moved(order):
    before = NeumannCayley(N, order=order)
    after = copy.deepcopy(before)
    with torch.no_grad():
        after.cayley.raw += 0.01
    return before, after


@pytest.mark.parametrize(("order", "taken"), [(1, 1), (3, 3), (None, 2)])
def test_a_constraint_gives_its_matrix_and_its_order(order, taken):
    before, after = moved(order)
    found = neumann_condition(before, after)
    A, B = (skew(each.cayley.raw.detach().double(), N).numpy() for each in (before, after))
    assert found.norm == pytest.approx(neumann_condition(A, B).norm, rel=1e-12)
    assert found.order == taken
    assert neumann_condition(before, after, order=4).order == 4


def test_it_is_the_error_that_the_stored_inverse_makes():
    before, after = moved(order=2)
    known, made = before.double(), after.double()
    with torch.no_grad():
        made.inverse.copy_(known.inverse)
        made.known.copy_(known.known)
        made.advance()
    exact = np.linalg.inv(np.eye(N) + skew(made.cayley.raw.detach(), N).numpy())
    error = np.linalg.norm(made.inverse.numpy() - exact, 2)
    bound = neumann_condition(before, after).error_bound
    assert 0 < error <= bound


def test_the_picture_and_the_table_show_the_terms():
    found = neumann_condition(*step(0.05))
    (axes,) = found.plot().axes
    terms, bounds = (line.get_ydata() for line in axes.lines)
    np.testing.assert_array_equal(terms, found.table()["term_norm"])
    np.testing.assert_array_equal(bounds, found.table()["error_bound"])
    assert found.table()["error_bound"][2] == found.error_bound
    assert found.headline() == {"norm": found.norm, "error bound": found.error_bound}


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
def test_what_is_no_step_is_refused(before, after, order, message):
    with pytest.raises(ValueError, match=message):
        neumann_condition(before, after, order=order)
