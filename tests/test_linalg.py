"""Linear algebra compared with SciPy and with explicit matrices."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch

from eigenrnn.linalg import (
    at_least_float32,
    cayley,
    exp_skew,
    lower,
    orthogonality_error,
    planar_skew,
    polar_step,
    scaled_cayley,
    skew,
    strictly_lower,
    symmetric,
    tol,
)

DTYPES = [torch.float32, torch.float64]
SIZES = [1, 2, 7, 8]


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def random_skew(n, seed=0, dtype=torch.float64):
    X = normal(n, n, seed=seed)
    return (X - X.T).to(dtype)


def of_norm(norm, n=6, dtype=torch.float64):
    A = random_skew(n)
    return (norm * A / torch.linalg.matrix_norm(A, 2)).to(dtype)


def distance(X, Y):
    return float(torch.linalg.matrix_norm(X.double() - torch.as_tensor(Y).double()))


def test_the_tolerance_is_ten_n_epsilon():
    assert tol(torch.float32, 7) == 70 * torch.finfo(torch.float32).eps


def test_the_tolerance_of_an_empty_matrix_is_that_of_a_number():
    assert tol(torch.float64, 0) == tol(torch.float64, 1)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.complex64, torch.complex64),
        (torch.int64, torch.int64),
    ],
    ids=str,
)
def test_only_the_sixteen_bit_types_are_widened(dtype, expected):
    assert at_least_float32(dtype) == expected


@pytest.mark.parametrize("scale", [1, 100, 1e6])
@pytest.mark.parametrize("n", [1, 2, 7, 260])
def test_the_scaled_cayley_map_and_its_gradient_are_those_of_its_parts(n, scale):
    raw = (scale * normal(n * (n - 1) // 2)).requires_grad_()
    signs = torch.where(normal(n, seed=1) > 0, 1.0, -1.0).double()
    W = scaled_cayley(raw, signs)
    parts = cayley(skew(raw, n)) * signs
    assert distance(W.detach(), parts.detach()) <= n * tol(W.dtype, n)
    G = normal(n, n, seed=2)
    found, expected = (torch.autograd.grad(X, raw, G)[0] for X in (W, parts))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_the_scaled_cayley_map_has_all_derivatives():
    raw = (normal(6) / 2).requires_grad_()
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(scaled_cayley, (raw, signs))
    assert torch.autograd.gradgradcheck(scaled_cayley, (raw, signs))


def test_a_skew_matrix_is_filled_row_by_row_below_its_diagonal():
    A = skew(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 4)
    assert A.tolist() == [[0, -1, -2, -4], [1, 0, -3, -5], [2, 3, 0, -6], [4, 5, 6, 0]]


@pytest.mark.parametrize("n", SIZES)
def test_the_strict_lower_triangle_of_a_skew_matrix_holds_its_raw_entries(n):
    raw = normal(n * (n - 1) // 2)
    assert torch.equal(strictly_lower(skew(raw, n)), raw)


def test_a_symmetric_matrix_is_filled_row_by_row_up_to_its_diagonal():
    S = symmetric(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 3)
    assert S.tolist() == [[1, 2, 4], [2, 3, 5], [4, 5, 6]]


@pytest.mark.parametrize("n", SIZES)
def test_the_lower_triangle_of_a_symmetric_matrix_holds_its_raw_entries(n):
    raw = normal(n * (n + 1) // 2)
    assert torch.equal(lower(symmetric(raw, n)), raw)


def test_planar_rates_make_blocks_on_the_diagonal_and_an_odd_size_leaves_a_zero():
    A = skew(planar_skew(torch.tensor([2.0, 3.0]), 5), 5)
    expected = torch.zeros(5, 5)
    expected[:2, :2] = torch.tensor([[0.0, 2.0], [-2.0, 0.0]])
    expected[2:4, 2:4] = torch.tensor([[0.0, 3.0], [-3.0, 0.0]])
    assert torch.equal(A, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_the_cayley_transform_solves_its_equation(n, dtype):
    A = random_skew(n, dtype=dtype)
    exact = A.double().numpy()
    expected = np.linalg.inv(np.eye(n) + exact) @ (np.eye(n) - exact)
    assert distance(cayley(A), expected) <= tol(dtype, n)


def with_a_few_large_eigenvalues(n, size, dtype):
    """A skew matrix with a few eigenvalues +-i size, the others below 1/2, in a random basis."""
    Q = scipy.stats.ortho_group.rvs(n, random_state=0)
    rates = normal(n // 2).abs().clamp(max=0.5)
    rates[: n // 8] = size
    A = Q @ skew(planar_skew(rates, n), n).numpy() @ Q.T
    A = torch.from_numpy(A - A.T) / 2
    if dtype.is_complex:  # a diagonal of phases turns a real basis into a complex one
        phases = torch.exp(1j * normal(n, seed=3))
        A = phases[:, None] * A * phases.conj()
        A = (A - A.mH) / 2
    return A.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("size", [1, 30, 1e3])
@pytest.mark.parametrize("n", [16, 170, 301])
def test_the_cayley_transform_is_unitary_to_rounding_for_matrices_of_any_size(n, size, dtype):
    A = with_a_few_large_eigenvalues(n, size, dtype)
    assert orthogonality_error(cayley(A)) <= 0.1 * tol(dtype, n)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("size", [1, 6])
@pytest.mark.parametrize("n", [256, 301, 513])
def test_the_cayley_transform_by_blocks_is_that_by_a_solve(n, size, dtype):
    A = with_a_few_large_eigenvalues(n, size, dtype)
    exact = A.to(torch.complex128)
    I = torch.eye(n, dtype=exact.dtype)
    expected = torch.linalg.solve(I + exact, I - exact)
    W = cayley(A).to(exact.dtype)
    assert float(torch.linalg.matrix_norm(W - expected)) <= 0.1 * tol(dtype, n)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 33])
@pytest.mark.parametrize("size", [1e3, 1e5, 1e10, 1e20, 1e37])
def test_the_cayley_transform_is_unitary_and_right_for_every_finite_matrix(size, n, dtype):
    A = size * random_skew(n)
    if dtype.is_complex:
        A = A + 1j * size * (normal(n, n, seed=5) + normal(n, n, seed=5).T)
    A = A.to(dtype)
    W = cayley(A)
    assert orthogonality_error(W) <= tol(dtype, n)
    if not dtype.is_complex:  # W rotates by pi everything outside the kernel of A
        expected = torch.full((n,), -1.0, dtype=torch.float64)
        expected[n - n % 2 :] = 1
        turned = torch.linalg.eigvals(W.double()).real.sort(descending=True).values
        assert distance(turned[None], expected.sort(descending=True).values[None]) <= 10 / size + (
            tol(dtype, n)
        )


def test_the_cayley_transform_of_an_infinite_matrix_is_rejected():
    with pytest.raises(ValueError, match="got 2 of 4 that are not"):
        cayley(torch.tensor([[0.0, torch.inf], [-torch.inf, 0.0]]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("size", [1, 1e3])
def test_the_cayley_transform_has_the_right_derivative_for_matrices_of_any_norm(size, dtype):
    A = with_a_few_large_eigenvalues(16, size, dtype).requires_grad_()
    G = normal(16, 16, seed=1).to(dtype)
    I = torch.eye(16, dtype=dtype)
    (got,) = torch.autograd.grad((cayley(A) * G).sum().real, A)
    solved = torch.linalg.solve(I + A, I - A)
    (expected,) = torch.autograd.grad((solved * G).sum().real, A)
    assert float((got - expected).abs().max()) <= 1e-12 * float(expected.abs().max())


# torch's own forward mode uses the deprecated torch.jit.script
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("norm", [0.0, 1.0, 50.0], ids="norm {}".format)
def test_the_cayley_transform_has_the_derivatives_of_a_solve_in_all_modes(norm, dtype):
    X = normal(4, 4, dtype=dtype)
    X = (norm * X / torch.linalg.matrix_norm(X, 2)).requires_grad_()

    def transform(X):
        return cayley(X - X.mH)

    assert torch.autograd.gradcheck(transform, X, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(transform, X)
    stack = torch.stack([X.detach(), 2 * X.detach()])
    expected = torch.stack([transform(each) for each in stack])
    assert float((torch.func.vmap(transform)(stack) - expected).abs().max()) <= tol(dtype, 4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm", [0.0, 1e-8, 0.1, 3.0, 5.0, 30.0])
def test_the_exponential_equals_that_of_scipy(norm, dtype):
    A = of_norm(norm, dtype=dtype)
    expected = scipy.linalg.expm(A.double().numpy())
    # rounding A changes the exponential by as much as A
    assert distance(exp_skew(A), expected) <= max(1, norm) * tol(dtype, 6)


def test_the_exponential_of_a_matrix_that_is_not_finite_is_not_finite():
    assert exp_skew(torch.full((2, 2), torch.nan)).isnan().all()


@pytest.mark.parametrize("norm", [0.0, 1.0, 6.0, 50.0], ids="norm {}".format)
def test_the_exponential_has_the_right_gradient_with_and_without_squarings(norm):
    raw = strictly_lower(of_norm(norm, 4)).requires_grad_()
    assert torch.autograd.gradcheck(lambda raw: exp_skew(skew(raw, 4)), raw)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm", [1e-3, 0.02, 0.2, 0.6, 1.2, 2.0, 3.3, 4.8])
def test_the_exponential_is_exact_and_orthogonal_at_norms_around_every_change_of_series(
    norm, dtype
):
    A = of_norm(norm, 40, dtype)
    W = exp_skew(A)
    expected = scipy.linalg.expm(A.double().numpy())
    assert distance(W, expected) <= 0.3 * max(1, norm) * tol(dtype, 40)
    assert orthogonality_error(W) <= 0.3 * tol(dtype, 40)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm", [1e4, 1e9, 1e30, 3e37])
def test_the_exponential_is_orthogonal_at_every_norm(norm, dtype):
    assert orthogonality_error(exp_skew(of_norm(norm, 64, dtype))) <= tol(dtype, 64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm", [1500.0, 1e4, 1e5])
@pytest.mark.parametrize("n", [3, 8, 33])
def test_the_exponential_squares_as_often_as_a_large_norm_needs(norm, n, dtype):
    A = of_norm(norm, n, dtype)
    expected = scipy.linalg.expm(A.double().numpy())
    # both round A, and SciPy rounds all its squarings in double precision
    assert distance(exp_skew(A), expected) <= norm * (tol(dtype, n) + tol(torch.float64, n)) / 5
    assert orthogonality_error(exp_skew(A)) <= 0.3 * tol(dtype, n)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_exponential_under_vmap_is_nan_if_it_needs_more_squarings(dtype):
    A = torch.stack([of_norm(1500.0, 6, dtype), of_norm(1e4, 6, dtype)])
    within, beyond = torch.func.vmap(exp_skew)(A)
    assert distance(within, exp_skew(A[0])) <= 1500 * tol(dtype, 6)
    assert beyond.isnan().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm", [0.0, 2.0, 40.0])
def test_the_exponential_under_vmap_is_that_of_each_matrix(norm, dtype):
    A = torch.stack([of_norm(norm, 6, dtype), -of_norm(norm / 3, 6, dtype)])
    got = torch.func.vmap(exp_skew)(A)
    expected = torch.stack([exp_skew(each) for each in A])
    assert float((got - expected).abs().max()) <= max(1, norm) * tol(dtype, 6)


def test_the_exponential_can_be_differentiated_twice():
    raw = strictly_lower(of_norm(6.0, 3)).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda raw: exp_skew(skew(raw, 3)), raw)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_a_polar_step_squares_the_distance_from_the_polar_factor(dtype):
    U, _, Vh = torch.linalg.svd(normal(6, 6, dtype=dtype))
    near = (U * (1 + 1e-4 * normal(6))) @ Vh
    error = torch.linalg.matrix_norm(near - U @ Vh)
    assert torch.linalg.matrix_norm(polar_step(near) - U @ Vh) <= 1.5 * error**2 + tol(dtype, 6)


def test_the_orthogonality_error_of_a_scaled_rotation_is_known():
    W = 2 * scipy.stats.ortho_group.rvs(5, random_state=0)
    error = orthogonality_error(torch.as_tensor(W))
    assert error == pytest.approx(3 * 5**0.5, abs=10 * tol(torch.float64, 5))


def test_the_orthogonality_error_is_measured_in_double_precision():
    W = torch.eye(3)
    W[0, 0] += 1e-6
    assert orthogonality_error(W) == pytest.approx(
        float(W[0, 0].double() ** 2 - 1), abs=tol(torch.float64, 3)
    )


@pytest.mark.parametrize("large", [1e3, 1e12, 1e30])
def test_the_cayley_transform_turns_each_plane_of_a_matrix_of_any_size(large):
    # planes of units that are no neighbours, and one unit in none
    A = torch.zeros(5, 5, dtype=torch.float64)
    expected = torch.eye(5, dtype=torch.float64)
    for i, j, a in ((0, 3, large), (1, 4, 0.5)):
        A[i, j], A[j, i] = a, -a
        expected[i, i] = expected[j, j] = (1 - a**2) / (1 + a**2)
        expected[i, j], expected[j, i] = -2 * a / (1 + a**2), 2 * a / (1 + a**2)
    torch.testing.assert_close(cayley(A), expected, rtol=0, atol=tol(torch.float64, 5))
