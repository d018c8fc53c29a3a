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
from eigenrnn.constraints.schur import complex_schur_basis, equalise_diagonals, real_schur_basis
from eigenrnn.errors import NotInSetError
from eigenrnn.linalg import planar_rotation, tol
from eigenrnn.models import count_parameters
from random_constraints import distance, initialised, perturbed, state_of, stream, take_steps

DOUBLE, COMPLEX = torch.float64, torch.complex64

normal_blocks = partial(Schur, in_block=False)
clamped = partial(Schur, gamma="clamped", gamma_value=0.958)
rotations = partial(Schur, gamma="clamped", in_block=False)
complex_form = partial(Schur, dtype=COMPLEX)
complex_clamped = partial(Schur, dtype=COMPLEX, gamma="clamped")

ALL = {
    "paper": Schur,
    "normal blocks": normal_blocks,
    "clamped": clamped,
    "rotations": rotations,
    "complex": complex_form,
    "complex clamped": complex_clamped,
}
each = pytest.mark.parametrize("make", ALL.values(), ids=ALL)
# gamma are the moduli of the eigenvalues
EXACT = {name: ALL[name] for name in ("normal blocks", "rotations", "complex", "complex clamped")}
each_exact = pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)


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
    for raw in (constraint.triangle, getattr(constraint, "imaginary", None)):
        if raw is not None:
            raw.normal_(generator=stream(seed + 1)).mul_(scale)
    return constraint


def form_entry_by_entry(constraint):
    """Equation 5 of the paper, or its complex form."""
    n = constraint.size
    gamma, theta = array(constraint.gamma), array(constraint.theta)
    entries = iter(array(constraint.triangle))
    if constraint.is_complex:
        imaginary = iter(array(constraint.imaginary))
        Theta = np.diag(gamma * (np.cos(theta) + 1j * np.sin(theta)))
    else:
        blocks = [
            g * np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
            for g, t in zip(gamma, theta, strict=True)
        ]
        Theta = scipy.linalg.block_diag(*blocks)
    for i in range(n):
        for j in range(i):
            if constraint.is_complex:
                Theta[i, j] += next(entries) + 1j * next(imaginary)
            elif constraint.in_block or i // 2 != j // 2:
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


@each_exact
def test_the_schur_form_of_scipy_has_these_moduli(make):
    constraint = wide(make, 8)
    T, _ = scipy.linalg.schur(array(constraint()), output="complex")
    gamma = np.abs(array(constraint.gamma))
    expected = np.sort(gamma if constraint.is_complex else np.repeat(gamma, 2))
    np.testing.assert_allclose(np.sort(np.abs(T.diagonal())), expected, rtol=0, atol=1e-10)


@each_exact
def test_the_schur_form_of_scipy_has_these_angles(make):
    constraint = wide(make, 8)
    T, _ = scipy.linalg.schur(array(constraint()), output="complex")
    theta = array(constraint.theta)
    expected = theta if constraint.is_complex else np.concatenate([theta, -theta])
    found = T.diagonal() / np.abs(T.diagonal())
    np.testing.assert_allclose(
        np.sort_complex(np.round(found, 9)),
        np.sort_complex(np.round(np.exp(1j * expected), 9)),
        rtol=0,
        atol=1e-8,
    )


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
    assert not (constraint.is_complex and constraint.imaginary.any())


def test_the_penalty_is_that_of_the_paper():
    constraint = wide(partial(Schur, gamma_penalty=0.3, decay=0.02), 6)
    expected = 0.3 * ((1 - constraint.gamma) ** 2).sum() + 0.01 * (constraint.triangle**2).sum()
    torch.testing.assert_close(constraint.penalty(), expected)


def test_the_penalty_counts_the_modulus_of_complex_entries():
    constraint = wide(partial(Schur, gamma="clamped", decay=2.0, dtype=COMPLEX), 3)
    expected = (constraint.triangle**2).sum() + (constraint.imaginary**2).sum()
    torch.testing.assert_close(constraint.penalty(), expected)


def test_a_clamped_modulus_has_no_penalty():
    assert wide(clamped, 6).penalty() == 0


def test_the_penalty_of_p_is_added():
    class Costly(Exponential):
        def penalty(self):
            return self.raw.square().sum()

    constraint = initialised(partial(Schur, orthogonal=Costly), 6)
    assert constraint.penalty() == constraint.P.raw.square().sum()


def test_decay_is_the_weight_decay_of_a_group_of_its_own_under_plain_descent():
    by_penalty, by_optimiser = wide(partial(Schur, decay=0.5), 6), wide(Schur, 6)
    sgd = torch.optim.SGD(by_penalty.parameters(), lr=0.1)
    (by_penalty().sum() + by_penalty.penalty()).backward()
    sgd.step()
    others = [p for name, p in by_optimiser.named_parameters() if name != "triangle"]
    groups = [{"params": others}, {"params": [by_optimiser.triangle], "weight_decay": 0.5}]
    sgd = torch.optim.SGD(groups, lr=0.1)
    (by_optimiser().sum() + by_optimiser.penalty()).backward()
    sgd.step()
    torch.testing.assert_close(by_penalty.triangle, by_optimiser.triangle)


@pytest.mark.parametrize("make", [clamped, rotations, complex_clamped])
def test_clamped_moduli_are_not_trained(make):
    constraint = initialised(make, 6)
    take_steps(constraint, torch.optim.Adam(constraint.parameters(), lr=0.01), range(5))
    assert (constraint.gamma == constraint.gamma_value).all()


def test_the_recurrent_optimiser_gets_the_parameters_of_p_alone():
    constraint = Schur(6)
    assert [*constraint.recurrent_parameters()] == [constraint.P.raw]


@pytest.mark.parametrize(
    ("make", "expected"),
    [(Schur, 36), (normal_blocks, 33), (clamped, 33), (rotations, 30), (complex_clamped, 78)],
    ids=["paper", "normal blocks", "clamped", "rotations", "complex clamped"],
)
def test_a_matrix_of_six_units_has_as_many_numbers(make, expected):
    assert count_parameters(make(6)) == expected


def gaussian(n, seed=0, dtype=DOUBLE):
    return torch.randn(n, n, generator=stream(seed), dtype=dtype)


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


@pytest.mark.parametrize("n", [1, 3, 8, 30])
def test_with_trained_moduli_the_complex_form_contains_every_matrix(n):
    constraint = initialised(complex_form, n).double()
    W = gaussian(n, dtype=torch.complex128)
    constraint.assign(W)
    assert distance(constraint(), W) <= tol(DOUBLE, n) * max(1, W.norm().item())


@pytest.mark.parametrize("orthogonal", [Exponential, ScaledCayley, Householder, MovingCayley])
@pytest.mark.parametrize("make", [Schur, normal_blocks, rotations, clamped])
def test_a_matrix_of_the_set_is_recovered_in_any_basis(make, orthogonal):
    make = partial(make, orthogonal=orthogonal)
    W = perturbed(make, 6, seed=5)()
    constraint = initialised(make, 6)
    constraint.assign(W)
    assert distance(constraint(), W) <= 2 * tol(torch.float32, 6)


@pytest.mark.parametrize("seed", range(4))
def test_a_rounded_complex_matrix_is_still_in_the_set(seed):
    W = non_normal(complex_clamped, 40, seed, scale=0.15)().detach()
    moduli = torch.linalg.eigvals(W.to(torch.complex128)).abs()
    constraint = initialised(complex_clamped, 40, seed + 9)
    assert constraint.residual(W) <= tol(torch.float32, 40)
    assert (moduli - 1).norm() > tol(torch.float32, 40)
    constraint.assign(W)
    assert distance(constraint(), W) <= 2 * tol(torch.float32, 40)


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


def defective(dtype, n=8):
    """A matrix with fewer eigenvectors than rows, whose eigenvalues are complex."""
    basis, _ = torch.linalg.qr(gaussian(n, dtype=dtype))
    if dtype.is_complex:
        blocks = 0.9j * torch.eye(n, dtype=dtype) + torch.ones(n - 1, dtype=dtype).diag(1)
    else:
        turns = planar_rotation(torch.full((n // 2,), 0.9), torch.ones(n // 2)).to(dtype)
        blocks = turns + torch.ones(n - 2, dtype=dtype).diag(2)
    return basis @ blocks @ basis.mH


each_defective = pytest.mark.parametrize(
    ("make", "W"),
    [(Schur, defective(DOUBLE)), (complex_form, defective(torch.complex128))],
    ids=["real", "complex"],
)


@each_defective
def test_a_matrix_whose_eigenvectors_are_too_close_is_rejected(make, W):
    constraint = initialised(make, len(W)).double()
    with pytest.raises(NotInSetError, match="eigenvectors") as error:
        constraint.assign(W)
    assert error.value.residual > error.value.tolerance


@each_defective
def test_such_a_matrix_is_assigned_in_the_schur_basis_of_scipy(make, W):
    P = torch.from_numpy(scipy.linalg.schur(array(W))[1]).flip(1)
    if not P.is_complex():
        P = equalise_diagonals(P, W)
        P[:, 0] *= torch.linalg.det(P).sign()
    constraint = initialised(make, len(W)).double()
    constraint.P.assign(P)
    constraint.assign(W)
    assert distance(constraint(), W) <= tol(DOUBLE, len(W)) * W.norm().item()


@pytest.mark.parametrize("make", [rotations, clamped, complex_clamped, normal_blocks])
def test_a_highly_non_normal_matrix_is_still_in_its_set(make):
    constraint = non_normal(make, 30)
    W = constraint().detach()
    assert constraint.residual(W) <= tol(torch.float32, 30)


@pytest.mark.parametrize("make", [rotations, clamped, complex_clamped, normal_blocks])
def test_the_residual_is_at_most_the_perturbation(make):
    constraint = perturbed(make, 6, dtype=DOUBLE)
    W = constraint().detach()
    E = 1e-3 * gaussian(6)
    assert 1e-6 < constraint.residual(W + E) <= E.norm() + tol(DOUBLE, 6)


@pytest.mark.parametrize("make", [rotations, complex_clamped])
def test_a_modulus_other_than_the_clamped_one_has_a_residual(make):
    constraint = initialised(make, 6, dtype=DOUBLE)
    W = constraint().detach() * 1.1
    assert constraint.residual(W) == pytest.approx(0.1 * math.sqrt(6) / 1.1)


@pytest.mark.parametrize("make", [Schur, complex_form])
def test_no_matrix_is_outside_the_set_of_all(make):
    constraint = make(6)
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
@pytest.mark.parametrize("dtype", [DOUBLE, torch.complex128], ids=str)
def test_a_basis_gives_the_eigenvalues_and_the_departure_of_scipys_schur_form(n, dtype):
    W = gaussian(n, dtype=dtype)
    P = complex_schur_basis(W) if dtype.is_complex else real_schur_basis(W)
    Theta, size = P.mH @ W @ P, 1 if dtype.is_complex else 2
    blocks = torch.stack([Theta[i : i + size, i : i + size] for i in range(0, n, size)])
    found = torch.linalg.eigvals(blocks).flatten()
    T, _ = scipy.linalg.schur(array(W), output="complex")
    expected = T.diagonal()
    gaps = np.abs(array(found)[:, None] - expected)
    assert max(gaps.min(0).max(), gaps.min(1).max()) <= 1e-10
    departure = math.sqrt(W.norm().item() ** 2 - found.abs().square().sum().item())
    assert departure == pytest.approx(np.linalg.norm(T - np.diag(expected)), rel=1e-9)


def test_a_complex_basis_is_unitary_and_gives_a_lower_triangle():
    W = gaussian(8, dtype=torch.complex128)
    P = complex_schur_basis(W)
    assert distance(P.mH @ P, torch.eye(8)) <= tol(DOUBLE, 8)
    assert torch.triu(P.mH @ W @ P, 1).norm() <= 10 * tol(DOUBLE, 8) * W.norm()


def test_matrices_without_a_basis_of_eigenvectors_raise_nothing():
    W = torch.ones(7, dtype=DOUBLE).diag(1) + gaussian(8).roll(1, 0).triu(3)
    for make in (rotations, clamped, complex_clamped, normal_blocks):
        assert math.isfinite(initialised(make, 8).residual(W))


REJECTED = {
    "odd": (7, {}, "got 7; use 8, or the complex set"),
    "gamma": (6, {"gamma": "free"}, "got 'free'"),
    "zero": (6, {"gamma_value": 0.0}, "got 0.0"),
    "nan": (6, {"gamma_value": math.nan}, "got nan"),
    "blocks": (6, {"in_block": False, "dtype": COMPLEX}, "no in_block"),
    "P real": (6, {"orthogonal": Exponential, "dtype": COMPLEX}, "got Exponential"),
    "P anything": (6, {"orthogonal": Unconstrained}, "got Unconstrained"),
}


@pytest.mark.parametrize(("size", "options", "message"), REJECTED.values(), ids=REJECTED)
def test_invalid_options_are_rejected(size, options, message):
    with pytest.raises(ValueError, match=message):
        Schur(size, **options)
