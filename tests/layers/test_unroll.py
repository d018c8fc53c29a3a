"""The unrolled copy of a model against the model itself."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from cases import LAYERS as CASES
from cases import NAMED
from draws import normal
from eigenrnn import LanguageModel, SequenceModel
from eigenrnn.analysis.forward_pass import unroll
from eigenrnn.layers.stacked import Stacked

T, B, M, N = 6, 3, 2, 8
LAYERS = {**CASES, **NAMED}
LENGTHS = torch.tensor([4, 6, 1])


def make_layer(name, **options):
    return LAYERS[name](M, N, **options).double().eval()


def assert_same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", LAYERS)
def test_unrolled_layer_gives_the_same_outputs(name):
    layer, x = make_layer(name), normal(T, B, M)
    assert_same(unroll(layer).model(x), layer(x))


@pytest.mark.parametrize("name", ["LSTM", "torch's GRU", "ScoRNN", "ScuRNN", "GRU"])
@pytest.mark.parametrize("form", ["batched", "unbatched", "packed", "packed-sorted"])
def test_unrolled_stacked_bidirectional_layer_gives_the_same_outputs(name, form):
    options = {"num_layers": 2, "bidirectional": True, "batch_first": True}
    layer, x = make_layer(name, **options), normal(B, T, M)
    inputs = {
        "batched": x,
        "unbatched": x[0],
        "packed": pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False),
        "packed-sorted": pack_padded_sequence(x, torch.tensor([6, 4, 1]), batch_first=True),
    }[form]
    _, last = layer(inputs)
    assert_same(unroll(layer).model(inputs), layer(inputs))
    # from another initial state, in the order of the user's sequences
    assert_same(unroll(layer).model(inputs, last), layer(inputs, last))


@pytest.mark.parametrize("readout", ["all", "last"])
@pytest.mark.parametrize("name", LAYERS)
def test_unrolled_sequence_model_gives_the_same_outputs_with_lengths(name, readout):
    model, x = SequenceModel(make_layer(name), 3, readout).double().eval(), normal(T, B, M)
    assert_same(unroll(model).model(x, LENGTHS), model(x, LENGTHS))


def test_unrolled_language_model_gives_the_same_outputs_and_names_its_layers():
    model = LanguageModel(7, M, [make_layer("ScoRNN"), nn.LSTM(N, M)], tied=True).double().eval()
    x = torch.randint(7, (T, B), generator=torch.Generator().manual_seed(0))
    copy = unroll(model)
    assert_same(copy.model(x), model(x))
    assert list(copy.states) == ["layers.0.l0", "layers.1.l0"]


def test_model_is_not_changed():
    model = SequenceModel(LAYERS["ScoRNN"](M, N), 3)
    unroll(model).model(normal(T, B, M))
    assert "forward" not in vars(model.layer)
    assert model.training
    assert model.head.weight.dtype == torch.float32
    assert isinstance(model.layer, Stacked)
