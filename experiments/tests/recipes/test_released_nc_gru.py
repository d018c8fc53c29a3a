"""NC-GRU with two orthogonal matrices, against its released code step by step in NumPy."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import expit as sigmoid

from draws import stream
from eigenrnn import GRU, NCGRU
from eigenrnn.constraints import NeumannCayley, Unconstrained
from eigenrnn.linalg import skew, tol
from eigenrnn_experiments.recipes.nc_gru.released import (
    BorrowingCayley,
    LendingCayley,
    ReleasedNCGRU,
)
from gru_cells import assert_computes, modrelu

N, M, RATE = 6, 3, 0.05
PAIR = ("reset", "candidate")


def build(**options):
    generator = torch.Generator().manual_seed(0)
    options = {"negative": 2, "reset_every": 3} | options
    return ReleasedNCGRU(
        M,
        N,
        orthogonal=PAIR,
        code="tensorflow",
        dtype=torch.float64,
        generator=generator,
        **options,
    ).double()


def inputs(k):
    return torch.randn(5, 4, M, generator=torch.Generator().manual_seed(k), dtype=torch.float64)


def step(layer, k, optimiser):
    optimiser.zero_grad()
    layer(inputs(k))[0].square().sum().backward()
    optimiser.step()


def gradient_by_free_weights(layer, W_r, W_c, k):
    """dL / dW_r of the same recurrence with plain weights as matrices."""
    free = GRU(M, N, nonlinearity="modrelu", reset_after=False).double()
    mine, others = free.all_directions()[0], layer.all_directions()[0]
    with torch.no_grad():
        for name in ("weight_ih", "gate_bias", "bias"):
            getattr(mine, name).copy_(getattr(others, name))
        mine.reset_gate.assign(torch.as_tensor(W_r))
        mine.update_gate.assign(others.update_gate())
        mine.candidate.assign(torch.as_tensor(W_c))
    free(inputs(k))[0].square().sum().backward()
    (raw,) = mine.reset_gate.parameters()
    return raw.grad.numpy()


def skew_of(constraint):
    return skew(constraint.cayley.raw.detach(), N).numpy()


@pytest.mark.parametrize("gradient_rate", [None, 0.02])
@pytest.mark.parametrize("order", [1, 2])
def test_the_last_gradient_trains_both_and_the_inverse_is_borrowed(order, gradient_rate):
    layer = build(order=order, gradient_rate=gradient_rate)
    gates = layer.all_directions()[0]
    optimiser = torch.optim.SGD(layer.parameters(), lr=RATE)
    I, D = np.eye(N), np.diag([1.0] * 4 + [-1.0] * 2)
    A_r, A_c = skew_of(gates.reset_gate), skew_of(gates.candidate)
    inverse_r, inverse_c = np.linalg.inv(I + A_r), np.linalg.inv(I + A_c)
    W_r, W_c = inverse_r @ (I - A_r) @ D, inverse_c @ (I - A_c) @ D
    for k in range(7):
        G = gradient_by_free_weights(layer, W_r, W_c, k)  # of W_r, for both
        step(layer, k, optimiser)
        V_c, V_r = inverse_c.T @ G @ (D + W_c.T), inverse_r.T @ G @ (D + W_r.T)
        grad_c, grad_r = V_c.T - V_c, V_r.T - V_r
        A_c, A_r = A_c - RATE * grad_c, A_r - RATE * grad_r
        if k % 3 == 2:
            inverse_c, inverse_r = np.linalg.inv(I + A_c), np.linalg.inv(I + A_r)
        else:
            rate = RATE if gradient_rate is None else gradient_rate
            inverse_c = series(inverse_c, rate * grad_c, order)
            inverse_r = series(inverse_c, rate * grad_r, order)  # of the other matrix
        W_r, W_c = inverse_r @ (I - A_r) @ D, inverse_c @ (I - A_c) @ D
        for constraint, W in ((gates.reset_gate, W_r), (gates.candidate, W_c)):
            np.testing.assert_allclose(constraint().detach().numpy(), W, atol=1e-9)
        error = np.linalg.norm(W_r.T @ W_r - I)
        assert error < 1e-9 if k % 3 == 2 else error > 0.05


def series(inverse, delta, order):
    return sum(np.linalg.matrix_power(inverse @ delta, i) for i in range(order + 1)) @ inverse


def test_copies_share_inverses_only_among_themselves():
    layer = build()
    twin = copy.deepcopy(layer)
    before = [c().detach().clone() for c in layer.all_directions()[0].constraints()]
    optimiser = torch.optim.SGD(twin.parameters(), lr=RATE)
    step(twin, 0, optimiser)
    for constraint, W in zip(layer.all_directions()[0].constraints(), before, strict=True):
        assert torch.equal(constraint(), W)
    step(layer, 0, torch.optim.SGD(layer.parameters(), lr=RATE))
    for one, other in zip(layer.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(layer.buffers(), twin.buffers(), strict=True):
        assert torch.equal(one, other)


def test_each_matrix_is_registered_once():
    layer = build()
    names = [name for name, _ in layer.named_parameters() if name.endswith("cayley.raw")]
    assert names == [f"directions.0.{gate}.cayley.raw" for gate in ("reset_gate", "candidate")]


def test_by_default_each_matrix_has_its_own_gradient_and_inverse():
    layer = NCGRU(M, N, orthogonal=PAIR, generator=torch.Generator().manual_seed(0)).double()
    optimiser = torch.optim.SGD(layer.parameters(), lr=1e-3)
    for k in range(4):
        step(layer, k, optimiser)
    assert (layer.orthogonality_error() <= 0.01 + tol(torch.float64, N)).all()


@pytest.mark.parametrize(
    ("orthogonal", "kinds"),
    [
        (("candidate",), [Unconstrained, Unconstrained, NeumannCayley]),
        (PAIR, [BorrowingCayley, Unconstrained, LendingCayley]),
    ],
    ids=str,
)
def test_two_orthogonal_matrices_share_an_inverse_and_one_does_not(orthogonal, kinds):
    layer = ReleasedNCGRU(M, N, code="torch", orthogonal=orthogonal)
    assert [type(each) for each in layer.all_directions()[0].constraints()] == kinds


def nc_gru_tensorflow_cell(x, h, p):
    r = sigmoid(p["U_r"] @ x + p["W_r"] @ h + p["b_r"])
    u = sigmoid(p["U_u"] @ x + p["W_u"] @ h + p["b_u"])
    c = modrelu(p["U_c"] @ x + p["W_c"] @ (r * h), p["b"])
    return u * h + (1 - u) * c


def nc_gru_torch_cell(x, h, p):
    r = sigmoid(p["U_r"] @ x + p["W_r"] @ h + p["b_r"])
    u = sigmoid(p["U_u"] @ x + p["W_u"] @ h + p["b_u"])
    c = modrelu(p["U_c"] @ x + r * (p["W_c"] @ h), p["b"])
    return u * h + (1 - u) * c


CELLS = {"tensorflow": nc_gru_tensorflow_cell, "torch": nc_gru_torch_cell}


@pytest.mark.parametrize("code", CELLS)
def test_a_released_layer_computes_the_step_of_its_code(code):
    make = partial(ReleasedNCGRU, code=code)
    assert_computes(CELLS[code], make(M, N, generator=stream(), dtype=torch.float64))


def largest(tensor):
    return tensor.abs().max().item()


def test_nc_gru_has_the_initialisation_of_the_pytorch_cell():
    layer = ReleasedNCGRU(20, 40, code="torch", generator=stream())
    direction = layer.all_directions()[0]
    bound = 1 / math.sqrt(40)
    assert not direction.bias.any()
    assert 0.9 * bound < largest(direction.gate_bias) <= bound
    for weight in (direction.weight_ih[:80], direction.weight_hh[:80]):
        assert 0.98 * bound < largest(weight) <= bound
    assert 0.0098 < largest(direction.weight_ih[80:]) <= 0.01
