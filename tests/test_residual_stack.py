"""Residual stacks around every layer: formulas, streaming, lengths, states and errors."""

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from cases import LAYERS, NAMED
from crossing import few
from eigenrnn import ENRNN, LRU, LSTM, LanguageModel, ResidualStack, ScoRNN, SequenceModel
from eigenrnn.analysis import state_maps
from eigenrnn.linalg import tol
from eigenrnn.models import constrained_parameters
from eigenrnn.residual_stack import last_output

T, B, M, W, N, D = 7, 3, 4, 6, 8, 2
LENGTHS = torch.tensor([4, 7, 1])

MAKERS = {
    **{name: partial(lambda make, width: make(width, N), make) for name, make in LAYERS.items()},
    **{name: partial(lambda make, width: make(width, N), make) for name, make in NAMED.items()},
    "torch.nn.RNN": lambda width: nn.RNN(width, N),
    "torch.nn.LSTM-2": lambda width: nn.LSTM(width, N, num_layers=2),
    "torch.nn.LSTM-projected": lambda width: nn.LSTM(width, N, proj_size=3),
}
FEW = {name: MAKERS[name] for name in ("ScoRNN", "LSTM", "URNN", "torch.nn.LSTM-2")}
each_layer = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
few_layers = pytest.mark.parametrize("make", FEW.values(), ids=FEW.keys())


def stack(make, **options):
    torch.manual_seed(0)
    return ResidualStack(make, W, D, **{"input_size": M, **options}).eval().double()


def sequences():
    return torch.randn(T, B, M, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def near(dtype=torch.float64):
    return {"rtol": 0, "atol": 100 * tol(dtype, N * T)}


def assert_close(got, expected):
    got, expected = (x if isinstance(x, tuple) else (x,) for x in (got, expected))
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, **near())


def layer_norm(x):
    x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def rms_norm(x):
    return x / (x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt()


def affine(x, linear):
    return x @ linear.weight.T + linear.bias


# a second definition; the affine maps of new norms are the identity
@pytest.mark.parametrize("mixer", ["glu", "mlp", None])
@pytest.mark.parametrize(
    ("norm", "normalised"), [("layer", layer_norm), ("rms", rms_norm), (None, lambda x: x)]
)
def test_the_stack_equals_its_formula(norm, normalised, mixer):
    net = stack(lambda width: ENRNN(width, N), norm=norm, mixer=mixer)
    x = affine(sequences(), net.encoder)
    for block in net.blocks:
        y = affine(block.layer(normalised(x))[0], block.projection)
        if mixer == "glu":
            values, gates = affine(F.gelu(y), block.gate).chunk(2, dim=-1)
            y = values / (1 + torch.exp(-gates))
        x = x + y
        if mixer == "mlp":
            _, inner, _, outer = block.mlp
            x = x + affine(F.gelu(affine(normalised(x), inner)), outer)
    assert_close(net(sequences())[0], normalised(x))


@each_layer
def test_streaming_step_by_step_equals_the_whole_sequence(make):
    net = stack(make).freeze()
    with torch.no_grad():
        output, h_n = net(sequences())
        h, steps = None, []
        for x_t in sequences():
            y_t, h = net.step(x_t, h)
            steps.append(y_t)
    assert_close(torch.stack(steps), output)
    assert_close(h, h_n)


@each_layer
def test_a_sequence_continues_from_the_states_of_its_first_part(make):
    net = stack(make)
    output, h_n = net(sequences())
    _, h = net(sequences()[:3])
    rest, last = net(sequences()[3:], h)
    assert_close(rest, output[3:])
    assert_close(last, h_n)


@each_layer
def test_every_parameter_gets_a_gradient(make):
    net = stack(make, mixer="mlp").train()
    net(sequences())[0].square().sum().backward()
    missing = [name for name, p in net.named_parameters() if p.requires_grad and p.grad is None]
    assert missing == []


@pytest.mark.parametrize("last_only", [False, True])
@few_layers
def test_sequences_with_lengths_equal_each_alone(make, last_only):
    net = stack(make)
    output, h_n = net(sequences(), None, LENGTHS, last_only=last_only)
    for b, length in enumerate(LENGTHS.tolist()):
        alone, h = net(sequences()[:length, b])
        assert_close(
            output[b] if last_only else output[:length, b], alone[-1] if last_only else alone
        )
        parts = h_n if isinstance(h_n, tuple) else (h_n,)
        assert_close(tuple(part[:, b] for part in parts), h if isinstance(h, tuple) else (h,))
        if not last_only:
            assert (output[length:, b] == 0).all()


@few_layers
def test_packed_sequences_equal_lengths(make):
    net = stack(make)
    packed = pack_padded_sequence(sequences(), LENGTHS, enforce_sorted=False)
    output, h_n = net(packed)
    expected, expected_h = net(sequences(), lengths=LENGTHS)
    assert_close(pad_packed_sequence(output)[0], expected)
    assert_close(h_n, expected_h)
    assert_close(
        net(packed, last_only=True)[0], net(sequences(), None, LENGTHS, last_only=True)[0]
    )


@each_layer
def test_the_last_output_is_that_of_the_last_step(make):
    net = stack(make, mixer="mlp")
    x = sequences()
    last, h_n = net(x, last_only=True)
    output, expected_h = net(x)
    assert_close(last, output[-1])
    assert_close(h_n, expected_h)
    weights = list(net.parameters())
    assert_close(
        torch.autograd.grad(last.sin().sum(), weights, allow_unused=True, materialize_grads=True),
        torch.autograd.grad(output[-1].sin().sum(), weights, materialize_grads=True),
    )
    assert net(x[:, 0], last_only=True)[0].shape == (W,)


def test_autocast_leaves_the_last_output_in_the_dtype_of_the_weights():
    layer, x = LRU(M, N), sequences().float()
    expected = last_output(layer, x, None)[0]
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(last_output(layer, x, None)[0], expected)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("make", ["ScoRNN", "LRU", "torch.nn.RNN"])
def test_a_recurrence_joins_the_states_of_all_layers(make, depth):
    net = ResidualStack(MAKERS[make], W, depth, input_size=M).double()
    h_n = net(sequences())[1]
    for network in (net, SequenceModel(net, 2).double()):
        (state_map,) = state_maps(network)
        assert state_map.input_size == M
        assert_close(state_map.states(sequences())[-1], h_n.transpose(0, 1).flatten(1))


def test_a_recurrence_of_layers_with_two_states_raises():
    with pytest.raises(ValueError, match="got LSTMs"):
        state_maps(stack(MAKERS["LSTM"]))


@few_layers
def test_the_initial_state_is_the_default_of_a_call(make):
    net = stack(make)
    assert_close(net(sequences())[0], net(sequences(), net.initial_state(B))[0])
    one = sequences()[:, 0]
    assert_close(net(one)[0], net(one, net.initial_state())[0])


def test_hooks_of_the_last_layer_see_all_time_steps():
    net = stack(MAKERS["ScoRNN"])
    seen = []
    net.layers()[-1].register_forward_hook(lambda *args: seen.append(args[2][0].shape))
    net(sequences(), last_only=True)
    assert seen == [(T, B, N)]


def test_batch_first_swaps_time_and_batch():
    net = stack(MAKERS["ScoRNN"])
    swapped = stack(MAKERS["ScoRNN"], batch_first=True)
    swapped.load_state_dict(net.state_dict())
    assert_close(swapped(sequences().transpose(0, 1))[0], net(sequences())[0].transpose(0, 1))


@few_layers
def test_one_step_of_one_sequence_has_no_batch_dimension(make):
    net = stack(make)
    x = sequences()[0]
    y, h = net.step(x[1])
    expected, expected_h = net.step(x)
    assert_close(y, expected[1])
    again, _ = net.step(x[1], h)
    assert_close(again, net.step(x, expected_h)[0][1])


def test_bidirectional_layers_read_both_ways_and_cannot_step():
    net = stack(lambda width: ScoRNN(width, N, bidirectional=True))
    assert net.bidirectional
    assert net(sequences())[1].shape == (2 * D, B, N)
    with pytest.raises(ValueError, match="got bidirectional"):
        net.step(sequences()[0])


def test_dropout_applies_while_training_only():
    net = stack(MAKERS["ScoRNN"], dropout=0.5)
    assert torch.equal(net(sequences())[0], net(sequences())[0])
    net.train()
    assert not torch.equal(net(sequences())[0], net(sequences())[0])


def test_the_generator_determines_the_linear_maps():
    def made(seed):
        generator = torch.Generator().manual_seed(seed)
        return ResidualStack(
            lambda width: ScoRNN(width, N), W, 1, input_size=M, generator=generator
        )

    one, same, other = made(0), made(0), made(1)
    for net, equal in ((same, True), (other, False)):
        assert torch.equal(one.encoder.weight, net.encoder.weight) == equal
        assert torch.equal(one.blocks[0].gate.bias, net.blocks[0].gate.bias) == equal


@pytest.mark.parametrize("readout", ["all", "last"])
def test_a_sequence_model_reads_the_outputs_of_a_stack(readout):
    net = stack(MAKERS["LSTM"])
    model = SequenceModel(net, 5, readout).double()
    output, _ = net(sequences(), lengths=LENGTHS)
    if readout == "last":
        output = output[LENGTHS - 1, torch.arange(B)]
    assert_close(model(sequences(), LENGTHS), model.head(output))


def test_a_language_model_carries_the_states_of_a_stack():
    model = LanguageModel(11, W, [ResidualStack(lambda width: LSTM(width, N), W, D)]).eval()
    text = torch.randint(11, (T, B), generator=torch.Generator().manual_seed(2))
    first, state = model.advance(text[:3], None)
    second, _ = model.advance(text[3:], state)
    torch.testing.assert_close(torch.cat([first, second]), model(text), **near(torch.float32))


def test_weights_are_saved_and_copied():
    net, other = stack(MAKERS["ScoRNN"]), stack(MAKERS["ScoRNN"], mixer="glu")
    for raw in other.parameters():
        nn.init.normal_(raw, std=0.1)
    other.load_state_dict(net.state_dict())
    for same in (other, copy.deepcopy(net)):
        assert_close(same(sequences())[0], net(sequences())[0])


def test_the_constraints_of_all_layers_are_found_and_stay_in_their_set():
    net = ResidualStack(lambda width: ScoRNN(width, N), W, D, input_size=M)
    assert len(list(constrained_parameters(net))) == D
    optimiser = torch.optim.Adam(net.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        net(sequences().float())[0].square().sum().backward()
        optimiser.step()
    assert all(layer.orthogonality_error() < 1e-5 for layer in net.layers())


def test_the_stack_has_the_dtype_of_its_layers():
    net = ResidualStack(lambda width: LRU(width, N, dtype=torch.float64), W, D, input_size=M)
    assert net(sequences())[0].dtype == net.weight_dtype == torch.float64


@pytest.mark.filterwarnings("ignore")
@few("lengths", {"lengths": LENGTHS, "none": None}, ["lengths"])
def test_torch_compile_accepts_sequences_of_different_lengths(lengths):
    net, x = stack(MAKERS["LRU"]), sequences()
    if lengths is None:
        x = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
    torch._dynamo.reset()
    got, h_n = torch.compile(net, backend="eager")(x, lengths=lengths)
    expected, expected_h = net(x, lengths=lengths)
    assert_close(getattr(got, "data", got), getattr(expected, "data", expected))
    assert_close(h_n, expected_h)
