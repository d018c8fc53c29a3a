"""SequenceModel with every layer; parameter counts, constrained parameters and penalties."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from cases import LAYERS
from draws import stream
from eigenrnn import SequenceModel, constrain
from eigenrnn.constraints import Exponential, ScaledCayley
from eigenrnn.init import glorot_uniform_, zeros_
from eigenrnn.layers import GRU, RNN, DtrivRNN, ScoRNN
from eigenrnn.linalg import tol
from eigenrnn.models import constrained_parameters, count_parameters, parameter_groups, penalty

T, B, M, N, K = 6, 3, 4, 8, 5
LENGTHS = torch.tensor([4, 6, 1])

scaled_cayley_complex = partial(ScaledCayley, dtype=torch.complex64)

each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
each_depth = pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2}, {"num_layers": 2, "bidirectional": True}], ids=str
)


def sequences():
    return torch.randn(T, B, M, generator=stream(1))


def last_states(layer, states, lengths):
    """The last state of each sequence; that of the backward direction is at time step 0."""
    N = layer.hidden_size
    ends = torch.stack([states[length - 1, b] for b, length in enumerate(lengths)])
    return torch.cat([ends[:, :N], states[0, :, N:]], dim=1) if layer.bidirectional else ends


def near():
    return {"rtol": 0, "atol": tol(torch.float32, T * N)}


@each_depth
@each_layer
def test_readout_all_applies_the_head_at_every_time_step(make, options):
    layer = make(M, N, **options)
    model = SequenceModel(layer, K)
    expected = model.head(layer(sequences())[0])
    torch.testing.assert_close(model(sequences()), expected, **near())


@pytest.mark.parametrize("readout", ["all", "last"])
@each_layer
def test_a_single_sequence_needs_no_batch(make, readout):
    model = SequenceModel(make(M, N), K, readout)
    x = sequences()[:, :1]
    torch.testing.assert_close(model(x[:, 0]), model(x).squeeze(-2), **near())


@each_depth
@each_layer
def test_readout_last_uses_the_last_state_of_the_last_layer(make, options):
    layer = make(M, N, **options)
    model = SequenceModel(layer, K, "last")
    states = layer(sequences())[0]
    expected = model.head(last_states(layer, states, [T] * B))
    torch.testing.assert_close(model(sequences()), expected, **near())


@each_depth
@each_layer
def test_readout_last_uses_the_end_of_each_sequence(make, options):
    layer = make(M, N, **options)
    model = SequenceModel(layer, K, "last")
    x = sequences()
    alone = [model(x[:length, b : b + 1]) for b, length in enumerate(LENGTHS)]
    torch.testing.assert_close(model(x, LENGTHS), torch.cat(alone), **near())


@each_layer
def test_lengths_may_be_a_list_or_packed(make):
    layer = make(M, N)
    model = SequenceModel(layer, K, "last")
    expected = model(sequences(), LENGTHS)
    packed = pack_padded_sequence(sequences(), LENGTHS, enforce_sorted=False)
    torch.testing.assert_close(model(sequences(), LENGTHS.tolist()), expected, **near())
    torch.testing.assert_close(model(packed), expected, **near())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
@each_layer
def test_lengths_may_have_any_integers(make, dtype):
    layer = make(M, N)
    model = SequenceModel(layer, K, "last")
    x = sequences()[:B]  # torch takes B flags for a mask of B steps
    lengths = LENGTHS.clamp(max=B)
    torch.testing.assert_close(model(x, lengths.to(dtype)), model(x, lengths), **near())


def test_a_length_that_a_mask_hides_is_no_length():
    hidden = np.ma.masked_equal(LENGTHS.numpy(), int(LENGTHS[0]))
    with pytest.raises(TypeError, match="expected lengths to be integers"):
        SequenceModel(ScoRNN(M, N), K, "last")(sequences(), hidden)


@each_depth
@each_layer
def test_outputs_of_a_batch_with_lengths_equal_each_sequence_alone(make, options):
    model = SequenceModel(make(M, N, **options), K)
    x = sequences()
    outputs = model(x, LENGTHS)
    assert outputs.shape == (T, B, K)
    for b, length in enumerate(LENGTHS):
        alone = model(x[:length, b : b + 1])[:, 0]
        torch.testing.assert_close(outputs[:length, b], alone, **near())


@pytest.mark.usefixtures("global_streams_untouched")
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("readout", ["all", "last"])
def test_a_hook_of_the_layer_sees_the_states_of_all_steps(readout, packed):
    layer = GRU(3, 4, generator=stream(0))
    model = SequenceModel(layer, 2, readout, generator=stream(1))
    x = torch.randn(5, 2, 3, generator=stream(2))
    if packed:
        x = pack_padded_sequence(x, torch.tensor([5, 3]))
    expected = model(x)
    seen = []
    layer.register_forward_hook(lambda _, __, results: seen.append(results[0]))
    torch.testing.assert_close(model(x), expected)
    assert getattr(seen[0], "data", seen[0]).shape == ((8, 4) if packed else (5, 2, 4))


def test_the_generator_determines_the_initialisation_of_the_head():
    one, other = (
        SequenceModel(ScoRNN(M, N, generator=stream()), K, generator=stream(2)) for _ in range(2)
    )
    assert torch.equal(one.head.weight, other.head.weight)
    assert torch.equal(one.head.bias, other.head.bias)


def test_the_head_has_the_initialisation_of_torch():
    head = SequenceModel(ScoRNN(M, 100), 200, generator=stream()).head
    for weight in (head.weight, head.bias):
        assert 0.09 < weight.abs().max() <= 1 / 10


def test_the_initialiser_of_the_head_can_be_chosen():
    model = SequenceModel(ScoRNN(M, 100), 200, head_init=glorot_uniform_, generator=stream())
    assert 0.99 * 0.02**0.5 < model.head.weight.abs().max() <= 0.02**0.5


def test_the_initialiser_of_the_bias_of_the_head_can_be_chosen():
    assert not SequenceModel(ScoRNN(M, N), K, head_bias_init=zeros_).head.bias.any()


@pytest.mark.parametrize("readout", ["all", "last"])
@pytest.mark.parametrize(
    ("output", "directions", "width"),
    [("real_imag", 1, 2 * N), ("real_imag", 2, 4 * N), ("real", 1, N), ("real", 2, 2 * N)],
)
def test_the_head_has_the_output_size_of_a_complex_layer(output, directions, width, readout):
    layer = RNN(
        M, N, 2, bidirectional=directions == 2, constraint=scaled_cayley_complex, output=output
    )
    model = SequenceModel(layer, K, readout)
    assert model.head.in_features == width
    assert model(sequences()).shape == ((T, B, K) if readout == "all" else (B, K))


def test_parameters_without_gradient_are_not_counted():
    linear = nn.Linear(3, 4)
    linear.bias.requires_grad_(False)
    assert count_parameters(linear) == 12


def ids_of(parameters):
    return [id(parameter) for parameter in parameters]


def test_the_constrained_parameters_are_the_raw_parameters_of_all_constraints():
    model = SequenceModel(DtrivRNN(M, N, num_layers=2, bidirectional=True), K)
    raws = [direction.constraint.raw for direction in model.layer.all_directions()]
    assert ids_of(constrained_parameters(model)) == ids_of(raws)


def test_constrained_parameters_include_those_of_a_constrained_gate():
    lstm = constrain(nn.LSTM(M, N), "weight_hh_l0", ScaledCayley, rows="g")
    (raw,) = constrained_parameters(SequenceModel(lstm, K))
    assert raw is lstm.parametrizations.weight_hh_l0[0].constraints[0].raw


class Penalised(ScaledCayley):
    def penalty(self):
        return 0.5 * self.raw.square().sum()


def test_penalty_sums_over_all_constraints():
    model = SequenceModel(RNN(M, N, num_layers=2, constraint=Penalised), K)
    raws = [direction.constraint.raw for direction in model.layer.all_directions()]
    expected = sum(raw.square().sum() / 2 for raw in raws)
    torch.testing.assert_close(penalty(model), expected, **near())


def test_a_penalty_has_gradients_in_the_raw_parameters():
    model = SequenceModel(RNN(M, N, constraint=Penalised), K)
    penalty(model).backward()
    raw = model.layer.all_directions()[0].constraint.raw
    torch.testing.assert_close(raw.grad, raw.detach(), **near())


@pytest.mark.parametrize("layer", [nn.LSTM, RNN, partial(RNN, constraint=Exponential)])
def test_without_penalties_the_sum_is_zero(layer):
    total = penalty(SequenceModel(layer(M, N), K))
    assert total.shape == ()
    assert total == 0


def test_a_rate_of_matrices_that_a_model_lacks_is_refused():
    with pytest.raises(ValueError, match=r"got 0\.1"):
        parameter_groups(torch.nn.LSTM(2, 3), lr=1.0, lr_recurrent=0.1)
