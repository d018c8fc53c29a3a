"""The option `init` of layers: a function draws the weights instead of the layer."""

from functools import partial

import pytest
import torch

from draws import stream
from eigenrnn import GRU, LSTM, RNN, LeakyRNN, NnRNN
from eigenrnn.init import kaiming_normal_, recurrent_, uniform_, weights_, zeros_

M, N = 3, 6


def state_of(layer):
    return {name: value.clone() for name, value in layer.state_dict().items()}


def first(layer):
    return layer.all_directions()[0]


@pytest.mark.parametrize("make", [RNN, GRU, LeakyRNN, NnRNN])
def test_without_initialisers_the_draws_are_those_of_the_layer(make):
    make = partial(make, trainable_h0=True, layer_norm=True, num_layers=2, bidirectional=True)
    expected = make(M, N, generator=stream())
    layer = make(M, N, init=weights_, generator=stream())
    torch.testing.assert_close(state_of(layer), state_of(expected), rtol=0, atol=0)


def test_other_initialisers_draw_in_the_place_of_those_of_the_layer():
    other = partial(weights_, weight_ih=kaiming_normal_, input_bias=uniform_)
    direction = first(RNN(M, N, nonlinearity="tanh", init=other, generator=stream()))
    generator = stream()
    torch.testing.assert_close(
        direction.weight_ih.detach(), kaiming_normal_(torch.empty(N, M), generator=generator)
    )
    known = type(direction.constraint)(N)
    known.reset(generator)
    torch.testing.assert_close(direction.constraint(), known())
    expected = uniform_(torch.empty(N), generator=generator)
    torch.testing.assert_close(direction.input_bias.detach(), expected)


def test_a_tuple_has_an_initialiser_for_each_gate_and_none_is_that_of_the_layer():
    own = first(GRU(M, N, generator=stream()))
    other = partial(weights_, weight_ih=(None, zeros_, None), gate_bias=(zeros_, None))
    direction = first(GRU(M, N, init=other, generator=stream()))
    reset, update, candidate = direction.weight_ih.detach().chunk(3)
    assert torch.equal(reset, own.weight_ih.detach()[:N])
    assert not update.any()
    assert candidate.all()
    assert not direction.gate_bias[:N].any()
    assert direction.gate_bias[N:].all()


def test_a_weight_that_is_not_named_keeps_the_initialisation_of_the_paper():
    direction = first(NnRNN(M, 400, init=partial(weights_, weight_ih=zeros_)))
    assert not direction.weight_ih.any()
    assert 0.009 < direction.bias.abs().max() <= 0.01


def test_a_reset_draws_with_it_again_and_restores_the_gain():
    layer = LeakyRNN(M, N, layer_norm=True, init=partial(recurrent_, kind="chain"))
    gain = first(layer).norm_zoneout.gain
    with torch.no_grad():
        gain.zero_()
        first(layer).weight_ih.zero_()
    layer.reset()
    torch.testing.assert_close(first(layer).weight_ih.detach(), 0.9 * torch.eye(N, M))
    assert (gain == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights_ih": zeros_}, r"weights of the layer \(weight_ih, .*got 'weights_ih'"),
        ({"training": zeros_}, "got 'training'"),
        ({"weight_ih": (zeros_, zeros_)}, "one initialiser or 3 of them, got 2"),
    ],
)
def test_wrong_initialisers_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GRU(M, N, init=partial(weights_, **options))


def test_a_layer_without_the_option_refuses_it():
    with pytest.raises(TypeError, match="'init'"):
        LSTM(M, N, init=weights_)
