"""Schur form: a second definition, the statements of the paper, and the inverse."""

import math
from functools import partial

import numpy as np
import pytest
import scipy.linalg
import torch

from eigenrnn.constraints import (
    Exponential,
    Givens,
    Householder,
    MovingCayley,
    ScaledCayley,
    Schur,
    Unconstrained,
)
from eigenrnn.constraints.schur import equalise_diagonals, real_schur_basis
from eigenrnn.errors import NotInSetError
from eigenrnn.linalg import planar_rotation, tol
from eigenrnn.models import count_parameters
from random_constraints import distance, initialised, perturbed, state_of, stream, take_steps

DOUBLE = torch.float64

clamped = partial(Schur, gamma="clamped", gamma_value=0.958)

ALL = {
    "paper": Schur,
    "clamped": clamped,
}
each = pytest.mark.parametrize("make", ALL.values(), ids=ALL)


def array(tensor):
    return tensor.detach().numpy()


def wide(make, n, seed=0):
    return perturbed(make, n, seed, DOUBLE)


@torch.no_grad()
def non_normal(make, n, seed=0, scale=1.0):
    """A constraint whose states grow by orders of magnitude before they fade."""
    constraint = perturbed(make, n, seed)
    if constraint.gamma.requires_grad:
        constraint.gamma.fill_(1)
    constraint.triangle.normal_(generator=stream(seed + 1)).mul_(scale)
    return constraint


def form_entry_by_entry(constraint):
    """Equation 5 of the paper."""
    n = constraint.size
    gamma, theta = array(constraint.gamma), array(constraint.theta)
    entries = iter(array(constraint.triangle))
    blocks = [
        g * np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
        for g, t in zip(gamma, theta, strict=True)
    ]
    Theta = scipy.linalg.block_diag(*blocks)
    for i in range(n):
        for j in range(i):
            Theta[i, j] += next(entries)
    assert next(entries, None) is None
    return Theta


@each
def test_the_map_is_that_of_the_paper(make):
    constraint = wide(make, 8)
    P = array(constraint.P())
    expected = P @ form_entry_by_entry(constraint) @ P.conj().T
    assert distance(constraint(), expected) <= 1e-10


def test_the_codes_upper_triangle_is_the_transpose_with_opposite_angles():
    constraint = wide(Schur, 8)
    P, T = array(constraint.P()), form_entry_by_entry(constraint)
    with torch.no_grad():
        constraint.theta.neg_()
        constraint.triangle.zero_()
    code = form_entry_by_entry(constraint) + np.triu(T.T, 1) - np.triu(np.diag(T.T.diagonal()), 1)
    code[np.arange(0, 8, 2), np.arange(1, 8, 2)] = T[np.arange(1, 8, 2), np.arange(0, 8, 2)]
    h = np.arange(8.0)
    np.testing.assert_allclose(h @ (P @ code @ P.T), (P @ T @ P.T) @ h, rtol=0, atol=1e-10)


@each
def test_the_initialisation_is_orthogonal_up_to_a_clamped_modulus(make):
    constraint = initialised(make, 8)
    W = constraint() / constraint.gamma_value
    assert distance(W @ W.mH, torch.eye(8)) <= tol(torch.float32, 8)


def test_the_initialisation_draws_p_and_then_uniform_angles():
    constraint = initialised(Schur, 40, dtype=DOUBLE)
    generator = stream()
    P = Exponential(40)
    P.reset(generator)
    theta = torch.empty(20).uniform_(0, 2 * math.pi, generator=generator)
    assert distance(constraint.P(), P()) <= tol(torch.float32, 40)
    assert torch.equal(constraint.theta.float(), theta)


@each
def test_the_initialisation_has_no_transients(make):
    constraint = initialised(make, 6)
    assert not constraint.triangle.any()


def test_the_penalty_is_that_of_the_paper():
    constraint = wide(partial(Schur, gamma_penalty=0.3), 6)
    expected = 0.3 * ((1 - constraint.gamma) ** 2).sum()
    torch.testing.assert_close(constraint.penalty(), expected)


def test_a_clamped_modulus_has_no_penalty():
    assert wide(clamped, 6).penalty() == 0


def test_the_penalty_of_p_is_added():
    class Costly(Exponential):
        def penalty(self):
            return self.raw.square().sum()

    constraint = initialised(partial(Schur, orthogonal=Costly), 6)
    assert constraint.penalty() == constraint.P.raw.square().sum()


def test_clamped_moduli_are_not_trained():
    constraint = initialised(clamped, 6)
    take_steps(constraint, torch.optim.Adam(constraint.parameters(), lr=0.01), range(5))
    assert (constraint.gamma == constraint.gamma_value).all()
    assert (constraint.state_dict()["gamma"] == constraint.gamma_value).all()


def test_the_recurrent_optimiser_gets_the_parameters_of_p_alone():
    constraint = Schur(6)
    assert [*constraint.recurrent_parameters()] == [constraint.P.raw]


@pytest.mark.parametrize(
    ("make", "expected"),
    [(Schur, 36), (clamped, 33)],
    ids=["paper", "clamped"],
)
def test_a_matrix_of_six_units_has_as_many_numbers(make, expected):
    assert count_parameters(make(6)) == expected


def gaussian(n, seed=0):
    return torch.randn(n, n, generator=stream(seed), dtype=DOUBLE)


def reflection():
    return torch.eye(6, dtype=DOUBLE) * torch.tensor([1.0, 1, 1, 1, 1, -1], dtype=DOUBLE)


ANYTHING = {
    "gaussian": gaussian(8),
    "large": 100 * gaussian(40, 1),
    "symmetric": gaussian(8) + gaussian(8).T,
    "delay line": torch.ones(7, dtype=DOUBLE).diag(-1),
    "delay line reversed": torch.ones(7, dtype=DOUBLE).diag(1),
    "zero": torch.zeros(4, 4, dtype=DOUBLE),
    "identity": torch.eye(4, dtype=DOUBLE),
    "reflection": reflection(),
    "2 x 2": gaussian(2),
}


@pytest.mark.parametrize("orthogonal", [Exponential, ScaledCayley, MovingCayley])
@pytest.mark.parametrize("W", ANYTHING.values(), ids=ANYTHING)
def test_with_trained_moduli_the_real_form_contains_every_real_matrix(W, orthogonal):
    constraint = initialised(partial(Schur, orthogonal=orthogonal), len(W)).double()
    constraint.assign(W)
    assert distance(constraint(), W) <= tol(DOUBLE, len(W)) * max(1, W.norm().item())


def test_a_suitable_present_basis_is_kept():
    constraint = perturbed(Schur, 6)
    before = state_of(constraint)["P.raw"]
    constraint.assign(constraint())
    assert torch.equal(constraint.P.raw, before)


def test_a_set_for_p_without_an_inverse_keeps_its_basis():
    constraint = initialised(partial(Schur, orthogonal=Givens), 6)
    W = constraint().detach().clone()
    constraint.assign(W)
    assert distance(constraint(), W) <= tol(torch.float32, 6)


def test_a_matrix_whose_basis_is_out_of_reach_is_rejected_with_a_hint():
    constraint = initialised(partial(Schur, orthogonal=partial(Householder, reflections=1)), 6)
    before = state_of(constraint)
    with pytest.raises(NotInSetError, match="Householder"):
        constraint.assign(gaussian(6))
    assert all(torch.equal(before[name], value) for name, value in state_of(constraint).items())


def defective(n=8):
    """A matrix with fewer eigenvectors than rows, whose eigenvalues are complex."""
    basis, _ = torch.linalg.qr(gaussian(n))
    turns = planar_rotation(torch.full((n // 2,), 0.9), torch.ones(n // 2)).double()
    return basis @ (turns + torch.ones(n - 2, dtype=DOUBLE).diag(2)) @ basis.T


def test_a_matrix_whose_eigenvectors_are_too_close_is_rejected():
    W = defective()
    constraint = initialised(Schur, len(W)).double()
    with pytest.raises(NotInSetError, match="eigenvectors") as error:
        constraint.assign(W)
    assert error.value.residual > error.value.tolerance


def test_such_a_matrix_is_assigned_in_the_schur_basis_of_scipy():
    W = defective()
    P = torch.from_numpy(scipy.linalg.schur(array(W))[1]).flip(1)
    P = equalise_diagonals(P, W)
    P[:, 0] *= torch.linalg.det(P).sign()
    constraint = initialised(Schur, len(W)).double()
    constraint.P.assign(P)
    constraint.assign(W)
    assert distance(constraint(), W) <= tol(DOUBLE, len(W)) * W.norm().item()


def test_another_matrix_of_a_narrower_set_is_assigned_once_p_is_its_schur_basis():
    make = clamped
    other = perturbed(make, 6, seed=5)
    constraint = initialised(make, 6)
    with pytest.raises(NotInSetError, match="residual"):
        constraint.assign(other())
    constraint.P.assign(other.P())
    constraint.assign(other())
    assert distance(constraint(), other()) <= 2 * tol(torch.float32, 6)


def test_a_highly_non_normal_matrix_is_still_in_its_set():
    make = clamped
    constraint = non_normal(make, 30)
    W = constraint().detach()
    assert constraint.residual(W) <= tol(torch.float32, 30)


def test_the_residual_is_at_most_the_perturbation():
    make = clamped
    constraint = perturbed(make, 6, dtype=DOUBLE)
    W = constraint().detach()
    E = 1e-3 * gaussian(6)
    assert 1e-6 < constraint.residual(W + E) <= E.norm() + tol(DOUBLE, 6)


def test_a_modulus_other_than_the_clamped_one_has_a_residual():
    constraint = initialised(partial(Schur, gamma="clamped"), 6, dtype=DOUBLE)
    W = constraint().detach() * 1.1
    # what lies inside a block below its diagonal belongs to T
    assert 0.05 < constraint.residual(W) < 0.1 * math.sqrt(6)


def test_no_matrix_is_outside_the_set_of_all():
    constraint = Schur(6)
    assert not constraint.constrained
    assert constraint.residual(gaussian(6)) == 0


@pytest.mark.parametrize("n", [2, 8, 30])
def test_a_real_basis_is_orthogonal_and_gives_lower_blocks(n):
    W = gaussian(n)
    P = equalise_diagonals(real_schur_basis(W), W)
    Theta = P.T @ W @ P
    above = torch.triu(Theta, 1)
    above.diagonal(1)[::2] = 0
    assert distance(P.T @ P, torch.eye(n)) <= tol(DOUBLE, n)
    assert above.norm() <= 10 * tol(DOUBLE, n) * W.norm()
    assert (Theta.diagonal()[::2] - Theta.diagonal()[1::2]).norm() <= tol(DOUBLE, n) * W.norm()


@pytest.mark.parametrize("n", [2, 8, 30])
def test_a_basis_gives_the_eigenvalues_and_the_departure_of_scipys_schur_form(n):
    W = gaussian(n)
    P = real_schur_basis(W)
    Theta = P.T @ W @ P
    blocks = torch.stack([Theta[i : i + 2, i : i + 2] for i in range(0, n, 2)])
    found = torch.linalg.eigvals(blocks).flatten()
    T, _ = scipy.linalg.schur(array(W), output="complex")
    expected = T.diagonal()
    gaps = np.abs(array(found)[:, None] - expected)
    assert max(gaps.min(0).max(), gaps.min(1).max()) <= 1e-10
    departure = math.sqrt(W.norm().item() ** 2 - found.abs().square().sum().item())
    assert departure == pytest.approx(np.linalg.norm(T - np.diag(expected)), rel=1e-9)


REJECTED = {
    "odd": (7, {}, "got 7"),
    "gamma": (6, {"gamma": "free"}, "got 'free'"),
    "zero": (6, {"gamma_value": 0.0}, "got 0.0"),
    "nan": (6, {"gamma_value": math.nan}, "got nan"),
    "P anything": (6, {"orthogonal": Unconstrained}, "got Unconstrained"),
}
