"""The singular value decomposition, multiplied out, and its bounds."""

import numpy as np
import pytest
import torch

from draws import normal, stream
from eigenrnn.constraints import BoundedSVD
from eigenrnn.errors import NotInSetError
from eigenrnn.init import haar_
from eigenrnn.linalg import orthogonality_error, tol
from random_constraints import distance

SIZES = [(1, 1), (2, 1), (2, 2), (7, 3), (7, 7), (20, 5)]  # N and m

each_size = pytest.mark.parametrize(("n", "m"), SIZES)


def build(n, m=None, margin=0.2, dtype=torch.float64):
    with torch.random.fork_rng(devices=()):
        constraint = BoundedSVD(n, reflections=m, margin=margin).to(dtype)
    constraint.reset(stream())
    with torch.no_grad():
        constraint.stretch.copy_(normal(n, seed=1))
    return constraint


def sigma_of(constraint):
    sigmoid = 1 / (1 + np.exp(-constraint.stretch.detach().numpy()))
    return 1 + 2 * constraint.margin * (sigmoid - 0.5)


def reflections_one_by_one(raw, n, m):
    """H_1 ... H_m, but at most N - 1."""
    entries, Q = iter(raw.tolist()), np.eye(n)
    for k in range(min(m, n - 1)):
        v = np.array([0.0] * k + [next(entries) for _ in range(k, n)])
        Q = Q @ (np.eye(n) - 2 * np.outer(v, v) / (v @ v))
    assert next(entries, None) is None
    return Q


def with_singular_values(sigma, seed=0):
    n = len(sigma)
    U, V = (
        haar_(torch.empty(n, n, dtype=torch.float64), generator=stream(seed + k)) for k in (0, 1)
    )
    return U * torch.as_tensor(sigma) @ V.T


@each_size
def test_the_matrix_is_its_singular_value_decomposition(n, m):
    constraint = build(n, m)
    U, V = (reflections_one_by_one(raw, n, m) for raw in (constraint.left, constraint.right))
    assert distance(constraint(), U @ np.diag(sigma_of(constraint)) @ V.T) <= 1e-10


@each_size
def test_the_singular_values_are_those_of_the_formula(n, m):
    constraint = build(n, m)
    got = np.linalg.svd(constraint().detach().numpy())[1]
    np.testing.assert_allclose(np.sort(got), np.sort(sigma_of(constraint)), rtol=1e-12)


@pytest.mark.parametrize("p", [-1e4, -30.0, 30.0, 1e4])
@pytest.mark.parametrize("margin", [0.01, 0.5, 1.0])
def test_the_singular_values_never_leave_the_margin(p, margin):
    constraint = build(7, margin=margin, dtype=torch.float32)
    with torch.no_grad():
        constraint.stretch.fill_(p)
    assert constraint.residual(constraint()) <= tol(torch.float32, 7)


@each_size
def test_an_initialised_matrix_is_a_rotation(n, m):
    W = BoundedSVD(n, reflections=m)().detach().double()
    assert orthogonality_error(W) <= tol(torch.float32, n)
    assert abs(float(torch.linalg.det(W)) - 1) <= tol(torch.float32, n)


def test_the_initial_reflections_have_the_glorot_bound_of_the_full_matrix():
    constraint = BoundedSVD(200, reflections=40)
    bound = np.sqrt(6 / 240)
    for raw in (constraint.left, constraint.right):
        assert 0.99 * bound < raw.abs().max() <= bound


def test_both_sides_are_initialised_differently():
    constraint = BoundedSVD(7)
    assert not torch.equal(constraint.left, constraint.right)


@pytest.mark.parametrize(
    ("n", "m", "count"), [(60, 16, 2 * (60 * 16 - 120) + 60), (5, 4, 33), (5, 5, 33)]
)
def test_the_parameters_are_counted(n, m, count):
    assert sum(raw.numel() for raw in BoundedSVD(n, reflections=m).parameters()) == count


def test_an_optimiser_step_normalises_the_reflections_and_keeps_the_matrix():
    constraint = build(7, 3)
    W = constraint().detach()
    constraint.advance()
    assert distance(constraint(), W) <= tol(W.dtype, 7)
    first = constraint.left[:7]
    assert abs(float(first.detach().norm()) - 1) <= tol(W.dtype, 7)


def test_the_residual_is_the_excess_of_the_singular_values_over_the_margin():
    W = with_singular_values(np.array([1.5, 1.1, 1.0, 0.9, 0.4]))
    assert abs(build(5).residual(W) - np.hypot(0.3, 0.4)) <= tol(W.dtype, 5)


def test_singular_values_outside_the_margin_are_rejected():
    with pytest.raises(NotInSetError):
        build(5).assign(with_singular_values(np.array([1.5, 1, 1, 1, 1])))
