"""The LSTM layer: its gates and their constraints, and the initial states."""

from functools import partial

import pytest
import torch
from torch import nn

from draws import normal, stream
from eigenrnn import GRU, LSTM, LSTMCell
from eigenrnn.constraints import Exponential, Givens, ScaledCayley, Unconstrained
from eigenrnn.init import recurrent_
from eigenrnn.linalg import tol
from eigenrnn.models import LanguageModel

T, B, M, N = 6, 3, 4, 8
GATES = ("input", "forget", "cell", "output")


def near(dtype, n=T * N):
    return {"rtol": 0, "atol": tol(dtype, n)}


def sets_of(layer):
    return [type(constraint) for constraint in layer.all_directions()[0].constraints()]


def test_each_gate_has_its_own_constraint():
    layer = LSTM(M, N, input=Givens, forget=Exponential, cell=ScaledCayley)
    assert sets_of(layer) == [Givens, Exponential, ScaledCayley, Unconstrained]
    (direction,) = layer.all_directions()
    assert torch.equal(direction.weight_hh[2 * N : 3 * N], direction.cell())


@pytest.mark.parametrize(
    ("kind", "own", "expected"),
    [
        (LSTM, "forget", [ScaledCayley, Exponential, ScaledCayley, ScaledCayley]),
        (GRU, "update", [ScaledCayley, Exponential, ScaledCayley]),
    ],
    ids=["lstm", "gru"],
)
def test_the_constraint_of_all_gates_holds_for_those_without_their_own(kind, own, expected):
    assert sets_of(kind(M, N, constraint=ScaledCayley, **{own: Exponential})) == expected


def test_a_language_model_continues_from_its_states():
    layers = [LSTM(M, N, generator=stream()), LSTM(N, M, generator=stream())]
    model = LanguageModel(7, M, layers).eval()
    symbols = torch.randint(7, (T, B), generator=stream())
    first, state = model.advance(symbols[:2], None)
    second, _ = model.advance(symbols[2:], state)
    torch.testing.assert_close(torch.cat([first, second]), model(symbols), **near(torch.float32))


def test_the_mixed_initialisation_fills_the_gates_as_in_torch():
    ours, theirs = (recurrent_(kind(M, N), "mixed") for kind in (LSTM, nn.LSTM))
    got = torch.cat(ours.recurrent_matrices()).detach()
    torch.testing.assert_close(got, theirs.weight_hh_l0.detach(), **near(torch.float32))


def test_a_trained_initial_state_has_two_halves():
    layer = LSTM(M, N, trainable_h0=True, dtype=torch.float64)
    (direction,) = layer.all_directions()
    nn.init.normal_(direction.h0, generator=stream())
    h0, c0 = (half.expand(1, B, N) for half in direction.h0.detach().chunk(2))
    x = normal(T, B, M)
    assert torch.equal(layer(x)[0], layer(x, (h0, c0))[0])


@pytest.mark.parametrize("gate", GATES)
def test_a_complex_constraint_raises_and_suggests_rnn(gate):
    constraint = partial(Givens, dtype=torch.complex64)
    with pytest.raises(ValueError, match=r"got complex Givens.*RNN"):
        LSTM(M, N, **{gate: constraint})


state = torch.zeros(1, B, N)
WRONG_STATES = {
    "one tensor": (state, TypeError, "got Tensor"),
    "no cell": ((state, None), TypeError, "got NoneType"),
    "size": ((state, state[:, :2]), ValueError, r"got \(1, 2, 8\)"),
}


@pytest.mark.parametrize(("hx", "error", "message"), WRONG_STATES.values(), ids=WRONG_STATES)
def test_wrong_initial_states_raise_an_error_that_says_what_was_expected(hx, error, message):
    with pytest.raises(error, match=message):
        LSTM(M, N)(normal(T, B, M, dtype=torch.float32), hx)


def test_states_may_be_a_list():
    layer = LSTM(M, N)
    x = normal(T, B, M, dtype=torch.float32)
    states = [normal(1, B, N, dtype=torch.float32) for _ in range(2)]
    resets = torch.tensor([True] + [False] * (B - 1))
    cell = LSTMCell(M, N)
    of_cell = [state[0] for state in states]
    calls = (
        lambda make: layer(x, make(states))[0],
        lambda make: layer.step(x[0], make(states), resets)[0],
        lambda make: cell(x[0], make(of_cell))[0],
    )
    for call in calls:
        assert torch.equal(call(list), call(tuple))


@torch.no_grad()
def test_a_frozen_step_refuses_the_state_of_another_layer():
    layer = LSTM(M, N).freeze()
    for h in (torch.zeros(1, B, N), torch.zeros(1, B, 2 * N)):
        with pytest.raises(TypeError, match="got Tensor"):
            layer.step(torch.zeros(B, M), h)


def test_projected_states_are_left_to_torch():
    with pytest.raises(ValueError, match=r"torch\.nn\.LSTM"):
        LSTM(M, N, proj_size=2)
