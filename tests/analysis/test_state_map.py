"""Recurrent layers as maps of states agree with the layers themselves."""

from functools import partial

import pytest
import torch

import eigenrnn
from eigenrnn.analysis import StateMap, recurrent_matrices, state_maps, trajectory
from eigenrnn.constraints import Exponential, constrain
from eigenrnn.init import weights_

M, N, T, B = 2, 6, 5, 3

FROM_NORMAL = partial(weights_, h0=torch.nn.init.normal_)
LAYERS = {
    "scornn": lambda: eigenrnn.ScoRNN(M, N),
    "tanh": lambda: eigenrnn.RNN(M, N, nonlinearity="tanh"),
    "trained h0": lambda: eigenrnn.RNN(M, N, trainable_h0=True, init=FROM_NORMAL),
    "layer norm": lambda: eigenrnn.RNN(M, N, layer_norm=True),
    "zoneout": lambda: eigenrnn.GRU(M, N, zoneout=0.2),
    "leaky": lambda: eigenrnn.LeakyRNN(M, N, leak=0.2, noise=0.3, nonlinearity="softplus"),
    "currents": lambda: eigenrnn.LeakyRNN(M, N, leak=0.2, state="current", nonlinearity="retanh"),
    "enrnn": lambda: eigenrnn.ENRNN(M, N, short_size=2),
    "nnrnn": lambda: eigenrnn.NnRNN(M, N),
    "ncgru": lambda: eigenrnn.NCGRU(M, N),
    "scurnn": lambda: eigenrnn.ScuRNN(M, N),
    "eurnn": lambda: eigenrnn.EURNN(M, N),
    "torch rnn": lambda: torch.nn.RNN(M, N),
    "torch relu": lambda: torch.nn.RNN(M, N, nonlinearity="relu"),
    "torch gru": lambda: torch.nn.GRU(M, N),
    "torch lstm": lambda: torch.nn.LSTM(M, N),
    "without bias": lambda: torch.nn.LSTM(M, N, bias=False),
    "lru": lambda: eigenrnn.LRU(M, N, trainable_h0=True),
    "lru, real": lambda: eigenrnn.LRU(M, N, constraint=eigenrnn.constraints.DiagonalSegment),
    "mingru": lambda: eigenrnn.MinGRU(M, N, decays=(-1, 1)),
    "lstm": lambda: eigenrnn.LSTM(M, N, constraint=eigenrnn.constraints.ScaledCayley),
}


@pytest.fixture(params=LAYERS)
def layer(request):
    return LAYERS[request.param]().double().eval()


def inputs():
    return torch.randn(T, B, M, dtype=torch.float64)


def test_states_are_those_of_the_layer(layer):
    x = inputs()
    (state_map,) = state_maps(layer)
    states = state_map.states(x)
    torch.testing.assert_close(state_map.output(x, states[1:]), layer(x)[0].detach())


def test_initial_state_can_be_replaced(layer):
    (state_map,) = state_maps(layer)
    assert state_map.states(inputs())[0].shape == (B, state_map.state_size)
    again = state_map.states(inputs(), state_map.begin(B) + 1)
    torch.testing.assert_close(again[0], state_map.begin(B) + 1)


def test_jacobians_agree_with_finite_differences(layer):
    (state_map,) = state_maps(layer)
    x, state = inputs()[0], torch.randn(B, state_map.state_size, dtype=torch.float64)
    by_state, by_input = state_map.jacobians(x, state)
    step = 1e-6
    for i in range(state_map.state_size):
        shift = torch.zeros_like(state)
        shift[:, i] = step
        ahead, behind = state_map.step(x, state + shift), state_map.step(x, state - shift)
        torch.testing.assert_close(
            by_state[:, :, i], (ahead - behind) / (2 * step), atol=1e-8, rtol=1e-6
        )
    for i in range(M):
        shift = torch.zeros_like(x)
        shift[:, i] = step
        ahead, behind = state_map.step(x + shift, state), state_map.step(x - shift, state)
        torch.testing.assert_close(
            by_input[:, :, i], (ahead - behind) / (2 * step), atol=1e-8, rtol=1e-6
        )


def test_jacobians_of_many_sequences_are_those_of_few(layer):
    (state_map,) = state_maps(layer)
    x = torch.randn(2_000, M, dtype=torch.float64)
    state = torch.randn(2_000, state_map.state_size, dtype=torch.float64)
    of_many = state_map.jacobians(x, state)
    # few at once are differentiated backwards
    parts = [state_map.jacobians(*few) for few in zip(x.split(40), state.split(40), strict=True)]
    for many, few in zip(of_many, zip(*parts, strict=True), strict=True):
        torch.testing.assert_close(many, torch.cat(few), atol=1e-12, rtol=1e-9)


def test_function_that_cannot_be_mapped_has_jacobians_of_many_sequences():
    def step(x, h):
        assert bool(h.detach().isfinite().all())  # which torch.func.vmap does not support
        return h.tanh() + 0 * x

    state = torch.randn(20_000, 2, dtype=torch.float64)
    by_state, _ = StateMap.from_step(step, 1, 2).jacobians(state[:, :1], state)
    torch.testing.assert_close(by_state, (1 - state.tanh() ** 2).diag_embed())


@pytest.mark.parametrize(
    "make", [eigenrnn.ScoRNN, eigenrnn.GRU, eigenrnn.LRU, torch.nn.GRU, torch.nn.LSTM]
)
def test_stacked_bidirectional_layer_is_split_into_recurrences(make):
    layer = make(M, N, 2, bidirectional=True).double().eval()
    result = state_maps(layer)
    assert [each.name for each in result] == ["l0", "l0_reverse", "l1", "l1_reverse"]
    x = inputs()
    h = x
    for forwards, backwards in (result[:2], result[2:]):
        ahead = forwards.output(h, forwards.states(h)[1:])
        behind = backwards.output(h, backwards.states(h)[1:].flip(0))
        h = torch.cat([ahead, behind], dim=2)
    torch.testing.assert_close(h, layer(x)[0].detach())


def test_matrices_follow_the_gate_order_of_torch():
    layer = torch.nn.LSTM(M, N, 2)
    result = recurrent_matrices(layer)
    assert list(result)[4:] == ["input_l1", "forget_l1", "cell_l1", "output_l1"]
    forget = layer.weight_hh_l1[N : 2 * N].detach().double()
    torch.testing.assert_close(torch.from_numpy(result["forget_l1"]), forget)


def test_orthogonal_matrix_is_exact_in_double_precision():
    W = recurrent_matrices(eigenrnn.ScoRNN(M, N))["hh_l0"]
    assert abs(W.T @ W - torch.eye(N).numpy()).max() < 1e-14


def test_constrained_matrix_of_a_torch_layer_is_evaluated():
    layer = constrain(torch.nn.RNN(M, N), "weight_hh_l0", Exponential)
    W = recurrent_matrices(layer)["hh_l0"]
    assert abs(W.T @ W - torch.eye(N).numpy()).max() < 1e-14


def test_complex_matrices_stay_complex():
    assert recurrent_matrices(eigenrnn.ScuRNN(M, N))["hh_l0"].dtype == "complex128"


def test_layer_inside_a_model_is_found_and_not_changed():
    model = eigenrnn.SequenceModel(eigenrnn.ScoRNN(M, N), 3).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    (state_map,) = state_maps(model)
    state_map.states(inputs())
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.head.weight.dtype == torch.float32


def test_parts_of_a_state_are_named():
    blocks = {
        "enrnn": {"long": slice(0, 4), "short": slice(4, 6)},
        "torch lstm": {"hidden": slice(0, 6), "cell": slice(6, 12)},
        "scurnn": {"real": slice(0, 6), "imaginary": slice(6, 12)},
        "scornn": {},
    }
    for name, expected in blocks.items():
        assert state_maps(LAYERS[name]())[0].blocks == expected


def test_matrices_of_several_layers_have_the_layer_in_their_names():
    layers = torch.nn.ModuleList([torch.nn.RNN(M, N), torch.nn.RNN(N, N)])
    assert list(recurrent_matrices(layers)) == ["0.hh_l0", "1.hh_l0"]


def test_an_lstm_of_ours_has_the_recurrences_of_torch():
    theirs = torch.nn.LSTM(M, N, 2, bidirectional=True)
    ours = eigenrnn.LSTM(M, N, 2, bidirectional=True).load_torch(theirs)
    assert recurrent_matrices(ours).keys() == recurrent_matrices(theirs).keys()
    for got, expected in zip(state_maps(ours), state_maps(theirs), strict=True):
        assert (got.name, got.blocks) == (expected.name, expected.blocks)
        x = torch.randn(T, B, got.input_size, dtype=torch.float64)
        torch.testing.assert_close(got.states(x), expected.states(x))


@pytest.mark.parametrize("make", [eigenrnn.GRU, torch.nn.LSTM])
def test_the_maps_of_a_layer_take_its_place(make):
    layer = make(M, N, 2, bidirectional=True, batch_first=True)
    x = inputs()
    for which in ("l1", "l1_reverse"):
        expected = trajectory(layer, x.transpose(0, 1), which).states
        found = trajectory(state_maps(layer), x, which).states
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_states_of_layers_with_a_tanh_stay_within_their_bounds():
    bounded = []
    for name, make in LAYERS.items():
        (state_map,) = state_maps(make())
        if state_map.bounds is None:
            continue
        bounded.append(name)
        first = 2 * torch.rand(B, state_map.state_size, dtype=torch.float64) - 1
        states = state_map.states(10 * torch.randn(40, B, M), first)
        assert (states.abs() <= state_map.bounds).all()
    lstms = ["torch lstm", "without bias"]
    assert bounded == ["tanh", "zoneout", "torch rnn", "torch gru", *lstms, "lstm"]
