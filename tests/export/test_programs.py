"""Layers in ONNX and in `torch.export`, with a number of steps and sequences unknown until run."""

import gc
import json
from functools import partial

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.utils.rnn import pack_sequence
from torch.utils._pytree import tree_leaves, tree_map

from cases import CELLS, NAMED, OURS
from crossing import few, some
from eigenrnn import (
    GRU,
    LRU,
    LSTM,
    RNN,
    URNN,
    GatedDeltaNet,
    LanguageModel,
    LeakyRNN,
    MinGRU,
    NnRNN,
    ResidualStack,
    ScoRNN,
    SequenceModel,
)
from eigenrnn.constraints import Dale, Exponential, LowRank, Masked, NeumannCayley, ScaledCayley
from eigenrnn.export import export_model, to_c
from eigenrnn.ops.dispatch import use_backend

# torch's exporter warns about itself
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]

M, N, TOLERANCE = 3, 8, 1e-5
TIME_AND_BATCH = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
SIZES = [(1, 1), (12, 2)]  # T and B of runs; the export has others
ALL_LAYERS = OURS | NAMED
FIRST_OF_CLASS = {type(make(M, N)): name for name, make in reversed(ALL_LAYERS.items())}
GROUPS = [list(FIRST_OF_CLASS.values())[i::3] for i in range(3)]

# The named layers differ from these in W alone, which is a constant in the exported program.
SHORT = ["LSTM", "MinGRU"]


class Each(nn.Module):
    """Layers side by side, for one export of all of them."""

    def __init__(self, *modules):
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs):
        return flatten([part(*inputs) for part in self.parts])


class Steps(nn.Module):
    """One time step of each layer, or a call of each cell."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x, states):
        calls = zip(self.layers, states, strict=True)
        return flatten([getattr(layer, "step", layer)(x, state) for layer, state in calls])


def flatten(outputs):
    if isinstance(outputs, torch.Tensor):
        return (outputs,)
    return tuple(leaf for each in outputs if each is not None for leaf in flatten(each))


def batch(T, B, seed=0):
    return torch.randn(T, B, M, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(autouse=True, scope="module")
def no_copies_of_classes():
    """Collect the copies of classes that torch's exporter leaves, for tests that name a class."""
    yield
    gc.collect()


def export_onnx(module, inputs, dynamic_shapes):
    """Return a function that runs the exported module, and the names of its operators."""
    program = torch.onnx.export(
        module, inputs, dynamo=True, dynamic_shapes=dynamic_shapes, verbose=False
    )
    model = program.model_proto
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]

    def run(*inputs):
        arrays = [tensor.numpy() for tensor in inputs]
        return session.run(None, dict(zip(names, arrays, strict=True)))

    domains = {each.domain for each in model.opset_import}
    assert domains == {""}  # no operators of ours, nor functions
    return run, [node.op_type for node in model.graph.node]


@torch.no_grad()
def assert_agree(run, module, *inputs):
    expected = flatten(module(*inputs))
    found = run(*inputs)
    assert len(found) == len(expected)
    for array, tensor in zip(map(np.asarray, found), expected, strict=True):
        assert array.shape == tuple(tensor.shape)
        scale = max(1.0, float(tensor.abs().max()))
        np.testing.assert_allclose(array, tensor.numpy(), atol=TOLERANCE * scale, rtol=0)


@few("names", {"-".join(names): names for names in [SHORT, *GROUPS]}, ["-".join(SHORT)])
def test_every_layer_runs_in_onnxruntime_on_any_number_of_steps_and_sequences(names):
    module = Each(*(ALL_LAYERS[name](M, N) for name in names)).eval()
    run, _ = export_onnx(module, (batch(5, 4),), {"inputs": (TIME_AND_BATCH,)})
    for T, B in SIZES:
        assert_agree(run, module, batch(T, B, seed=1))


WITH_OPTIONS = {
    "RNN": partial(RNN, M, N, nonlinearity="tanh", constraint=Exponential),
    "URNN": partial(URNN, M, N),
    "GRU": partial(GRU, M, N, reset_after=False, update_keeps=False, nonlinearity="relu"),
    "LSTM": partial(LSTM, M, N, cell=ScaledCayley),
    "LRU": partial(LRU, M, N),
}


def few_with_options(*kept):
    """All of these layers in one export, and a few of them in another for the short tests."""
    names = {"-".join(group): group for group in (kept, tuple(WITH_OPTIONS))}
    return few("names", {name: (group,) for name, group in names.items()}, ["-".join(kept)])


def with_options(names, **options):
    return Each(*(WITH_OPTIONS[name](**options) for name in names)).eval()


@few_with_options("GRU")
def test_stacked_and_bidirectional_layers_with_the_batch_first_run_in_onnxruntime(names):
    options = {"num_layers": 2, "bidirectional": True, "batch_first": True, "trainable_h0": True}
    module = with_options(names, **options)
    for part in module.parts:
        for direction in part.all_directions():
            nn.init.normal_(direction.h0)
    run, operators = export_onnx(module, (batch(4, 5),), {"inputs": (TIME_AND_BATCH,)})
    for T, B in SIZES:
        assert_agree(run, module, batch(B, T, seed=1))
    assert operators.count("GRU") == 4


class Ragged(nn.Module):
    def __init__(self, each, **options):
        super().__init__()
        self.each, self.options = each, options

    def forward(self, x, lengths):
        calls = [part(x, lengths=lengths, **self.options) for part in self.each.parts]
        return flatten(calls)


@pytest.mark.long
@few_with_options("URNN", "LRU")
def test_sequences_of_different_lengths_run_in_onnxruntime(names):
    module = Ragged(with_options(names, bidirectional=True)).eval()
    lengths = torch.tensor([2, 5, 1, 4])
    shapes = (TIME_AND_BATCH, {0: Dim.DYNAMIC})
    run, _ = export_onnx(module, (batch(5, 4), lengths), shapes)
    assert_agree(run, module, batch(9, 3, seed=1), torch.tensor([9, 1, 6]))
    assert_agree(run, module, batch(1, 1, seed=1), torch.tensor([1]))


@pytest.mark.long
def test_a_layer_with_normalisation_and_zoneout_runs_in_onnxruntime():
    module = Each(
        RNN(M, N, layer_norm=True, zoneout=0.2, nonlinearity="tanh"),
        GRU(M, N, layer_norm=True, zoneout=0.2),
        URNN(M, N, zoneout=0.2),
    ).eval()
    run, operators = export_onnx(module, (batch(5, 4),), {"inputs": (TIME_AND_BATCH,)})
    assert_agree(run, module, batch(12, 2, seed=1))
    assert operators.count("Scan") == 3


@pytest.mark.long
def test_leaky_layers_run_in_onnxruntime():
    module = Each(
        LeakyRNN(M, N, leak=0.2, noise=0.1, nonlinearity="softplus"),
        LeakyRNN(M, N, 2, leak=torch.linspace(0.1, 1, N), state="current", nonlinearity="retanh"),
        LeakyRNN(M, N, leak=0.2, trainable_leak=True, nonlinearity="tanh", bidirectional=True),
    ).eval()
    run, operators = export_onnx(module, (batch(5, 4),), {"inputs": (TIME_AND_BATCH,)})
    assert_agree(run, module, batch(12, 2, seed=1))
    assert operators.count("Scan") == 5


@pytest.mark.long
def test_layers_with_sets_of_neuroscience_run_in_onnxruntime():
    module = Each(
        LeakyRNN(M, N, constraint=Dale, leak=0.2),
        RNN(M, N, constraint=partial(LowRank, rank=2, plus=torch.eye(N) / 2)),
        GRU(M, N, constraint=partial(Masked, density=0.5, inner=Dale)),
    ).eval()
    run, _ = export_onnx(module, (batch(5, 4),), {"inputs": (TIME_AND_BATCH,)})
    assert_agree(run, module, batch(12, 2, seed=1))


class Heads(nn.Module):
    def __init__(self, *models):
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, x, lengths, h0):
        outputs = [model(x, lengths) for model in self.models]
        layer = self.models[0].layer
        return flatten([*outputs, layer(x, h0), layer(x, h0, last_only=True)[1]])


@pytest.mark.long
def test_models_with_a_head_and_given_initial_states_run_in_onnxruntime():
    module = Heads(
        SequenceModel(RNN(M, N), 2),
        SequenceModel(LSTM(M, N), 2, "last"),
        SequenceModel(ResidualStack(lambda width: GRU(width, 4), N, 2, input_size=M), 2, "last"),
        SequenceModel(URNN(M, N, output="real"), 2, "last"),
    ).eval()
    inputs = batch(5, 4), torch.tensor([2, 5, 1, 4]), torch.randn(1, 4, N)
    shapes = (TIME_AND_BATCH, {0: Dim.DYNAMIC}, {1: Dim.DYNAMIC})
    run, _ = export_onnx(module, inputs, shapes)
    assert_agree(run, module, batch(9, 2, seed=1), torch.tensor([3, 9]), torch.randn(1, 2, N))


@pytest.mark.long
def test_frozen_layers_are_exported_as_they_were_frozen():
    layers = RNN(M, N, backend="loop"), URNN(M, N), LSTM(M, N, constraint=ScaledCayley)
    module = Each(*(layer.freeze() for layer in layers)).eval()
    frozen = [tensor.detach().numpy() for tensor in flatten(module(batch(6, 2)))]
    with torch.no_grad():
        for part in module.parts:
            for direction in part.all_directions():
                for constraint in direction.constraints():
                    constraint.reset()
    run, operators = export_onnx(module, (batch(5, 4),), {"inputs": (TIME_AND_BATCH,)})
    for one, other in zip(run(batch(6, 2)), frozen, strict=True):
        np.testing.assert_allclose(one, other, atol=TOLERANCE)
    assert operators.count("Scan") == 3  # also in place of the forced backend


@pytest.mark.long
def test_time_steps_run_in_onnxruntime_without_a_loop():
    cells = [make(M, N) for make in CELLS.values()]
    module = Steps(RNN(M, N, num_layers=2), URNN(M, N), LSTM(M, N), *cells).eval()

    def states(B):
        h, c, cell = torch.randn(1, B, N), torch.randn(1, B, N), torch.randn(B, N)
        return [torch.randn(2, B, N), torch.randn(1, B, 2 * N), (h, c), cell, -cell, (h[0], c[0])]

    inputs = torch.randn(3, M), states(3)
    dynamic = tree_map(lambda tensor: {tensor.dim() - 2: Dim.DYNAMIC}, inputs)
    run, operators = export_onnx(module, inputs, dynamic)
    for B in (1, 5):
        x, state = torch.randn(B, M), states(B)
        assert_agree(lambda x, state: run(x, *tree_leaves(state)), module, x, state)
    assert not {"Scan", "Loop", "RNN", "GRU", "LSTM"} & set(operators)


@pytest.mark.parametrize("lengths", [False, True])
def test_an_exported_program_runs_on_any_number_of_steps(lengths):
    module = with_options(WITH_OPTIONS)
    module = Ragged(module) if lengths else module
    inputs = (batch(5, 4), torch.tensor([2, 5, 1, 4])) if lengths else (batch(5, 4),)
    shapes = (TIME_AND_BATCH, {0: Dim.DYNAMIC}) if lengths else {"inputs": (TIME_AND_BATCH,)}
    program = torch.export.export(module, inputs, dynamic_shapes=shapes)
    others = (batch(9, 2, seed=1), torch.tensor([3, 9])) if lengths else (batch(9, 2, seed=1),)
    run = program.module()
    assert_agree(lambda *given: [each.detach() for each in run(*given)], module, *others)
    assert "eigenrnn" not in str(program.graph_module.code)
    assert "linalg" not in str(program.graph_module.code)  # W is a constant


class RaggedModel(nn.Module):
    """A model of padded sequences whose lengths are an input."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, lengths):
        return self.model(x, lengths)


@few(
    ("layer", "readout"),
    {
        f"{layer.__name__}-{readout}": (layer, readout)
        for layer in (ScoRNN, GRU, LRU, LSTM, GatedDeltaNet)
        for readout in ("all", "last")
    },
    ["GRU-all", "LRU-last"],
)
def test_a_stack_with_lengths_is_exported_with_any_number_of_steps(layer, readout):
    stack = ResidualStack(lambda width: layer(width, 4), N, 2, input_size=M)
    model = RaggedModel(SequenceModel(stack, 2, readout)).eval()
    steps, sequences = Dim("T"), Dim("B")
    shapes = ({0: steps, 1: sequences}, {0: sequences})
    inputs = (batch(5, 4), torch.tensor([2, 5, 1, 4]))
    run = torch.export.export(model, inputs, dynamic_shapes=shapes).module()
    others = (batch(9, 2, seed=1), torch.tensor([3, 9]))
    torch.testing.assert_close(run(*others), model(*others))


MORE = {
    "LSTM-both": partial(LSTM, num_layers=2, bidirectional=True),
    "GRU-both": partial(GRU, num_layers=2, bidirectional=True),
    "stack": lambda M, N: SequenceModel(
        ResidualStack(lambda w: LSTM(w, 4), N, 2, input_size=M), 2
    ),
    "model": lambda M, N: SequenceModel(GatedDeltaNet(M, N, convolution=4), 2, readout="last"),
}


@pytest.mark.parametrize("sequences", [pytest.param(1, marks=pytest.mark.long), 2])
@pytest.mark.parametrize("make", (ALL_LAYERS | MORE).values(), ids=ALL_LAYERS | MORE)
def test_every_layer_is_exported_at_fixed_sizes(make, sequences):
    layer = make(M, N).eval()
    x = batch(6, sequences)
    run = torch.export.export(layer, (x,)).module()
    assert_agree(lambda x: [each.detach() for each in flatten(run(x))], layer, x)


@pytest.mark.parametrize("make", ALL_LAYERS.values(), ids=ALL_LAYERS)
def test_every_layer_is_exported_for_one_sequence_without_a_batch(make):
    layer = make(M, N).eval()
    x = batch(6, 1).squeeze(1)
    run = torch.export.export(layer, (x,)).module()
    assert_agree(lambda x: [each.detach() for each in flatten(run(x))], layer, x)


def test_a_delta_layer_with_any_number_of_sequences_wants_an_example_of_two():
    layer = GatedDeltaNet(M, N, heads=2).eval()
    with pytest.raises(torch.onnx.OnnxExporterError) as caught:
        export_onnx(layer, (batch(6, 1),), (TIME_AND_BATCH,))
    assert "an example of two sequences or more" in str(caught.value.__cause__)


def test_gated_decays_are_exported_with_a_number_of_steps_that_may_be_that_of_units():
    layer = MinGRU(M, N).eval()
    shapes = {"inputs": ({0: Dim("T"), 1: Dim("B")},)}
    run = torch.export.export(Each(layer), (batch(5, 4),), dynamic_shapes=shapes).module()
    assert_agree(lambda x: [each.detach() for each in run(x)], Each(layer), batch(N, 2))


def test_an_exported_program_keeps_the_operator_of_a_forced_backend():
    layer = RNN(M, N, backend="loop").eval()
    with use_backend("cpu"):  # the argument of the layer takes precedence
        program = torch.export.export(
            Each(layer), (batch(5, 4),), dynamic_shapes={"inputs": (TIME_AND_BATCH,)}
        )
    assert "torch.ops.eigenrnn.elman_loop" in program.graph_module.code
    assert_agree(
        lambda x: [each.detach() for each in program.module()(x)], Each(layer), batch(9, 2)
    )


@pytest.mark.parametrize("constraint", [ScaledCayley, NeumannCayley])
def test_a_program_exported_in_training_mode_trains_the_raw_parameters(constraint):
    layer = RNN(M, N, nonlinearity="tanh", constraint=constraint)
    program = torch.export.export(Each(layer), (batch(5, 4),)).module()
    loss = sum(each.square().sum() for each in program(batch(5, 4)))
    (gradient,) = torch.autograd.grad(
        loss, [p for n, p in program.named_parameters() if "raw" in n]
    )
    expected = sum(each.square().sum() for each in Each(layer)(batch(5, 4)))
    (other,) = torch.autograd.grad(expected, layer.directions[0].constraint.parameters())
    torch.testing.assert_close(gradient, other)
    torch.testing.assert_close(loss, expected)


def test_torch_export_refuses_packed_sequences():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = RNN(M, N)

        def forward(self, x):
            return self.layer(pack_sequence([x[:, 0], x[:2, 0]]))[1]

    with pytest.raises(ValueError, match="got a PackedSequence"):
        torch.export.export(Packed().eval(), (batch(5, 4),))


def session_of(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


SCALING = [1.0, -1e8, 0.5], [2.0, 3.0, 4.0]


def test_torchs_own_layer_is_exported_with_any_number_of_steps(tmp_path):
    model = SequenceModel(nn.LSTM(M, N, bidirectional=True), 2, "last").eval()
    export_model(model, tmp_path / "model.onnx", SCALING, {"name": "mine"})
    x, lengths = batch(11, 3), torch.tensor([4, 11, 7])
    mean, deviation = torch.tensor(SCALING, dtype=torch.double)
    unscaled = x.double() * deviation + mean
    (outputs,) = session_of(tmp_path / "model.onnx").run(
        None, {"inputs": unscaled.numpy(), "lengths": lengths.numpy()}
    )
    with torch.no_grad():
        np.testing.assert_allclose(outputs, model(x, lengths).numpy(), atol=TOLERANCE)
    description = json.loads((tmp_path / "model.json").read_text())
    assert description["inputs"] == [
        {"name": "inputs", "dtype": "float64", "shape": ["T", "B", M]},
        {"name": "lengths", "dtype": "int64", "shape": ["B"]},
    ]
    assert description["outputs"] == [{"name": "outputs", "dtype": "float32", "shape": ["B", 2]}]
    assert description["name"] == "mine"


LAYERS_ALONE = {
    "RNN": lambda: RNN(M, N, 2, nonlinearity="tanh"),
    "LSTM-batch-first": lambda: LSTM(M, N, batch_first=True, bidirectional=True),
    "torch's GRU": lambda: nn.GRU(M, N, batch_first=True),
    "LRU": lambda: LRU(M, N),
    "stack": lambda: ResidualStack(lambda width: GRU(width, 4), N, 2, input_size=M),
}


@few("name", {name: name for name in LAYERS_ALONE}, ["LSTM-batch-first", "stack"])
def test_a_layer_alone_is_exported_with_its_last_states(name, tmp_path):
    layer = LAYERS_ALONE[name]().eval()
    description = export_model(layer, tmp_path / "layer.pt2")
    run = torch.export.load(tmp_path / "layer.pt2").module()
    x, lengths = batch(9, 3), torch.tensor([9, 2, 5])
    ours = layer
    if isinstance(layer, nn.GRU):
        ours = GRU(M, N, batch_first=True).load_torch(layer)
    if getattr(layer, "batch_first", False):
        x = x.transpose(0, 1).contiguous()
    expected = flatten(ours(x, lengths=lengths))
    found = run(x, lengths)
    assert len(found) == len(description["outputs"])
    assert_agree(lambda *_: [each.detach() for each in found], lambda *_: expected, x)
    for described, tensor in zip(description["outputs"], found, strict=True):
        sizes = [{"T": 9, "B": 3}.get(size, size) for size in described["shape"]]
        assert sizes == list(tensor.shape)


@pytest.mark.parametrize(
    "scaling",
    [([0.0] * M, [1.0, 0.0, 1.0]), ([0.0] * 2, [1.0] * 2), ([np.nan] * M, [1.0] * M)],
    ids=["zero", "two", "nan"],
)
def test_a_scaling_that_does_not_fit_is_refused(scaling, tmp_path):
    with pytest.raises(ValueError, match="3 finite means and 3 deviations > 0"):
        export_model(RNN(M, N).eval(), tmp_path / "layer.pt2", scaling)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", some([".onnx", ".pt2"], [".onnx"]))
@pytest.mark.long
def test_an_exported_language_model_continues_a_text_in_parts(suffix, tmp_path):
    layers = [NnRNN(M, N, trainable_h0=True), nn.LSTM(N, N), nn.GRU(N, N), nn.RNN(N, N)]
    model = LanguageModel(11, M, layers).eval()
    nn.init.normal_(model.layers[0].directions[0].h0)
    path = tmp_path / f"model{suffix}"
    description = export_model(model, path)
    initial = description["initial_states"]
    names = [each["name"] for each in description["inputs"]]
    assert names == ["symbols", *(f"state_{k}" for k in range(5))]
    assert initial["state_1"] == initial["state_2"] == 0
    first = np.array(initial["state_0"], np.float32)[:, None].repeat(2, axis=1)
    states = [first, *[np.zeros((1, 2, N), np.float32)] * 4]
    text, logits = torch.randint(11, (9, 2)), []
    program = torch.export.load(path).module() if suffix == ".pt2" else session_of(path)
    for part in text.split([1, 5, 3]):
        if suffix == ".pt2":
            given = [torch.from_numpy(state) for state in states]
            found = [each.detach().numpy() for each in program(part, *given)]
        else:
            found = program.run(None, dict(zip(names, [part.numpy(), *states], strict=True)))
        logits.append(found[0])
        states = found[1:]
    with torch.no_grad():
        np.testing.assert_allclose(np.concatenate(logits), model(text).numpy(), atol=TOLERANCE)


def test_a_model_in_double_precision_is_exported(tmp_path):
    model = SequenceModel(RNN(M, N, nonlinearity="tanh"), 2).double().eval()
    description = export_model(model, tmp_path / "model.onnx")
    assert description["outputs"][0]["dtype"] == "float64"
    assert description["largest_difference"] < 1e-12


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", [GRU, URNN, LRU, partial(LeakyRNN, leak=0.01)])
def test_a_model_in_16_bits_is_exported_with_its_states_in_32(kind, dtype, tmp_path):
    layer = kind(M, N).to(dtype).eval()
    description = export_model(layer, tmp_path / "layer.pt2")
    assert description["largest_difference"] <= torch.finfo(dtype).eps
    x = torch.randn(300, 2, M, generator=torch.Generator().manual_seed(0)).to(dtype)
    program = torch.export.load(tmp_path / "layer.pt2").module()
    outputs, *_ = program(x, torch.tensor([300, 300]))
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(outputs, layer(x)[0], rtol=eps, atol=eps)


def test_a_model_in_half_precision_runs_in_onnxruntime(tmp_path):
    description = export_model(GRU(M, N).half().eval(), tmp_path / "layer.onnx")
    assert description["outputs"][0]["dtype"] == "float16"
    assert description["largest_difference"] <= torch.finfo(torch.float16).eps


def with_head(head):
    model = SequenceModel(RNN(M, N), 2).eval()
    model.head = head
    return model


@pytest.mark.parametrize(
    ("model", "name", "message"),
    [
        (SequenceModel(RNN(M, N), 2).eval(), "model.pt", "ends in .onnx or .pt2"),
        (SequenceModel(RNN(M, N), 2).eval(), "no/model.onnx", "a folder that exists"),
        (SequenceModel(RNN(M, N), 2), "model.pt2", r"model.eval\(\)"),
        (nn.Linear(2, 2).eval(), "model.pt2", "torch.onnx.export"),
        (with_head(nn.Tanh()), "model.onnx", "a head that is a Linear, got Tanh"),
        (GRU(M, N).bfloat16().eval(), "model.onnx", r"got some of bfloat16: model.float\(\)"),
        (LeakyRNN(M, N, noise=0.1, noise_in_eval=True).eval(), "a.pt2", "no noise in evaluation"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_the_way_that_works(
    model, name, message, tmp_path
):
    with pytest.raises(ValueError, match=message):
        export_model(model, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("export", "file"), [(export_model, "gru.pt2"), (to_c, "gru.c")])
def test_an_export_draws_nothing_from_the_global_stream(export, file, tmp_path):
    layer = nn.GRU(M, N).eval()
    before = torch.get_rng_state()
    export(layer, tmp_path / file)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_hook_on_a_layer_of_torch_would_be_lost(tmp_path):
    model = SequenceModel(torch.nn.GRU(2, 3), 1).eval()
    model.layer.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="without hooks, got one on layer"):
        export_model(model, tmp_path / "net.onnx", torch.zeros(5, 1, 2))
