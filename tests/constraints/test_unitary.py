"""The sets of unitary matrices against second definitions and the statements of their papers."""

import math
from functools import partial

import numpy as np
import pytest
import scipy.linalg
import torch
from torch.func import functional_call

from cases import CONSTRAINTS
from crossing import few
from eigenrnn.constraints import FourierProduct, Givens, MovingCayley, ScaledCayley
from eigenrnn.init import haar_
from eigenrnn.linalg import tol
from random_constraints import (
    distance,
    initialised,
    loss,
    perturbed,
    skew_entry_by_entry,
    stream,
    take_steps,
)

DOUBLE, COMPLEX = torch.float64, torch.complex64
SETS = (FourierProduct, Givens, MovingCayley, ScaledCayley)
OURS = {name: make for name, make in CONSTRAINTS.items() if getattr(make, "func", make) in SETS}

scurnn = partial(ScaledCayley, dtype=COMPLEX)
eurnn = partial(Givens, dtype=COMPLEX)
full_capacity = partial(MovingCayley, dtype=COMPLEX)

each_moving_cayley = pytest.mark.parametrize(
    "make", [MovingCayley, full_capacity], ids=["real", "complex"]
)
each_of_ours = pytest.mark.parametrize("make", OURS.values(), ids=OURS)


def array(tensor):
    return tensor.detach().numpy()


def symmetric_entry_by_entry(raw, n):
    S = np.zeros((n, n))
    entries = iter(raw.tolist())
    for i in range(n):
        for j in range(i + 1):
            S[i, j] = S[j, i] = next(entries)
    return S


@pytest.mark.parametrize(
    ("make", "n", "count"),
    [
        (scurnn, 8, 8 * 8 + 8),
        (FourierProduct, 8, 7 * 8),
        (Givens, 8, 4 + 3),
        (partial(Givens, layers=8), 8, 8 * 7 // 2),
        (partial(eurnn, layers=4), 128, 4 * 127 + 128),
        (partial(eurnn, layers=8), 8, 8 * 8),
        (partial(Givens, style="fft"), 512, 9 * 256),
        (partial(eurnn, style="fft"), 8, 2 * 3 * 4 + 8),
        (MovingCayley, 8, 8 * 7 // 2),
        (full_capacity, 116, 116 * 116),
    ],
)
def test_a_set_has_as_many_raw_entries_as_in_its_paper(make, n, count):
    assert sum(raw.numel() for raw in make(n).parameters()) == count


@pytest.mark.parametrize(
    ("make", "dimension"),
    [
        (partial(Givens, layers=4), 4 * 3 // 2),
        (partial(Givens, layers=2), 3),
        (partial(eurnn, layers=4), 4 * 4),
        (partial(eurnn, style="fft"), 2 * 2 * 2 + 4),
        (MovingCayley, 4 * 3 // 2),
        (full_capacity, 4 * 4),
        (scurnn, 4 * 4),
    ],
)
def test_a_set_has_as_many_dimensions_as_in_its_paper(make, dimension):
    constraint = perturbed(make, 4, dtype=DOUBLE)
    names = [name for name, _ in constraint.named_parameters()]

    def matrix(*raws):
        W = functional_call(constraint, dict(zip(names, raws, strict=True)), ())
        return torch.stack([W.real, W.imag]) if W.is_complex() else W

    jacobian = torch.autograd.functional.jacobian(matrix, tuple(constraint.parameters()))
    flat = torch.cat([J.flatten(0, -2) for J in jacobian], dim=1)
    assert torch.linalg.matrix_rank(flat) == dimension


# torch's own compiler still scripts some of its modules
@pytest.mark.filterwarnings("ignore:.torch.jit.script")
@pytest.mark.long
@few("draw", {"initialised": initialised, "perturbed": perturbed}, ["perturbed"])
@each_of_ours
def test_a_compiled_set_agrees_without_a_break_in_its_graph(make, draw):
    torch.compiler.reset()
    constraint = draw(make, 8, dtype=DOUBLE)
    compiled = torch.compile(constraint, backend="aot_eager", fullgraph=True)
    assert distance(compiled(), constraint()) <= tol(DOUBLE, 8)
    expected = torch.autograd.grad(loss(constraint), [*constraint.parameters()])
    got = torch.autograd.grad(loss(compiled), [*constraint.parameters()])
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=10 * tol(DOUBLE, 8))


@pytest.mark.parametrize("make", [Givens, MovingCayley, ScaledCayley])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE, COMPLEX, torch.complex128], ids=str)
def test_the_matrix_has_the_requested_dtype(make, dtype):
    assert make(4, dtype=dtype)().dtype == dtype


def skew_hermitian(raw, imaginary, n):
    return skew_entry_by_entry(raw, n) + 1j * symmetric_entry_by_entry(imaginary, n)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_complex_scaled_cayley_map_is_that_of_the_paper(n):
    constraint = perturbed(scurnn, n, dtype=DOUBLE)
    A, I = skew_hermitian(constraint.raw, constraint.imaginary, n), np.eye(n)
    D = np.diag(np.exp(1j * array(constraint.theta)))
    assert distance(constraint(), scipy.linalg.solve(I + A, I - A) @ D) <= tol(DOUBLE, n)


def test_the_complex_scaled_cayley_gradient_is_that_of_the_paper():
    constraint = perturbed(scurnn, 7, dtype=DOUBLE)
    W = constraint()
    G = torch.randn(7, 7, generator=stream(4), dtype=torch.complex128)
    W.backward(G)
    A, I = skew_hermitian(constraint.raw.detach(), constraint.imaginary.detach(), 7), np.eye(7)
    d = np.exp(1j * array(constraint.theta))
    wirtinger = array(G).conj() / 2  # half of the derivative by Re W less i times that by Im W
    V = scipy.linalg.solve((I + A).T, wirtinger) @ (np.diag(d) + array(W).T)
    towards = V.T - V.conj()
    by_theta = 2 * np.real(1j * np.diag(wirtinger.T @ scipy.linalg.solve(I + A, I - A)) * d)
    allowed = np.linalg.norm(V) * tol(DOUBLE, 7)
    rows, columns = np.tril_indices(7, -1)
    assert np.abs(array(constraint.raw.grad) - 2 * towards[rows, columns].real).max() <= allowed
    # a diagonal entry occurs once in A, any other twice
    twice = 2 - np.eye(7)
    rows, columns = np.tril_indices(7)
    imaginary = (twice * towards.imag)[rows, columns]
    assert np.abs(array(constraint.imaginary.grad) - imaginary).max() <= allowed
    assert np.abs(array(constraint.theta.grad) - by_theta).max() <= allowed


def test_the_zero_initialisation_is_a_diagonal_of_uniform_phases():
    constraint = initialised(partial(scurnn, init="zero"), 40)
    phases = torch.empty(40).uniform_(0, 2 * math.pi, generator=stream())
    expected = torch.diag(torch.exp(1j * phases))
    assert distance(constraint(), expected) <= tol(torch.float32, 1)


def test_the_complex_initialisation_differs_from_the_real_one_in_the_phases_alone():
    complex_one, real_one = (
        initialised(scurnn, 7),
        initialised(partial(ScaledCayley, negative=0), 7),
    )
    assert torch.equal(complex_one.raw, real_one.raw)
    assert not complex_one.imaginary.any()


@pytest.mark.parametrize("n", [1, 2, 16])
def test_every_unitary_matrix_can_be_assigned(n):
    constraint = initialised(scurnn, n)
    for seed in range(50):
        W = haar_(torch.empty(n, n, dtype=torch.complex128), generator=stream(seed))
        constraint.assign(W)
        assert distance(constraint(), W) <= tol(torch.float32, n)


def test_phases_shift_where_they_do_not_reach_the_matrix():
    constraint = initialised(scurnn, 6)
    W = torch.diag(-torch.exp(1j * constraint.theta.detach()))
    constraint.assign(W)
    assert distance(constraint(), W) <= tol(torch.float32, 6)
    assert not constraint.raw.any()


def test_phases_stay_where_they_reach_the_matrix():
    constraint = initialised(scurnn, 6)
    theta = constraint.theta.detach().clone()
    constraint.assign(torch.eye(6))
    assert torch.equal(constraint.theta, theta)


def fourier_matrix(n):
    k = np.arange(n)
    return np.exp(-2j * np.pi * np.outer(k, k) / n) / math.sqrt(n)


def reflection(v):
    return np.eye(len(v)) - 2 * np.outer(v, v.conj()) / np.vdot(v, v)


def permutation_matrix(constraint):
    P = np.zeros((constraint.size, constraint.size))
    for row, column in enumerate(constraint.permutation.tolist()):
        P[row, column] = 1
    return P


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_the_fourier_product_is_that_of_the_paper(n):
    constraint = perturbed(FourierProduct, n, dtype=DOUBLE)
    D1, D2, D3 = (np.diag(np.exp(1j * theta)) for theta in array(constraint.theta))
    parts = array(constraint.v)
    R1, R2 = (reflection(v) for v in parts[:, :n] + 1j * parts[:, n:])
    F, P = fourier_matrix(n), permutation_matrix(constraint)
    expected = D3 @ R2 @ np.linalg.inv(F) @ D2 @ P @ R1 @ F @ D1
    assert distance(constraint(), expected) <= tol(DOUBLE, n)


def test_the_initialisation_has_uniform_phases_and_glorot_reflections():
    constraint = initialised(FourierProduct, 1000)
    assert 3.1 < constraint.theta.abs().max() <= math.pi
    bound = math.sqrt(6 / (2 + 2000))
    assert 0.99 * bound < constraint.v.abs().max() <= bound


def test_the_permutation_is_drawn_once_from_its_seed():
    expected = [2, 1, 6, 0, 4, 5, 3, 7]  # numpy.random.seed(1234); numpy.random.permutation(8)
    constraint = FourierProduct(8)
    constraint.reset()
    assert constraint.permutation.tolist() == expected


def tunable_pairs(n, layers):
    first, second = [(i, i + 1) for i in range(0, n, 2)], [(i, i + 1) for i in range(1, n - 1, 2)]
    return [second if k % 2 else first for k in range(layers)]


def fft_pairs(n):
    layers, d = [], n // 2
    while d >= 1:
        layers.append([(i, i + d) for i in range(n) if (i // d) % 2 == 0])
        d //= 2
    return layers


def rotation_by_rotation(constraint, pairs):
    """W h = D F_L ... F_1 h, one rotation at a time."""
    n = constraint.size
    W = np.eye(n, dtype=complex)
    thetas = iter(constraint.theta.tolist())
    phis = iter(constraint.phi.tolist() if constraint.is_complex else [0.0] * 1000)
    for layer in pairs:
        for i, j in layer:
            theta, phase = next(thetas), np.exp(1j * next(phis))
            F = np.eye(n, dtype=complex)
            F[i, i], F[i, j] = math.cos(theta), -phase * math.sin(theta)
            F[j, i], F[j, j] = math.sin(theta), phase * math.cos(theta)
            W = F @ W
    assert next(thetas, None) is None
    return np.diag(np.exp(1j * array(constraint.omega))) @ W if constraint.is_complex else W


@pytest.mark.parametrize("make", [Givens, eurnn], ids=["real", "complex"])
@pytest.mark.parametrize(("n", "layers"), [(2, 1), (2, 2), (6, 1), (8, 4), (6, 7)])
def test_tunable_layers_are_the_rotations_of_the_paper(make, n, layers):
    constraint = initialised(partial(make, layers=layers), n, dtype=DOUBLE)
    expected = rotation_by_rotation(constraint, tunable_pairs(n, layers))
    assert distance(constraint(), expected) <= tol(DOUBLE, n)


@pytest.mark.parametrize("make", [Givens, eurnn], ids=["real", "complex"])
@pytest.mark.parametrize("n", [2, 4, 16])
def test_fft_layers_are_the_rotations_of_the_paper(make, n):
    constraint = initialised(partial(make, style="fft"), n, dtype=DOUBLE)
    expected = rotation_by_rotation(constraint, fft_pairs(n))
    assert distance(constraint(), expected) <= tol(DOUBLE, n)


def test_all_initial_angles_are_uniform():
    for angles in initialised(partial(eurnn, layers=4), 1000).parameters():
        assert 3.1 < angles.abs().max() <= math.pi


@pytest.mark.parametrize("n", [1, 2, 7])
@each_moving_cayley
def test_the_moving_cayley_map_is_a_transform_at_the_base(make, n):
    constraint = perturbed(make, n, dtype=DOUBLE)
    A, base, I = skew_entry_by_entry(constraint.raw, n), array(constraint.base), np.eye(n)
    if constraint.is_complex:
        S = symmetric_entry_by_entry(constraint.imaginary, n)
        A = A + 1j * (S + (math.sqrt(2) - 1) * np.diag(np.diag(S)))
        base = base[..., 0] + 1j * base[..., 1]
    expected = scipy.linalg.solve(I + A / 2, I - A / 2) @ base
    assert distance(constraint(), expected) <= tol(DOUBLE, n)


@pytest.mark.parametrize("n", [1, 2, 7])
@each_moving_cayley
def test_a_step_of_gradient_descent_is_the_multiplicative_update_of_the_paper(make, n):
    constraint, rate = initialised(make, n, dtype=DOUBLE), 0.3
    W, I = array(constraint()), np.eye(n)
    target = torch.randn(n, n, generator=stream(1), dtype=constraint.dtype)
    optimiser = torch.optim.SGD(constraint.parameters(), lr=rate)
    for _ in range(10):
        optimiser.zero_grad()
        (0.5 * (constraint() - target).abs().square().sum()).backward()
        optimiser.step()
        G = W - array(target)
        B = G @ W.conj().T - W @ G.conj().T
        W = scipy.linalg.solve(I + rate / 2 * B, (I - rate / 2 * B) @ W)
    assert distance(constraint(), W) <= 10 * tol(DOUBLE, n)


@each_moving_cayley
def test_the_ordinary_case_solves_no_linear_system(make, monkeypatch):
    constraint = initialised(make, 8)
    monkeypatch.delattr(torch.linalg, "solve")
    loss(constraint).backward()
    assert constraint.raw.grad.any()


@pytest.mark.parametrize("draw", [initialised, perturbed])
@each_moving_cayley
def test_second_derivatives_are_right_at_zero_too(make, draw):
    constraint = draw(make, 4, dtype=DOUBLE)
    names, raws = zip(*constraint.named_parameters(), strict=True)

    def matrix(*raws):
        return functional_call(constraint, dict(zip(names, raws, strict=True)), ())

    assert torch.autograd.gradgradcheck(matrix, raws)


def test_a_real_matrix_is_initialised_as_a_rotation_and_keeps_the_determinant():
    constraint = initialised(MovingCayley, 7, dtype=DOUBLE)
    take_steps(constraint, torch.optim.SGD(constraint.parameters(), lr=0.3), range(20))
    assert abs(torch.linalg.det(constraint()).item() - 1) <= tol(DOUBLE, 7)


def test_the_haar_initialisation_is_a_haar_draw():
    expected = haar_(torch.empty(5, 5, dtype=COMPLEX), generator=stream())
    assert torch.equal(initialised(full_capacity)(), expected)


def test_the_urnn_initialisation_is_a_fourier_product():
    constraint = initialised(partial(full_capacity, init="urnn"), 8)
    expected = initialised(FourierProduct, 8)()
    assert distance(constraint(), expected) <= tol(torch.float32, 8)


REJECTED = {
    "dtype": (lambda: Givens(4, dtype=torch.int64), "got torch.int64"),
    "signs": (lambda: scurnn(4, negative=2), "got 2"),
    "odd layers": (lambda: Givens(7), "got 7; use 8"),
    "fft layers": (lambda: Givens(8, style="fft", layers=4), "3 layers .*, got 4"),
    "fft size": (lambda: Givens(6, style="fft"), "got 6"),
    "style": (lambda: Givens(8, style="ring"), "got 'ring'"),
    "init": (lambda: MovingCayley(4, init="ones"), "got 'ones'"),
    "real urnn": (lambda: MovingCayley(4, init="urnn"), "got 'urnn'"),
}


def test_complex_haar_draws_are_spread_uniformly():
    generator = stream()
    draws = [haar_(torch.empty(3, 3, dtype=COMPLEX), generator=generator) for _ in range(2000)]
    traces = torch.stack([draw.trace() for draw in draws])
    # on U(N) the trace has mean 0, and its modulus squared has mean and variance 1 (N > 1)
    assert traces.mean().abs() < 4 / math.sqrt(2000)
    assert abs(traces.abs().square().mean().item() - 1) < 4 / math.sqrt(2000)
