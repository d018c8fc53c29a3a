"""The leak and the noise of `LeakyRNN`, compared with NumPy and between backends."""

import math
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from test_elman import IN_NUMPY, assert_near, normal, ragged_sizes
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

from cases import NONLINEARITIES
from eigenrnn import RNN, LeakyRNN, Stream
from eigenrnn.constraints import ScaledCayley, Unconstrained
from eigenrnn.linalg import tol
from eigenrnn.ops import elman
from kernel_testing import each_direction, each_raggedness, needs_kernels

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]

T, B, M, N = 7, 3, 2, 5

each_state = pytest.mark.parametrize("state", ["rate", "current"])


def operands(case, N=N, B=B, *, dtype=torch.float64, normed=False):
    generator = torch.Generator().manual_seed(1)
    made = {
        "x": normal(generator, (T, B, M), dtype),
        "W": normal(generator, (N, N), dtype) / N**0.5,
        "h0": normal(generator, (B, N), dtype),
        "U": normal(generator, (N, M), dtype),
        "c": normal(generator, (N,), dtype),
        "leak": torch.rand(N, generator=generator, dtype=torch.float64).to(dtype),
    }
    if NONLINEARITIES[case][1]:
        made["bias"] = normal(generator, (N,), dtype)
    if normed:
        made["gain"] = 1 + normal(generator, (N,), dtype) / 2
        made["shift"] = normal(generator, (N,), dtype)
    return made


@contextmanager
def seeded(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def run(tensors, case, **options):
    tensors = dict(tensors)
    norm = tensors.pop("gain", None), tensors.pop("shift", None)
    layer_norm = None if norm[0] is None else norm
    name = NONLINEARITIES[case][0]
    return elman(**tensors, nonlinearity=name, layer_norm=layer_norm, **options)


@each_raggedness
@each_direction
@each_state
@pytest.mark.parametrize("case", ["tanh", "softplus", "modrelu"])
def test_the_reference_is_the_formula_of_each_sequence(case, state, reverse, ragged):
    tensors = operands(case)
    sizes = ragged_sizes(T, B) if ragged else [B] * T
    x, W, h0, U, c, leak = (tensors[name].numpy() for name in ("x", "W", "h0", "U", "c", "leak"))
    bias = tensors["bias"].numpy() if "bias" in tensors else None

    def f(z):
        return IN_NUMPY[case](z, bias)

    outputs, ends = np.zeros((T, B, N)), np.zeros((B, N))
    for b in range(B):
        length = sum(size > b for size in sizes)
        s = h0[b]
        for t in reversed(range(length)) if reverse else range(length):
            rate = s if state == "rate" else f(s)
            z = U @ x[t, b] + c + W @ rate
            target = f(z) if state == "rate" else z
            s = s + leak * (target - s)
            outputs[t, b] = s if state == "rate" else f(s)
        ends[b] = s
    options = {"state": state, "reverse": reverse, "batch_sizes": sizes if ragged else None}
    got = run(tensors, case, backend="reference", **options)
    assert_near(got, [torch.tensor(outputs), torch.tensor(ends)], torch.float64, T * N)


@needs_kernels
@each_state
def test_only_the_last_states_are_those_of_all_steps(state):
    tensors = operands("tanh", 17)
    with torch.no_grad():
        _, expected = run(tensors, "tanh", state=state, backend="reference")
        _, last = run(tensors, "tanh", state=state, backend="cpu", last_only=True)
    assert_near([last], [expected], torch.float64, T * 17)


@each_state
@pytest.mark.parametrize("sequences", [1, 5])
def test_states_are_the_same_bits_for_any_number_of_threads(threads, sequences, state):
    layer = LeakyRNN(3, 400, leak=0.3, state=state, nonlinearity="tanh", constraint=Unconstrained)
    x = torch.randn(20, sequences, 3, generator=torch.Generator().manual_seed(0))
    found = []
    for count in (1, 2, 3):
        threads(count)
        with torch.no_grad():
            found.append(torch.cat([each.flatten() for each in layer(x)]))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def assert_detached_near(got, expected):
    detached = [[each.detach() for each in tensors] for tensors in (got, expected)]
    assert_near(*detached, torch.float64, T * N)


def leaky(make=LeakyRNN, **options):
    generator = torch.Generator().manual_seed(0)
    options = {"nonlinearity": "tanh", "constraint": Unconstrained} | options
    return make(M, N, dtype=torch.float64, generator=generator, **options)


def inputs(steps=T, sequences=B):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(steps, sequences, M, generator=generator, dtype=torch.float64)


@each_state
def test_a_layer_is_its_loop_and_its_leak_keeps_its_digits(state):
    layer = leaky(leak=0.1, state=state)
    x = inputs()
    (direction,) = layer.all_directions()
    s = torch.zeros(B, N, dtype=torch.float64)
    outputs = []
    for x_t in x:
        rate = s if state == "rate" else s.tanh()
        z = x_t @ direction.weight_ih.T + direction.input_bias + rate @ direction.weight_hh.T
        s = 0.9 * s + 0.1 * (z.tanh() if state == "rate" else z)
        outputs.append(s if state == "rate" else s.tanh())
    assert_detached_near(layer(x), [torch.stack(outputs), s.unsqueeze(0)])


def test_in_evaluation_zoneout_is_a_leak():
    x = inputs()
    kept = leaky(RNN, zoneout=0.8).eval()
    mixed = leaky(leak=0.2).eval()
    assert_detached_near(mixed(x), kept(x))


def test_a_trained_leak_begins_at_its_value_and_stays_a_leak():
    initial = torch.linspace(0.05, 0.95, N, dtype=torch.float64)
    layer = leaky(leak=initial, trainable_leak=True)
    leak = layer.all_directions()[0].leak
    torch.testing.assert_close(leak.alpha(), initial, rtol=0, atol=tol(torch.float64, 1))
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    layer(inputs())[0].sum().backward()
    optimizer.step()
    alpha = leak.alpha()
    assert ((alpha > 0) & (alpha < 1)).all()
    assert not torch.allclose(alpha, initial)
    layer.reset()
    torch.testing.assert_close(leak.alpha(), initial, rtol=0, atol=tol(torch.float64, 1))


@each_state
def test_steps_and_streams_agree_with_the_sequence(state):
    layer = leaky(leak=0.2, noise=0.1, state=state, num_layers=2).eval()
    x = inputs()
    expected, h_n = layer(x)
    stream = Stream(layer.freeze(), B)
    outputs = torch.stack([stream(x_t) for x_t in x])
    assert_detached_near([outputs, stream.state], [expected, h_n])
    h = None
    for x_t in x:
        _, h = layer.step(x_t, h)
    assert_detached_near([h], [h_n])


@each_state
@pytest.mark.parametrize("form", ["lengths", "packed"])
def test_both_directions_and_ragged_sequences_run_each_sequence_alone(form, state):
    layer = leaky(leak=0.3, state=state, num_layers=2, bidirectional=True)
    x, lengths = inputs(), torch.tensor([4, 7, 1])
    if form == "lengths":
        outputs, h_n = layer(x, lengths=lengths)
    else:
        packed, h_n = layer(pack_padded_sequence(x, lengths, enforce_sorted=False))
        assert isinstance(packed, PackedSequence)
        outputs, _ = pad_packed_sequence(packed)
    for b, length in enumerate(lengths.tolist()):
        alone, ends = layer(x[:length, b])
        assert_detached_near([outputs[:length, b], h_n[:, b]], [alone, ends])
        assert not outputs[length:, b].any()


@pytest.mark.parametrize("leak", [1.0, 0.1])
@each_state
def test_the_noise_has_the_variance_of_its_formula(leak, state):
    # without input and W, a linear unit is an autoregression of order one
    sigma, steps = 0.5, 4000
    options = {"leak": leak, "noise": sigma, "state": state}
    layer = leaky(nonlinearity="identity", bias=False, **options)
    torch.nn.init.zeros_(layer.all_directions()[0].constraint.raw)
    with torch.no_grad(), seeded(3):
        h, _ = layer(torch.zeros(steps, 50, M, dtype=torch.float64))
    h = h[200:]
    expected = 2 * sigma**2 / (2 - leak)
    # of about 50 N steps leak / 2 independent numbers
    standard_error = expected * math.sqrt(2 / (50 * N * steps * leak / 2))
    assert abs(float(h.var()) - expected) < 5 * standard_error
    correlation = float((h[1:] * h[:-1]).mean() / h.var())
    assert abs(correlation - (1 - leak)) < 0.01
    units = h.flatten(0, 1).T.corrcoef() - torch.eye(N)
    assert units.abs().max() < 0.05


def test_noise_is_drawn_in_training_only_unless_it_is_wanted():
    x = inputs()
    layer = leaky(leak=0.2, noise=0.5)
    quiet = leaky(leak=0.2)
    assert not torch.equal(layer(x)[0], quiet(x)[0])
    assert torch.equal(layer.eval()(x)[0], quiet.eval()(x)[0])
    layer = leaky(leak=0.2, noise=0.5, noise_in_eval=True).eval()
    assert not torch.equal(layer(x)[0], quiet(x)[0])
    assert not torch.equal(layer.freeze()(x)[0], layer(x)[0])


def test_under_autocast_inputs_and_noise_are_added_in_the_precision_of_the_weights():
    x = inputs().bfloat16()
    layer = leaky(leak=0.2, noise=0.5).float()

    def mapped(x, autocast):
        with seeded(0), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return layer.directions[0].leak.noisy_inputs(
                x, layer.weight_ih_l0, layer.bias_ih_l0, None
            )

    assert torch.equal(mapped(x, autocast=True), mapped(x.float(), autocast=False))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_forward_pass_that_is_computed_again_draws_the_same_noise(use_reentrant):
    layer = leaky(num_layers=2, leak=0.2, noise=0.5)
    x = inputs().requires_grad_()

    def gradients(run):
        layer.zero_grad()
        x.grad = None
        with seeded(0):
            run(x)[0].square().sum().backward()
        return [x.grad, *(parameter.grad for parameter in layer.parameters())]

    recomputed = gradients(lambda x: checkpoint(layer, x, use_reentrant=use_reentrant))
    for found, expected in zip(recomputed, gradients(layer), strict=True):
        assert torch.equal(found, expected)


def test_the_noise_of_a_trained_leak_has_the_gradient_of_its_formula():
    x = inputs()
    layer = leaky(leak=0.3, trainable_leak=True, noise=0.5)

    def loss(raw):
        names = {"directions.0.leak.raw": raw}
        with seeded(0):
            return torch.func.functional_call(layer, names, x)[0].square().sum()

    raw = torch.linspace(-1, 1, N, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(loss, raw)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"leak": [0.5, 2.0, 1, 1, 1]}, ValueError, "got 0.5 to 2"),
        ({"leak": 1.0, "trainable_leak": True}, ValueError, "expected leak < 1 with"),
        ({"noise": math.nan}, ValueError, "got nan"),
        ({"leak": 0.2, "backend": "torch"}, ValueError, "it does not compute leak"),
        (
            {
                "leak": 0.2,
                "nonlinearity": "modrelu",
                "constraint": lambda n: ScaledCayley(n, dtype=torch.complex128),
            },
            ValueError,
            "expected a set of real matrices, because a leak",
        ),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        leaky(**options)(inputs())


def test_the_repr_names_what_is_set():
    shown = repr(leaky(leak=[0.2] * N, noise=0.1, state="current", trainable_leak=True))
    wanted = "leak=5 values, trained, noise=0.1, state='current'"
    assert wanted in shown


def test_a_loaded_leak_is_kept_until_a_reset():
    other = torch.full((N,), 0.3, dtype=torch.float64)
    layer = LeakyRNN(M, N, nonlinearity="tanh", leak=0.2, dtype=torch.float64)
    leak = layer.directions[0].leak
    leak.load_state_dict({"values": other})
    layer.float().double()
    assert torch.equal(leak.alpha(), other)
    layer.reset()
    assert (leak.alpha() == 0.2).all()
