"""Without constraints our layers equal torch's, in outputs and in all gradients."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from eigenrnn.constraints import ScaledCayley, Unconstrained
from eigenrnn.errors import NotInSetError
from eigenrnn.layers import GRU, LSTM, RNN, ScoRNN
from eigenrnn.linalg import tol
from eigenrnn.ops.elman import BACKENDS as ELMAN_BACKENDS
from eigenrnn.ops.gru import BACKENDS as GRU_BACKENDS
from eigenrnn.ops.lstm import BACKENDS as LSTM_BACKENDS

T, B, M, N = 6, 3, 4, 5
LENGTHS = [4, 6, 1]

OPTIONS = {
    f"{nonlinearity}-{layers}{'-bidirectional' if bidirectional else ''}": {
        "nonlinearity": nonlinearity,
        "num_layers": layers,
        "bidirectional": bidirectional,
    }
    for nonlinearity, layers, bidirectional in itertools.product(
        ("tanh", "relu"), (1, 2), (False, True)
    )
}
OPTIONS["tanh-no-bias"] = {"bias": False}
OPTIONS["relu-2-bidirectional-no-bias"] = OPTIONS["relu-2-bidirectional"] | {"bias": False}
OPTIONS["dropout-0"] = {"num_layers": 2, "dropout": 0.0}
OPTIONS |= {
    name.replace("tanh", gated): {k: v for k, v in options.items() if k != "nonlinearity"}
    | {"kind": kind}
    for gated, kind in (("gru", nn.GRU), ("lstm", nn.LSTM))
    for name, options in OPTIONS.items()
    if name.startswith("tanh")
}

GATED = {nn.GRU: GRU, nn.LSTM: LSTM}

each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
each_h0 = pytest.mark.parametrize("with_h0", [False, True], ids=["no h0", "h0"])


def both(kind=nn.RNN, **options):
    """A torch layer, and ours with its weights, in double precision."""
    theirs = kind(M, N, dtype=torch.float64, **options)
    if kind in GATED:
        return theirs, GATED[kind](M, N, dtype=torch.float64, **options).load_torch(theirs)
    options = {"nonlinearity": "tanh"} | options
    ours = RNN(M, N, dtype=torch.float64, constraint=Unconstrained, **options)
    return theirs, ours.load_torch(theirs)


def normal(*shape):
    return torch.randn(shape, dtype=torch.float64)


def h0_for(layer, *batch):
    """The initial state, or the two of an LSTM."""
    states = 2 if isinstance(layer, nn.LSTM) else 1
    directions = layer.num_layers * (2 if layer.bidirectional else 1)
    return [normal(directions, *batch, N) for _ in range(states)]


def assert_near(got, expected):
    for one, other in zip(got, expected, strict=True):
        scale = max(1.0, float(other.detach().abs().max()))
        torch.testing.assert_close(one, other, rtol=0, atol=scale * tol(torch.float64, T * N))


def results_and_gradients(layer, run, inputs):
    """The results of a run and the gradients of its inputs; fills those of the weights."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output, last = run(layer, *inputs)
    states = last if isinstance(last, tuple) else (last,)
    if isinstance(output, PackedSequence):
        output = output.data
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    layer.zero_grad()
    ((weights * output).sum() + sum(each.square().sum() for each in states)).backward()
    return [output, *states, *(tensor.grad for tensor in inputs)]


def assert_equal_weight_gradients(ours, theirs):
    suffixes = ("", "_reverse") if theirs.bidirectional else ("",)
    names = [f"l{k}{suffix}" for k in range(theirs.num_layers) for suffix in suffixes]
    for direction, name in zip(ours.all_directions(), names, strict=True):
        raws = [constraint.raw.grad for constraint in direction.constraints()]
        got = [direction.weight_ih.grad, torch.cat(raws)]
        expected = [getattr(theirs, f"weight_{part}_{name}").grad for part in ("ih", "hh")]
        if theirs.bias:
            got += bias_gradients(direction)
            expected += [getattr(theirs, f"bias_{part}_{name}").grad for part in ("ih", "hh")]
        assert_near(got, expected)


def bias_gradients(direction):
    """The gradients of our biases, in the layout of torch's two biases."""
    if not hasattr(direction, "gate_bias"):
        return [direction.input_bias.grad] * 2
    candidate = (direction.input_bias.grad, direction.recurrent_bias.grad)
    return [torch.cat([direction.gate_bias.grad, each]) for each in candidate]


def assert_equal(theirs, ours, run, inputs):
    assert_near(
        results_and_gradients(ours, run, inputs), results_and_gradients(theirs, run, inputs)
    )
    assert_equal_weight_gradients(ours, theirs)


def hx_of(h0):
    return tuple(h0) if len(h0) > 1 else h0[0] if h0 else None


def call(layer, x, *h0):
    return layer(x, hx_of(h0))


class MaskedGRU(GRU):
    """A GRU that takes the mask of torchrl, as on docs/reinforcement_learning.md."""

    def forward(self, input, hx=None, mask=None):
        return super().forward(input, hx, lengths=None if mask is None else mask.sum(1))


@pytest.mark.long  # the import takes seconds
@pytest.mark.parametrize(
    ("kind", "recurrent"), [(GRU, False), (MaskedGRU, True)], ids=["steps", "sequences"]
)
def test_torchrl_computes_the_same_with_our_layer(kind, recurrent, monkeypatch):
    # an import of torchrl decides how all later processes start
    monkeypatch.setattr(torch.multiprocessing, "set_start_method", lambda _: None)
    from tensordict import TensorDict
    from torchrl.modules import GRUModule, set_recurrent_mode

    theirs = nn.GRU(M, N, num_layers=2, batch_first=True, dtype=torch.float64)
    ours = kind(M, N, num_layers=2, batch_first=True, dtype=torch.float64).load_torch(theirs)
    is_init = torch.arange(B * T).view(B, T, 1) % 4 == 0

    def run(layer, x, h):
        module = GRUModule(gru=layer, in_keys=["x", "h"], out_keys=["y", ("next", "h")])
        with set_recurrent_mode(recurrent):
            found = module(TensorDict({"x": x, "h": h, "is_init": is_init}, [B, T]))
        return found["y"], found["next", "h"]

    assert_equal(theirs, ours, run, [normal(B, T, M), normal(B, T, 2, N)])


BACKENDS = {"tanh": ELMAN_BACKENDS, "gru": GRU_BACKENDS, "lstm": LSTM_BACKENDS}


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        (f"{name}-2-bidirectional", backend)
        for name, backends in BACKENDS.items()
        for backend in backends
        if torch.float64 in backends[backend].dtypes
    ],
)
def test_every_backend_equals_torch(name, backend):
    theirs, ours = both(**OPTIONS[name])
    ours.backend = backend
    assert_equal(theirs, ours, call, [normal(T, B, M), *h0_for(theirs, B)])


@each_h0
@each_option
def test_a_batch_first_layer_equals_torch(options, with_h0):
    theirs, ours = both(batch_first=True, **options)
    inputs = [normal(B, T, M)] + h0_for(theirs, B) * with_h0
    assert_equal(theirs, ours, call, inputs)


def packed(enforce_sorted, batch_first=False):
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS

    def run(layer, x, *h0):
        sequences = pack_padded_sequence(x, lengths, batch_first, enforce_sorted)
        return layer(sequences, hx_of(h0))

    return run


@pytest.mark.parametrize("enforce_sorted", [True, False], ids=["sorted", "unsorted"])
@each_h0
@each_option
def test_packed_sequences_equal_torch(options, with_h0, enforce_sorted):
    theirs, ours = both(**options)
    inputs = [normal(T, B, M)] + h0_for(theirs, B) * with_h0
    assert_equal(theirs, ours, packed(enforce_sorted), inputs)


@pytest.mark.parametrize("enforce_sorted", [True, False], ids=["sorted", "unsorted"])
def test_a_packed_output_has_the_layout_of_torch(enforce_sorted):
    theirs, ours = both()
    run, x = packed(enforce_sorted), normal(T, B, M)
    (expected, _), (got, _) = run(theirs, x), run(ours, x)
    assert torch.equal(got.batch_sizes, expected.batch_sizes)
    assert (got.sorted_indices is None) == enforce_sorted
    padded, lengths = pad_packed_sequence(got)
    assert_near([padded], [pad_packed_sequence(expected)[0]])
    assert lengths.tolist() == pad_packed_sequence(expected)[1].tolist()


def test_packed_sequences_of_a_batch_first_layer_equal_torch():
    theirs, ours = both(batch_first=True, num_layers=2, bidirectional=True)
    assert_equal(theirs, ours, packed(False, batch_first=True), [normal(B, T, M)])


def test_the_positional_arguments_are_those_of_torch():
    arguments = (M, N, 2, "relu", False, True, 0.5, True)
    theirs, ours = nn.RNN(*arguments), RNN(*arguments, constraint=Unconstrained)
    names = ["input_size", "hidden_size", "num_layers", "nonlinearity"]
    names += ["batch_first", "dropout", "bidirectional"]
    assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]


@pytest.mark.parametrize(
    ("kind", "more"), [(nn.GRU, ()), (nn.LSTM, (0, "cpu", torch.float64))], ids=["gru", "lstm"]
)
def test_the_positional_arguments_of_a_gated_layer_are_those_of_torch(kind, more):
    arguments = (M, N, 2, False, True, 0.5, True, *more)
    theirs, ours = kind(*arguments), GATED[kind](*arguments)
    assert [getattr(ours, name) for name in SHARED] == [getattr(theirs, name) for name in SHARED]
    assert ours.weight_dtype == theirs.weight_ih_l0.dtype
    assert ours.all_directions()[0].input_bias is None


SHARED = (
    "input_size",
    "hidden_size",
    "num_layers",
    "bias",
    "batch_first",
    "dropout",
    "bidirectional",
    "proj_size",
)
# what torch does not document
OMITTED = {
    "mode",
    "permute_hidden",
    "check_forward_args",
    "check_hidden_size",
    "check_input",
    "get_expected_hidden_size",
}

each_kind = pytest.mark.parametrize(
    ("kind", "ours"), [(nn.RNN, RNN), *GATED.items()], ids=["rnn", "gru", "lstm"]
)


def public_names(layer):
    return {name for name in dir(layer) if not name.startswith("_")}


@each_kind
def test_every_public_name_of_torch_exists_or_is_omitted_on_purpose(kind, ours):
    omitted = OMITTED | {"get_expected_cell_size"} if kind is nn.LSTM else OMITTED
    options = {"nonlinearity": "tanh"} if ours is RNN else {}
    layer = ours(4, 6, **options)
    assert {name for name in public_names(kind(4, 6)) if not hasattr(layer, name)} == omitted


def test_the_nonlinearity_is_named_as_torch_names_it():
    assert RNN(4, 6, nonlinearity="relu").nonlinearity == nn.RNN(4, 6, 1, "relu").nonlinearity


@each_kind
def test_the_keywords_of_a_call_are_those_of_torch(kind, ours):
    x, hx = torch.zeros(T, B, 4), torch.zeros(1, B, 6)
    hx = (hx, hx) if kind is nn.LSTM else hx
    for layer in (kind(4, 6), ours(4, 6)):
        assert layer(input=x, hx=hx)[0].shape == (T, B, 6)


@each_kind
def test_shared_methods_do_what_they_do_in_torch(kind, ours):
    for layer in (kind(4, 6), ours(4, 6)):
        before = layer.state_dict()
        before = {name: before[name].clone() for name in before}
        layer.flatten_parameters()
        assert all(map(torch.equal, layer.state_dict().values(), before.values()))
        layer.reset_parameters()
        assert not all(map(torch.equal, layer.state_dict().values(), before.values()))


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_loaded_weights_are_copies(kind):
    theirs, ours = both(kind)
    x = normal(T, B, M)
    before = ours(x)[0].detach().clone()
    for weight in theirs.parameters():
        nn.init.zeros_(weight)
    assert torch.equal(ours(x)[0], before)


def test_load_torch_unfreezes_the_layer():
    theirs, _ = both()
    ours = RNN(M, N, nonlinearity="tanh", constraint=Unconstrained, dtype=torch.float64).freeze()
    x = normal(T, B, M)
    assert_near(ours.load_torch(theirs)(x), theirs(x))


TANH = RNN(M, N, nonlinearity="tanh", constraint=Unconstrained)
REFUSED = {
    "input_size": (TANH, nn.RNN(M + 1, N)),
    "num_layers": (TANH, nn.RNN(M, N, num_layers=2)),
    "bidirectional": (TANH, nn.RNN(M, N, bidirectional=True)),
    "nonlinearity": (TANH, nn.RNN(M, N, nonlinearity="relu")),
    "bias": (TANH, nn.RNN(M, N, bias=False)),
    "proj_size": (LSTM(M, N), nn.LSTM(M, N, proj_size=3)),
    "reset_after": (GRU(M, N, reset_after=False), nn.GRU(M, N)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_load_torch_names_the_option_that_differs(name):
    ours, theirs = REFUSED[name]
    with pytest.raises(ValueError, match=name):
        ours.load_torch(theirs)


@pytest.mark.parametrize(("ours", "theirs"), [(TANH, nn.LSTM(M, N)), (GRU(M, N), nn.RNN(M, N))])
def test_load_torch_rejects_another_layer_type(ours, theirs):
    with pytest.raises(TypeError, match=type(theirs).__name__):
        ours.load_torch(theirs)


@pytest.mark.parametrize(
    ("kind", "gate"), [(nn.GRU, "candidate"), (nn.LSTM, "output")], ids=["gru", "lstm"]
)
def test_a_gated_layer_is_unchanged_if_one_gate_does_not_fit(kind, gate):
    ours, theirs = GATED[kind](M, N, **{gate: ScaledCayley}), kind(M, N)
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    with pytest.raises(NotInSetError):
        ours.load_torch(theirs)
    assert all(torch.equal(value, before[name]) for name, value in ours.state_dict().items())


def torch_rnn_with_second_matrix(W):
    theirs = nn.RNN(M, 4, num_layers=2)
    with torch.no_grad():
        theirs.weight_hh_l0.copy_(torch.eye(4))
        theirs.weight_hh_l1.copy_(W)
    return theirs


@pytest.mark.parametrize(
    "W", [torch.ones(4, 4), -torch.eye(4)], ids=["not orthogonal", "wrong determinant"]
)
def test_a_layer_is_unchanged_if_one_matrix_does_not_fit(W):
    ours = RNN(M, 4, 2, "tanh", constraint=lambda n: ScaledCayley(n, negative=0))
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    with pytest.raises(NotInSetError):
        ours.load_torch(torch_rnn_with_second_matrix(W))
    assert all(torch.equal(value, before[name]) for name, value in ours.state_dict().items())


def pruned(layer):
    weights = getattr(layer, "directions", [layer])[0]
    name = "weight_ih" if weights is not layer else "weight_ih_l0"
    prune.l1_unstructured(weights, name, amount=0.5)
    return layer


def normed(layer):
    parametrizations.weight_norm(layer.directions[0], "weight_ih")
    return layer


@pytest.mark.parametrize("change", [pruned, normed])
@pytest.mark.parametrize(
    "write",
    [
        lambda layer: layer.load_torch(nn.GRU(M, N)),
        lambda layer: layer.load_state_dict(nn.GRU(M, N).state_dict()),
        lambda layer: layer.reset(),
    ],
    ids=["load_torch", "load_state_dict", "reset"],
)
def test_a_weight_that_is_computed_from_others_is_not_written(change, write):
    layer = change(GRU(M, N))
    with pytest.raises(ValueError, match=r"weight_ih that torch\.nn\.utils computes"):
        write(layer)


def test_a_weight_that_waits_for_a_hook_is_not_copied():
    with pytest.raises(ValueError, match=r"got weight_ih that torch\.nn\.utils computes"):
        pruned(GRU(M, N)).to_torch()
    with pytest.raises(ValueError, match=r"got weight_ih_l0 that torch\.nn\.utils computes"):
        GRU(M, N).load_torch(pruned(nn.GRU(M, N)))
    layer = normed(GRU(M, N))  # whose weight is computed when it is read
    assert torch.equal(layer.to_torch().weight_ih_l0, layer.weight_ih_l0)


def test_a_pruned_layer_takes_another_dtype():
    layer = pruned(ScoRNN(M, N))
    x = torch.randn(T, B, M)
    expected, _ = layer(x)
    output, _ = layer.double()(x.double())
    torch.testing.assert_close(output, expected.double())


def test_a_tensor_of_a_user_is_no_weight_that_is_computed():
    class Masked(Unconstrained):
        def __init__(self, size):
            super().__init__(size)
            self.mask = torch.ones(size, size)

    class Noted(GRU):
        table = None

    layer = Noted(M, N, candidate=Masked)
    layer.table = torch.arange(3)
    layer.register_forward_hook(lambda module, _, output: setattr(module, "last", output[0]))
    with torch.no_grad():
        layer(torch.randn(T, B, M))
    layer.reset()
    layer.load_state_dict(nn.GRU(M, N).state_dict())
    assert torch.equal(layer.to_torch().weight_ih_l0, layer.weight_ih_l0)
