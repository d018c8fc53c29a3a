"""Division by the spectral radius: a second definition, gradient, switch and search."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import scipy.linalg
import torch

from eigenrnn.constraints import SpectralRadius, spectral_radius
from eigenrnn.constraints.spectral_radius import spectral_radius_factors
from eigenrnn.layers import RNN
from eigenrnn.linalg import tol
from random_constraints import (
    assert_same_state,
    distance,
    initialised,
    perturbed,
    state_of,
    stream,
)

DOUBLE = torch.float64


def array(tensor):
    return tensor.detach().numpy()


def radius(T):
    return np.abs(scipy.linalg.eigvals(array(torch.as_tensor(T)).astype(np.float64))).max()


def gaussian(n, seed=0, dtype=DOUBLE):
    return torch.randn(n, n, generator=stream(seed), dtype=dtype) / math.sqrt(n)


@torch.no_grad()
def divided(T, **options):
    """A constraint after the switch, at T."""
    constraint = SpectralRadius(len(T), **options).to(T.dtype)
    constraint.raw.copy_(2 * torch.eye(len(T)))
    constraint.advance()
    constraint.raw.copy_(T)
    constraint.advance()
    assert constraint.divided
    return constraint


def with_eigenvalues(*values, seed=3):
    """A non-normal matrix with eigenvalues a for a, and a +- bi for (a, b)."""
    blocks = [[[v[0], -v[1]], [v[1], v[0]]] if isinstance(v, tuple) else [[v]] for v in values]
    D = torch.from_numpy(scipy.linalg.block_diag(*blocks)).to(DOUBLE)
    S = torch.eye(len(D), dtype=DOUBLE) + 0.5 * gaussian(len(D), seed)
    return S @ torch.linalg.solve(S, D, left=False)


REAL, NEGATIVE, COMPLEX = (
    with_eigenvalues(1.5, 0.7, (0.3, 0.9), -0.2),
    with_eigenvalues(-1.5, 0.7, (0.3, 0.9), -0.2),
    with_eigenvalues((0.6, 1.2), 0.9, -0.8, (0.1, 0.2)),
)
MATRICES = {"real": REAL, "negative": NEGATIVE, "complex": COMPLEX, "gaussian": 2 * gaussian(7)}
each_matrix = pytest.mark.parametrize("T", MATRICES.values(), ids=MATRICES)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@each_matrix
def test_after_the_switch_the_divisor_is_the_spectral_radius_of_scipy(T, epsilon):
    constraint = divided(T, epsilon=epsilon)
    assert distance(constraint(), array(T) / (radius(T) + epsilon)) <= 1e-10


@each_matrix
def test_before_the_switch_the_matrix_is_the_parameter(T):
    constraint = SpectralRadius(len(T)).double()
    constraint.assign(0.5 * T / radius(T))
    assert torch.equal(constraint(), constraint.raw)


@pytest.mark.parametrize("n", [5, 64, 300])
def test_the_radius_is_one_in_single_precision(n):
    constraint = divided(2 * gaussian(n, dtype=torch.float32))
    assert abs(radius(constraint()) - 1) <= tol(torch.float32, n)


def gradient_of_the_paper(T, G, epsilon, conjugate=False, printed=False):
    """Proposition 3.2 for G = dL/dW, with the 1 / rho of equation 7 or as printed."""
    values, left, right = scipy.linalg.eig(array(T), left=True, right=True)
    i = np.abs(values).argmax()
    value, u, v = values[i], right[:, i], left[:, i]
    if conjugate:
        value, u, v = value.conj(), u.conj(), v.conj()
    rho = np.abs(value) + epsilon
    W = array(T) / rho
    S = np.outer(v.conj(), u) / (v.conj() @ u)
    C = (value.real * S.real + value.imag * S.imag) / (rho if printed else np.abs(value))
    return (array(G) - (array(G) * W).sum() * C) / rho


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@each_matrix
def test_the_gradient_is_that_of_proposition_3_2(T, epsilon, conjugate):
    constraint, G = divided(T, epsilon=epsilon), gaussian(len(T), 5)
    constraint().backward(G)
    expected = gradient_of_the_paper(T, G, epsilon, conjugate)
    np.testing.assert_allclose(array(constraint.raw.grad), expected, rtol=0, atol=1e-10)


def gradient_by_differences(T, G, epsilon):
    step, found = 1e-6, np.zeros(T.shape)
    for i, j in np.ndindex(*T.shape):
        E = np.zeros(T.shape)
        E[i, j] = step
        up, down = array(T) + E, array(T) - E
        change = up / (radius(up) + epsilon) - down / (radius(down) + epsilon)
        found[i, j] = (array(G) * change).sum() / (2 * step)
    return found


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@each_matrix
def test_the_gradient_is_that_of_finite_differences(T, epsilon):
    G = gaussian(len(T), 5)
    constraint = divided(T, epsilon=epsilon)
    constraint().backward(G)
    expected = gradient_by_differences(T, G, epsilon)
    np.testing.assert_allclose(array(constraint.raw.grad), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("size", [3, 4, 5])
def test_second_derivatives_are_those_of_torchs_eigenvalues(size):
    T = 2 * gaussian(size)
    constraint = divided(T)
    exact = T.clone().requires_grad_()
    weights = gaussian(size, 3)

    def hessian_of(matrix, raw):
        (gradient,) = torch.autograd.grad((matrix**2 * weights).sum(), raw, create_graph=True)
        (second,) = torch.autograd.grad((gradient * weights).sum(), raw)
        return second

    found = hessian_of(constraint(), constraint.raw)
    expected = hessian_of(exact / torch.linalg.eigvals(exact).abs().amax(), exact)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


JORDAN = torch.tensor([[1.5, 1.0, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 0.3]], dtype=DOUBLE)
MULTIPLE = {
    "jordan": JORDAN,
    "nearly jordan": JORDAN + 1e-17 * gaussian(3),
    "large jordan": 1.2 * torch.eye(6, dtype=DOUBLE) + torch.ones(5, dtype=DOUBLE).diag(1),
    "multiple of the identity": 2 * torch.eye(5, dtype=DOUBLE),
    "two of a kind, diagonal": torch.tensor([2.0, 2.0, 1.0], dtype=DOUBLE).diag(),
}


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize("T", MULTIPLE.values(), ids=MULTIPLE)
def test_at_a_multiple_eigenvalue_the_radius_counts_as_a_constant(T, dtype):
    constraint, G = divided(T.to(dtype)), gaussian(len(T), 5, dtype)
    W = constraint()
    W.backward(G)
    rho = (T.to(dtype) / W.detach()).nanmedian()  # 0 / 0 is NaN
    assert rho == pytest.approx(radius(T), rel=1e-3)
    assert distance(constraint.raw.grad, G / rho) <= tol(dtype, len(T))


SEMISIMPLE = {
    "multiple of the identity": 2 * torch.eye(5, dtype=DOUBLE),
    "rotation": 2 * torch.linalg.qr(gaussian(6)).Q,
    "two of a kind": with_eigenvalues(1.5, 1.5, 0.2, 0.1),
    "opposite signs": with_eigenvalues(1.5, -1.5, 0.2, 0.1),
}


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize("T", SEMISIMPLE.values(), ids=SEMISIMPLE)
def test_eigenvalues_of_equal_modulus_raise_nothing(T, dtype):
    constraint = divided(T.to(dtype))
    constraint().backward(gaussian(len(T), 5, dtype))
    assert abs(radius(constraint()) - 1) <= tol(dtype, len(T))
    assert torch.isfinite(constraint.raw.grad).all()


NILPOTENT = {"zero": torch.zeros(4, 4, dtype=DOUBLE), "one": torch.zeros(1, 1, dtype=DOUBLE)}


@pytest.mark.parametrize("T", NILPOTENT.values(), ids=NILPOTENT)
def test_a_radius_of_zero_divides_nothing(T):
    constraint = divided(T)
    W = constraint()
    W.sum().backward()
    assert torch.equal(W, T)
    assert torch.equal(constraint.raw.grad, torch.ones_like(T))


def step_to(constraint, T):
    """Take one step of plain gradient descent that ends at T."""
    optimiser = torch.optim.SGD(constraint.parameters(), lr=1.0)
    constraint.raw.grad = constraint.raw.detach() - T
    optimiser.step()


def test_it_switches_permanently_at_the_first_optimiser_step_past_one():
    constraint = SpectralRadius(7).double()
    T = gaussian(7) / radius(gaussian(7))
    seen = []
    for scale in (0.5, 0.999, 1.001, 0.5, 0.1):
        step_to(constraint, scale * T)
        seen.append((bool(constraint.divided), round(radius(constraint()), 9)))
    assert seen == [(False, 0.5), (False, 0.999), (True, 1), (True, 1), (True, 1)]


def test_the_switch_is_saved():
    constraint, loaded = divided(gaussian(7)), SpectralRadius(7).double()
    step_to(constraint, 0.1 * gaussian(7))
    loaded.load_state_dict(constraint.state_dict())
    assert loaded.divided
    assert torch.equal(loaded(), constraint())


@pytest.mark.parametrize(
    "forget",
    [lambda c: c.reset(stream()), lambda c: c.assign(0.2 * torch.eye(7, dtype=DOUBLE))],
    ids=["reset", "assign"],
)
def test_a_new_initialisation_undoes_the_switch(forget):
    constraint = divided(gaussian(7))
    forget(constraint)
    assert not constraint.divided
    assert torch.equal(constraint(), constraint.raw)


def test_a_parameter_changed_without_an_optimiser_still_gives_a_matrix_of_the_set():
    for constraint in (SpectralRadius(7), divided(gaussian(7, dtype=torch.float32))):
        with torch.no_grad():
            constraint.raw.copy_(5 * gaussian(7, 8))
        assert abs(radius(constraint()) - 1) <= tol(torch.float32, 7)


def test_a_forward_pass_changes_nothing():
    constraint = perturbed(SpectralRadius, 7)
    before = state_of(constraint)
    constraint().sum().backward()
    assert_same_state(state_of(constraint), before)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_initialisation_rotates_and_shrinks_planes(n):
    generator = stream()
    theta = torch.empty(n // 2).uniform_(0, math.pi / 2, generator=generator).numpy()
    gamma = torch.empty((n + 1) // 2).uniform_(-1, 1, generator=generator).numpy()
    pairs = gamma[: n // 2] * np.exp(1j * theta)
    expected = np.concatenate([pairs, pairs.conj(), gamma[n // 2 :]])
    found = np.linalg.eigvals(array(initialised(SpectralRadius, n)().double()))
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(expected), atol=1e-6)


def test_the_initialisation_has_the_unpaired_eigenvalue_last():
    W = initialised(SpectralRadius, 7)()
    assert not W[6, :6].any()
    assert not W[:6, 6].any()
    assert W[0, 0] == W[1, 1]


def nothing(n, dtype=torch.float32):
    return [torch.zeros(shape, dtype=dtype) for shape in ((n, n), (), (n, 2), (n, 2))]


def gradient(found):
    _, right, left = found
    return left.double() @ right.double().T


@pytest.fixture
def counted(monkeypatch):
    """The number of times that all eigenvalues were computed."""
    calls = []
    original = spectral_radius._solve

    def count(T):
        calls.append(len(T))
        return original(T)

    monkeypatch.setattr(spectral_radius, "_solve", count)
    return calls


@pytest.mark.parametrize("seed", range(3))
def test_a_large_matrix_is_searched_from_the_last_eigenpair(counted, monkeypatch, seed):
    T = gaussian(300, seed, torch.float32)
    found = spectral_radius_factors(T, *nothing(300))
    moved = T + 1e-3 * gaussian(300, seed + 9, torch.float32)
    found = spectral_radius_factors(moved, T, *found)
    assert counted == []
    monkeypatch.setattr(spectral_radius, "_ITERATIVE_SIZE", 300)
    expected = spectral_radius_factors(moved, *nothing(300))
    assert counted == [300]
    assert abs(found[0] - expected[0]) <= tol(torch.float32, 1)
    assert distance(gradient(found), gradient(expected)) <= 1e-5 * gradient(expected).norm()


def test_an_eigenvalue_that_overtakes_the_last_one_is_found(counted):
    T = torch.zeros(300, 300)
    T[:150, :150] = gaussian(150, 1) / radius(gaussian(150, 1))
    T[150:, 150:] = 0.99 * gaussian(150, 2) / radius(gaussian(150, 2))
    last = spectral_radius_factors(T, *nothing(300))
    T_next = T.clone()
    T_next[150:] *= 1.1  # the other block, where the last eigenpair has no entries
    found = spectral_radius_factors(T_next, T, *last)
    assert counted == []
    assert last[0] == pytest.approx(1, rel=1e-5)
    assert found[0] == pytest.approx(1.089, rel=1e-5)


@pytest.mark.parametrize(
    "T",
    [torch.ones(300, 300), torch.eye(300), torch.eye(300).roll(1, 0)],
    ids=["rank one", "identity", "cycle"],
)
def test_all_eigenvalues_are_computed_where_the_search_fails(counted, T):
    found = spectral_radius_factors(T, *nothing(300))
    assert counted == [300]
    assert found[0] == pytest.approx(radius(T), rel=1e-5)
    assert all(torch.isfinite(part).all() for part in found)


def test_a_known_matrix_is_not_searched_again(counted):
    T = gaussian(20, dtype=torch.float32)
    found = spectral_radius_factors(T, *nothing(20))
    again = spectral_radius_factors(T, T, *found)
    assert counted == [20]
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))


@pytest.mark.filterwarnings("ignore:.torch.jit.script")  # torch's own compiler still does
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
def test_the_operator_passes_opcheck(dtype):
    torch.library.opcheck(spectral_radius_factors, (gaussian(5, dtype=dtype), *nothing(5, dtype)))


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_a_compiled_layer_trains_through_the_switch_like_a_plain_one():
    torch.compiler.reset()
    plain = RNN(2, 6, nonlinearity="tanh", constraint=SpectralRadius, generator=stream())
    twin = copy.deepcopy(plain)
    compiled = torch.compile(twin, backend="aot_eager", fullgraph=True)
    switched = []
    for run, trained in ((plain, plain), (compiled, twin)):
        optimiser = torch.optim.SGD(trained.parameters(), lr=0.05)
        for k in range(6):
            optimiser.zero_grad()
            output, _ = run(torch.randn(5, 3, 2, generator=stream(k)))
            output.sum().backward()
            optimiser.step()
            switched.append(bool(trained.all_directions()[0].constraint.divided))
    assert switched[:6] == switched[6:]
    assert switched[:6] == sorted(switched[:6])
    assert len(set(switched)) == 2
    for one, other in zip(plain.parameters(), twin.parameters(), strict=True):
        assert (one - other).norm() <= tol(torch.float32, 6)


def test_the_residual_is_the_excess_of_the_largest_modulus():
    constraint = partial(SpectralRadius, epsilon=0.1)(7)
    assert constraint.residual(1.25 * torch.eye(7)) == 0.25
    assert constraint.residual(0.9 * torch.eye(7)) == 0
