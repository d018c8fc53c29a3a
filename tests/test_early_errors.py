"""Arguments that were accepted, or that only torch's internals refused, get an early error."""

from functools import partial

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from eigenrnn import AveragedModel, Stream, constrain
from eigenrnn.constraints import ScaledCayley, Schur
from eigenrnn.layers import GRU, RNN, AsRNN, LSTMCell, NnRNN, RNNCell
from eigenrnn.models import LanguageModel, SequenceModel


def language_model(vocabulary=5):
    return LanguageModel(vocabulary, 3, [RNN(3, 3)])


@pytest.mark.parametrize("vocabulary", [-1, 0, 1.5, "a"])
def test_a_vocabulary_is_a_positive_integer(vocabulary):
    with pytest.raises(ValueError, match="expected vocabulary to be a positive integer, got"):
        language_model(vocabulary)


@pytest.mark.parametrize("symbol", [-1, 5])
def test_a_symbol_out_of_range_is_named(symbol):
    with pytest.raises(ValueError, match=f"expected symbols from 0 to 4, got {symbol} to"):
        language_model()(torch.full((4, 2), symbol))


@pytest.mark.parametrize("layers", [[None], "x", GRU(3, 3)], ids=["None", "text", "a layer"])
def test_a_language_model_takes_a_list_of_layers(layers):
    with pytest.raises(TypeError, match=r"expected (a list of|layer 1 to be a) recurrent layer"):
        LanguageModel(5, 3, layers)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"output_size": 2, "generator": 3}, TypeError, "expected generator to be a torch.Gen"),
    ],
)
def test_a_head_is_checked_before_it_is_allocated(options, error, said):
    with pytest.raises(error, match=said):
        SequenceModel(RNN(2, 3), **options)


@pytest.mark.parametrize("module", [None, "x"])
def test_only_modules_are_constrained(module):
    with pytest.raises(TypeError, match=r"expected a torch\.nn\.Module to constrain, got"):
        constrain(module, "weight_hh_l0", ScaledCayley)


def test_the_name_of_a_constrained_matrix_is_a_string():
    with pytest.raises(ValueError, match=r"expected the name of a matrix, one of .* got None"):
        constrain(torch.nn.RNN(2, 3), None, ScaledCayley)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "float32"}, "expected dtype to be a torch.dtype"),
        ({"input_init": "3"}, "expected the initialiser of weight_ih to be a function"),
        ({"bias": float("nan")}, "expected bias to be True or False, got nan"),
        ({"batch_first": "x"}, "expected batch_first to be True or False, got 'x'"),
        ({"trainable_h0": "x"}, "expected trainable_h0 to be True or False, got 'x'"),
        ({"locked_dropout": 3}, "expected locked_dropout to be True or False, got 3"),
        ({"layer_norm": 2}, "expected layer_norm to be True or False, got 2"),
        ({"generator": 3}, "expected generator to be a torch.Generator, got 3"),
    ],
)
def test_an_option_of_another_type_is_named(options, said):
    with pytest.raises(TypeError, match=said):
        RNN(2, 3, **options)


def test_the_scale_of_an_asrnn_is_a_pair():
    with pytest.raises(TypeError, match="expected scale to be a pair of numbers, got "):
        AsRNN(2, 3, scale={})


@pytest.mark.parametrize("layer", [RNN, GRU])
@pytest.mark.parametrize("sizes", [[3, 3, 9], [2, 3, 5]], ids=["sum", "rising"])
def test_an_inconsistent_packed_sequence_is_refused(layer, sizes):
    packed = pack_padded_sequence(torch.randn(5, 3, 2), [5, 3, 2])
    with pytest.raises(ValueError, match="expected a PackedSequence whose batch sizes fall"):
        layer(2, 3)(PackedSequence(packed.data, torch.tensor(sizes)))


@pytest.mark.parametrize("other", [RNN(2, 4), torch.nn.Linear(2, 2)], ids=["size", "kind"])
def test_the_average_of_another_model_is_refused(other):
    averaged = AveragedModel(RNN(2, 3))
    with pytest.raises(ValueError, match="expected the model whose weights are averaged"):
        averaged.update_parameters(other)


NOT_DENSE = {
    "nested": lambda: torch.nested.nested_tensor([torch.randn(2), torch.randn(2)]),
    "jagged": lambda: torch.nested.nested_tensor(
        [torch.randn(2), torch.randn(1)], layout=torch.jagged
    ),
    "csr": lambda: torch.randn(2, 2).to_sparse_csr(),
    "coo": lambda: torch.randn(2, 2).to_sparse(),
}
STEPPING = {
    "cell": lambda: RNNCell(2, 3),
    "LSTM cell": lambda: LSTMCell(2, 3),
    "step": lambda: RNN(2, 3).step,
    "step of a frozen layer": lambda: RNN(2, 3).freeze().step,
    "stream": lambda: Stream(RNN(2, 3), 2),
    "stream of a frozen layer": lambda: Stream(GRU(2, 3).freeze(), 2),
    "layer": lambda: RNN(2, 3),
}


@pytest.mark.filterwarnings("ignore:.*prototype.*", "ignore:.*beta.*")
@pytest.mark.parametrize("x", NOT_DENSE.values(), ids=NOT_DENSE)
@pytest.mark.parametrize("make", STEPPING.values(), ids=STEPPING)
def test_only_dense_inputs_are_accepted(make, x):
    with pytest.raises(TypeError, match=r"expected (input|x_t) to be a dense tensor, got"):
        make()(x())


@pytest.mark.filterwarnings("ignore:.*prototype.*", "ignore:.*beta.*")
@pytest.mark.parametrize("h0", NOT_DENSE.values(), ids=NOT_DENSE)
def test_only_dense_states_are_accepted(h0):
    with pytest.raises(TypeError, match="expected the initial states to be a dense tensor, got"):
        RNN(2, 2).freeze().step(torch.randn(2, 2), h0())


def test_the_advice_for_an_odd_size_works():
    with pytest.raises(ValueError, match=r"constraint=partial\(Schur, dtype=torch.complex64\)"):
        NnRNN(2, 3)
    layer = RNN(2, 3, constraint=partial(Schur, dtype=torch.complex64))
    assert torch.isfinite(layer(torch.randn(4, 1, 2))[0]).all()
