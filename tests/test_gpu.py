"""On a GPU, layers compute what they compute on the CPU."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map

from cases import CELLS, LAYERS, NAMED, OURS
from eigenrnn import (
    GRU,
    LRU,
    LSTM,
    RNN,
    AveragedModel,
    LanguageModel,
    LeakyRNN,
    MinGRU,
    ResidualStack,
    ScoRNN,
    SequenceModel,
    Stream,
    constrain,
)
from eigenrnn.constraints import ScaledCayley
from eigenrnn.estimators import SequenceClassifier, SequenceForecaster, load
from eigenrnn.linalg import tol
from kernel_testing import assert_near

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
M, N, T, B = 3, 8, 11, 4
ALL_LAYERS = LAYERS | NAMED

each_layer = pytest.mark.parametrize("make", ALL_LAYERS.values(), ids=ALL_LAYERS.keys())
each_ours = pytest.mark.parametrize("make", (OURS | NAMED).values(), ids=(OURS | NAMED).keys())


def pair(make, dtype=torch.float64):
    """A layer on the CPU in double precision, and a copy of it on the GPU."""
    layer = make(M, N).double()
    return layer, copy.deepcopy(layer).to(DEVICE, dtype)


def on_device(tensor, dtype):
    """Move a tensor to the GPU, with as many bits as dtype in each of its real numbers."""
    if tensor.is_complex():
        dtype = dtype.to_complex()
    return tensor.to(DEVICE, dtype)


def leaves(results):
    if isinstance(results, torch.Tensor):
        return [results]
    return [leaf for each in results if each is not None for leaf in leaves(each)]


def evaluated(layer, *inputs, **options):
    """The results and gradients of a layer, on the CPU in double precision."""
    results = leaves(layer(*inputs, **options))
    sum((v * torch.linspace(1, 2, v.shape[-1], device=v.device)).sum() for v in results).backward()
    values = {f"result {i}": v for i, v in enumerate(results)}
    values |= {f"d{name}": p.grad for name, p in layer.named_parameters() if p.grad is not None}
    return {name: v.detach().cpu() for name, v in values.items()}


def assert_same_values(on_gpu, on_cpu, bound):
    assert on_gpu.keys() == on_cpu.keys()
    wide = {name: v.to(on_cpu[name].dtype) for name, v in on_gpu.items()}
    assert_near(wide, on_cpu, bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@each_layer
def test_a_layer_gives_the_values_and_gradients_of_the_cpu(make, dtype):
    on_cpu, on_gpu = pair(make, dtype)
    x = torch.randn(T, B, M)
    expected = evaluated(on_cpu, x.double())
    got = evaluated(on_gpu, x.to(DEVICE, dtype))
    assert_same_values(got, expected, tol(dtype, 10 * T * N))


@each_ours
def test_resets_give_the_values_and_gradients_of_the_cpu(make):
    on_cpu, on_gpu = pair(make)
    x, resets = torch.randn(T, B, M, dtype=torch.float64), torch.rand(T, B) < 0.3
    expected = evaluated(on_cpu, x, resets=resets)
    got = evaluated(on_gpu, x.to(DEVICE), resets=resets.to(DEVICE))
    assert_same_values(got, expected, tol(torch.float64, 100 * T * N))


BY_NAME = {
    "ScoRNN": (ScoRNN, "triton"),
    "GRU": (GRU, "triton"),
    "zoneout": (partial(RNN, nonlinearity="tanh", zoneout=0.2), "triton"),
    "GRU, zoneout": (partial(GRU, zoneout=0.2), "triton"),
    "leak": (partial(LeakyRNN, leak=0.2, trainable_leak=True, nonlinearity="tanh"), "triton"),
    "loop": (ScoRNN, "loop"),
    "LRU": (LRU, "scan"),
    "MinGRU": (MinGRU, "scan"),
}


@pytest.mark.parametrize(("make", "backend"), BY_NAME.values(), ids=BY_NAME)
def test_resets_inside_a_kernel_or_a_loop_give_those_of_the_cpu(make, backend):
    on_cpu, on_gpu = pair(make, torch.float32)
    on_gpu.backend = backend
    x, lengths = torch.randn(T, B, M), [11, 7, 7, 1]
    resets = torch.rand(T, B) < 0.3
    expected = evaluated(on_cpu.eval(), x.double(), resets=resets, lengths=lengths)
    got = evaluated(on_gpu.eval(), x.to(DEVICE), resets=resets.to(DEVICE), lengths=lengths)
    assert_same_values(got, expected, tol(x.dtype, 10 * T * N))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@each_ours
def test_ragged_sequences_and_an_initial_state_give_those_of_the_cpu(make, dtype):
    on_cpu, on_gpu = pair(make, dtype)
    x, lengths = torch.randn(T, B, M, dtype=torch.float64), [11, 7, 7, 1]
    _, state = on_cpu(torch.randn(2, B, M, dtype=torch.float64))
    state = tuple(v.detach() for v in state) if isinstance(state, tuple) else state.detach()
    expected = evaluated(on_cpu, x, state, lengths=lengths)
    there = tree_map(partial(on_device, dtype=dtype), (x, state))
    got = evaluated(on_gpu, *there, lengths=lengths)
    assert_same_values(got, expected, tol(dtype, 10 * T * N))


def trained(layer, x):
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        sum(v.abs().square().sum() for v in leaves(layer(x))).backward()
        optimizer.step()
    return {f"result {i}": v.detach().cpu() for i, v in enumerate(leaves(layer(x)))}


@each_layer
def test_a_layer_trains_to_the_weights_of_the_cpu(make):
    on_cpu, on_gpu = pair(make)
    x = torch.randn(T, B, M, dtype=torch.float64)
    # a step of Adam divides by gradients, so rounding may grow where one is small
    assert_same_values(trained(on_gpu, x.to(DEVICE)), trained(on_cpu, x), 1e-6)


@pytest.mark.parametrize("frozen", [False, True], ids=["trainable", "frozen"])
@each_ours
def test_single_steps_and_streams_give_the_whole_sequence(make, frozen):
    _, layer = pair(make)
    layer.eval()
    if frozen:
        layer.freeze()
    x = torch.randn(T, B, M, dtype=torch.float64, device=DEVICE)
    with torch.no_grad():
        whole = layer(x)[0]
        stream = Stream(layer, B)
        assert_near({"y": torch.stack([stream(v) for v in x])}, {"y": whole}, tol(x.dtype, T * N))
        state, outputs = None, []
        for x_t in x:
            y, state = layer.step(x_t, state)
            outputs.append(y)
        assert_near({"y": torch.stack(outputs)}, {"y": whole}, tol(x.dtype, T * N))


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_a_cell_gives_the_values_of_the_cpu(make):
    on_cpu, on_gpu = pair(make)
    x = torch.randn(B, M, dtype=torch.float64)
    expected, got = evaluated(on_cpu, x), evaluated(on_gpu, x.to(DEVICE))
    assert_same_values(got, expected, tol(x.dtype, 10 * N))


def constrained_gru(m, n):
    layer = nn.GRU(m, n)
    return constrain(layer, "weight_hh_l0", ScaledCayley, rows="n")


MODELS = {
    "two bidirectional layers": partial(RNN, num_layers=2, bidirectional=True),
    "bidirectional LSTM": partial(LSTM, bidirectional=True),
    "LayerNorm and zoneout": partial(GRU, layer_norm=True, zoneout=0.2),
    "leaky": partial(LeakyRNN, leak=0.2, trainable_leak=True, nonlinearity="softplus"),
    "currents": partial(LeakyRNN, leak=0.2, state="current", nonlinearity="tanh"),
    "a model": lambda m, n: SequenceModel(ScoRNN(m, n), 2),
    "a stack": lambda m, n: ResidualStack(partial(LRU, hidden_size=n), n, 2, input_size=m),
    "an averaged model": lambda m, n: AveragedModel(SequenceModel(RNN(m, n), 2)),
    "one gate of torch's GRU": constrained_gru,
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_a_model_gives_the_values_of_the_cpu(make):
    on_cpu, on_gpu = pair(make)
    on_cpu.eval()
    on_gpu.eval()
    x = torch.randn(T, B, M, dtype=torch.float64)
    with torch.no_grad():
        expected = {str(i): v for i, v in enumerate(leaves(on_cpu(x)))}
        got = {str(i): v.cpu() for i, v in enumerate(leaves(on_gpu(x.to(DEVICE))))}
    assert_near(got, expected, tol(x.dtype, 10 * T * N))


def test_a_language_model_trains_on_tokens():
    model = LanguageModel(10, 5, [GRU(5, N)]).to(DEVICE)
    tokens = torch.randint(10, (T, B), device=DEVICE)
    model(tokens).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@each_layer
def test_a_state_dict_moves_between_devices(make):
    on_cpu, on_gpu = pair(make)
    trained(on_gpu, torch.randn(T, B, M, dtype=torch.float64, device=DEVICE))
    on_cpu.load_state_dict(on_gpu.state_dict())
    x = torch.randn(T, B, M, dtype=torch.float64)
    with torch.no_grad():
        got, expected = on_gpu(x.to(DEVICE))[0].cpu(), on_cpu(x)[0]
    assert_near({"y": got}, {"y": expected}, tol(x.dtype, 10 * T * N))


@each_layer
def test_autocast_runs_and_gives_finite_gradients(make):
    layer = make(M, N).to(DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        results = leaves(layer(torch.randn(T, B, M, device=DEVICE)))
    sum(v.abs().float().sum() for v in results).backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)


WITHOUT_WAITING = {
    "ScoRNN": ScoRNN,
    "tanh": partial(RNN, nonlinearity="tanh"),
    "GRU": GRU,
    "LSTM": LSTM,
    "LRU": LRU,
}


@pytest.mark.parametrize("make", WITHOUT_WAITING.values(), ids=WITHOUT_WAITING.keys())
def test_a_training_step_never_waits_for_the_gpu(make):
    layer = make(M, N).to(DEVICE)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    x = torch.randn(T, B, M, device=DEVICE)
    for mode in ("default", "error"):  # the first step may wait
        torch.cuda.set_sync_debug_mode(mode)
        try:
            layer(x)[0].square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("units", [N, 200], ids=["kernels", "loop"])
def test_a_training_step_can_be_captured_in_a_cuda_graph(units):
    layer = ScoRNN(M, units).to(DEVICE)
    x = torch.randn(T, B, M, device=DEVICE)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        layer(x)[0].sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    expected = {name: p.grad.clone() for name, p in layer.named_parameters()}
    layer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer(x)[0].sum().backward()
    graph.replay()
    got = {name: p.grad for name, p in layer.named_parameters()}
    assert_near(got, expected, tol(x.dtype, 10 * T * units))


@pytest.mark.parametrize("make", [ScoRNN, GRU, LRU], ids=["ScoRNN", "GRU", "LRU"])
def test_a_compiled_layer_gives_the_values_of_the_layer(make):
    layer = make(M, N).to(DEVICE)
    x = torch.randn(5, B, M, device=DEVICE)
    got, expected = torch.compile(layer)(x)[0], layer(x)[0]
    assert_near({"y": got.detach()}, {"y": expected.detach()}, tol(x.dtype, 10 * T * N))


@pytest.mark.parametrize("make", [ScoRNN, GRU, LSTM, LRU])
def test_a_layer_is_exported_from_the_gpu(make):
    layer = make(M, N).to(DEVICE).freeze().eval()
    x = torch.randn(T, B, M, device=DEVICE)
    program = torch.export.export(layer, (x,))
    got, expected = program.module()(x)[0], layer(x)[0]
    assert_near({"y": got}, {"y": expected}, tol(x.dtype, 10 * T * N))


@pytest.mark.parametrize("make", [ScoRNN, NAMED["ORNN"], GRU], ids=["ScoRNN", "ORNN", "GRU"])
def test_distributed_data_parallel_of_one_process_trains_as_the_layer_alone(make, tmp_path):
    torch.distributed.init_process_group(
        "nccl" if DEVICE == "cuda" else "gloo",
        init_method=f"file://{tmp_path / 'rendezvous'}",
        rank=0,
        world_size=1,
    )
    try:
        alone = make(M, N).to(DEVICE)
        whole = DistributedDataParallel(copy.deepcopy(alone))
        x = torch.randn(T, B, M, device=DEVICE)
        got, expected = trained(whole, x), trained(alone, x)
    finally:
        torch.distributed.destroy_process_group()
    assert_near(got, expected, tol(x.dtype, 10 * T * N))


def test_an_estimator_trains_on_the_device_and_is_exported_from_the_cpu(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = [rng.normal(size=(5 + k % 3, 2)) + y[k] for k in range(40)]
    layer = partial(GRU, num_layers=2, dropout=0.1)
    fitted = SequenceClassifier(layer, 8, epochs=10, random_state=0, device="cuda").fit(X, y)
    assert fitted.model_.head.weight.is_cuda
    assert fitted.score(X, y) > 0.7
    with pytest.raises(ValueError, match="estimator on the CPU"):
        Stream(fitted)
    fitted.save(tmp_path / "model.pt")
    again = load(tmp_path / "model.pt")
    np.testing.assert_allclose(again.predict_proba(X), fitted.predict_proba(X), atol=1e-4)
    Stream(again)
    series = np.sin(np.arange(60.0))
    forecaster = SequenceForecaster(epochs=2, device="cuda", random_state=0).fit(series)
    assert forecaster.predict(3).shape == (3,)
