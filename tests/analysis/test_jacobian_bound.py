"""The bound on the Jacobians of a GRU against their norms and against explicit terms."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from draws import normal
from eigenrnn.analysis import jacobian_bound, state_maps
from eigenrnn.layers import GORU, GRU, NCGRU
from eigenrnn.nonlinearities import NONLINEARITIES

T, B, M, N = 6, 3, 2, 4

LAYERS = {
    "torch": nn.GRU,
    "gru": GRU,
    "before": partial(GRU, reset_after=False),
    "replacing": partial(GRU, update_keeps=False),
    "relu": partial(GRU, nonlinearity="relu", reset_after=False, update_keeps=False),
    "nc-gru": NCGRU,
    "nc-gru-torch": partial(NCGRU, reset_after=True, update_keeps=True),
    "nc-gru-two": partial(NCGRU, orthogonal=("reset", "candidate")),
    "goru": GORU,
    "no-bias": partial(GRU, bias=False),
}


def perturbed(layer, size):
    """Add noise to all weights, so that gates, states and norms vary widely."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.add_(size * torch.randn(weight.shape, generator=generator))
    return layer.double()


@pytest.mark.parametrize("size", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("name", LAYERS)
def test_norms_stay_below_the_bound(name, size):
    result = jacobian_bound(perturbed(LAYERS[name](M, N), size), 3 * normal(40, 20, M))
    assert (result.norms <= result.bound * (1 + 1e-12)).all()
    assert result.norms.shape == result.alpha.shape == result.beta.shape == (40, 20)


@pytest.mark.parametrize("name", LAYERS)
def test_norms_agree_with_finite_differences(name):
    layer, x, step = perturbed(LAYERS[name](M, N), 0.3), normal(T, 1, M), 1e-6
    one = state_maps(layer)[0]
    before = one.states(x)[-2]
    shifts = step * torch.eye(N, dtype=torch.float64)
    to = one.step(x[-1].expand(N, M), before + shifts)
    back = one.step(x[-1].expand(N, M), before - shifts)
    J = ((to - back) / (2 * step)).T.detach()
    expected = float(torch.linalg.matrix_norm(J, 2))
    assert jacobian_bound(layer, x).norms[-1, 0] == pytest.approx(expected, rel=1e-6)


def scalar_gates(layer, x):
    """Return r, z, n and the previous states of a torch GRU with one unit, at all steps."""
    W, U = layer.weight_hh_l0[:, 0].tolist(), layer.weight_ih_l0[:, 0].tolist()
    b, c = layer.bias_ih_l0.tolist(), layer.bias_hh_l0.tolist()
    h, rows = 0.0, []
    for x_t in x[:, 0, 0].tolist():
        r, z = (1 / (1 + np.exp(-(U[i] * x_t + b[i] + W[i] * h + c[i]))) for i in (0, 1))
        moved = W[2] * h + c[2]
        n = np.tanh(U[2] * x_t + b[2] + r * moved)
        rows.append((r, z, n, h, moved))
        h = (1 - z) * n + z * h
    return W, np.array(rows).T


def test_terms_for_a_reset_after_the_matrix_agree_with_the_proof():
    layer, x = nn.GRU(1, 1).double(), normal(T, 1, 1)
    W, (r, z, n, h, moved) = scalar_gates(layer, x)
    result = jacobian_bound(layer, x)
    alpha = z * (1 - z) * (abs(h) + abs(n)) * abs(W[1]) + z
    alpha += (1 - z) * r * (1 - r) * abs(W[0]) * abs(moved)
    np.testing.assert_allclose(result.alpha[:, 0], alpha, rtol=1e-12)
    np.testing.assert_allclose(result.beta[:, 0], (1 - z) * r, rtol=1e-12)
    assert result.candidate_norm == pytest.approx(abs(W[2]))


def test_terms_for_the_form_of_the_paper_agree_with_the_theorem():
    layer, x = NCGRU(1, 1).double(), torch.ones(1, 1, 1, dtype=torch.float64)
    one = layer.all_directions()[0]
    with torch.no_grad():
        one.weight_ih.copy_(torch.tensor([[0.2], [-0.4], [0.7]]))
        one.gate_bias.zero_()
        one.bias.fill_(0.1)
    first = jacobian_bound(layer, x)
    u, r, c = 1 / (1 + np.exp(0.4)), 1 / (1 + np.exp(-0.2)), 0.8
    W_u = abs(float(one.matrices()[1].detach()))
    assert first.alpha.item() == pytest.approx(u * (1 - u) * c * W_u + 1 - u, rel=1e-6)
    assert first.beta.item() == pytest.approx(u * r, rel=1e-6)


def test_bound_is_tight_for_one_unit_with_constant_gates():
    layer = nn.GRU(1, 1).double()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
        layer.weight_hh_l0[2] = 1.7
    # in the state zero the norm is z + (1 - z) r W_c
    result = jacobian_bound(layer, torch.zeros(3, 1, 1))
    np.testing.assert_allclose(result.norms, 0.5 + 0.25 * 1.7, rtol=1e-12)
    np.testing.assert_allclose(result.bound, result.norms, rtol=1e-12)


@pytest.mark.parametrize("make", [nn.GRU, GRU], ids=["torch", "ours"])
@pytest.mark.parametrize("which", ["l0_reverse", "l1", "l1_reverse"])
def test_later_layers_and_directions_have_bounds(make, which):
    layer = make(M, N, num_layers=2, bidirectional=True)
    result = jacobian_bound(layer, normal(T, B, M), which=which)
    assert (result.norms <= result.bound).all()


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_slopes_of_all_nonlinearities_are_at_most_one(name):
    z = torch.linspace(-6, 6, 2001, dtype=torch.float64)
    z = z[z.abs() > 0.01].requires_grad_()  # where modReLU with a positive bias jumps
    for bias in (-0.5, 0.5):
        h = NONLINEARITIES[name].forward(z, torch.tensor(bias, dtype=torch.float64))
        (slope,) = torch.autograd.grad(h.sum(), z)
        assert slope.abs().max() <= 1


def test_figure_table_and_headline_agree():
    result = jacobian_bound(NCGRU(M, N), normal(T, B, M))
    np.testing.assert_allclose(result.table()["norm"], result.norms.mean(axis=1))
    assert result.headline()["largest bound"] == result.bound.max()
    (axes,) = result.plot().axes
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["bound", "alpha", "beta", "norm"]
    assert "partial h_t" in axes.get_ylabel()
