"""The initialisers of Orhan and Pitkow: entries, direction, memory and gates."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from draws import stream
from eigenrnn.constraints import ScaledCayley, Unconstrained
from eigenrnn.errors import NotInSetError
from eigenrnn.init import (
    chain_,
    feedback_chain_,
    identity_,
    orthogonal_,
    ramp_,
    recurrent_,
    source_,
)
from eigenrnn.layers import GRU, RNN
from eigenrnn.linalg import orthogonality_error, tol

SIZES = [1, 2, 7]
TORCH = {
    "RNN": nn.RNN,
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "stacked": partial(nn.LSTM, num_layers=2, bidirectional=True),
    "no-bias": partial(nn.GRU, bias=False),
    "RNNCell": nn.RNNCell,
    "LSTMCell": nn.LSTMCell,
    "GRUCell": nn.GRUCell,
}
GATED = {name: make for name, make in TORCH.items() if "RNN" not in name}
KINDS = ["chain", "feedback_chain", "identity", "ortho", "plain"]


def filled(fill, *shape, **options):
    return fill(torch.full(shape, torch.nan, dtype=torch.float64), **options)


@pytest.mark.parametrize("n", SIZES)
def test_a_chain_is_that_of_the_paper(n):
    # in W h the entry at (i, j) connects unit j to unit i; unit i drives unit i + 1
    expected = [[1.05 if i == j + 1 else 0.0 for j in range(n)] for i in range(n)]
    np.testing.assert_array_equal(filled(chain_, n, n, alpha=1.05), np.reshape(expected, (n, n)))


@pytest.mark.parametrize("n", SIZES)
def test_a_feedback_chain_is_that_of_the_paper(n):
    expected = 0.99 * np.eye(n, k=-1) + 0.07 * np.eye(n, k=1)
    np.testing.assert_array_equal(filled(feedback_chain_, n, n, beta=0.07), expected)


@pytest.mark.parametrize("n", SIZES)
def test_a_ramp_rises_with_the_difference_of_the_units(n):
    expected = [[0.01 * (i - j) / max(n - 1, 1) for j in range(n)] for i in range(n)]
    np.testing.assert_allclose(filled(ramp_, n, n), expected, rtol=1e-14)


@pytest.mark.parametrize("fill", [chain_, feedback_chain_, ramp_])
def test_backward_is_the_transpose(fill):
    forward, backward = (filled(fill, 5, 5, direction=d) for d in ("forward", "backward"))
    assert torch.equal(backward, forward.T)


@pytest.mark.parametrize("shape", [(7, 2), (7, 7), (2, 7), (1, 1)])
def test_a_source_is_a_part_of_the_identity(shape):
    np.testing.assert_array_equal(filled(source_, *shape), 0.9 * np.eye(*shape))


def test_an_identity_can_be_scaled():
    np.testing.assert_array_equal(filled(identity_, 3, 3, scale=0.96), 0.96 * np.eye(3))


def test_an_orthogonal_matrix_can_be_scaled():
    Q = filled(orthogonal_, 6, 6, scale=1.04, generator=stream()) / 1.04
    assert orthogonality_error(Q) <= tol(Q.dtype, 6)


@pytest.mark.parametrize("shape", [(7, 2), (2, 7), (1, 5), (0, 3)])
def test_the_shorter_side_of_an_orthogonal_strip_is_orthonormal(shape):
    strip = filled(orthogonal_, *shape, generator=stream())
    if shape[0] > shape[1]:
        strip = strip.T
    np.testing.assert_allclose(strip @ strip.T, np.eye(len(strip)), atol=1e-14)


def test_orthogonal_strips_are_spread_uniformly():
    generator = stream()
    draws = torch.stack([filled(orthogonal_, 2, 4, generator=generator) for _ in range(500)])
    # an entry of a uniform unit vector with four has mean 0 and variance 1 / 4
    assert draws.mean(0).abs().max() < 4 / 2 / math.sqrt(500)
    assert (draws.square().mean(0) - 1 / 4).abs().max() < 4 / 2 / math.sqrt(500)


def test_a_long_ramp_has_straight_diagonals_in_16_bits():
    ramp = ramp_(torch.empty(400, 400, dtype=torch.bfloat16))
    assert all(len(ramp.diagonal(k).unique()) == 1 for k in (-399, -200, -1, 0, 1, 200))


def gates_of(module, name):
    return getattr(module, name).detach().split(module.hidden_size)


def names_of(module, kind):
    return [name for name, _ in module.named_parameters() if name.startswith(kind)]


RECURRENT = {
    "chain": np.eye(5, k=-1),
    "feedback_chain": 0.99 * np.eye(5, k=-1) + 0.01 * np.eye(5, k=1),
    "identity": np.eye(5),
}


@pytest.mark.parametrize("make", TORCH.values(), ids=TORCH)
@pytest.mark.parametrize("kind", RECURRENT)
def test_every_gate_of_every_layer_gets_the_matrix(make, kind):
    module = recurrent_(make(3, 5), kind)
    for name in names_of(module, "weight_hh"):
        for gate in gates_of(module, name):
            np.testing.assert_allclose(gate, RECURRENT[kind], rtol=1e-7)


@pytest.mark.parametrize("make", TORCH.values(), ids=TORCH)
def test_each_gate_gets_its_own_orthogonal_matrix(make):
    module = recurrent_(make(3, 5), "ortho", gain=0.96, generator=stream())
    gates = [gate for name in names_of(module, "weight_hh") for gate in gates_of(module, name)]
    assert all(orthogonality_error(gate / 0.96) <= tol(torch.float32, 5) for gate in gates)
    assert len({float(gate[0, 0]) for gate in gates}) == len(gates)


@pytest.mark.parametrize("make", TORCH.values(), ids=TORCH)
@pytest.mark.parametrize("kind", ["chain", "feedback_chain"])
def test_the_input_matrices_of_chains_are_sources(make, kind):
    module = recurrent_(make(3, 5), kind)
    for name in names_of(module, "weight_ih"):
        for gate in gates_of(module, name):
            np.testing.assert_array_equal(gate, source_(torch.empty_like(gate)))


@pytest.mark.parametrize("kind", ["identity", "ortho"])
def test_the_input_matrices_of_normal_matrices_are_drawn(kind):
    weight = recurrent_(nn.RNN(300, 100), kind, generator=stream()).weight_ih_l0
    # the standard error of a standard deviation is that deviation over the root of 2 n
    assert abs(weight.std().item() - 0.09) < 4 * 0.09 / np.sqrt(2 * weight.numel())


@pytest.mark.parametrize("make", TORCH.values(), ids=TORCH)
@pytest.mark.parametrize("kind", ["chain", "feedback_chain", "identity", "ortho"])
def test_biases_are_initialised_to_zero(make, kind):
    module = recurrent_(make(3, 5), kind)
    assert not any(getattr(module, name).any() for name in names_of(module, "bias"))


@pytest.mark.parametrize("make", TORCH.values(), ids=TORCH)
def test_the_plain_kind_is_the_initialisation_of_torch(make):
    module = recurrent_(make(40, 100), "plain", generator=stream())
    for parameter in module.parameters():
        assert 0.097 < parameter.abs().max() <= 0.1
        assert abs(parameter.mean()) < 4 * 0.1 / np.sqrt(3 * parameter.numel())


@pytest.mark.parametrize("make", GATED.values(), ids=GATED)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_mixed_kind_is_a_chain_in_the_tanh_gate_and_a_ramp_in_the_others(make, direction):
    module = recurrent_(make(3, 5), "mixed", direction=direction)
    chain = chain_(torch.empty(5, 5), 1.02, direction=direction)
    ramp = ramp_(torch.empty(5, 5), direction=direction)
    # torch's order is i, f, g, o in an LSTM and r, z, n in a GRU
    expected = (
        [ramp, ramp, chain, ramp] if "LSTM" in type(module).__name__ else [ramp, ramp, chain]
    )
    for name in names_of(module, "weight_hh"):
        for gate, wanted in zip(gates_of(module, name), expected, strict=True):
            assert torch.equal(gate, wanted)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("chain", 1.05 * np.eye(5, k=-1)),
        ("feedback_chain", 1.05 * np.eye(5, k=-1) + 0.03 * np.eye(5, k=1)),
        ("identity", 1.05 * np.eye(5)),
        ("mixed", 1.05 * np.eye(5, k=-1)),
    ],
)
def test_gain_and_beta_reach_the_matrix(kind, expected):
    lstm = recurrent_(nn.LSTM(3, 5), kind, gain=1.05, beta=0.03)
    np.testing.assert_allclose(gates_of(lstm, "weight_hh_l0")[2], expected, rtol=1e-6)


@pytest.mark.usefixtures("global_streams_untouched")
@pytest.mark.parametrize("kind", KINDS)
def test_an_initialisation_is_a_function_of_the_generator(kind):
    with torch.random.fork_rng(devices=()):
        module = nn.RNN(3, 5)
    recurrent_(module, kind, generator=stream())
    first = [parameter.clone() for parameter in module.parameters()]
    recurrent_(module, kind, generator=stream())
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), first, strict=True))


@pytest.mark.parametrize("kind", RECURRENT)
def test_our_networks_get_the_same_initialisation(kind):
    ours = RNN(3, 5, 2, "tanh", constraint=Unconstrained, bidirectional=True)
    assert recurrent_(ours, kind) is ours
    for direction, W in zip(ours.all_directions(), ours.recurrent_matrices(), strict=True):
        np.testing.assert_allclose(W.detach(), RECURRENT[kind], rtol=1e-7)
        assert not direction.input_bias.any()


def test_modrelu_keeps_its_bias_at_zero():
    ours = recurrent_(RNN(3, 5, constraint=Unconstrained), "plain")
    assert not ours.all_directions()[0].bias.any()


@pytest.mark.parametrize("kind", [*RECURRENT, "mixed"])
def test_our_gated_network_equals_that_of_torch(kind):
    ours, torchs = (recurrent_(make(3, 5, 2), kind, generator=stream()) for make in (GRU, nn.GRU))
    x = torch.randn(6, 2, 3, generator=stream(1))
    assert (ours(x)[0] - torchs(x)[0]).abs().max() <= tol(torch.float32, 5)


def test_an_orthogonal_constraint_accepts_an_orthogonal_matrix_and_rejects_a_chain():
    ours = RNN(3, 5, constraint=partial(ScaledCayley, negative=0))
    with pytest.raises(NotInSetError):
        recurrent_(ours, "chain")
    recurrent_(ours, "identity")
    assert torch.equal(ours.recurrent_matrices()[0], torch.eye(5))


scurnn = RNN(3, 5, constraint=partial(ScaledCayley, dtype=torch.complex64))
REJECTED = {
    "vector": (lambda: ramp_(torch.empty(3)), r"got shape \(3"),
    "oblong": (lambda: chain_(torch.empty(3, 4)), r"got shape \(3"),
    "direction": (lambda: chain_(torch.empty(3, 3), direction="up"), "got 'up'"),
    "complex": (lambda: recurrent_(scurnn, "identity"), "got RNN"),
    "kind": (lambda: recurrent_(nn.RNN(3, 5), "ring"), "'ring'"),
    "mixed": (lambda: recurrent_(nn.RNN(3, 5), "mixed"), "an LSTM or a GRU"),
    "projected": (lambda: recurrent_(nn.LSTM(3, 5, proj_size=2)), "square recurrent"),
}
