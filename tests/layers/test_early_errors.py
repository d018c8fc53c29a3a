"""Arguments that were accepted, or that only torch's internals refused, get an early error."""

import math
from functools import partial

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from eigenrnn.constraints import NeumannCayley, Schur, SpectralRadius
from eigenrnn.layers import GRU, LRU, RNN, URNN, MinGRU
from eigenrnn.models import LanguageModel


def language_model(vocabulary=5):
    return LanguageModel(vocabulary, 3, [RNN(3, 3)])


@pytest.mark.parametrize("vocabulary", [0, 1.5])
def test_a_vocabulary_is_a_positive_integer(vocabulary):
    with pytest.raises(ValueError, match="vocabulary"):
        language_model(vocabulary)


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature:UserWarning")
@pytest.mark.parametrize("layer", [RNN, GRU, URNN, LRU, MinGRU])
def test_complex_weights_are_refused(layer):
    made = layer(3, 4)
    x = torch.zeros(5, 2, 3, dtype=torch.complex64)
    with pytest.raises(TypeError, match=r"expected (weights of )?a real type"):
        made.to(torch.complex64)(x)


@pytest.mark.parametrize("layer", [RNN, GRU])
@pytest.mark.parametrize("sizes", [[3, 3, 9], [2, 3, 5]], ids=["sum", "rising"])
def test_an_inconsistent_packed_sequence_is_refused(layer, sizes):
    packed = pack_padded_sequence(torch.randn(5, 3, 2), [5, 3, 2])
    with pytest.raises(ValueError, match="PackedSequence"):
        layer(2, 3)(PackedSequence(packed.data, torch.tensor(sizes)))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("kind", ["nested", "sparse", "None"])
def test_a_step_of_a_frozen_layer_refuses_what_is_not_dense(kind):
    layer = RNN(3, 4).freeze()
    x = {
        "nested": torch.nested.nested_tensor([torch.randn(3), torch.randn(3)]),
        "sparse": torch.randn(2, 3).to_sparse(),
        "None": None,
    }
    with torch.no_grad(), pytest.raises(TypeError, match="x_t to be a"):
        layer.step(x[kind], torch.zeros(1, 2, 4))


@pytest.mark.parametrize("value", [-1.0, math.nan])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (partial(Schur, 4), "gamma_penalty"),
        (partial(SpectralRadius, 4), "epsilon"),
        (partial(NeumannCayley, 4), "gradient_rate"),
    ],
)
def test_an_invalid_weight_or_rate_is_rejected(make, name, value):
    with pytest.raises(ValueError, match=f"got {value}"):
        make(**{name: value})
