"""Weights under torch's names, states of torch's layers, and conversion to them."""

import copy
import pickle
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from eigenrnn import (
    GRU,
    LRU,
    LSTM,
    RNN,
    GRUCell,
    LeakyRNN,
    LSTMCell,
    RNNCell,
    ScoRNN,
    SequenceModel,
)
from eigenrnn.constraints import ScaledCayley, Unconstrained
from eigenrnn.errors import NotInSetError

M, N = 3, 5
OPTIONS = {"num_layers": 2, "bidirectional": True, "dtype": torch.float64}
FREE = {"constraint": Unconstrained}
PAIRS = {
    "RNN, tanh": (RNN, nn.RNN, {"nonlinearity": "tanh"}, FREE),
    "RNN, relu, no bias": (RNN, nn.RNN, {"nonlinearity": "relu", "bias": False}, FREE),
    "GRU": (GRU, nn.GRU, {}, {}),
    "LSTM, batch first": (LSTM, nn.LSTM, {"batch_first": True}, {}),
}
each_pair = pytest.mark.parametrize("name", PAIRS)


def pair(name):
    """A layer of ours and one of torch's, with weights of their own."""
    ours, theirs, options, own = PAIRS[name]
    return ours(M, N, **OPTIONS, **options, **own), theirs(M, N, **OPTIONS, **options)


def sequences():
    return torch.randn(4, 4, M, dtype=torch.float64)


@each_pair
def test_the_names_shapes_and_order_of_the_weights_are_those_of_torch(name):
    ours, theirs = pair(name)
    expected = {key: value.shape for key, value in theirs.state_dict().items()}
    assert {key: getattr(ours, key).shape for key in expected} == expected
    shapes = [[weight.shape for weight in weights] for weights in theirs.all_weights]
    assert [[weight.shape for weight in weights] for weights in ours.all_weights] == shapes


@each_pair
def test_the_state_of_a_torch_layer_can_be_loaded(name):
    ours, theirs = pair(name)
    x = sequences()
    assert ours.load_state_dict(theirs.state_dict()).missing_keys == []
    torch.testing.assert_close(ours(x), theirs(x))


@each_pair
def test_a_torch_layer_computes_the_same_with_the_converted_weights(name):
    ours, _ = pair(name)
    x = sequences()
    torch.testing.assert_close(ours.eval().to_torch()(x), ours(x))
    assert not ours.to_torch().training


def test_the_matrix_is_the_evaluated_one_and_differentiable():
    layer = ScoRNN(M, N)
    (gradient,) = torch.autograd.grad(layer.weight_hh_l0.sum(), layer.directions[0].constraint.raw)
    assert gradient.abs().sum() > 0
    torch.testing.assert_close(layer.weight_hh_l0 @ layer.weight_hh_l0.T, torch.eye(N))


def test_the_state_of_a_model_with_a_torch_layer_can_be_loaded():
    theirs = nn.ModuleDict({"layer": nn.GRU(M, N), "head": nn.Linear(N, 2)})
    ours = SequenceModel(GRU(M, N), 2)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(4, 2, M)
    torch.testing.assert_close(ours(x), theirs["head"](theirs["layer"](x)[0]))


def test_a_matrix_outside_the_set_changes_nothing():
    ours = RNN(M, N, nonlinearity="tanh", constraint=ScaledCayley)
    before = copy.deepcopy(ours.state_dict())
    with pytest.raises(NotInSetError):
        ours.load_state_dict(nn.RNN(M, N).state_dict())
    torch.testing.assert_close(ours.state_dict(), before)


@pytest.mark.parametrize("theirs", [nn.RNN(M, N, 2), nn.RNN(M, N, bias=False), nn.LSTM(M, N)])
def test_the_state_of_another_layer_is_refused(theirs):
    with pytest.raises(ValueError, match="expected weights of the shapes"):
        RNN(M, N, nonlinearity="tanh", **FREE).load_state_dict(theirs.state_dict())
    with pytest.raises(ValueError, match="expected weights of the shapes"):
        GRUCell(M, N).load_state_dict(nn.RNNCell(M, N).state_dict())


@pytest.mark.parametrize(
    "make",
    [LeakyRNN, partial(LeakyRNN, trainable_leak=True), partial(RNN, layer_norm=True)],
    ids=str,
)
def test_what_torch_lacks_stays_as_it_is(make):
    ours = make(M, N, nonlinearity="tanh", trainable_h0=True, **FREE)
    own = (".h0", ".gain", ".shift", ".raw", ".values")
    before = {name: v.clone() for name, v in ours.state_dict().items() if name.endswith(own)}
    theirs = nn.RNN(M, N)
    ours.load_state_dict(theirs.state_dict())
    assert torch.equal(ours.weight_hh_l0, theirs.weight_hh_l0)
    after = ours.state_dict()
    before.pop("directions.0.constraint.raw")  # W itself
    assert all(torch.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize(
    ("layer", "message"),
    [(ScoRNN(M, N), "got 'modrelu'"), (LSTM(M, N, trainable_h0=True), "got trainable_h0")],
)
def test_a_layer_that_torch_lacks_is_not_converted(layer, message):
    with pytest.raises(ValueError, match=message):
        layer.to_torch()


CELLS = {
    "RNNCell": (RNNCell, nn.RNNCell, {"nonlinearity": "relu"}, FREE),
    "RNNCell, no bias": (RNNCell, nn.RNNCell, {"nonlinearity": "tanh", "bias": False}, FREE),
    "GRUCell": (GRUCell, nn.GRUCell, {}, {}),
    "LSTMCell": (LSTMCell, nn.LSTMCell, {}, {}),
}
each_cell = pytest.mark.parametrize("name", CELLS)


def cells(name):
    """A cell of ours and one of torch's, with weights of their own."""
    ours, theirs, options, own = CELLS[name]
    double = {"dtype": torch.float64}
    return ours(M, N, **double, **options, **own), theirs(M, N, **double, **options)


@each_cell
def test_a_cell_has_the_names_and_shapes_of_torch(name):
    ours, theirs = cells(name)
    for key, value in theirs.state_dict().items():
        assert getattr(ours.layer, f"{key}_l0").shape == value.shape
    for option in ("input_size", "hidden_size", "bias"):
        assert getattr(ours, option) == getattr(theirs, option)


@each_cell
@pytest.mark.parametrize("is_inside", [False, True])
def test_a_cell_takes_the_weights_of_a_torch_cell(name, is_inside):
    ours, theirs = cells(name)
    if is_inside:
        nn.ModuleList([ours]).load_state_dict(nn.ModuleList([theirs]).state_dict())
    else:
        assert ours.load_state_dict(theirs.state_dict()).missing_keys == []
    x = torch.randn(4, M, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_cell_of_another_set_is_refused_and_changes_nothing():
    ours = RNNCell(M, N, nonlinearity="tanh")
    before = copy.deepcopy(ours.state_dict())
    with pytest.raises(NotInSetError):
        ours.load_state_dict(nn.RNNCell(M, N).state_dict())
    torch.testing.assert_close(ours.state_dict(), before)


@pytest.mark.parametrize("name", ["weight_hh_l1", "weight_hh_l0_reverse"])
def test_a_weight_that_is_not_there_is_named(name):
    layer = ScoRNN(M, N)
    assert not hasattr(layer, name)
    with pytest.raises(AttributeError, match=f"no '{name}'"):
        getattr(layer, name)


@pytest.mark.parametrize("kind", [GRU, LSTM])
def test_the_first_bias_of_torch_holds_the_sum_and_the_second_what_is_left(kind):
    theirs = getattr(nn, kind.__name__)(M, N)
    layer = kind(M, N).load_torch(theirs)
    added = theirs.bias_ih_l0 + theirs.bias_hh_l0
    kept = 2 * N if kind is GRU else 4 * N
    torch.testing.assert_close(layer.bias_ih_l0[:kept], added[:kept])
    assert not layer.bias_hh_l0[:kept].any()
    torch.testing.assert_close(layer.bias_hh_l0[kept:], theirs.bias_hh_l0[kept:])


class Double(nn.Module):
    def forward(self, W):
        return 2 * W


REPLACED = {
    "prune": lambda layer, name: prune.l1_unstructured(layer, name, 0.5),
    "parametrize": lambda layer, name: parametrize.register_parametrization(layer, name, Double()),
    "weight_norm": parametrizations.weight_norm,
    "earlier weight_norm": nn.utils.weight_norm,
    "earlier spectral_norm": nn.utils.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
    "a new parameter": lambda layer, name: setattr(layer, name, nn.Parameter(torch.zeros(N, N))),
    "a tensor": lambda layer, name: setattr(layer, name, torch.zeros(N, N)),
}
NAMES = {
    "ScoRNN": (lambda: ScoRNN(M, N), "weight_hh_l0"),
    "inputs": (lambda: ScoRNN(M, N), "weight_ih_l0"),
    "gates": (lambda: GRU(M, N, bidirectional=True), "weight_hh_l0_reverse"),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
@pytest.mark.parametrize("replace", REPLACED.values(), ids=REPLACED)
@pytest.mark.parametrize(("make", "name"), NAMES.values(), ids=NAMES)
def test_a_weight_cannot_be_replaced_by_its_name_in_torch(make, name, replace):
    layer = make()
    before = getattr(layer, name).detach().clone()
    with pytest.raises((ValueError, TypeError, KeyError), match=name):  # most are torch's own
        replace(layer, name)
    assert torch.equal(getattr(layer, name), before)


def test_a_raw_parameter_is_pruned_and_parametrised():
    layer = RNN(M, N, nonlinearity="tanh", **FREE)
    W = layer.weight_hh_l0.detach().clone()
    parametrize.register_parametrization(layer.directions[0].constraint, "raw", Double())
    torch.testing.assert_close(layer.weight_hh_l0, 2 * W)
    prune.l1_unstructured(layer.directions[0], "weight_ih", 0.5)
    assert (layer.weight_ih_l0 == 0).sum() == round(N * M / 2)


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("kind", [RNN, LRU])
def test_a_trace_is_refused_with_what_to_use(kind):
    with pytest.raises(ValueError, match=r"got torch.jit"):
        torch.jit.trace(kind(M, N), torch.ones(2, 1, M))


def test_a_layer_is_pickled_and_copied_with_its_names():
    layer = GRU(M, N)
    for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        torch.testing.assert_close(other.weight_hh_l0, layer.weight_hh_l0)
