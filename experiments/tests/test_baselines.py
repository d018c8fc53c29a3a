"""Torch's own layers with the initialisations of papers."""

import math

import pytest
import torch
from torch import nn

from draws import stream
from eigenrnn_experiments.baselines import TanhRNN, TorchGRU, TorchLSTM

M, N = 4, 8


def is_same_state(one, other):
    state = other.state_dict()
    return one.state_dict().keys() == state.keys() and all(
        torch.equal(value, state[name]) for name, value in one.state_dict().items()
    )


@pytest.mark.usefixtures("global_streams_untouched")
@pytest.mark.parametrize("make", [TorchLSTM, TorchGRU, TanhRNN])
def test_the_generator_determines_the_initialisation(make):
    assert is_same_state(*(make(M, N, generator=stream(3)) for _ in range(2)))


@pytest.mark.parametrize("make", [TorchLSTM, TorchGRU, TanhRNN])
def test_a_baseline_computes_what_torch_does(make):
    layer = make(M, N, generator=stream())
    theirs = type(layer).__bases__[-1](M, N)
    theirs.load_state_dict(layer.state_dict())
    x = torch.randn(6, 3, M)
    assert torch.equal(layer(x)[0], theirs(x)[0])


@pytest.mark.parametrize("make", [TorchLSTM, TorchGRU, TanhRNN])
def test_without_a_generator_a_baseline_has_exactly_the_weights_of_torch(make):
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        layer = make(M, N)
        torch.manual_seed(0)
        theirs = make.__bases__[-1](M, N)
    assert is_same_state(layer, theirs)


def forget_gates(layer, size=N):
    return [
        parameter[size : 2 * size]
        for name, parameter in layer.named_parameters()
        if name.startswith("bias_ih")
    ]


def test_the_forget_bias_is_added_only_to_the_forget_gates():
    options = {"num_layers": 2, "bidirectional": True}
    layer = TorchLSTM(M, N, forget_bias=3.0, generator=stream(), **options)
    plain = TorchLSTM(M, N, generator=stream(), **options)
    with torch.no_grad():
        for gate in forget_gates(plain):
            gate.add_(3)
    assert is_same_state(layer, plain)


def test_glorot_initialisation_sets_all_biases_but_the_forget_bias_to_zero():
    layer = TorchLSTM(M, N, num_layers=2, forget_bias=-4.0, init="glorot")
    assert all((gate == -4).all() for gate in forget_gates(layer))
    for gate in forget_gates(layer):
        nn.init.zeros_(gate)
    assert not any(p.any() for name, p in layer.named_parameters() if name.startswith("bias"))


def test_glorot_initialisation_draws_all_gates_as_one_kernel():
    layer = TorchLSTM(30, 50, init="glorot", generator=stream())
    bound = math.sqrt(6 / (30 + 50 + 4 * 50))
    for weight in (layer.weight_ih_l0, layer.weight_hh_l0):
        assert 0.99 * bound < weight.abs().max() <= bound


def test_glorot_initialisation_counts_the_inputs_of_each_layer():
    layer = TorchLSTM(30, 50, num_layers=2, bidirectional=True, init="glorot", generator=stream())
    bound = math.sqrt(6 / (2 * 50 + 50 + 4 * 50))
    assert 0.99 * bound < layer.weight_ih_l1_reverse.abs().max() <= bound


def test_normal_glorot_initialisation_draws_each_gate_separately():
    layer = TorchLSTM(30, 200, num_layers=2, init="glorot_normal", generator=stream())
    for k, fan_in in enumerate((30 + 200, 200 + 200)):
        expected = math.sqrt(2 / (fan_in + 200))
        for part in ("ih", "hh"):
            weight = getattr(layer, f"weight_{part}_l{k}")
            for gate in weight.chunk(4):
                margin = 4 / math.sqrt(2 * gate.numel())  # four standard errors
                assert gate.std().item() == pytest.approx(expected, rel=margin)
                assert gate.abs().max() > 3 * expected  # a uniform draw would not reach this


def test_an_unknown_initialisation_raises():
    with pytest.raises(ValueError, match="got 'zeros'"):
        TorchLSTM(M, N, init="zeros")
