"""Gaps in time: an LRU and a leaky layer hold their input between two steps."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from draws import normal
from eigenrnn import LRU, LSTM, RNN, LeakyRNN, MinGRU, ResidualStack, SequenceModel, Stream
from eigenrnn.constraints import DiagonalSegment, Unconstrained
from eigenrnn.init import zeros_
from eigenrnn.linalg import tol
from eigenrnn.ops import use_backend
from eigenrnn.ops.linear import layer as lru_module
from eigenrnn.ops.linear.layer import held_steps
from kernel_testing import needs_kernels

T, B, M, N = 7, 4, 3, 6
LENGTHS = torch.tensor([7, 3, 1, 7])
NEAR = {"rtol": 0, "atol": tol(torch.float64, 100 * T * N)}
leaky = partial(LeakyRNN, nonlinearity="tanh", leak=0.3, trainable_leak=True)
LAYERS = {
    "LRU": LRU,
    "rates": leaky,
    "currents": partial(leaky, state="current"),
    "different leaks": partial(LeakyRNN, leak=[0.1, 0.2, 0.5, 0.9, 0.3, 1.0], nonlinearity="relu"),
    "two layers": partial(LRU, num_layers=2),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


def made(make):
    return make(M, N, dtype=torch.float64)


def drawn_gaps(*shape):
    return 3 * torch.rand(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def one_layer(layer, i):
    """The step of one layer by the formulas, with powers and quotients."""
    direction = layer.all_directions()[i]
    if isinstance(layer, LRU):
        eigenvalues, scaled = direction.eigenvalues.diagonal(), direction.scaled_input

        def step(x, h, dt):
            power = eigenvalues ** dt.unsqueeze(1)
            held = (1 - power) / (1 - eigenvalues)
            h = power * h + held * (x.to(h.dtype) @ torch.complex(*scaled).T)
            state = torch.cat([h.real, h.imag], dim=1)
            return direction.output_at(x, state), h

        return step, torch.zeros(B, N, dtype=torch.complex128)

    W, f = direction.weight_hh, torch.relu if layer.nonlinearity == "relu" else torch.tanh

    def step(x, h, dt):
        kept = (1 - direction.leak.alpha()) ** dt.unsqueeze(1)
        if direction.leak.options.state == "current":
            h = kept * h + (1 - kept) * (x @ direction.weight_ih.T + _bias(direction) + f(h) @ W.T)
            return f(h), h
        h = kept * h + (1 - kept) * f(x @ direction.weight_ih.T + _bias(direction) + h @ W.T)
        return h, h

    return step, torch.zeros(B, N, dtype=torch.float64)


def _bias(direction):
    return 0 if direction.input_bias is None else direction.input_bias


def by_formulas(layer, x, dt, resets=None):
    resets = torch.zeros(T, B, dtype=torch.bool) if resets is None else resets
    for i in range(layer.num_layers):
        step, state = one_layer(layer, i)
        outputs = []
        for x_t, dt_t, anew in zip(x, dt, resets, strict=True):
            y, state = step(x_t, torch.where(anew.unsqueeze(1), 0, state), dt_t)
            outputs.append(y)
        x = torch.stack(outputs)
    return x


def gradients(y, leaves):
    loss = (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum()
    return torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("with_resets", [False, True], ids=["no resets", "resets"])
@each_layer
def test_a_layer_follows_the_formulas(make, with_resets):
    layer, x, dt = made(make), normal(T, B, M).requires_grad_(), drawn_gaps(T, B).requires_grad_()
    resets = drawn_gaps(T, B) < 1 if with_resets else None
    got, expected = layer(x, dt=dt, resets=resets)[0], by_formulas(layer, x, dt, resets)
    torch.testing.assert_close(got, expected, **NEAR)
    leaves = [x, dt, *layer.parameters()]
    torch.testing.assert_close(gradients(got, leaves), gradients(expected, leaves), **NEAR)


@each_layer
def test_gaps_of_one_change_nothing(make):
    layer, x = made(make), normal(T, B, M)
    got, last = layer(x, dt=torch.ones(T, B, dtype=torch.float64))
    expected, last_too = layer(x)
    torch.testing.assert_close((got, last), (expected, last_too), **NEAR)


def test_a_gap_of_three_is_three_steps_of_a_held_input():
    for layer in (
        LRU(M, N),
        LeakyRNN(M, N, leak=0.3, constraint=partial(Unconstrained, init=zeros_)),
    ):
        layer.double()
        x, state = normal(1, B, M), normal(*layer.initial_state(B).shape)
        _, once = layer(x, state, dt=torch.tensor([3.0]))
        _, thrice = layer(x.expand(3, B, M), state)
        torch.testing.assert_close(once, thrice, **NEAR)


@each_layer
def test_lengths_packing_layouts_and_steps_give_the_same(make):
    layer, x, dt = made(make), normal(T, B, M), drawn_gaps(T, B)
    expected, last = layer(x, None, LENGTHS, dt=dt)
    for b, length in enumerate(LENGTHS.tolist()):
        alone, end = layer(x[:length, b], dt=dt[:length, b])
        torch.testing.assert_close((expected[:length, b], last[:, b]), (alone, end), **NEAR)
    pack = partial(pack_padded_sequence, lengths=LENGTHS, enforce_sorted=False)
    packed, last_too = layer(pack(x), dt=pack(dt))
    torch.testing.assert_close((pad_packed_sequence(packed)[0], last_too), (expected, last))
    of_all, _ = layer(x, dt=dt[:, 0])
    torch.testing.assert_close(of_all, layer(x, dt=dt[:, :1].expand(T, B))[0])
    stream, one = Stream(layer, B), Stream(layer)
    outputs, last_too = layer(x, dt=dt)
    stepped = [stream(x_t, dt_t) for x_t, dt_t in zip(x, dt, strict=True)]
    torch.testing.assert_close(torch.stack(stepped), outputs, **NEAR)
    alone = [one(x_t, dt_t) for x_t, dt_t in zip(x[:, 0], dt[:, 0], strict=True)]
    torch.testing.assert_close(torch.stack(alone), outputs[:, 0], **NEAR)
    layer.batch_first = True
    swapped, last = layer(x.transpose(0, 1), dt=dt.T)
    torch.testing.assert_close((swapped.transpose(0, 1), last), (outputs, last_too))
    y, _ = layer.step(x[0], None, dt=dt[0])
    torch.testing.assert_close(y, outputs[0], **NEAR)


@needs_kernels
def test_an_lru_with_gaps_is_the_same_in_its_own_kernel_and_in_parts(monkeypatch):
    layer = made(LRU)
    x = normal(T, B, M)
    dt = drawn_gaps(T, B).requires_grad_()
    leaves = [*layer.parameters(), dt]
    with use_backend("reference"):
        parts = gradients(layer(x, dt=dt)[0], leaves)
    monkeypatch.setattr(lru_module, "held_steps", None)  # which the parts call
    fused = gradients(layer(x, dt=dt)[0], leaves)
    torch.testing.assert_close(fused, parts)
    for_all = layer(x, dt=dt[:, 0])[0]
    torch.testing.assert_close(for_all, layer(x, dt=dt[:, :1].repeat(1, B))[0])


@pytest.mark.parametrize("readout", ["all", "last"])
def test_stacks_and_models_pass_gaps_on(readout):
    stack = ResidualStack(lambda width: LRU(width, N), N, 2, input_size=M).double()
    x, dt = normal(T, B, M), drawn_gaps(T, B)
    outputs = stack(x, dt=dt)[0]
    stream = Stream(stack, B)
    stepped = [stream(x_t, dt_t) for x_t, dt_t in zip(x, dt, strict=True)]
    torch.testing.assert_close(torch.stack(stepped), outputs, **NEAR)
    model = SequenceModel(stack, 2, readout).double()
    got = model(x, LENGTHS, dt=dt)
    ends = outputs[LENGTHS - 1, torch.arange(B)]
    torch.testing.assert_close(
        got[0] if readout == "all" else got,
        model.head(outputs[0] if readout == "all" else ends),
        **NEAR,
    )


FROZEN = {
    **LAYERS,
    "stack": lambda M, N, dtype: ResidualStack(lambda w: LRU(w, N), N, 2, input_size=M).to(dtype),
    "model": lambda M, N, dtype: SequenceModel(LRU(M, N), 2).to(dtype),
}


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", FROZEN.values(), ids=FROZEN)
def test_packed_steps_of_a_frozen_layer_take_gaps(make, dtype, monkeypatch):
    layer = make(M, N, dtype=dtype)
    x = normal(T, B, M).to(dtype)
    dt = drawn_gaps(T, B).to(dtype)
    dt[2] = 0
    outputs = layer(x, dt=dt)
    expected = outputs[0] if isinstance(outputs, tuple) else outputs
    frozen = layer.layer if isinstance(layer, SequenceModel) else layer
    frozen.freeze()
    stream = Stream(layer, B)
    one = Stream(layer)
    stepped = [stream(x[0], dt[0])]
    alone = [one(x[0, 0], dt[0, 0])]
    for each in (stream, one):
        monkeypatch.setattr(each, "_ordinary_step", None)
    for x_t, dt_t in zip(x[1:], dt[1:], strict=True):
        stepped.append(stream(x_t, dt_t))
        alone.append(one(x_t[0], dt_t[0]))
    near = {"rtol": 0, "atol": tol(dtype, 100 * T * N)}
    torch.testing.assert_close(torch.stack(stepped), expected, **near)
    torch.testing.assert_close(torch.stack(alone), expected[:, 0], **near)


@needs_kernels
@pytest.mark.parametrize("make", [LRU, leaky])
def test_a_packed_step_takes_gaps(make, monkeypatch):
    layer = made(make)
    x, dt, state = normal(B, M), drawn_gaps(B), normal(*layer.initial_state(B).shape)
    expected = layer.step(x, state, dt=dt)
    layer.freeze()
    monkeypatch.setattr(layer, "_step_after", None)
    with torch.no_grad():
        got = layer.step(x, state, dt=dt)
    torch.testing.assert_close(got, expected, **NEAR)


@pytest.mark.parametrize("make", [LRU, leaky])
@pytest.mark.parametrize("wrong", [-1.0, torch.nan, torch.inf])
def test_a_stream_refuses_wrong_gaps_and_keeps_its_state(make, wrong):
    stream = Stream(made(make).freeze(), B)
    x = normal(B, M)
    stream(x, drawn_gaps(B))
    before = stream.state
    dt = drawn_gaps(B)
    dt[1] = wrong
    with pytest.raises(ValueError, match=f"expected finite gaps dt >= 0, got {wrong}"):
        stream(x, dt)
    with pytest.raises(ValueError, match="expected dt of shape"):
        stream(x, dt[:2])
    with pytest.raises(TypeError, match="expected dt to be a tensor"):
        stream(x, 1.0)
    assert torch.equal(stream.state, before)


@needs_kernels
def test_a_stream_records_the_gradient_of_a_gap():
    stream = Stream(made(LRU).freeze(), B)
    x = normal(B, M)
    stream(x, drawn_gaps(B))
    dt = drawn_gaps(B).requires_grad_()
    (gradient,) = torch.autograd.grad(stream(x, dt).sum(), dt)
    assert gradient.all()


@pytest.mark.parametrize("make", [MinGRU, RNN, LSTM])
def test_a_frozen_layer_of_another_kind_refuses_gaps(make):
    layer = made(make).freeze()
    stream = Stream(layer, B)
    x, dt = normal(B, M), drawn_gaps(B)
    stream(x)
    with pytest.raises(ValueError, match="expected dt with an LRU"):
        stream(x, dt)
    state = stream.state
    layer.step(x, state)
    with pytest.raises(ValueError, match="expected dt with an LRU"):
        layer.step(x, state, dt=dt)


def test_a_frozen_stack_of_another_layer_refuses_gaps():
    stack = ResidualStack(lambda width: MinGRU(width, N), N, 1, input_size=M).double()
    stream = Stream(stack.freeze(), B)
    x = normal(B, M)
    stream(x)
    with pytest.raises(ValueError, match="expected dt with an LRU"):
        stream(x, drawn_gaps(B))


@needs_kernels
def test_packed_steps_read_gaps_of_any_strides_and_type(monkeypatch):
    stream = Stream(LRU(M, N).freeze(), B)
    x = normal(B, M).float()
    stream(x, torch.ones(B))
    monkeypatch.setattr(stream, "_ordinary_step", None)
    state = stream.state
    expected = stream(x, torch.full((B,), 1.5))
    for dt in (torch.tensor(1.5).expand(B), torch.full((B,), 1.5, dtype=torch.float64)):
        stream.state = state
        stream(x)  # packs the weights again
        stream.state = state
        assert torch.equal(stream(x, dt), expected)


@needs_kernels
def test_a_weight_that_is_no_number_shows_after_a_gap():
    layer = made(leaky)
    with torch.no_grad():
        layer.directions[0].leak.raw[1] = torch.nan
    stream = Stream(layer.freeze(), B)
    assert stream(normal(B, M), drawn_gaps(B))[:, 1].isnan().all()


@pytest.mark.parametrize("distance", [0.0, 1e-9, 1e-4, 0.05, 0.2])
def test_the_factor_of_an_input_is_smooth_at_one(distance):
    decay = torch.tensor([1 - distance], dtype=torch.complex128, requires_grad=True)
    dt = torch.tensor([[2.5]], dtype=torch.float64)
    _, factor = held_steps(decay, dt)
    (gradient,) = torch.autograd.grad(factor.real.sum(), decay)
    # (1 - q^a) / (1 - q) as a series in d = 1 - q, and its derivative by q
    a, d = 2.5, distance
    terms = [1.0]
    for k in range(1, 60):
        terms.append(terms[-1] * (k - 1 - a) / k)
    value = sum(-terms[k] * d ** (k - 1) for k in range(1, 60))
    slope = sum(terms[k] * (k - 1) * d ** (k - 2) for k in range(2, 60))
    assert factor.item().real == pytest.approx(value, rel=1e-12)
    assert gradient.item().real == pytest.approx(slope, rel=1e-9)


WRONG = {
    "negative": (-torch.ones(T, B), ValueError, "-1"),
    "infinite": (torch.full((T, B), torch.inf), ValueError, "inf"),
    "nan": (torch.full((T, B), torch.nan), ValueError, "nan"),
    "shape": (torch.ones(B, T), ValueError, r"\(7, 4\)"),
    "type": (torch.ones(T, B, dtype=torch.long), TypeError, "int64"),
    "number": (2.0, TypeError, "float"),
}


@pytest.mark.parametrize(("dt", "error", "match"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("make", [LRU, leaky])
def test_wrong_gaps_raise(make, dt, error, match):
    with pytest.raises(error, match=match):
        make(M, N)(torch.zeros(T, B, M), dt=dt)


def test_a_gap_of_zero_keeps_the_state_unless_there_is_noise():
    x, dt = normal(T, B, M).float(), torch.zeros(T, B)
    layer = LeakyRNN(M, N, leak=[1.0, 0.5, 0.5, 0.5, 0.5, 0.5])
    state = torch.ones(1, B, N)
    assert torch.equal(layer(x, state, dt=dt)[1], state)
    with pytest.raises(ValueError, match="got 0"):
        LeakyRNN(M, N, leak=0.5, noise=0.1)(x, dt=dt)


def test_what_lies_in_the_padding_does_not_count():
    layer, x, dt = made(LRU), normal(T, B, M), drawn_gaps(T, B)
    expected = layer(x, None, LENGTHS, dt=dt)[0]
    padded = torch.where(torch.arange(T).unsqueeze(1) < LENGTHS, dt, torch.nan)
    assert torch.equal(layer(x, None, LENGTHS, dt=padded)[0], expected)


def test_the_error_of_a_gap_names_no_step_of_sorted_sequences():
    dt = torch.ones(T, B)
    dt[-1, 0] = -2.0
    with pytest.raises(ValueError, match=r"got -2\.0$"):
        LRU(M, N)(torch.zeros(T, B, M), None, [T] * B, dt=dt)


REFUSING = {
    "bidirectional": partial(LRU, bidirectional=True),
    "MinGRU": MinGRU,
    "LSTM": LSTM,
    "RNN": RNN,
    "real": partial(LRU, constraint=DiagonalSegment),
    "stack of torch's GRU": lambda M, N: ResidualStack(lambda w: nn.GRU(w, N), N, 1, input_size=M),
}


@pytest.mark.parametrize("make", REFUSING.values(), ids=REFUSING)
def test_other_layers_refuse_gaps(make):
    for call in (
        lambda: make(M, N)(torch.zeros(T, B, M), dt=torch.ones(T, B)),
        lambda: make(M, N).step(torch.zeros(B, M), None, dt=torch.ones(B)),
    ):
        with pytest.raises(ValueError, match=r"one more input|one direction|expected no dt"):
            call()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [LRU, leaky])
def test_a_program_of_torch_export_takes_gaps(make):
    layer, x, dt = made(make).eval(), normal(T, B, M), drawn_gaps(T, B)
    program = torch.export.export(layer, (x,), {"dt": dt}).module()
    other = dt.flip(0)
    torch.testing.assert_close(program(x, dt=other)[0], layer(x, dt=other)[0], **NEAR)


def test_a_trained_leak_of_one_has_a_finite_gradient_with_gaps():
    layer = LeakyRNN(2, 4, nonlinearity="tanh", leak=0.5, trainable_leak=True)
    raw = layer.directions[0].leak.raw
    with torch.no_grad():
        raw.fill_(40.0)  # the sigmoid is one
    dt = torch.tensor([1.0, 0.0, 0.5]).repeat(6, 1).requires_grad_()
    layer(torch.ones(6, 3, 2), dt=dt)[0].sum().backward()
    assert torch.equal(raw.grad, torch.zeros_like(raw))
    assert torch.equal(dt.grad, torch.zeros_like(dt))  # torch.pow has no other at a base of zero
