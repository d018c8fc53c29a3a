"""The departure from normality against its definition and known values."""

import numpy as np
import pytest
import torch

from eigenrnn import RNN
from eigenrnn.analysis import henrici, recurrent_matrices

N = 9
EPS = np.finfo(np.float64).eps


def gaussian(n, is_complex=False, seed=0):
    generator = np.random.default_rng(seed)
    real, imaginary = generator.standard_normal((2, n, n))
    return real + 1j * imaginary if is_complex else real


def basis(n, is_complex=False):
    return np.linalg.qr(gaussian(n, is_complex, seed=1))[0]


def by_definition(W):
    squares = np.linalg.norm(W) ** 2 - (np.abs(np.linalg.eigvals(W)) ** 2).sum()
    return np.sqrt(max(squares, 0))


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, N, 40])
def test_departure_is_the_difference_of_norm_and_eigenvalues(n, is_complex):
    W = gaussian(n, is_complex)
    result = henrici(W)
    # half of the digits of the difference may cancel
    assert result.absolute == pytest.approx(by_definition(W + 0j), abs=n * np.sqrt(EPS))
    assert result.relative == pytest.approx(result.absolute / np.linalg.norm(W), rel=4 * EPS)


@pytest.mark.parametrize(
    "block",
    [
        [[1.0, 5.0], [-0.2, 1.0]],  # a pair of complex eigenvalues
        [[1.0, 5.0], [0.2, 1.0]],  # two real ones
        [[2.0, 5.0], [-1.0, 1.0]],
        [[0.0, 3.0], [0.0, 0.0]],
    ],
)
def test_two_by_two_blocks_agree_with_the_definition(block):
    W = np.array(block)
    assert henrici(W).absolute == pytest.approx(by_definition(W), rel=1e-7)


NORMAL = {
    "diagonal": np.diag([3.0, -1.0, 0.0, 0.5]),
    "symmetric": gaussian(N) + gaussian(N).T,
    "skew": gaussian(N) - gaussian(N).T,
    "orthogonal": basis(N),
    "unitary": basis(N, is_complex=True),
    "circulant": np.stack([np.roll(np.arange(7.0) ** 2, k) for k in range(7)]),
    "zero": np.zeros((4, 4)),
}


@pytest.mark.parametrize("name", NORMAL)
def test_normal_matrix_has_departure_zero_up_to_rounding(name):
    W = NORMAL[name]
    result = henrici(W)
    assert result.absolute <= 10 * len(W) * EPS * np.linalg.norm(W)
    np.testing.assert_allclose(
        result.moduli, result.singular_values, atol=10 * len(W) * EPS * np.linalg.norm(W)
    )


@pytest.mark.parametrize("is_complex", [False, True])
def test_departure_is_the_norm_above_the_diagonal_of_a_schur_form(is_complex):
    T, P = np.triu(gaussian(N, is_complex)), basis(N, is_complex)
    expected = np.linalg.norm(np.triu(T, 1))
    assert henrici(P @ T @ P.conj().T).absolute == pytest.approx(expected, rel=1e-11)


def test_small_departure_is_accurate():
    W = basis(N) @ (np.diag(np.arange(1.0, N + 1)) + 1e-9 * np.eye(N, k=1)) @ basis(N).T
    expected = 1e-9 * np.sqrt(N - 1)
    assert henrici(W).absolute == pytest.approx(expected, abs=10 * N * EPS * np.linalg.norm(W))


def test_layer_is_analysed_by_its_matrix():
    layer = RNN(2, 6)
    (W,) = recurrent_matrices(layer).values()
    assert henrici(layer).absolute == henrici(W).absolute
    assert henrici(torch.tensor(W)).absolute == henrici(W).absolute
