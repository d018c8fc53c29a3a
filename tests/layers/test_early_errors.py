"""Arguments that were accepted, or that only torch's internals refused, get an early error."""

import math
from functools import partial

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from eigenrnn import AveragedModel
from eigenrnn.constraints import NeumannCayley, Schur, SpectralRadius
from eigenrnn.layers import GRU, RNN
from eigenrnn.models import LanguageModel, SequenceModel


def language_model(vocabulary=5):
    return LanguageModel(vocabulary, 3, [RNN(3, 3)])


@pytest.mark.parametrize("vocabulary", [0, 1.5])
def test_a_vocabulary_is_a_positive_integer(vocabulary):
    with pytest.raises(ValueError, match="vocabulary"):
        language_model(vocabulary)


@pytest.mark.parametrize("symbol", [-1, 5])
def test_a_symbol_out_of_range_is_named(symbol):
    with pytest.raises(ValueError, match=f"got {symbol} to"):
        language_model()(torch.full((4, 2), symbol))


@pytest.mark.parametrize("layers", [[None], GRU(3, 3)], ids=["None", "a layer"])
def test_a_language_model_takes_a_list_of_layers(layers):
    with pytest.raises(TypeError, match="recurrent layer"):
        LanguageModel(5, 3, layers)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [({"output_size": 2, "generator": 3}, TypeError, "expected generator to be a torch.Gen")],
)
def test_a_head_is_checked_before_it_is_allocated(options, error, said):
    with pytest.raises(error, match=said):
        SequenceModel(RNN(2, 3), **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "float32"}, "expected dtype to be a torch.dtype"),
        ({"input_init": "3"}, "expected the initialiser of weight_ih to be a function"),
        ({"batch_first": "x"}, "got 'x'"),
        ({"generator": 3}, "expected generator to be a torch.Generator, got 3"),
    ],
)
def test_an_option_of_another_type_is_named(options, said):
    with pytest.raises(TypeError, match=said):
        RNN(2, 3, **options)


@pytest.mark.parametrize("layer", [RNN, GRU])
@pytest.mark.parametrize("sizes", [[3, 3, 9], [2, 3, 5]], ids=["sum", "rising"])
def test_an_inconsistent_packed_sequence_is_refused(layer, sizes):
    packed = pack_padded_sequence(torch.randn(5, 3, 2), [5, 3, 2])
    with pytest.raises(ValueError, match="PackedSequence"):
        layer(2, 3)(PackedSequence(packed.data, torch.tensor(sizes)))


@pytest.mark.parametrize("other", [RNN(2, 4), torch.nn.Linear(2, 2)], ids=["size", "kind"])
def test_the_average_of_another_model_is_refused(other):
    averaged = AveragedModel(RNN(2, 3))
    with pytest.raises(ValueError, match="weights are averaged"):
        averaged.update_parameters(other)


@pytest.mark.parametrize("value", [-1.0, math.nan])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (partial(Schur, 4), "gamma_penalty"),
        (partial(Schur, 4), "decay"),
        (partial(SpectralRadius, 4), "epsilon"),
        (partial(NeumannCayley, 4), "gradient_rate"),
    ],
)
def test_an_invalid_weight_or_rate_is_rejected(make, name, value):
    with pytest.raises(ValueError, match=f"got {value}"):
        make(**{name: value})
