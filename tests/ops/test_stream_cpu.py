"""Streams and steps of frozen layers agree with the whole sequence and follow every change."""

import copy
import io
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
import torch

from cases import NONLINEARITIES
from crossing import few, some
from eigenrnn import (
    GRU,
    LRU,
    LSTM,
    NCGRU,
    RNN,
    DeltaNet,
    DeltaProduct,
    GatedDeltaNet,
    LeakyRNN,
    MinGRU,
    ResidualStack,
    ScoRNN,
    ScuRNN,
    SequenceModel,
    Stream,
)
from eigenrnn.constraints import DiagonalSegment
from eigenrnn.init import uniform_, weights_
from eigenrnn.linalg import tol
from eigenrnn.ops import use_backend
from kernel_testing import needs_kernels, python

pytestmark = pytest.mark.usefixtures("fresh_memory_is_poisoned")

M, N, T = 3, 33, 7

# Layers whose steps the kernels compute with packed weights.
PACKED = {
    "RNN": RNN,
    "tanh RNN of three layers": partial(RNN, nonlinearity="tanh", num_layers=3),
    "float64 RNN with a trained state": partial(
        RNN, dtype=torch.float64, trainable_h0=True, init=partial(weights_, h0=uniform_)
    ),
    "leaky": partial(LeakyRNN, leak=0.2, nonlinearity="softplus"),
    "leaky, trained": partial(LeakyRNN, leak=0.2, trainable_leak=True, noise=0.1),
    "currents": partial(LeakyRNN, leak=0.2, state="current"),
    "float64 currents of two tanh layers with a leak of one": partial(
        LeakyRNN,
        nonlinearity="tanh",
        leak=1.0,
        state="current",
        num_layers=2,
        dtype=torch.float64,
    ),
    "ScoRNN": ScoRNN,
    "LayerNorm of two layers": partial(RNN, layer_norm=True, num_layers=2),
    "zoneout": partial(RNN, zoneout=0.2),
    "LayerNorm of currents": partial(LeakyRNN, leak=0.2, state="current", layer_norm=True),
    "GRU": GRU,
    "GRU with LayerNorm": partial(GRU, layer_norm=True),
    "float64 GRU with LayerNorm and zoneout": partial(
        GRU, layer_norm=True, zoneout=0.3, reset_after=False, dtype=torch.float64
    ),
    "float64 modReLU GRU of two layers": partial(
        GRU, nonlinearity="modrelu", num_layers=2, dtype=torch.float64
    ),
    "GRU with the reset before": partial(GRU, reset_after=False, update_keeps=False, bias=False),
    "NCGRU": NCGRU,
    "LSTM": LSTM,
    "float64 LSTM of two layers": partial(LSTM, num_layers=2, dtype=torch.float64),
}
# Their whole sequences are computed in other sums, so steps agree with them up to rounding.
OTHER_SUMS = {
    "LRU": LRU,
    "float64 LRU of two layers without a bias": partial(
        LRU, num_layers=2, bias=False, dtype=torch.float64, trainable_h0=True
    ),
    "LRU with real eigenvalues": partial(LRU, constraint=DiagonalSegment),
    "MinGRU": MinGRU,
    "float64 MinGRU of two layers with negative decays": partial(
        MinGRU, num_layers=2, decays=(-1, 0.5), bias=False, dtype=torch.float64
    ),
    "DeltaNet": partial(DeltaNet, heads=3),
    "three reflections in two layers": partial(
        DeltaNet, heads=3, reflections=3, num_layers=2, trainable_h0=True
    ),
    "float64, one head, another segment": partial(
        DeltaNet, eigenvalues=(-0.5, 0.7), bias=False, dtype=torch.float64
    ),
    "GatedDeltaNet": partial(GatedDeltaNet, heads=3, bias=True),
    "filters of width one": partial(DeltaNet, heads=11, convolution=1, output_gate=True),
    "float64 DeltaProduct of two layers": partial(
        DeltaProduct, heads=3, num_layers=2, dtype=torch.float64
    ),
}
# Layers that step as without a stream.
OTHERS = {
    "complex": ScuRNN,
    "bfloat16": partial(LSTM, dtype=torch.bfloat16),
    "the reference": partial(GRU, backend="reference"),
}
WEIGHTS_OF_DELTA = (
    *("weight_ih", "convolution_weight", "A_log", "dt_bias", "norm_weight"),
    *("weight_out", "output_bias"),
)
WEIGHTS_OF_LRU = "weight_ih", "gamma_log", "weight_out", "weight_skip", "output_bias"
each_packed = pytest.mark.parametrize("make", PACKED.values(), ids=PACKED.keys())
each_batch = pytest.mark.parametrize("B", [None, 1, 17], ids=["single", "one", "many"])


def seeded(make, *sizes, seed=0, **options):
    return make(*sizes, generator=torch.Generator().manual_seed(seed), **options)


def frozen(make=RNN):
    return seeded(make, M, N).freeze()


def inputs(layer, B=None, steps=T, seed=1):
    shape = steps, *(() if B is None else (B,)), layer.input_size
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    return x.to(getattr(layer, "weight_dtype", torch.float32))


def run(stream, x):
    return torch.stack([stream(x_t) for x_t in x])


def is_packed(stream):
    return stream._snapshot is not None


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


@needs_kernels
@each_packed
@each_batch
def test_a_stream_gives_the_bits_of_the_whole_sequence(make, B):
    layer = frozen(make)
    x = inputs(layer, B)
    with torch.no_grad():
        expected, last = layer(x)
    stream = Stream(layer, B)
    got = run(stream, x)
    assert is_packed(stream)
    assert torch.equal(got, expected)
    assert all(map(torch.equal, as_tuple(stream.state), as_tuple(last)))
    assert not got.requires_grad


@needs_kernels
@each_packed
@pytest.mark.parametrize("B", [None, 17], ids=["single", "many"])
def test_steps_of_a_frozen_layer_give_the_bits_of_the_whole_sequence(make, B):
    layer = frozen(make)
    x = inputs(layer, B)
    with torch.no_grad():
        expected, last = layer(x)
        state, outputs = layer.initial_state(B), []
        for x_t in x:
            y, state = layer.step(x_t, state)
            outputs.append(y)
    assert layer._snapshot._snapshot is not None
    assert torch.equal(torch.stack(outputs), expected)
    assert all(map(torch.equal, as_tuple(state), as_tuple(last)))


@needs_kernels
@pytest.mark.parametrize("f", NONLINEARITIES.values(), ids=NONLINEARITIES.keys())
@each_batch
def test_a_stream_of_currents_continues_from_any_state_and_passes_its_head(f, B):
    name, bias = f
    make = partial(LeakyRNN, nonlinearity=name, bias=bias, leak=0.3, state="current", num_layers=2)
    model = SequenceModel(moved(seeded(make, M, N)), 5)
    x = inputs(model.layer, B)
    # the whole sequence takes f of the first state from torch, whose last bits may differ
    v0 = torch.randn(
        model.layer.initial_state(B).shape, generator=torch.Generator().manual_seed(3)
    )
    with torch.no_grad():
        outputs, last = model.layer(x, v0)
        expected = model.head(outputs)
    stream = Stream(model, B)
    stream.state = v0
    got = run(stream, x)
    assert is_packed(stream)
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=tol(x.dtype, N * T))
    close(got, expected)
    close(stream.state, last)


def moved(layer):
    """Return a layer whose weights all differ from their initial values, frozen."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in layer.parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
            weight.add_(noise, alpha=0.3)
    return layer.freeze()


@needs_kernels
@pytest.mark.parametrize("make", OTHER_SUMS.values(), ids=OTHER_SUMS.keys())
@each_batch
def test_steps_in_other_sums_agree_with_the_reference(make, B):
    layer = moved(seeded(make, M, N))
    x = inputs(layer, B)
    with torch.no_grad(), use_backend("reference"):
        expected, last = layer(x)
    close = partial(torch.testing.assert_close, rtol=0, atol=tol(x.dtype, 100))
    stream = Stream(layer, B)
    outputs = run(stream, x)
    assert is_packed(stream)
    close(outputs, expected)
    close(stream.state, last)
    with torch.no_grad():
        state = layer.initial_state(B)
        stepped = []
        for x_t in x:
            y, state = layer.step(x_t, state)
            stepped.append(y)
    assert torch.equal(torch.stack(stepped), outputs)
    assert torch.equal(state, stream.state)


@needs_kernels
def test_a_stream_of_the_delta_rule_passes_its_head_and_continues_from_a_state():
    model = SequenceModel(seeded(DeltaProduct, M, N, heads=3), 5)
    moved(model.layer)
    x = inputs(model.layer, 2)
    with torch.no_grad():
        expected, _ = model.layer(x)
        expected = model.head(expected)
    stream = Stream(model, 2)
    got = run(stream, x[:3])
    state = stream.state
    got = torch.cat([got, run(stream, x[3:])])
    assert is_packed(stream)
    torch.testing.assert_close(got, expected, rtol=0, atol=tol(x.dtype, 100))
    stream.state = state
    assert torch.equal(run(stream, x[3:]), got[3:])


@needs_kernels
@pytest.mark.parametrize(
    ("make", "name"),
    [(partial(DeltaProduct, heads=3, bias=True), name) for name in WEIGHTS_OF_DELTA]
    + [(LRU, name) for name in WEIGHTS_OF_LRU]
    + [(MinGRU, name) for name in ("weight_ih", "input_bias")],
    ids=str,
)
def test_a_stream_follows_every_weight(make, name):
    layer = moved(seeded(make, M, N))
    stream, x = Stream(layer), inputs(layer)
    before = run(stream, x)
    with torch.no_grad():
        getattr(layer.all_directions()[0], name).mul_(1.5)
    stream.reset()
    after = run(stream, x)
    assert is_packed(stream)
    with torch.no_grad():
        torch.testing.assert_close(after, layer(x)[0], rtol=0, atol=tol(x.dtype, 300))
    assert not torch.allclose(after, before, atol=1e-3)


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("B", [None, 17], ids=["single", "many"])
def test_other_layers_step_as_without_a_stream(make, B):
    layer = frozen(make)
    x = inputs(layer, B)
    stream = Stream(layer, B)
    got = run(stream, x)
    with torch.no_grad():
        expected, last = layer(x)
    assert not is_packed(stream)
    # each step rounds the state to its dtype
    atol = 4 * tol(layer.weight_dtype, N)
    torch.testing.assert_close(got, expected, rtol=0, atol=atol)
    for one, other in zip(as_tuple(stream.state), as_tuple(last), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=atol)


def test_without_kernels_the_outputs_are_the_same(monkeypatch):
    layer = frozen()
    x = inputs(layer)
    expected = run(Stream(layer), x)
    monkeypatch.setattr("eigenrnn.layers.stepping.kernels", None)
    stream = Stream(layer)
    torch.testing.assert_close(run(stream, x), expected, rtol=0, atol=tol(x.dtype, N))
    assert not is_packed(stream)


@needs_kernels
@pytest.mark.parametrize("make", [RNN, GRU, LSTM], ids=lambda make: make.__name__)
@pytest.mark.parametrize("K", [1, 5, 40])
def test_a_model_streams_the_outputs_of_its_head(make, K):
    layer = frozen(partial(make, num_layers=2))
    model, last = (seeded(SequenceModel, layer, K, readout) for readout in ("all", "last"))
    x = inputs(layer, 4)
    with torch.no_grad():
        expected, expected_last = model(x), last(x)
    atol = tol(x.dtype, N)
    for each in (model, last):
        stream = Stream(each, 4)
        got = run(stream, x)
        assert is_packed(stream)
        torch.testing.assert_close(got, expected, rtol=0, atol=atol)
    torch.testing.assert_close(got[-1], expected_last, rtol=0, atol=atol)


def write(layer):
    with torch.no_grad():
        layer.directions[0].weight_ih += 0.5


def swap_data(layer):
    direction = layer.directions[0]
    direction.weight_ih.data = direction.weight_ih.detach() + 0.5


def replace_parameter(layer):
    direction = layer.directions[0]
    direction.weight_ih = torch.nn.Parameter(direction.weight_ih.detach() + 0.5)


def load_other_weights(layer):
    layer.load_state_dict(seeded(type(layer), M, N, seed=5).state_dict())


def train_a_step(layer):
    layer.train()
    optimiser = torch.optim.SGD(layer.parameters(), 0.5)
    layer(inputs(layer))[0].square().sum().backward()
    optimiser.step()
    layer.eval()


def train_and_freeze(layer):
    train_a_step(layer)
    layer.freeze()


def hook(layer):
    layer.directions[0].register_forward_hook(lambda _, __, results: (2 * results[0], results[1]))


def parametrise(layer):
    class Double(torch.nn.Module):
        def forward(self, weight):
            return 2 * weight

    torch.nn.utils.parametrize.register_parametrization(layer.directions[0], "weight_ih", Double())


CHANGES = [
    write,
    swap_data,
    replace_parameter,
    load_other_weights,
    train_a_step,
    train_and_freeze,
    hook,
    parametrise,
]


@pytest.mark.parametrize(
    ("make", "change"),
    [*((RNN, change) for change in CHANGES), (GRU, write), (LSTM, write), (LSTM, hook)],
    ids=lambda value: value.__name__,
)
def test_a_changed_weight_is_used_at_once(make, change):
    layer = frozen(make)
    x, stream = inputs(layer), Stream(layer)
    with torch.no_grad():
        _, state = layer(x[:-1])
        before, _ = layer.step(x[-1], state)
    run(stream, x[:-1])
    change(layer)
    with torch.no_grad():
        got, _ = layer.step(x[-1], state)
        expected, _ = layer(x[-1:], state)
    torch.testing.assert_close(got, expected[0], rtol=0, atol=tol(x.dtype, N))
    assert torch.equal(stream(x[-1]), got)
    assert (got - before).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_a_step_of_a_fused_optimiser_is_used_at_once(kind):
    model = seeded(SequenceModel, frozen(), 4)
    stream, x = Stream(model), inputs(model.layer)
    stream(x[0])
    trained = [*model.head.parameters(), model.layer.directions[0].weight_ih]
    optimiser = getattr(torch.optim, kind)(trained, lr=0.1, fused=True)
    model(x[:, None])[0].square().sum().backward()
    optimiser.step()
    stream.reset()
    got = torch.stack([stream(x_t) for x_t in x])
    expected = model(x[:, None])[:, 0]
    torch.testing.assert_close(got, expected.detach(), rtol=0, atol=tol(x.dtype, N))


@needs_kernels
def test_a_changed_head_is_used_at_once():
    model = seeded(SequenceModel, frozen(), 4)
    stream, x = Stream(model), inputs(model.layer)
    before = stream(x[0])
    with torch.no_grad():
        model.head.bias += 1
    stream.reset()
    torch.testing.assert_close(stream(x[0]), before + 1, rtol=0, atol=tol(x.dtype, N))
    assert is_packed(stream)
    model.head.register_forward_hook(lambda _, __, y: 2 * y)
    stream.reset()
    torch.testing.assert_close(stream(x[0]), 2 * before + 2, rtol=0, atol=tol(x.dtype, N))


@pytest.mark.parametrize("place", ["model", "layer"])
def test_a_hook_that_no_step_would_call_is_refused(place):
    model = SequenceModel(GRU(M, N), 4)
    {"model": model, "layer": model.layer}[place].register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="without hooks"):
        Stream(model)


@pytest.mark.parametrize("K", [4, 6])
def test_a_replaced_head_is_used_at_once(K):
    model = seeded(SequenceModel, frozen(), 4)
    stream, x = Stream(model), inputs(model.layer)
    stream(x[0])
    linear = torch.nn.Linear(N, K)
    for head in (linear, torch.nn.Sequential(linear, torch.nn.Tanh())):
        model.head = head
        stream.reset()
        with torch.no_grad():
            expected = head(model.layer(x[:1])[0])[0]
        got = stream(x[0])
        torch.testing.assert_close(got, expected, rtol=0, atol=tol(x.dtype, N))


STACKED = [LRU, ScoRNN, LSTM, torch.nn.LSTM, partial(torch.nn.LSTM, proj_size=4)]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("make", STACKED)
@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_stack_with_a_head_streams_like_the_whole_sequence(make, batch_size):
    model = SequenceModel(ResidualStack(lambda width: make(width, N), 6, 2, input_size=M), 4)
    stream, x = Stream(model, batch_size), inputs(model.layer.freeze(), batch_size)
    near = {"rtol": 0, "atol": tol(x.dtype, N * T)}
    with torch.no_grad():
        expected = model(x)
    torch.testing.assert_close(run(stream, x[:3]), expected[:3], **near)
    state, other = stream.state, copy.deepcopy(stream)
    torch.testing.assert_close(run(stream, x[3:]), expected[3:], **near)
    torch.testing.assert_close(run(other, x[3:]), expected[3:], **near)
    stream.reset()
    torch.testing.assert_close(run(stream, x[:3]), expected[:3], **near)
    stream.state = state
    torch.testing.assert_close(run(stream, x[3:]), expected[3:], **near)


def test_a_layer_that_is_not_frozen_never_keeps_packed_weights():
    layer = seeded(RNN, M, N).eval()
    x, stream = inputs(layer), Stream(layer)
    before = stream(x[0])
    with torch.no_grad():
        for raw in layer.directions[0].constraint.parameters():
            raw.copy_(torch.randn(raw.shape, generator=torch.Generator().manual_seed(3)))
    got = stream(x[1])
    assert not is_packed(stream)
    assert layer._snapshot._snapshot is None
    with torch.no_grad():
        expected, _ = layer.step(x[1], before.unsqueeze(0))
    torch.testing.assert_close(got, expected, rtol=0, atol=tol(x.dtype, N))


def test_a_frozen_layer_gives_gradients_where_they_are_wanted():
    layer = frozen()
    x, stream = inputs(layer), Stream(layer)
    stream(x[0])
    y, _ = layer.step(x[1], stream.state)
    assert y.requires_grad  # of U and the bias
    y, _ = layer.requires_grad_(False).step(x[1], stream.state)
    assert not y.requires_grad


@pytest.mark.parametrize("make", [RNN, LSTM], ids=lambda make: make.__name__)
def test_an_input_that_requires_a_gradient_gets_it_through_later_steps(make):
    layer = frozen(make)
    x = inputs(layer).requires_grad_()
    (expected,) = torch.autograd.grad(layer(x)[0].sum(), x)
    stream = Stream(layer)
    outputs = [stream(x[0]), *(stream(x_t) for x_t in x[1:])]
    (got,) = torch.autograd.grad(torch.stack(outputs).sum(), x)
    torch.testing.assert_close(got, expected, rtol=0, atol=tol(x.dtype, N))
    stream.reset()
    assert not stream(x.detach()[0]).requires_grad


@each_packed
@pytest.mark.parametrize("B", [None, 4], ids=["single", "batch"])
def test_a_saved_state_continues_the_stream(make, B):
    layer = frozen(make)
    x, stream, other = inputs(layer, B), Stream(layer, B), Stream(layer, B)
    run(stream, x[:3])
    state = stream.state
    expected = run(stream, x[3:])
    other.state = state
    assert torch.equal(run(other, x[3:]), expected)
    for each in as_tuple(state):
        each.fill_(torch.nan)  # a copy, in both directions
    stream.reset()
    run(stream, x[:3])
    assert torch.equal(run(stream, x[3:]), expected)


@pytest.mark.parametrize("make", [RNN, LSTM], ids=lambda make: make.__name__)
def test_copies_and_pickles_continue_on_their_own(make):
    stream = Stream(frozen(make), 2)
    x = inputs(stream.model, 2)
    run(stream, x[:3])
    file = io.BytesIO()
    torch.save(stream, file)
    file.seek(0)
    others = [copy.deepcopy(stream), torch.load(file, weights_only=False)]
    expected = run(stream, x[3:])
    for other in others:
        assert other.model is not stream.model
        assert torch.equal(run(other, x[3:]), expected)


def test_streams_of_one_model_are_independent():
    layer = frozen()
    x, one, other = inputs(layer), Stream(layer), Stream(layer)
    expected = run(one, x)
    one.reset()
    got = []
    for x_t in x:
        got.append(one(x_t))
        other(x_t + 1)
    assert torch.equal(torch.stack(got), expected)


@needs_kernels
@pytest.mark.parametrize("make", [RNN, GRU, LSTM, LRU, MinGRU], ids=lambda make: make.__name__)
def test_large_batches_use_all_threads_and_give_the_same_bits(make):
    layer = seeded(make, 170, 170).freeze()
    x, before = inputs(layer, 64, 3), torch.get_num_threads()
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results.append(run(Stream(layer, 64), x))
    torch.set_num_threads(before)
    assert torch.equal(*results)


@pytest.mark.parametrize("B", [None, 5], ids=["single", "batch"])
def test_an_input_may_have_any_strides(B):
    layer = frozen()
    x = inputs(layer, B)
    expected = run(Stream(layer, B), x)
    strided = torch.empty(*x.shape, 2)[..., 0].copy_(x)
    assert torch.equal(run(Stream(layer, B), strided), expected)
    negative = torch.view_as_complex(torch.stack([x, -x], -1)).conj().imag
    assert negative.is_neg()
    assert torch.equal(run(Stream(layer, B), negative), expected)
    one = seeded(RNN, 1, N).freeze()  # a negative view of one number is contiguous
    x = torch.view_as_complex(torch.tensor([[0.5, -0.5]])).conj().imag
    assert torch.equal(Stream(one)(x), Stream(one)(torch.tensor([0.5])))


def test_autocast_transforms_and_forced_backends_are_respected(monkeypatch):
    layer = frozen()
    x, stream = inputs(layer), Stream(layer)
    expected = run(stream, x)

    def check(dtype=x.dtype):
        stream.reset()
        outputs = run(stream, x)
        assert outputs.dtype == dtype
        torch.testing.assert_close(outputs.to(x.dtype), expected, rtol=0, atol=tol(dtype, N))

    calls = []
    reference = RNN.backends["reference"]
    ordinary = type(reference).run
    counted = lambda self, *arguments: calls.append(0) or ordinary(self, *arguments)  # noqa: E731
    monkeypatch.setattr(type(reference), "run", counted)
    with use_backend("reference"):
        check()
    assert len(calls) == T
    monkeypatch.setenv("EIGENRNN_BACKEND", "reference")
    stream = Stream(layer)
    check()
    assert len(calls) == 2 * T
    monkeypatch.delenv("EIGENRNN_BACKEND")
    with torch.autocast("cpu", torch.bfloat16):
        check(torch.bfloat16)
    state = stream.state
    batched = torch.func.vmap(lambda each: layer.step(each, state)[0])(x)
    torch.testing.assert_close(
        batched, layer(x.unsqueeze(0), state.expand(1, T, N).contiguous())[0][0]
    )


def test_a_step_of_a_frozen_layer_compiles_to_one_graph():
    layer = frozen().requires_grad_(False)
    x, state = inputs(layer), layer.initial_state()
    expected, _ = layer.step(x[0], state)
    compiled_step = torch.compile(layer.step, backend="aot_eager", fullgraph=True)
    got, _ = compiled_step(x[0], state)
    torch.testing.assert_close(got, expected)


LAYER, PAIR = frozen(), frozen(LSTM)
ERRORS = {
    "torch's layer": (lambda: Stream(torch.nn.RNN(M, N)), TypeError, "recurrent layer of eigen"),
    "two directions": (lambda: Stream(RNN(M, N, bidirectional=True)), ValueError, "bidirectional"),
    "batch size zero": (lambda: Stream(LAYER, 0), ValueError, "batch_size"),
    "no batch": (lambda: Stream(LAYER, 2)(torch.zeros(M)), ValueError, r"\(2, 3\), got \(3,\)"),
    "a sequence": (lambda: Stream(LAYER)(torch.zeros(9, 2, M)), ValueError, "x_t of shape"),
    "float64": (lambda: Stream(LAYER)(torch.zeros(M, dtype=torch.float64)), TypeError, "float32"),
    "a state of another shape": (
        lambda: setattr(Stream(LAYER), "state", torch.zeros(1, N + 1)),
        ValueError,
        r"\(1, 33\), got \(1, 34\)",
    ),
    "one state for an LSTM": (
        lambda: setattr(Stream(PAIR), "state", torch.zeros(1, N)),
        TypeError,
        "pair",
    ),
    "a state on another device": (
        lambda: setattr(Stream(LAYER), "state", torch.zeros(1, N, device="meta")),
        ValueError,
        "on meta",
    ),
}


@pytest.mark.parametrize(("call", "kind", "match"), ERRORS.values(), ids=ERRORS.keys())
def test_wrong_arguments_are_named(call, kind, match):
    with pytest.raises(kind, match=match):
        call()


def test_a_layer_that_changes_its_dtype_needs_a_new_stream():
    layer = frozen()
    stream = Stream(layer)
    stream(inputs(layer)[0])
    layer.double()
    with pytest.raises(TypeError, match=r"torch\.float64"):
        stream(torch.zeros(M))
    again = Stream(layer)
    assert again(inputs(layer)[0]).dtype == torch.float64


def test_the_kernels_read_no_state_of_another_dtype():
    layer = frozen()
    stream = Stream(layer)
    stream(torch.zeros(M))
    with torch.autocast("cpu"):
        stream.state = torch.zeros(1, N, dtype=torch.float16)
    with pytest.raises(TypeError, match=r"float32.*float16"):
        stream(torch.zeros(M))
    stream.reset()
    layer.double()
    with pytest.raises(TypeError, match=r"float64.*float32"):
        stream(torch.zeros(M, dtype=torch.float64))


def test_a_step_that_fails_leaves_the_stream_as_it_was():
    layer = RNN(3, 64).freeze()
    x = torch.randn(3, 3)
    stream, other = Stream(layer), Stream(layer)
    stream(x[0])
    before = stream.state
    with pytest.raises(RuntimeError, match=r"torch\.func transforms"):
        torch.func.vmap(stream)(x)
    with pytest.raises(RuntimeError, match=r"torch\.func transforms"):
        torch.func.grad(lambda x_t: stream(x_t).sum())(x[1])
    assert torch.equal(stream.state, before)
    other(x[0])
    assert torch.equal(stream(x[1]), other(x[1]))


@few("make", {"RNN": RNN, "GRU": GRU, "LSTM": LSTM}, ["LSTM"])
def test_another_thread_may_freeze_and_thaw_the_layer(make):
    layer = frozen(make)
    x = inputs(layer, steps=200)
    expected = run(Stream(layer), x)
    finished = threading.Event()

    def freeze_and_thaw():
        while not finished.is_set():
            layer.train()  # discards the frozen matrices
            layer.freeze()

    other = threading.Thread(target=freeze_and_thaw)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # seconds: the threads change places within a step
    other.start()
    try:
        stream = Stream(layer)
        for _ in range(10):
            stream.reset()
            torch.testing.assert_close(run(stream, x), expected)
    finally:
        finished.set()
        other.join()
        sys.setswitchinterval(interval)


def test_a_layer_that_another_thread_thaws_while_its_weights_are_packed_steps_as_before(
    monkeypatch,
):
    layer = frozen()
    x = inputs(layer)
    expected = run(Stream(layer), x)
    direction_class = type(layer.all_directions()[0])
    stepper = direction_class.stepper

    def stepper_after_a_thaw(direction):
        packed = stepper(direction)
        layer.train()
        return packed

    monkeypatch.setattr(direction_class, "stepper", stepper_after_a_thaw)
    torch.testing.assert_close(run(Stream(layer), x), expected)


@needs_kernels
@pytest.mark.parametrize("part", some(["ops", "layers", "constraints"], ["layers"]))
def test_freed_storage_is_an_error(part):
    # in a process of its own, which a wrong read ends
    done = python("-W", "ignore", str(Path(__file__).with_name("freed_storage.py")), part)
    assert done.returncode == 0, f"the last case of: {done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("trained", [False, True])
def test_a_stream_notices_a_write_to_the_leak(trained):
    layer = LeakyRNN(3, 5, nonlinearity="tanh", trainable_leak=trained).freeze()
    x = torch.randn(3)
    stream = Stream(layer)
    stream(x)
    (direction,) = layer.all_directions()
    (values,) = [*direction.leak.parameters(), *direction.leak.buffers()]
    with torch.no_grad():
        values.mul_(0.5)
    state = stream.state
    expected, _ = layer(x.unsqueeze(0), state)
    assert torch.equal(stream(x), expected[0])
    assert not torch.equal(expected[0], state[0])


@pytest.mark.parametrize(
    "make",
    [PACKED["GRU"], PACKED["LSTM"], PACKED["float64 RNN with a trained state"], OTHERS["complex"]],
    ids=["GRU", "LSTM", "trained state", "ordinary"],
)
@pytest.mark.parametrize("rows", [[2, 0], [True, False, True], torch.tensor([0, 2]), []], ids=str)
def test_some_sequences_begin_anew_and_the_others_go_on(make, rows):
    layer = frozen(make)
    x = inputs(layer, 3)
    stream, alone = Stream(layer, 3), Stream(layer, 3)
    run(stream, x), run(alone, x)
    stream.reset(rows)
    chosen = torch.tensor([len(rows) > 0, False, len(rows) > 0])
    got, going_on = run(stream, x), run(alone, x)
    alone.reset()
    assert torch.equal(got[:, chosen], run(alone, x)[:, chosen])
    assert torch.equal(got[:, ~chosen], going_on[:, ~chosen])


def test_gradients_of_sequences_that_go_on_pass_a_reset_of_others():
    layer = seeded(RNN, M, N)
    stream = Stream(layer, 2)
    x = inputs(layer, 2).requires_grad_()
    stream(x[0])
    stream.reset([1])
    (dx,) = torch.autograd.grad(stream(x[1]).sum(), x)
    assert dx[0, 0].any()
    assert not dx[0, 1].any()


@pytest.mark.parametrize("rows", [[3], [-1], [True, False], [0.5], [[0]], 1], ids=str)
def test_rows_that_are_no_sequences_of_the_batch_raise(rows):
    with pytest.raises(ValueError, match="from 0 to 2 or as 3 booleans"):
        Stream(frozen(), 3).reset(rows)


@pytest.mark.parametrize("rows", [[0], []], ids=str)
def test_a_stream_of_a_single_sequence_has_no_rows(rows):
    with pytest.raises(ValueError, match=r"call reset\(\)"):
        Stream(frozen()).reset(rows)


@torch.no_grad()
def test_steps_notice_a_replaced_part_after_another_freeze():
    layer = frozen(GRU)
    x = inputs(layer)[0]
    layer.step(x, layer.initial_state())
    layer.directions[0] = seeded(GRU, M, N, seed=1).directions[0]
    output, _ = layer.freeze().step(x, layer.initial_state())
    torch.testing.assert_close(output, layer(x.unsqueeze(0))[0][0])


STACKS = {
    "LRU with a GLU": (LRU, {}),
    "wide ScoRNN and a map of the inputs": (ScoRNN, {"input_size": 5}),
    "LSTM with an MLP and RMSNorm": (LSTM, {"norm": "rms", "mixer": "mlp"}),
    "GRU without norm and mixer": (GRU, {"norm": None, "mixer": None}),
    "MinGRU with an MLP": (MinGRU, {"mixer": "mlp"}),
}
each_stack = pytest.mark.parametrize(("make", "options"), STACKS.values(), ids=STACKS.keys())


def stack(make, options, dtype=torch.float64):
    """A frozen stack of width 12 whose weights all differ from their initial values."""
    units = 17 if make is ScoRNN else 12
    generator = torch.Generator().manual_seed(0)
    layer = partial(make, hidden_size=units, generator=generator)
    made = ResidualStack(layer, 12, 2, generator=generator, **options).to(dtype)
    with torch.no_grad():
        for weight in made.parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.add_(noise.to(dtype), alpha=0.2)
    return made.freeze()


@needs_kernels
@each_stack
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@each_batch
def test_a_stream_of_a_stack_gives_the_outputs_of_the_whole_sequence(make, options, dtype, B):
    model = SequenceModel(stack(make, options, dtype), 3).to(dtype)
    x = inputs(model.layer, B).to(dtype)
    with torch.no_grad():
        expected, last = model.layer(x)
        expected = model.head(expected)
    stream = Stream(model, B)
    got = run(stream, x)
    assert is_packed(stream)
    close = partial(torch.testing.assert_close, rtol=0, atol=tol(dtype, 1000))
    close(got, expected)
    close(stream.state, last)


@needs_kernels
@each_stack
def test_a_stream_of_a_stack_follows_every_weight(make, options):
    layer = stack(make, options)
    stream, x = Stream(layer), inputs(layer)
    for name, weight in layer.named_parameters():
        if any(part in name for part in ("constraint", ".raw", "gamma_log", "h0", "_hr", "_hh")):
            continue  # what a frozen matrix stands for
        run(stream, x)
        with torch.no_grad():
            weight.mul_(1.3)
            expected, _ = layer(x)
        stream.reset()
        torch.testing.assert_close(run(stream, x), expected, rtol=0, atol=tol(x.dtype, 1000))
        assert is_packed(stream)


class Doubled(torch.nn.LayerNorm):
    def forward(self, x):
        return 2 * super().forward(x)


CHANGES = {
    "a norm of the user's": lambda s: setattr(s.blocks[1], "norm", Doubled(12).double()),
    "a norm without weights": lambda s: setattr(
        s, "norm", torch.nn.LayerNorm(12, elementwise_affine=False)
    ),
    "another GELU": lambda s: setattr(s.blocks[0].mlp[2], "approximate", "tanh"),
    "a hook": lambda s: s.blocks[0].register_forward_hook(lambda _m, _x, out: (-out[0], out[1])),
    "training": lambda s: s.train(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_stack_takes_the_ordinary_step(change):
    layer = stack(GRU, {"mixer": "mlp"})
    change(layer)
    x = inputs(layer)
    stream = Stream(layer)
    with torch.no_grad():
        state, outputs = None, []
        for x_t in x:
            y, state = layer.step(x_t, state)
            outputs.append(y)
    assert torch.equal(run(stream, x), torch.stack(outputs))
    assert not is_packed(stream)


REPLACED = {
    "norm": lambda block: setattr(block, "norm", torch.nn.LayerNorm(5)),
    "mixer": lambda block: block.mlp.append(torch.nn.Linear(12, 12)),
    "layer": lambda block: setattr(block, "layer", GRU(12, 5)),
}


@pytest.mark.parametrize("replace", REPLACED.values(), ids=REPLACED.keys())
def test_the_kernels_take_no_part_of_another_shape(replace):
    layer = stack(GRU, {"mixer": "mlp"})
    assert layer.modules_of_step() is not None
    replace(layer.blocks[1])
    assert layer.freeze().modules_of_step() is None


def test_a_step_without_memory_or_without_a_tensor_is_refused():
    layer = GRU(2, 8).freeze()
    stream = Stream(layer)
    steps = torch.zeros(2, 2)
    second = steps[1]
    steps.untyped_storage().resize_(0)  # the address of a view is then that of its offset
    with pytest.raises(ValueError, match="memory"):
        stream(second)
    with pytest.raises(TypeError):
        layer.step(None)


@pytest.mark.parametrize("make", [RNN, GRU, LSTM, LRU])
def test_what_dies_away_becomes_zero_and_never_subnormal(make):
    """Processors take many times as long for subnormal numbers."""
    torch.manual_seed(0)
    layer = make(1, 8)
    x = torch.zeros(3000, 2, 1)
    x[0] = 1
    x.requires_grad_()
    y, _ = layer(x)
    (dx,) = torch.autograd.grad(y[-1].sum(), x)
    state = layer.initial_state(2)
    with torch.no_grad():
        for _ in range(3000):
            _, state = layer.step(x[1].detach(), state)
    states = state if isinstance(state, tuple) else [state]
    for values in (y.detach(), dx, *states):
        size = values[values != 0].abs()
        assert size.numel() == 0 or size.min() >= torch.finfo(torch.float32).tiny
    assert torch.tensor(1e-30) * torch.tensor(1e-9) > 0  # elsewhere they stay
