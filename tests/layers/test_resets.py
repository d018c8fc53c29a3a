"""A state that is reset inside a sequence: every layer equals a loop of steps that does so."""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from cases import CELLS, LAYERS, NAMED, OURS
from draws import normal
from eigenrnn import LRU, LSTM, RNN, LanguageModel, LeakyRNN, ResidualStack, SequenceModel, Stream
from eigenrnn.layers import GRU, DeltaNet
from eigenrnn.linalg import tol
from eigenrnn.ops import use_backend

T, B, M, N = 9, 5, 3, 8
LENGTHS = torch.tensor([4, 9, 6, 1, 9])


def stack(make):
    return lambda M, N: ResidualStack(lambda width: make(width, N), N, 2, input_size=M)


CASES = {name: LAYERS[name] for name in OURS} | NAMED
CASES |= {
    "two layers": partial(GRU, num_layers=2),
    "layer norm": partial(RNN, nonlinearity="tanh", layer_norm=True),
    "rates with a leak": partial(LeakyRNN, nonlinearity="softplus", leak=0.3, trainable_leak=True),
    "currents": partial(LeakyRNN, nonlinearity="softplus", leak=0.3, state="current"),
    "trained initial state": partial(LSTM, trainable_h0=True),
    "convolution": partial(DeltaNet, heads=2, convolution=3),
    "stack": stack(LRU),
}
each_case = pytest.mark.parametrize("make", CASES.values(), ids=CASES)


def made(make):
    layer = make(M, N).double().eval()
    for name, weight in layer.named_parameters():
        if name.endswith("h0"):
            nn.init.normal_(weight)
    return layer


def drawn_resets(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(2)) < 0.3


def parts(states):
    return states if isinstance(states, tuple) else (states,)


def states_like(states):
    drawn = [normal(*part.shape).requires_grad_() for part in parts(states)]
    return tuple(drawn) if isinstance(states, tuple) else drawn[0]


def select(states, b):
    chosen = [part[:, b : b + 1] for part in parts(states)]
    return tuple(chosen) if isinstance(states, tuple) else chosen[0]


def loop(layer, x, states, resets):
    outputs = []
    for x_t, now in zip(x, resets, strict=True):
        output, states = layer.step(x_t, states, now)
        outputs.append(output)
    return torch.stack(outputs), states


def loops(layer, x, states, resets):
    """Step through each sequence by itself, up to its length; zero after it."""
    outputs, ends = [], []
    for b, length in enumerate(LENGTHS.tolist()):
        y, end = loop(layer, x[:length, b : b + 1], select(states, b), resets[:length, b : b + 1])
        outputs.append(torch.cat([y, y.new_zeros(T - length, *y.shape[1:])]))
        ends.append(parts(end))
    return torch.cat(outputs, 1), tuple(torch.cat(part, 1) for part in zip(*ends, strict=True))


def gradients(results, leaves):
    output, last = results
    weights = torch.linspace(-1, 1, output.numel()).view(output.shape)
    loss = (output * weights).sum() + sum(part.square().sum() for part in parts(last))
    return torch.autograd.grad(
        loss, leaves, allow_unused=True, materialize_grads=True, retain_graph=True
    )


def assert_equal_loops(got, expected, leaves):
    near = {"rtol": 0, "atol": tol(torch.float64, 100 * T * N)}
    torch.testing.assert_close(got[0], expected[0], **near)
    torch.testing.assert_close(parts(got[1]), parts(expected[1]), **near)
    torch.testing.assert_close(gradients(got, leaves), gradients(expected, leaves), **near)


@pytest.mark.parametrize("given", [False, True], ids=["default states", "given states"])
@each_case
def test_a_layer_equals_a_loop_of_steps(make, given):
    layer, x, resets = made(make), normal(T, B, M).requires_grad_(), drawn_resets(T, B)
    states = states_like(layer.initial_state(B)) if given else layer.initial_state(B)
    leaves = [x, *layer.parameters(), *(parts(states) if given else ())]
    got = layer(x, states if given else None, resets=resets)
    assert_equal_loops(got, loop(layer, x, states, resets), leaves)


@each_case
def test_resets_of_sequences_of_different_lengths(make):
    layer, x, resets = made(make), normal(T, B, M).requires_grad_(), drawn_resets(T, B)
    states = states_like(layer.initial_state(B))
    leaves = [x, *layer.parameters(), *parts(states)]
    expected = loops(layer, x, states, resets)
    assert_equal_loops(layer(x, states, LENGTHS, resets=resets), expected, leaves)
    pack = partial(pack_padded_sequence, lengths=LENGTHS, enforce_sorted=False)
    output, last = layer(pack(x), states, resets=pack(resets))
    assert_equal_loops((pad_packed_sequence(output)[0], last), expected, leaves)


@pytest.mark.parametrize("backend", ["loop", "torch", "reference"])
@pytest.mark.parametrize("make", [partial(RNN, nonlinearity="tanh"), GRU], ids=["RNN", "GRU"])
def test_every_backend_resets(make, backend):
    layer, x, resets = made(make), normal(T, B, M).requires_grad_(), drawn_resets(T, B)
    with use_backend(backend):
        got = layer(x, None, LENGTHS, resets=resets)
    expected = loops(layer, x, layer.initial_state(B), resets)
    assert_equal_loops(got, expected, [x, *layer.parameters()])


@pytest.mark.parametrize("make", [CASES["RNN"], CASES["stack"]], ids=["layer", "stack"])
def test_resets_have_the_layout_of_the_input(make):
    layer, x, resets = made(make), normal(T, B, M), drawn_resets(T, B)
    expected, last = layer(x, resets=resets)
    layer.batch_first = True
    swapped, last_too = layer(x.transpose(0, 1), resets=resets.T)
    torch.testing.assert_close((swapped.transpose(0, 1), last_too), (expected, last))
    single, its_last = layer(x[:, 1], resets=resets[:, 1])
    torch.testing.assert_close((single, its_last), (expected[:, 1], last[:, 1]))


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_a_cell_resets_its_state(make):
    cell, x = make(M, N), normal(B, M).float()
    states = tuple(torch.ones(B, N) for _ in parts(cell(x)))
    states = states if len(states) > 1 else states[0]
    resets = torch.tensor([True, False, True, False, False])
    got, kept, anew = (parts(v) for v in (cell(x, states, resets), cell(x, states), cell(x)))
    for of_all, of_kept, of_anew in zip(got, kept, anew, strict=True):
        torch.testing.assert_close(of_all, torch.where(resets.unsqueeze(1), of_anew, of_kept))


@pytest.mark.parametrize("readout", ["all", "last"])
@pytest.mark.parametrize("make", [CASES["RNN"], LRU, CASES["stack"], LSTM])
def test_a_model_begins_anew(make, readout):
    x, resets = normal(T, B, M).float(), torch.zeros(T, B, dtype=torch.bool)
    resets[4] = True
    model = SequenceModel(make(M, N), 2, readout).eval()
    for lengths in (None, torch.full((B,), T)):
        got = model(x, lengths, resets)
        torch.testing.assert_close(got[4:] if readout == "all" else got, model(x[4:]))


def test_a_language_model_begins_anew():
    model, resets = LanguageModel(7, M, [RNN(M, N)]), torch.zeros(T, B, dtype=torch.bool)
    symbols = torch.randint(7, (T, B), generator=torch.Generator().manual_seed(0))
    resets[4] = True
    logits, _ = model.advance(symbols, None, resets)
    torch.testing.assert_close(logits[4:], model(symbols[4:]))


@each_case
def test_an_empty_batch_may_reset(make):
    layer = made(make)
    output, _ = layer(normal(T, 0, M), resets=torch.zeros(T, 0, dtype=torch.bool))
    assert output.shape[:2] == (T, 0)


WRONG = {
    "shape": (torch.zeros(B, T, dtype=torch.bool), ValueError, r"\(9, 5\)"),
    "type": (torch.zeros(T, B), TypeError, "float32"),
    "list": ([[False] * B] * T, TypeError, "list"),
    "device": (torch.zeros(T, B, dtype=torch.bool, device="meta"), ValueError, "meta"),
}


@pytest.mark.parametrize(("resets", "error", "match"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("name", ["RNN", "LSTM", "stack"])
def test_wrong_resets_raise(name, resets, error, match):
    with pytest.raises(error, match=match):
        CASES[name](M, N)(torch.zeros(T, B, M), resets=resets)


def test_a_layer_that_reads_backwards_refuses_resets():
    with pytest.raises(ValueError, match="bidirectional"):
        GRU(M, N, bidirectional=True)(torch.zeros(T, B, M), resets=drawn_resets(T, B))


@pytest.mark.parametrize("make", [stack(nn.LSTM), lambda M, N: SequenceModel(nn.GRU(M, N), 2)])
def test_a_layer_of_torch_takes_no_resets(make):
    with pytest.raises(ValueError, match="expected no resets for torch"):
        make(M, N)(torch.zeros(T, B, M), resets=drawn_resets(T, B))


def test_packed_resets_belong_to_a_packed_input():
    x = pack_padded_sequence(torch.zeros(T, B, M), LENGTHS, enforce_sorted=False)
    with pytest.raises(TypeError, match="Tensor"):
        GRU(M, N)(x, resets=torch.zeros(T, B, dtype=torch.bool))
    others = pack_padded_sequence(torch.zeros(T, B, dtype=torch.bool), torch.full((B,), T))
    with pytest.raises(ValueError, match="batch sizes"):
        GRU(M, N)(x, resets=others)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("width", [2, 3, 6])
def test_resets_that_are_false_change_nothing_of_a_short_convolution(width, steps):
    layer = DeltaNet(M, N, heads=2, convolution=width).double()
    state = layer(normal(7, B, M))[1]
    x = normal(steps, B, M)
    none = torch.zeros(steps, B, dtype=torch.bool)
    for found, expected in zip(layer(x, state, resets=none), layer(x, state), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=tol(x.dtype, N))


def test_a_reset_clears_an_infinite_state():
    layer = DeltaNet(M, N).double()
    state = torch.zeros(1, B, layer.initial_state().shape[-1], dtype=torch.float64)
    broken = state.index_fill(1, torch.tensor([1]), torch.inf)
    resets = torch.zeros(T, B, dtype=torch.bool)
    resets[0] = True
    x = normal(T, B, M)
    assert torch.equal(layer(x, broken, resets=resets)[0], layer(x, state, resets=resets)[0])


@pytest.mark.parametrize(
    "state",
    [torch.ones(1, 1, N), torch.ones(B, N), torch.ones(1, B, N).half(), [torch.ones(1, B, N)]],
    ids=["one sequence", "no layers", "16 bits", "list"],
)
def test_a_step_with_resets_checks_its_state(state):
    resets = torch.zeros(B, dtype=torch.bool)
    with pytest.raises((ValueError, TypeError), match="initial state"):
        GRU(M, N).step(torch.ones(B, M), state, resets)


def test_a_step_of_an_lstm_with_resets_wants_a_pair():
    resets = torch.zeros(B, dtype=torch.bool)
    with pytest.raises((ValueError, TypeError), match="pair"):
        LSTM(M, N).step(torch.ones(B, M), torch.ones(1, B, N), resets)


@pytest.mark.parametrize("make", [GRU, LSTM, LRU])
def test_a_default_state_is_no_view_of_the_trained_one(make):
    layer = make(M, N, trainable_h0=True)
    before = [p.clone() for p in layer.parameters()]
    with torch.no_grad():
        states = layer.initial_state(1)
        for state in states if isinstance(states, tuple) else (states,):
            state.add_(1)
    assert all(map(torch.equal, layer.parameters(), before))


@pytest.mark.parametrize("flags", [torch.tensor([0.0, 0.0, 1.0]), torch.ones(3).byte()])
def test_a_stream_takes_no_numbers_for_flags(flags):
    stream = Stream(GRU(M, N), 3)
    with pytest.raises(ValueError, match="booleans"):
        stream.reset(flags)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_rows_of_a_stream_are_reset_after_inference_mode(is_frozen):
    layer = LRU(M, N).eval()
    if is_frozen:
        layer.freeze()
    x = torch.ones(3, M)
    with torch.inference_mode():
        stream = Stream(layer, 3)
        first = stream(x).clone()
        second = stream(x).clone()
    stream.reset([1])
    again = stream(x)
    torch.testing.assert_close(again[1], first[1])
    assert not torch.equal(again[0], second[0])


def test_a_stream_that_records_gradients_can_be_copied():
    stream = Stream(GRU(M, N), 3)
    stream(torch.ones(3, M, requires_grad=True))
    assert torch.equal(copy.deepcopy(stream).state, stream.state)
