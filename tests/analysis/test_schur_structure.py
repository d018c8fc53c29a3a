"""Schur forms against their matrices."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from eigenrnn import RNN, NnRNN, constrain
from eigenrnn.analysis import recurrent_matrices, schur_structure
from eigenrnn.constraints import BlockTriangular, Schur
from eigenrnn.models import SequenceModel
from random_constraints import perturbed

N = 8
TOL = 100 * N * np.finfo(np.float64).eps


def gaussian(n, is_complex=False):
    real, imaginary = np.random.default_rng(0).standard_normal((2, n, n))
    return real + 1j * imaginary if is_complex else real


def ordered(values):
    """Sort in an order that rounding does not change."""
    return np.array(sorted(values, key=lambda z: (round(z.real, 8), round(z.imag, 8))))


MATRICES = {
    "odd": gaussian(9),
    "even": gaussian(N),
    "one": np.array([[-2.0]]),
    "complex": gaussian(7, is_complex=True),
    "zero": np.zeros((3, 3)),
}
each = pytest.mark.parametrize("name", MATRICES)


@each
def test_factors_reproduce_the_matrix_with_orthonormal_modes(name):
    W = MATRICES[name]
    result = schur_structure(W)
    P, I = result.P, np.eye(len(W))
    np.testing.assert_allclose(P @ result.Theta @ P.conj().T, W, atol=TOL)
    np.testing.assert_allclose(P.conj().T @ P, I, atol=TOL)


@each
def test_only_two_by_two_blocks_reach_above_the_diagonal(name):
    Theta = schur_structure(MATRICES[name]).Theta
    assert not np.triu(Theta, 2).any()
    (starts,) = np.nonzero(Theta.diagonal(1))
    assert (np.diff(starts) > 1).all()


@each
def test_eigenvalues_are_those_of_the_matrix(name):
    W = MATRICES[name]
    result = schur_structure(W)
    expected = np.linalg.eigvals(W).astype(complex)
    np.testing.assert_allclose(ordered(result.eigenvalues), ordered(expected), atol=TOL)
    from_polar = result.moduli * np.exp(1j * result.angles)
    np.testing.assert_allclose(from_polar, result.eigenvalues, atol=TOL)


def share_and_means_by_loop(Theta):
    """Return the share of the norm outside the blocks and the mean entry of each sub-diagonal."""
    n, outside = len(Theta), 0.0
    diagonals = [[] for _ in range(n)]
    for i in range(n):
        for j in range(n):
            in_block = i == j or (abs(i - j) == 1 and Theta[min(i, j), max(i, j)] != 0)
            if i >= j or in_block:
                diagonals[0 if in_block else i - j].append(abs(Theta[i, j]))
            outside += 0 if in_block else abs(Theta[i, j]) ** 2
    means = [np.mean(entries) if entries else 0.0 for entries in diagonals]
    return np.sqrt(outside) / np.linalg.norm(Theta), means


@pytest.mark.parametrize("name", ["odd", "even", "complex"])
def test_share_below_and_diagonal_means_agree_with_a_loop_over_entries(name):
    result = schur_structure(MATRICES[name])
    share, diagonals = share_and_means_by_loop(result.Theta)
    assert result.off_diagonal == pytest.approx(share, rel=1e-12)
    np.testing.assert_allclose(result.by_diagonal, diagonals, rtol=1e-12)


def test_chain_has_one_sub_diagonal():
    result = schur_structure(np.diag([1.0, 2.0, 3.0], -1))
    assert result.off_diagonal == pytest.approx(1, rel=1e-14)
    assert result.by_diagonal[1] == pytest.approx(2, rel=1e-14)
    np.testing.assert_array_equal(result.moduli, 0)


KINDS = {
    "paper": Schur,
    "clamped": partial(Schur, gamma="clamped", gamma_value=0.9),
}


@pytest.mark.parametrize("kind", KINDS)
def test_schur_constraint_gives_the_learned_form(kind):
    constraint = perturbed(KINDS[kind], N, 0, torch.float64)
    result = schur_structure(constraint)
    P, W = constraint.P().detach().numpy(), constraint().detach().numpy()
    assert result.learned
    np.testing.assert_array_equal(result.P, P)
    np.testing.assert_allclose(result.Theta, P.conj().T @ W @ P, atol=TOL)
    assert not np.triu(result.Theta, 2).any()


def constrained_torch_layer():
    layer = torch.nn.RNN(2, N)
    constrain(layer, "weight_hh_l0", Schur)
    return layer


LAYERS = {
    "layer": (lambda: NnRNN(2, N), True),
    "model": (lambda: SequenceModel(NnRNN(2, N), 3), True),
    "constrained": (constrained_torch_layer, True),
    "plain": (lambda: RNN(2, N), False),
    "part": (
        lambda: RNN(2, N, constraint=partial(BlockTriangular, long=Schur, short=Schur)),
        False,
    ),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_layer_gives_its_learned_form(kind):
    make, learned = LAYERS[kind]
    layer = make()
    (W,) = recurrent_matrices(layer).values()
    result = schur_structure(layer)
    assert result.learned == learned
    np.testing.assert_allclose(result.P @ result.Theta @ result.P.conj().T, W, atol=TOL)


def test_layer_is_not_changed():
    layer = NnRNN(2, N)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    schur_structure(layer)
    assert {name: value.dtype for name, value in layer.state_dict().items()} == {
        name: value.dtype for name, value in before.items()
    }
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize("name", ["odd", "complex"])
def test_figure_and_table_show_the_parts(name):
    result = schur_structure(MATRICES[name])
    form, angles, profile, _bar = result.plot().axes
    shown, expected = form.images[0].get_array(), np.abs(result.Theta)
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), expected == 0)
    np.testing.assert_allclose(10 ** shown.compressed(), expected[expected > 0])
    assert sum(patch.get_height() for patch in angles.patches) == len(result.Theta)
    np.testing.assert_array_equal(profile.lines[0].get_ydata(), result.by_diagonal)
    assert {len(column) for column in result.table().values()} == {len(result.Theta)}
    assert result.off_diagonal in result.headline().values()


def test_the_form_is_that_of_the_layer_and_of_no_module_beside_it():
    model = nn.Sequential(constrain(nn.Linear(8, 8), "weight", Schur), nn.RNN(8, 8))
    found = schur_structure(model)
    assert not found.learned
    np.testing.assert_allclose(
        found.P @ found.Theta @ found.P.T, recurrent_matrices(model)["hh_l0"], atol=1e-12
    )
