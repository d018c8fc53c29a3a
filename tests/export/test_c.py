"""Networks in plain C compute what the layers compute, on this machine."""

import copy
import ctypes
import subprocess
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from cases import NAMED, OURS
from crossing import few
from eigenrnn import (
    GRU,
    LRU,
    LSTM,
    NCGRU,
    RNN,
    URNN,
    DeltaNet,
    DeltaProduct,
    GatedDeltaNet,
    LanguageModel,
    LeakyRNN,
    MinGRU,
    NnRNN,
    ResidualStack,
    ScoRNN,
    ScuRNN,
    SequenceModel,
)
from eigenrnn.constraints import DiagonalSegment, Unconstrained
from eigenrnn.export import to_c
from eigenrnn.export.c.templates import TEMPLATES
from eigenrnn.layers.stacked import Stacked
from eigenrnn.linalg import tol
from eigenrnn.nonlinearities import NONLINEARITIES

M, N, K, T = 3, 12, 4, 40
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-O2"]
COMPILERS = {
    "C99": ["gcc", "-std=c99"],
    "C++17": ["g++", "-std=c++17", "-x", "c++"],
    "clang": ["clang", "-std=c99"],
}

LAYERS = {
    **{f"RNN-{f}": partial(RNN, nonlinearity=f) for f in NONLINEARITIES},
    "RNN-no-bias": partial(RNN, bias=False),
    "RNN-layer-norm": partial(RNN, nonlinearity="tanh", layer_norm=True, zoneout=0.2),
    "RNN-leak": partial(LeakyRNN, nonlinearity="tanh", leak=0.3, noise=0.1),
    "RNN-trained-leak": partial(LeakyRNN, nonlinearity="retanh", leak=0.3, trainable_leak=True),
    "RNN-current": partial(LeakyRNN, nonlinearity="softplus", leak=0.3, state="current"),
    "RNN-two-layers": partial(RNN, num_layers=2, nonlinearity="tanh", trainable_h0=True),
    "ScoRNN": ScoRNN,
    "NnRNN": NnRNN,
    "URNN": URNN,
    "ScuRNN": partial(ScuRNN, output="real", zoneout=0.1),
    "GRU": GRU,
    "GRU-before-replaces": partial(GRU, reset_after=False, update_keeps=False),
    "GRU-layer-norm": partial(GRU, layer_norm=True, zoneout=0.2, trainable_h0=True),
    "GRU-no-bias": partial(GRU, bias=False, num_layers=2),
    "NCGRU": NCGRU,
    "LSTM": partial(LSTM, num_layers=2),
    "LSTM-trained-h0": partial(LSTM, trainable_h0=True),
    "LSTM-no-bias": partial(LSTM, bias=False),
    "LRU": partial(LRU, trainable_h0=True),
    "LRU-real": partial(LRU, constraint=DiagonalSegment, bias=False),
    "MinGRU": MinGRU,
    "MinGRU-signed": partial(MinGRU, decays=(-1, 1), bias=False),
    "DeltaNet": DeltaNet,
    "DeltaNet-trained-h0": partial(DeltaNet, heads=3, convolution=3, trainable_h0=True),
    "DeltaProduct": partial(DeltaProduct, heads=2, reflections=2, num_layers=2),
    "GatedDeltaNet": partial(GatedDeltaNet, heads=3),
    "stack-glu": lambda M, N: ResidualStack(partial(LRU, hidden_size=N), 8, 2, input_size=M),
    "stack-mlp": lambda M, N: ResidualStack(
        partial(GRU, hidden_size=N), M, 2, norm="rms", mixer="mlp"
    ),
    "stack-plain": lambda M, _: ResidualStack(
        lambda width: nn.LSTM(width, width), M, 1, norm=None, mixer=None
    ),
    "torch's RNN": nn.RNN,
    "torch's GRU": partial(nn.GRU, num_layers=2),
    "torch's LSTM": nn.LSTM,
}


def kind_of(layer):
    return type(layer.all_directions()[0]) if isinstance(layer, Stacked) else None


KINDS = {kind_of(make(M, N)) for make in LAYERS.values()}
# a recurrence without a case above has that of tests/cases.py
LAYERS |= {name: make for name, make in OURS.items() if kind_of(make(M, 16)) not in KINDS}


def make(name):
    """A layer whose weights are all different from their initial values."""
    generator = torch.Generator().manual_seed(1)
    layer = LAYERS[name](M, N)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return layer.eval()


def inputs(T=T):
    return torch.randn(T, M, generator=torch.Generator().manual_seed(2))


class Network:
    """A compiled network; `step` goes on, `reset` begins anew."""

    def __init__(self, model, folder, compiler="C99", flags=(), **options):
        source = folder / "net.c"
        self.description = to_c(model, source, **options)
        library = folder / "net.so"
        command = [*COMPILERS[compiler], *STRICT, *flags, "-shared", "-fPIC"]
        done = subprocess.run(
            [*command, "-o", library, source, "-lm"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        self.functions = ctypes.CDLL(str(library))
        self.text = source.read_text()
        self.reads_symbols = "int symbol" in self.text
        sizes = source.with_suffix(".h").read_text().split("_outputs = ")[1]
        self.output = np.zeros(int(sizes.split(" ")[0]), np.float32)
        self.state = self.new_state()

    def new_state(self):
        state = ctypes.create_string_buffer(1 << 16)
        self.functions.net_reset(state)
        return state

    def step(self, x, state=None):
        if not self.reads_symbols:
            x = np.ascontiguousarray(x, np.float32)
            x = x.ctypes.data_as(ctypes.c_void_p)
        output = self.output.ctypes.data_as(ctypes.c_void_p)
        self.functions.net_step(state or self.state, x, output)
        return self.output.copy()

    def run(self, sequence):
        self.functions.net_reset(self.state)
        return np.stack([self.step(x) for x in sequence])

    def probabilities(self, output):
        p = np.zeros_like(output)
        pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (output, p)]
        self.functions.net_probabilities(*pointers)
        return p


@torch.no_grad()
def outputs_of(model, x, dtype=torch.float64):
    model = copy.deepcopy(model).to(dtype)
    if x.is_floating_point():
        x = x.to(dtype)
    found = model(x.unsqueeze(1))
    if isinstance(found, tuple):
        found = found[0]
    return found.squeeze(1).double().numpy()


def assert_near(found, model, x):
    """The error of C is at most twice that of the layer in single precision, or rounding."""
    exact = outputs_of(model, x)
    single = outputs_of(model, x, torch.float32)
    scale = max(1.0, np.abs(exact).max())
    allowed = max(2 * np.abs(single - exact).max(), scale * tol(torch.float32, N))
    assert found.shape == exact.shape
    assert np.abs(found - exact).max() <= allowed


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_in_c_computes_its_outputs(name, tmp_path):
    layer = make(name)
    assert_near(Network(layer, tmp_path).run(inputs().numpy()), layer, inputs())


@pytest.mark.parametrize("f", ["relu", "retanh", "leaky_relu", "elu", "tanh"])
def test_an_input_that_is_nan_makes_the_state_nan(f, tmp_path):
    network = Network(RNN(M, N, nonlinearity=f).eval(), tmp_path)
    assert np.isnan(network.step(np.array([1.0, np.nan, 1.0]))).all()


def test_layer_norm_and_a_scaling_of_inputs_share_no_name(tmp_path):
    model = SequenceModel(GRU(M, N, layer_norm=True), K, "last").eval()
    Network(model, tmp_path, scaling=([0.0] * M, [1.0] * M))


@few("name", {name: (name,) for name in LAYERS}, ["URNN", "LSTM", "MinGRU"])
def test_the_file_compiles_as_cpp(name, tmp_path):
    layer = make(name)
    network = Network(layer, tmp_path, "C++17")
    assert_near(network.run(inputs().numpy()), layer, inputs())


def language_model(tied):
    layers = [GRU(6, 9), NnRNN(9, 6 if tied else 10)]
    model = LanguageModel(17, 6, layers, tied=tied).eval()
    nn.init.normal_(model.head_bias)
    return model


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("weights", ["float", "int8", "int16"])
def test_a_language_model_reads_symbols(tied, weights, tmp_path):
    model = language_model(tied)
    text = torch.arange(17).repeat(2)
    network = Network(model, tmp_path, weights=weights)
    found = network.run(text.tolist())
    if weights == "float":
        assert_near(found, model, text)
    else:
        allowed = {"int8": 0.05, "int16": 2e-4}[weights]
        assert np.abs(found - outputs_of(model, text)).max() < allowed
    p = network.probabilities(found[-1])
    np.testing.assert_allclose(p, torch.tensor(found[-1]).softmax(0).numpy(), rtol=1e-6)


def test_a_head_follows_the_last_layer_and_inputs_are_scaled(tmp_path):
    model = SequenceModel(make("GRU"), K).eval()
    mean, deviation = np.array([3.0, -2.0, 0.5]), np.array([2.0, 0.1, 5.0])
    network = Network(model, tmp_path, scaling=(list(mean), list(deviation)))
    found = network.run(inputs().numpy() * deviation + mean)
    assert np.abs(found - outputs_of(model, inputs())).max() < 1e-5


def rounded(weight, largest):
    """Round a matrix row by row as a loop, in double precision."""
    found = weight.double().numpy().copy()
    for row in found:
        scale = np.float64(np.float32(np.abs(row).max() / largest))
        for j, number in enumerate(row):
            row[j] = np.round(number / scale) * scale
    return torch.tensor(found, dtype=weight.dtype)


@pytest.mark.parametrize(("weights", "largest"), [("int8", 127), ("int16", 32767)])
@pytest.mark.parametrize("kind", [partial(RNN, nonlinearity="tanh"), GRU, LSTM, MinGRU])
def test_each_row_of_a_matrix_is_rounded_and_nothing_else(kind, weights, largest, tmp_path):
    options = {} if kind is MinGRU else {"constraint": Unconstrained}
    model = SequenceModel(kind(M, N, **options), K).eval()
    network = Network(model, tmp_path, weights=weights)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.copy_(rounded(parameter, largest))
    found = network.run(inputs().numpy())
    np.testing.assert_allclose(found, outputs_of(model, inputs()), atol=2e-6)
    assert f"static const {weights}_t head[" in network.text
    assert "static const float head_bias[" in network.text


@pytest.fixture
def denormals_are_zero():
    torch.set_flush_denormal(True)
    yield
    torch.set_flush_denormal(False)


@pytest.mark.usefixtures("denormals_are_zero")
def test_a_matrix_of_zeros_stays_zero_in_eight_bits(tmp_path):
    layer = RNN(M, N, nonlinearity="tanh", constraint=Unconstrained).eval()
    nn.init.zeros_(layer.directions[0].constraint.raw)
    found = Network(layer, tmp_path, weights="int8").run(inputs().numpy())
    assert np.isfinite(found).all()
    assert np.abs(found - outputs_of(layer, inputs())).max() < 0.02


def test_several_sequences_need_several_states(tmp_path):
    layer = make("LSTM")
    network = Network(layer, tmp_path)
    x = inputs().numpy()
    one, other = network.new_state(), network.new_state()
    for t in range(T):
        first = network.step(x[t], one)
        second = network.step(-x[t], other)
    np.testing.assert_array_equal(first, network.run(x)[-1])
    np.testing.assert_array_equal(second, network.run(-x)[-1])


@pytest.mark.long
@pytest.mark.parametrize("name", ["ScoRNN", "GRU", "LSTM", "LRU", "MinGRU"])
def test_the_error_over_ten_thousand_steps_is_at_most_twice_that_of_the_layer(name, tmp_path):
    layer = make(name)
    x = inputs(10_000)
    found = Network(layer, tmp_path).run(x.numpy())
    exact = outputs_of(layer, x)
    single = outputs_of(layer, x, torch.float32)
    assert np.abs(found - exact).max() <= 2 * np.abs(single - exact).max()


def test_the_head_comment_has_the_sizes(tmp_path):
    to_c(SequenceModel(RNN(M, N), K).eval(), tmp_path / "net.c")
    text = (tmp_path / "net.c").read_text()
    assert f"{M} inputs, {K} outputs, {N * M + N * N + K * N} multiply-adds a step" in text
    numbers = N * M + N * N + N + K * N + K
    assert f"{4 * numbers} bytes of constants, {4 * N} bytes of state" in text
    assert f"{4 * 2 * N} bytes of local arrays" in text


class WithALayer(nn.Module):
    """A model of the user's own, whose head nobody can know."""

    def __init__(self):
        super().__init__()
        self.layer = RNN(M, N)


class Doubled(GRU):
    def forward(self, *arguments, **options):
        outputs, states = super().forward(*arguments, **options)
        return 2 * outputs, states


WITHOUT_HEAD = SequenceModel(GRU(M, N), K).eval()
WITHOUT_HEAD.head = nn.Identity()
HOOKED = SequenceModel(GRU(M, N), K).eval()
HOOKED.layer.register_forward_hook(lambda *_: None)
PRUNED = SequenceModel(nn.GRU(M, N), K).eval()
prune.l1_unstructured(PRUNED.layer, "weight_hh_l0", amount=2)
REPLACED = RNN(M, N).eval()
REPLACED.forward = lambda x: (x, x)


class Squashed(nn.Linear):
    def forward(self, x):
        return super().forward(x).tanh()


SQUASHED = SequenceModel(GRU(M, N), K).eval()
SQUASHED.head = Squashed(N, K)
BROKEN = RNN(M, N, constraint=Unconstrained).eval()
nn.init.constant_(BROKEN.directions[0].constraint.raw, torch.nan)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (BROKEN, {}, "expected finite weights, got nan"),
        (RNN(M, N), {}, r"model.eval\(\)"),
        (RNN(M, N, bidirectional=True).eval(), {}, "bidirectional=True"),
        (LeakyRNN(M, N, noise=0.1, noise_in_eval=True).eval(), {}, "noise_in_eval"),
        (nn.Linear(2, 2).eval(), {}, "got Linear"),
        (WithALayer().eval(), {}, "got WithALayer"),
        (SequenceModel(Doubled(M, N), K).eval(), {}, "Doubled"),
        (WITHOUT_HEAD, {}, "got Identity"),
        (HOOKED, {}, "without hooks, got one on layer"),
        (PRUNED, {}, "got one on layer.*prune.remove"),
        (REPLACED, {}, "got that of RNN"),
        (SQUASHED, {}, "got that of Squashed"),
        (RNN(M, N).eval(), {"name": "2net"}, "'2net'"),
        (RNN(M, N).eval(), {"name": "layer0_W"}, "'layer0_W'"),
        (RNN(M, N).eval(), {"weights": "int4"}, "'int4'"),
        (RNN(M, N).eval(), {"scaling": ([0.0], [1.0])}, "3 finite means"),
        (language_model(True), {"scaling": ([0.0], [1.0])}, "no scaling"),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_refused_and_leaves_no_file(model, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        to_c(model, tmp_path / "net.c", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_no_unfinished_file(tmp_path):
    (tmp_path / "net.h").mkdir()
    with pytest.raises(OSError, match=r"net\.h"):
        to_c(RNN(M, N).eval(), tmp_path / "net.c")
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("path", ['a"b.c', "a\nb.c", "a\\b.c", "ä.c"])
def test_a_file_name_that_an_include_cannot_have_is_refused(path, tmp_path):
    with pytest.raises(ValueError, match="file name"):
        to_c(RNN(M, N).eval(), tmp_path / path, name="net")
    assert list(tmp_path.iterdir()) == []


def test_the_guard_of_a_header_is_its_own(tmp_path):
    for name in ("_math", "net", "Net"):
        source = tmp_path / f"{name}.c"
        to_c(RNN(M, N).eval(), source)
        assert f"#ifndef EIGENRNN_{name}_H\n" in source.with_suffix(".h").read_text()
        command = ["gcc", "-std=c99", *STRICT, "-c", "-o", tmp_path / "net.o", source]
        subprocess.run(command, check=True)


@pytest.mark.parametrize("path", ["no/net.c", "net.cpp", "my-net.c", "math.c"])
def test_a_wrong_path_is_refused(path, tmp_path):
    with pytest.raises(ValueError, match="got"):
        to_c(RNN(M, N).eval(), tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_two_networks_fit_into_one_program(tmp_path):
    for name in ("net", "Net"):
        to_c(make("GRU"), tmp_path / f"{name}.c")
    (tmp_path / "main.c").write_text(
        '#include "net.h"\n#include "Net.h"\n'
        "int main(void) { net_state a; Net_state b; net_reset(&a); Net_reset(&b); return 0; }\n"
    )
    files = [tmp_path / name for name in ("main.c", "net.c", "Net.c")]
    command = ["gcc", "-std=c99", *STRICT, "-o", tmp_path / "program", *files, "-lm"]
    subprocess.run(command, check=True)
    subprocess.run([tmp_path / "program"], check=True)


def test_every_kind_of_direction_has_a_template():
    directions = [make(M, 16).all_directions()[0] for make in (OURS | NAMED).values()]
    assert {type(each) for each in directions} == set(TEMPLATES)
