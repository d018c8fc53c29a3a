"""Projected states of the LSTM beside those of torch.nn.LSTM."""

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from crossing import some
from eigenrnn import LSTM, SequenceModel, Stream
from eigenrnn.constraints import ScaledCayley, Unconstrained
from eigenrnn.export import export_model
from eigenrnn.layers import weight_drop
from eigenrnn.ops.lstm import BACKENDS
from kernel_testing import needs_kernels

T, B, M, N, P = 7, 3, 2, 5, 3
LENGTHS = torch.tensor([7, 4, 1])
SHAPES = {
    "plain": {},
    "layers": {"num_layers": 2, "bidirectional": True},
    "no bias": {"bias": False},
    "batch first": {"batch_first": True},
}
each_shape = pytest.mark.parametrize("options", SHAPES.values(), ids=SHAPES)


def pair(**options):
    options = {"dtype": torch.float64, "proj_size": P} | options
    theirs = nn.LSTM(M, N, **options)
    return LSTM(M, N, **options).load_torch(theirs), theirs


def states(layer, batch=B):
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = (count, batch, P), (count, batch, N)
    return tuple(torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes)


def gradients(layer, x, hx, run):
    """The gradients of inputs, states and weights under torch's names."""
    outputs, (h, c) = run(layer)
    weights = dict.fromkeys(name for name in torch_names(layer))
    flat = [getattr(layer, name) for name in weights]
    loss = sum((each.sin() * k).sum() for k, each in enumerate((outputs, h, c), start=1))
    if isinstance(layer, nn.LSTM):
        found = torch.autograd.grad(loss, [x, *hx, *flat])
        return dict(zip(["x", "h0", "c0", *weights], found, strict=True))
    own = dict(layer.named_parameters())
    found = torch.autograd.grad(loss, [x, *hx, *own.values()])
    of_own = dict(zip(own, found[3:], strict=True))
    named = dict(zip(["x", "h0", "c0"], found[:3], strict=True))
    ends = sorted({name.split("_l", 1)[1] for name in weights})
    for index, end in enumerate(sorted(ends, key=lambda end: (int(end.split("_")[0]), end))):
        prefix = f"directions.{index}."
        named[f"weight_ih_l{end}"] = of_own[f"{prefix}weight_ih"]
        named[f"weight_hh_l{end}"] = of_own[f"{prefix}projected_hh"]
        named[f"weight_hr_l{end}"] = of_own[f"{prefix}weight_hr"]
        if layer.bias:
            named[f"bias_ih_l{end}"] = named[f"bias_hh_l{end}"] = of_own[f"{prefix}input_bias"]
    return named


def torch_names(layer):
    options = {name: getattr(layer, name) for name in ("num_layers", "bias", "bidirectional")}
    return list(nn.LSTM(M, N, proj_size=P, **options).state_dict())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@each_shape
def test_values_and_gradients_are_those_of_torch(options, packed, backend):
    ours, theirs = pair(**options)
    ours.backend = backend
    x = torch.randn(T, B, M, dtype=torch.float64, requires_grad=True)
    hx = states(theirs)

    def run(layer):
        given = x.transpose(0, 1) if layer.batch_first else x
        if packed:
            given = pack_padded_sequence(given, LENGTHS, batch_first=layer.batch_first)
        outputs, last = layer(given, hx)
        return (outputs.data if packed else outputs), last

    torch.testing.assert_close(run(ours), run(theirs))
    torch.testing.assert_close(gradients(ours, x, hx, run), gradients(theirs, x, hx, run))


@each_shape
def test_the_initial_states_are_zero_by_default(options):
    ours, theirs = pair(**options)
    x = torch.randn(T, B, M, dtype=torch.float64)
    x = x.transpose(0, 1) if ours.batch_first else x
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours(x[:, 0]), theirs(x[:, 0]))


@pytest.mark.parametrize("frozen", [False, True])
def test_steps_and_streams_give_the_sequence(frozen):
    ours, theirs = pair(num_layers=2)
    if frozen:
        ours.freeze()
    x = torch.randn(T, B, M, dtype=torch.float64)
    hx = tuple(each.detach() for each in states(theirs))
    expected, last = theirs(x, hx)
    state = hx
    for t in range(T):
        output, state = ours.step(x[t], state)
        torch.testing.assert_close(output, expected[t])
    torch.testing.assert_close(state, last)
    stream = Stream(SequenceModel(ours, 2).double(), B)
    stream.state = hx
    for x_t in x:
        y_t = stream(x_t)
    torch.testing.assert_close(y_t, stream.model.head(expected[-1]))


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_size", [None, 1, 13])
@pytest.mark.parametrize("sizes", [(2, 5, 3), (7, 33, 1), (1, 64, 40)], ids=str)
def test_streams_of_frozen_layers_run_in_the_kernels(sizes, batch_size, bias, dtype):
    inputs, units, projected = sizes
    options = {"num_layers": 2, "bias": bias, "proj_size": projected, "dtype": dtype}
    layer = LSTM(inputs, units, **options).freeze()
    batch = () if batch_size is None else (batch_size,)
    x = torch.randn(T, *batch, inputs, dtype=dtype)
    hx = tuple(torch.randn(2, *batch, size, dtype=dtype) for size in (projected, units))
    stream = Stream(layer, batch_size)
    stream.state = hx
    theirs = layer.to_torch().double()
    with torch.no_grad():
        outputs = torch.stack([stream(x_t) for x_t in x])
        expected, last = theirs(x.double(), tuple(each.double() for each in hx))
        state = hx
        steps = []
        for x_t in x:
            output, state = layer.step(x_t, state)
            steps.append(output)
    assert stream._snapshot is not None
    assert layer._snapshot._snapshot is not None
    tolerance = 100 * torch.finfo(dtype).eps
    found = outputs.double(), *(each.double() for each in stream.state)
    torch.testing.assert_close(found, (expected, *last), rtol=0, atol=tolerance)
    assert torch.equal(torch.stack(steps), outputs)
    assert all(map(torch.equal, state, stream.state))


@needs_kernels
@pytest.mark.parametrize("name", ["weight_ih", "projected_hh", "weight_hr", "input_bias"])
def test_a_stream_notices_a_change_of_any_weight(name):
    layer = LSTM(M, N, proj_size=P, dtype=torch.float64).freeze()
    stream = Stream(layer)
    x = torch.randn(T, M, dtype=torch.float64)
    with torch.no_grad():
        stream(x[0])
        assert stream._snapshot is not None
        getattr(layer.directions[0], name).mul_(2)
        stream.reset()
        outputs = torch.stack([stream(x_t) for x_t in x])
        expected, _ = layer.to_torch()(x)
    torch.testing.assert_close(outputs, expected)


@needs_kernels
def test_threads_share_the_sequences_of_a_step():
    layer = LSTM(64, 128, proj_size=100).freeze()
    x = torch.randn(50, 64)
    states = torch.randn(1, 50, 100), torch.randn(1, 50, 128)
    threads = torch.get_num_threads()
    found = []
    with torch.no_grad():
        for count in (1, 3):
            torch.set_num_threads(count)
            stream = Stream(layer, 50)
            stream.state = states
            stream(x)
            assert stream._snapshot.threads(50) == count
            found.append((stream(x), *stream.state))
    torch.set_num_threads(threads)
    assert all(map(torch.equal, *found))


def test_names_shapes_states_and_conversion_are_those_of_torch():
    ours, theirs = pair(num_layers=2, bidirectional=True)
    expected = {name: weight.shape for name, weight in theirs.state_dict().items()}
    assert {name: getattr(ours, name).shape for name in expected} == expected
    assert [[w.shape for w in each] for each in ours.all_weights] == [
        [w.shape for w in each] for each in theirs.all_weights
    ]
    again = LSTM(M, N, num_layers=2, bidirectional=True, proj_size=P, dtype=torch.float64)
    assert again.load_state_dict(theirs.state_dict()).missing_keys == []
    x = torch.randn(T, B, M, dtype=torch.float64)
    torch.testing.assert_close(again(x), theirs(x))
    torch.testing.assert_close(again.to_torch()(x), theirs(x))
    assert ours.extra_repr() == theirs.extra_repr()


def test_all_weights_begin_between_torchs_bounds():
    layer = LSTM(M, 400, proj_size=100)
    bound = 400**-0.5
    direction = layer.directions[0]
    for weight in (direction.projected_hh, direction.weight_hr, direction.weight_ih):
        assert 0.9 * bound < weight.abs().max() <= bound
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    one, other = (LSTM(M, N, proj_size=P, generator=each) for each in generators)
    torch.testing.assert_close(one.state_dict(), other.state_dict())


def test_trained_initial_states():
    layer = LSTM(M, N, proj_size=P, trainable_h0=True)
    layer.directions[0].h0.data.normal_()
    h, c = layer.initial_state(B)
    assert (h.shape, c.shape) == ((1, B, P), (1, B, N))
    x = torch.randn(T, B, M)
    torch.testing.assert_close(layer(x), layer(x, (h, c)))
    layer(x)[0].sum().backward()
    assert (layer.directions[0].h0.grad != 0).all()


def test_second_derivatives():
    layer = LSTM(1, 3, proj_size=2, dtype=torch.float64)
    x = torch.randn(2, 1, 1, dtype=torch.float64, requires_grad=True)
    h0 = torch.randn(1, 1, 2, dtype=torch.float64, requires_grad=True)
    c0 = torch.zeros(1, 1, 3, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(lambda x, h0: layer(x, (h0, c0))[0], (x, h0))


def test_the_spectrum_is_that_of_the_products():
    layer = LSTM(M, N, proj_size=P)
    direction = layer.directions[0]
    matrices = layer.recurrent_matrices()
    for W, rows in zip(matrices, direction.projected_hh.split(N), strict=True):
        torch.testing.assert_close(W, rows @ direction.weight_hr)
    assert layer.spectrum().shape == (1, 4, N)
    assert layer.constrained_gates == []


# torch's exporter asks torch's pytree a question that torch has deprecated
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
@pytest.mark.parametrize("ending", some(["onnx", "pt2"], ["onnx"]))
@pytest.mark.parametrize("readout", some(["all", "last"], ["all"]))
def test_an_exported_model_computes_the_same(tmp_path, ending, readout):
    layer = LSTM(M, N, num_layers=2, bidirectional=True, proj_size=P, trainable_h0=True)
    for direction in layer.directions:
        direction.h0.data.normal_()
    model = SequenceModel(layer, 4, readout).eval()
    path = tmp_path / f"model.{ending}"
    export_model(model, path)  # compares the outputs, also of lengths
    x, lengths = torch.randn(T, B, M), torch.tensor([2, 7, 5])
    with torch.no_grad():
        expected = model(x, lengths)
    if ending == "onnx":
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        found = session.run(None, {"inputs": x.numpy(), "lengths": lengths.numpy()})[0]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        found = torch.export.load(path).module()(x, lengths)[0]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


WRONG = {
    "too large": (lambda: LSTM(M, N, proj_size=N), "got 5"),
    "a set": (lambda: LSTM(M, N, proj_size=P, cell=ScaledCayley), "proj_size=3"),
    "another size": (
        lambda: LSTM(M, N, proj_size=P).load_torch(nn.LSTM(M, N, proj_size=2)),
        "got 2",
    ),
    "a state": (
        lambda: LSTM(M, N, proj_size=P)(
            torch.zeros(T, B, M), (torch.zeros(1, B, N), torch.zeros(1, B, N))
        ),
        r"got \(1, 3, 5\)",
    ),
    "dropout of weights": (lambda: weight_drop(LSTM(M, N, proj_size=P), 0.5), "matrix|matrices"),
}


def test_a_set_that_constrains_nothing_is_accepted():
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    plain = LSTM(M, N, proj_size=P, generator=generators[0])
    other = LSTM(M, N, proj_size=P, constraint=Unconstrained, generator=generators[1])
    torch.testing.assert_close(other.state_dict(), plain.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()
