"""Products of reflections, applied one by one, and the matrices that they reach."""

import numpy as np
import pytest
import torch

from draws import normal, stream
from eigenrnn.constraints import Householder
from eigenrnn.linalg import (
    normalise_,
    orthogonality_error,
    reflection_count,
    reflection_product,
    tol,
    upper_rows,
)
from random_constraints import distance

SIZES = [(1, 1), (2, 1), (2, 2), (7, 1), (7, 4), (7, 6), (7, 7), (33, 12)]  # N and m

each_size = pytest.mark.parametrize(("n", "m"), SIZES)


def build(n, m=None, seed=0, dtype=torch.float64):
    """A constraint with vectors of different lengths."""
    with torch.random.fork_rng(devices=()):
        constraint = Householder(n, reflections=m).to(dtype)
    constraint.reset(stream(seed))
    with torch.no_grad():
        constraint.raw.add_(normal(len(constraint.raw), seed=seed + 1).to(dtype))
    return constraint


def reflection(v):
    return np.eye(len(v)) - 2 * np.outer(v, v) / (v @ v)


def one_by_one(constraint):
    """H_1 ... H_m from the vectors in order; the N-th is the scalar sign."""
    n, entries = constraint.size, iter(constraint.raw.tolist())
    W = np.eye(n)
    for k in range(constraint.reflections):
        if k == n - 1:
            W = W @ np.diag([1.0] * (n - 1) + [float(constraint.sign)])
        else:
            W = W @ reflection(np.array([0.0] * k + [next(entries) for _ in range(k, n)]))
    assert next(entries, None) is None
    return W


@each_size
def test_the_matrix_is_the_product_of_the_reflections(n, m):
    constraint = build(n, m)
    assert distance(constraint(), one_by_one(constraint)) <= 1e-10


@each_size
def test_the_product_is_that_of_torch(n, m):
    V = upper_rows(normal(reflection_count(m, n)), m, n)
    ahead = V.diagonal()  # torch expects each vector to begin with one
    tau = 2 * ahead.square() / V.square().sum(1)
    expected = torch.linalg.householder_product((V / ahead[:, None]).T, tau)
    assert distance(reflection_product(V)[:, :m], expected) <= tol(torch.float64, n)


@pytest.mark.parametrize(("n", "m"), [(2, 1), (7, 1), (7, 6), (33, 12)])
def test_the_gradient_is_that_of_the_reflections_one_by_one(n, m):
    V = upper_rows(normal(reflection_count(m, n)), m, n).requires_grad_()
    G = normal(n, n, seed=3)
    W = torch.eye(n, dtype=torch.float64)
    for v in V:
        W = W @ (torch.eye(n) - 2 * torch.outer(v, v) / (v @ v))
    (expected,) = torch.autograd.grad((W * G).sum(), V)
    (got,) = torch.autograd.grad((reflection_product(V) * G).sum(), V)
    assert (got - expected).abs().max() <= expected.abs().max() * tol(torch.float64, n)


def test_no_reflection_at_all_is_the_identity():
    assert torch.equal(reflection_product(torch.zeros(0, 3)), torch.eye(3))


def test_each_vector_has_one_entry_less_than_the_one_before():
    V = upper_rows(torch.arange(1.0, 10), 3, 4)
    assert V.tolist() == [[1, 2, 3, 4], [0, 5, 6, 7], [0, 0, 8, 9]]


@pytest.mark.parametrize(
    ("n", "m", "count"),
    [(128, 16, 128 * 16 - 120), (170, 1, 170), (5, 4, 14), (5, 5, 14), (1, 1, 0)],
)
def test_the_free_entries_are_counted(n, m, count):
    assert len(Householder(n, reflections=m).raw) == count


@pytest.mark.parametrize("m", [64, 200, 256])
def test_many_reflections_are_orthogonal_in_single_precision(m):
    assert orthogonality_error(build(256, m, dtype=torch.float32)()) <= tol(torch.float32, 256)


def test_nearly_equal_vectors_are_orthogonal_in_single_precision():
    V = upper_rows(1 + 1e-4 * torch.randn(reflection_count(40, 64), generator=stream()), 40, 64)
    assert orthogonality_error(reflection_product(V)) <= tol(torch.float32, 64)


def test_normalising_keeps_the_matrix():
    constraint = build(7, 4)
    W = constraint().detach()
    constraint.advance()
    assert distance(constraint(), W) <= tol(W.dtype, 7)


def test_a_vector_of_zeros_is_not_divided():
    assert not normalise_(torch.zeros(7), 2, 4).any()


def test_the_initialisation_is_a_normalised_triangle_of_normal_draws():
    constraint = Householder(6, reflections=3)
    constraint.reset(stream(4))
    draws = torch.empty_like(constraint.raw).normal_(0, 0.01, generator=stream(4))
    V = upper_rows(draws.detach(), 3, 6)
    V = V / torch.linalg.vector_norm(V, dim=1, keepdim=True)
    assert distance(upper_rows(constraint.raw.detach(), 3, 6), V) <= tol(torch.float32, 6)


def test_the_last_sign_is_drawn_at_random():
    constraint = Householder(3)
    signs = set()
    for seed in range(20):
        constraint.reset(stream(seed))
        signs.add(float(constraint.sign))
    assert signs == {-1.0, 1.0}


def test_the_residual_of_few_reflections_is_what_the_rank_lacks():
    W = build(9, 5)()
    constraint = build(9, 3)
    beyond = np.linalg.svd(np.eye(9) - W.detach().numpy())[1][3:]
    assert abs(constraint.residual(W) - np.linalg.norm(beyond)) <= tol(W.dtype, 9)
