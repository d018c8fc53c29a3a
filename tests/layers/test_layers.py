"""Layers beyond torch.nn.RNN: randomness, lengths, steps, freezing, dtypes, errors, baselines."""

import copy
import io
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils._pytree import tree_leaves

from cases import ELMAN, NAMED, OURS
from draws import stream
from eigenrnn import ENRNN, EURNN, NCGRU, DtrivRNN, ExpRNN, ScoRNN
from eigenrnn.constraints import Exponential, FourierProduct, ScaledCayley, Unconstrained
from eigenrnn.constraints.diagonal import AbstractDiagonal
from eigenrnn.init import (
    fan_uniform_,
    glorot_normal_,
    kaiming_normal_,
    orthogonal_,
    uniform_,
    weights_,
)
from eigenrnn.layers import RNN, RNNGlorot, RNNOrth
from eigenrnn.layers.linear import LinearLayer
from eigenrnn.linalg import tol
from eigenrnn.models import SequenceModel

T, B, M, N = 6, 3, 4, 8
LENGTHS = [1, 6, 4]  # whose order by length is not its own inverse

each_of_ours = pytest.mark.parametrize("make", OURS.values(), ids=OURS.keys())
CONSTRAINED = {
    name: make
    for name, make in (OURS | NAMED).items()
    if make(2, 8).all_directions()[0].constraints()
}
each_constrained = pytest.mark.parametrize("make", CONSTRAINED.values(), ids=CONSTRAINED.keys())
each_named = pytest.mark.parametrize("make", (OURS | NAMED).values(), ids=OURS | NAMED)
each_elman = pytest.mark.parametrize("make", ELMAN.values(), ids=ELMAN.keys())


def normal(*shape, seed=1, dtype=torch.float32):
    return torch.randn(shape, generator=stream(seed), dtype=dtype)


def dtype_under_autocast(layer):
    """Only real recurrences with a matrix round what they return of each step."""
    is_complex = any(W.is_complex() for W in layer.recurrent_matrices())
    if is_complex or isinstance(layer, LinearLayer):
        return torch.float32
    return torch.bfloat16


def near(dtype, n=T * N):
    return {"rtol": 0, "atol": tol(dtype, n)}


@each_named
def test_a_gradient_penalty_is_finite_for_inputs_of_zero(make):
    layer = make(M, N).double()
    x = normal(T, B, M, dtype=torch.float64)
    x[0] = 0  # before the first state that is not zero
    x[3:, 1] = 0  # as padding is
    x.requires_grad_()
    h, _ = layer(x)
    weights = list(layer.parameters())
    first = torch.autograd.grad(
        h.square().sum(), [x, *weights], create_graph=True, allow_unused=True
    )
    penalty = sum(gradient.square().sum() for gradient in first if gradient is not None)
    second = torch.autograd.grad(penalty, [x, *weights], allow_unused=True)
    assert all(gradient.isfinite().all() for gradient in second if gradient is not None)


def state_of(layer):
    return {name: copy.deepcopy(value) for name, value in layer.state_dict().items()}


def is_same_state(one, other):
    return one.keys() == other.keys() and all(
        torch.equal(value, other[name]) for name, value in one.items()
    )


def train(layer, steps=3, lr=0.1):
    optimiser = torch.optim.SGD(layer.parameters(), lr=lr)
    for k in range(steps):
        optimiser.zero_grad()
        layer(normal(T, B, M, seed=k))[0].square().mean().backward()
        optimiser.step()


@pytest.mark.usefixtures("global_streams_untouched")
@each_of_ours
def test_the_generator_determines_the_initialisation(make):
    one, other = (make(M, N, generator=stream(3)) for _ in range(2))
    assert is_same_state(state_of(one), state_of(other))


@each_of_ours
def test_without_a_generator_the_global_generator_determines_the_weights(make):
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(5)
        one = make(M, N)
        torch.manual_seed(5)
        other = make(M, N)
        third = make(M, N)
    assert is_same_state(state_of(one), state_of(other))
    assert not is_same_state(state_of(one), state_of(third))


@each_of_ours
def test_layers_and_directions_have_different_initial_weights(make):
    layer = make(N, N, num_layers=2, bidirectional=True, generator=stream())
    inputs = [direction.weight_ih.flatten()[0].item() for direction in layer.all_directions()]
    assert len(set(inputs)) == 4


@each_of_ours
def test_a_reset_gives_the_weights_of_a_new_layer(make):
    layer = make(M, N, generator=stream(1), trainable_h0=True)
    train(layer)
    layer.reset(stream(2))
    fresh = make(M, N, generator=stream(2), trainable_h0=True)
    assert is_same_state(state_of(layer), state_of(fresh))


def same_initialisation(one, other):
    return is_same_state(state_of(one(generator=stream(7))), state_of(other(generator=stream(7))))


@pytest.mark.parametrize("start", ["henaff", "cayley", "haar"])
def test_exprnn_is_an_rnn_with_the_exponential_map(start):
    assert same_initialisation(
        partial(ExpRNN, 2, 9, matrix_init=start),
        partial(
            RNN,
            2,
            9,
            constraint=partial(Exponential, init=start),
            init=partial(weights_, weight_ih=kaiming_normal_, bias=uniform_),
        ),
    )


@pytest.mark.parametrize(
    ("make", "initialiser"), [(RNNOrth, orthogonal_), (RNNGlorot, glorot_normal_)]
)
def test_the_baselines_of_nnrnn_initialise_their_two_biases_differently(make, initialiser):
    other = partial(
        RNN,
        2,
        9,
        constraint=partial(Unconstrained, init=initialiser),
        input_bias=True,
        init=partial(weights_, weight_ih=glorot_normal_, bias=uniform_, input_bias=fan_uniform_),
    )
    assert same_initialisation(partial(make, 2, 9), other)
    (direction,) = make(2, 900, generator=stream(0)).all_directions()
    assert 0.009 < direction.bias.abs().max() <= 0.01
    assert 0.9 / 30 < direction.input_bias.abs().max() <= 1 / 30


@each_named
def test_inputs_on_another_device_are_rejected(make):
    layer, x = make(M, N), torch.zeros(T, B, M, device="meta")
    for call, given in ((layer, x), (layer.step, x[0])):
        with pytest.raises(ValueError, match="got meta"):
            call(given)


def test_the_bias_of_modrelu_is_zero_and_the_input_map_small_at_initialisation():
    direction = ScoRNN(20, 40).all_directions()[0]
    assert not direction.bias.any()
    assert 0.009 < direction.weight_ih.abs().max() <= 0.01


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["bias"]),
        ({"bias": False}, []),
        ({"input_bias": True}, ["bias", "input_bias"]),
        ({"bias": False, "input_bias": True}, ["input_bias"]),
        ({"nonlinearity": "tanh"}, ["input_bias"]),
        ({"nonlinearity": "tanh", "bias": False}, []),
        ({"nonlinearity": "tanh", "input_bias": False}, []),
    ],
    ids=str,
)
def test_the_biases_follow_the_options(options, expected):
    names = dict(RNN(M, N, **options).all_directions()[0].named_parameters())
    assert sorted(names.keys() - {"weight_ih", "constraint.raw"}) == expected


@each_of_ours
def test_numpy_integers_are_accepted_as_sizes(make):
    layer = make(np.int64(M), np.int64(N), np.int64(2))
    plain = make(M, N, 2)
    layer.load_state_dict(plain.state_dict())
    assert repr(layer) == repr(plain)
    assert torch.equal(layer(normal(T, B, M))[0], plain(normal(T, B, M))[0])


@pytest.mark.parametrize("backend", [None, "reference"])
@each_of_ours
def test_explain_names_the_chosen_backend(make, backend):
    layer = make(M, N, backend=backend)
    for inputs in (normal(T, B, M), normal(T, M), PACKED):
        explanation = layer.explain(inputs)
        chosen = [name for name, reason in explanation.items() if reason == "chosen"]
        assert chosen == [backend or next(iter(layer.backends))]
        assert explanation.keys() == layer.backends.keys()


def test_the_repr_follows_torch_and_names_the_constraint():
    expected = """\
RNN(
  2, 5, nonlinearity='tanh', bidirectional=True
  (directions): ModuleList(
    (0-1): 2 x RNNDirection(
      (constraint): Exponential(5, init='haar', period=7)
    )
  )
)"""
    constraint = partial(Exponential, init="haar", period=7)
    layer = RNN(2, 5, nonlinearity="tanh", bidirectional=True, constraint=constraint)
    assert repr(layer) == expected


@each_of_ours
def test_every_parameter_gets_a_gradient(make):
    layer = make(M, N, num_layers=2, bidirectional=True, trainable_h0=True)
    output, h_n = layer(normal(T, B, M))
    (output.square().sum() + sum(each.sum() for each in tree_leaves(h_n))).backward()
    assert all(p.grad is not None for p in layer.parameters())


@each_of_ours
def test_each_constraint_is_evaluated_once_per_sequence(monkeypatch, make):
    layer = make(M, N)
    constraints = layer.all_directions()[0].constraints()
    evaluations = []
    for constraint in constraints:
        if isinstance(constraint, AbstractDiagonal):

            def counted(diagonal=constraint.diagonal):
                evaluations.append(1)
                return diagonal()

            monkeypatch.setattr(constraint, "diagonal", counted)
        else:
            constraint.register_forward_hook(lambda *_: evaluations.append(1))
    layer(normal(T, B, M))
    assert len(evaluations) == len(constraints)


@each_elman
def test_a_layer_computes_its_formula(make):
    layer = make(M, N, input_bias=True, generator=stream(), dtype=torch.float64)
    x = normal(T, B, M, dtype=torch.float64)
    direction = layer.all_directions()[0]
    U, c, W = direction.weight_ih, direction.input_bias, direction.weight_hh
    h = x.new_zeros(B, N)
    for x_t in x:
        z = x_t @ U.T + c + h @ W.T
        h = (
            torch.tanh(z)
            if layer.nonlinearity == "tanh"
            else z.sign() * torch.relu(z.abs() + direction.bias)
        )
    torch.testing.assert_close(layer(x)[1][0], h, **near(torch.float64))


@each_of_ours
def test_a_reloaded_layer_trains_as_the_saved_one(make):
    layer, resumed = make(M, N), make(M, N)
    train(layer, 3)  # stops in the middle of a period of two
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for each in (layer, resumed):
        train(each, 4)
    assert is_same_state(state_of(resumed), state_of(layer))


@pytest.mark.parametrize("batch_first", [False, True], ids=["time first", "batch first"])
@each_of_ours
def test_lengths_equal_packing(make, batch_first):
    layer = make(M, N, num_layers=2, bidirectional=True, batch_first=batch_first)
    x = normal(B, T, M) if batch_first else normal(T, B, M)
    packed = pack_padded_sequence(x, LENGTHS, batch_first, enforce_sorted=False)
    output, h_n = layer(packed)
    expected = pad_packed_sequence(output, batch_first)[0], h_n
    got = layer(x, lengths=torch.tensor(LENGTHS))
    assert all(map(torch.equal, tree_leaves(got), tree_leaves(expected)))


@each_of_ours
def test_a_batch_with_lengths_equals_each_sequence_alone(make):
    layer = make(M, N, num_layers=2, bidirectional=True, dtype=torch.float64)
    x = normal(T, B, M, dtype=torch.float64)
    output, h_n = layer(x, lengths=LENGTHS)
    for b, length in enumerate(LENGTHS):
        alone, last = layer(x[:length, b])
        torch.testing.assert_close(output[:length, b], alone, **near(torch.float64))
        ends = [each[:, b] for each in tree_leaves(h_n)]
        torch.testing.assert_close(ends, tree_leaves(last), **near(torch.float64))


@pytest.mark.parametrize("options", [{}, {"num_layers": 3}, {"trainable_h0": True}], ids=str)
@each_of_ours
def test_single_steps_equal_the_whole_sequence(make, options):
    layer = make(M, N, dtype=torch.float64, **options)
    x = normal(T, B, M, dtype=torch.float64)
    output, h_n = layer(x)
    h, outputs = None, []
    for x_t in x:
        y, h = layer.step(x_t, h)
        outputs.append(y)
    torch.testing.assert_close(torch.stack(outputs), output, **near(torch.float64))
    torch.testing.assert_close(h, h_n, **near(torch.float64))


def test_a_step_of_a_batch_first_layer_equals_the_sequence():
    layer = RNN(M, N, batch_first=True, dtype=torch.float64)
    x = normal(B, T, M, dtype=torch.float64)
    y, _ = layer.step(x[:, 0])
    torch.testing.assert_close(y, layer(x)[0][:, 0], **near(torch.float64))


@each_of_ours
def test_a_frozen_layer_does_not_evaluate_its_constraints(make):
    layer = make(M, N).freeze()
    evaluations = []
    for constraint in layer.all_directions()[0].constraints():
        constraint.register_forward_hook(lambda *_: evaluations.append(1))
    layer(normal(T, B, M))
    assert evaluations == []


@each_of_ours
def test_freezing_adds_nothing_to_the_parameters_or_the_state_dict(make):
    layer = make(M, N)
    parameters, state = [*layer.parameters()], [*layer.state_dict()]
    layer.freeze()
    assert [*layer.state_dict()] == state
    assert all(map(torch.Tensor.is_set_to, layer.parameters(), parameters))


@each_of_ours
def test_training_mode_unfreezes(make):
    layer = make(M, N).freeze().train()
    before = torch.stack(layer.recurrent_matrices()).detach()
    train(layer, 1, lr=10.0)
    assert not torch.equal(torch.stack(layer.recurrent_matrices()), before)


@each_of_ours
def test_loading_a_state_dict_unfreezes(make):
    source, layer = (make(M, N, generator=stream(1)), make(M, N, generator=stream(2)).freeze())
    layer.load_state_dict(source.state_dict())
    x = normal(T, B, M)
    assert torch.equal(layer(x)[0], source(x)[0])


def test_a_reset_unfreezes():
    layer = ScoRNN(M, N).freeze()
    layer.reset(stream(4))
    fresh = ScoRNN(M, N, generator=stream(4))
    assert torch.equal(layer.recurrent_matrices()[0], fresh.recurrent_matrices()[0])


def test_a_copy_of_a_frozen_layer_unfreezes_independently():
    layer = ScoRNN(M, N).freeze()
    twin = copy.deepcopy(layer).train()
    assert layer.all_directions()[0].frozen is not None
    assert twin.all_directions()[0].frozen is None


def test_a_frozen_layer_passes_gradients_to_its_inputs():
    layer, x = ScoRNN(M, N), normal(T, B, M).requires_grad_()
    expected = torch.autograd.grad(layer(x)[0].square().sum(), x)[0]
    got = torch.autograd.grad(layer.freeze()(x)[0].square().sum(), x)[0]
    torch.testing.assert_close(got, expected, **near(torch.float32))


@each_of_ours
def test_matrices_frozen_in_inference_mode_work_outside_of_it(make):
    layer, x = make(M, N), normal(T, B, M).requires_grad_()
    with torch.inference_mode():
        layer.freeze()
        expected = layer(x)[0]
    output = layer(x)[0]
    output.sum().backward()
    assert torch.equal(output, expected)
    assert x.grad.any()


def test_models_stacked_under_vmap_equal_each_model_alone():
    layers = [ExpRNN(M, N, dtype=torch.float64, generator=stream(seed)) for seed in (1, 2)]
    stacked = torch.func.stack_module_state(layers)
    x = normal(T, B, M, dtype=torch.float64)

    def run(parameters, buffers):
        return torch.func.functional_call(layers[0], (parameters, buffers), (x,))[0]

    got = torch.func.vmap(run)(*stacked)
    expected = torch.stack([layer(x)[0] for layer in layers])
    torch.testing.assert_close(got, expected, **near(torch.float64))


@pytest.mark.parametrize("make", [ENRNN, NCGRU, ScoRNN, DtrivRNN])
def test_a_skeleton_on_the_meta_device_computes_with_the_state_of_each_model(make):
    layers = [make(M, N, generator=stream(seed)) for seed in (1, 2)]
    x = normal(T, B, M)
    for layer in layers:
        optimiser = torch.optim.SGD(layer.parameters(), lr=0.03)
        layer(x)[0].square().sum().backward()
        optimiser.step()
    skeleton = copy.deepcopy(layers[0]).to("meta")
    expected = torch.stack([layer(x)[0] for layer in layers])

    def run(parameters, buffers):
        return torch.func.functional_call(skeleton, (parameters, buffers), (x,))[0]

    got = torch.func.vmap(run)(*torch.func.stack_module_state(layers))
    torch.testing.assert_close(got, expected, **near(torch.float32))
    alone = [run(dict(v.named_parameters()), dict(v.named_buffers())) for v in layers]
    torch.testing.assert_close(torch.stack(alone), expected, **near(torch.float32))


@each_of_ours
def test_a_trainable_initial_state_is_initialised_to_zero(make):
    layer = make(M, N, generator=stream(), trainable_h0=True)
    plain = make(M, N, generator=stream())
    x = normal(T, B, M)
    assert torch.equal(layer(x)[0], plain(x)[0])


def with_trained_initial_states(**options):
    layer = RNN(M, N, 2, bidirectional=True, trainable_h0=True, **options)
    for k, direction in enumerate(layer.all_directions()):
        nn.init.constant_(direction.h0, k + 1.0)
    return layer


FORMS = {
    "batch": lambda layer, *h0: layer(normal(T, B, M), *h0),
    "lengths": lambda layer, *h0: layer(normal(T, B, M), *(h0 or [None]), LENGTHS),
    "packed": lambda layer, *h0: layer(
        pack_padded_sequence(normal(T, B, M), LENGTHS, enforce_sorted=False), *h0
    ),
}


@pytest.mark.parametrize("run", FORMS.values(), ids=FORMS.keys())
def test_a_trained_initial_state_equals_passing_it_as_h0(run):
    layer = with_trained_initial_states()
    h0 = torch.arange(1.0, 5.0).view(4, 1, 1).expand(4, B, N)
    assert torch.equal(run(layer)[1], run(layer, h0)[1])


def test_the_gradient_of_the_trained_initial_state_sums_over_sequences():
    layer = RNN(M, N, trainable_h0=True, dtype=torch.float64)
    h0 = layer.all_directions()[0].h0
    x = normal(T, B, M, dtype=torch.float64)
    together = torch.autograd.grad(layer(x)[0].square().sum(), h0)[0]
    alone = sum(torch.autograd.grad(layer(x[:, b])[0].square().sum(), h0)[0] for b in range(B))
    torch.testing.assert_close(together, alone, **near(torch.float64))


def test_the_spectrum_is_sorted_by_descending_angle():
    layer = ScoRNN(M, N, num_layers=2, bidirectional=True)
    angles = layer.spectrum().angle()
    assert angles.shape == (4, N)
    assert (angles.diff(dim=1) <= 0).all()


def test_the_spectrum_of_a_known_matrix_is_known():
    layer = ScoRNN(M, 3, negative=1, matrix_init="zero")
    expected = torch.tensor([-1.0, 1.0, 1.0], dtype=torch.complex64)
    assert torch.equal(layer.spectrum()[0], expected)


def test_the_orthogonality_error_of_twice_the_identity_is_known():
    layer = RNN(M, N, constraint=Unconstrained)
    with torch.no_grad():
        layer.all_directions()[0].constraint.raw.copy_(2 * torch.eye(N))
    assert layer.orthogonality_error().item() == pytest.approx(3 * math.sqrt(N))


def test_the_recurrent_matrices_are_differentiable_in_the_raw_parameters():
    layer = ScoRNN(M, N, num_layers=2)
    raws = [direction.constraint.raw for direction in layer.all_directions()]
    loss = sum((W * normal(N, N)).sum() for W in layer.recurrent_matrices())
    assert all(gradient.any() for gradient in torch.autograd.grad(loss, raws))


def test_dropout_acts_on_the_input_of_the_second_layer():
    layer = RNN(M, N, 2, "tanh", bias=False, dropout=1.0)
    output, h_n = layer(normal(T, B, M))
    assert not output.any()
    assert h_n[0].any()


def test_dropout_scales_the_remaining_units():
    layer = RNN(M, 200, 2, "identity", bias=False, dropout=0.25, constraint=Unconstrained)
    second = layer.all_directions()[1]
    nn.init.eye_(second.weight_ih)
    nn.init.zeros_(second.constraint.raw)
    ratio = layer(normal(1, 50, M))[0] / copy.deepcopy(layer).eval()(normal(1, 50, M))[0]
    kept = ratio != 0
    torch.testing.assert_close(
        ratio[kept], torch.full_like(ratio[kept], 4 / 3), **near(ratio.dtype)
    )
    assert abs(kept.double().mean().item() - 0.75) < 4 * math.sqrt(0.75 * 0.25 / kept.numel())


@pytest.mark.usefixtures("global_streams_untouched")
def test_dropout_has_no_effect_on_a_single_layer():
    with pytest.warns(UserWarning, match="dropout=1.0"):
        layer = RNN(M, N, dropout=1.0, generator=stream(3))
    x = normal(T, B, M)
    assert torch.equal(layer(x)[0], RNN(M, N, generator=stream(3))(x)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@each_named
def test_a_16_bit_layer_returns_16_bit_outputs(make, dtype):
    layer, x = make(M, N, generator=stream()), normal(3, B, M)
    expected = layer(x)[0]
    output, h_n = layer.to(dtype)(x.to(dtype))
    assert {each.dtype for each in tree_leaves((output, h_n))} == {dtype}
    torch.testing.assert_close(output.float(), expected, **near(torch.bfloat16, 3))


@each_named
def test_a_16_bit_default_type_makes_the_layer_of_that_type(make, default_dtype):
    expected = make(M, N, generator=stream()).bfloat16()
    default_dtype(torch.bfloat16)
    layer = make(M, N, generator=stream())
    found = layer.state_dict()
    for name, value in expected.state_dict().items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)
    x = normal(T, B, M).bfloat16()
    assert torch.equal(layer(x)[0], expected(x)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_eurnn_of_16_bits_has_real_units_as_with_other_real_types(dtype):
    layer = EURNN(M, N, dtype=dtype)
    output, h_n = layer(normal(T, B, M).to(dtype))
    assert output.dtype == dtype
    assert h_n.shape == (1, B, N)
    assert layer.directions[0].constraint.dtype == torch.float32


@each_constrained
def test_a_16_bit_layer_trains_its_constraints_in_float32(make):
    layer = make(M, N).bfloat16()
    layer(normal(T, B, M).bfloat16())[0].float().square().sum().backward()
    constraints = layer.all_directions()[0].constraints()
    raws = [raw for constraint in constraints for raw in constraint.parameters()]
    assert {raw.grad.dtype for raw in raws} == {torch.float32}
    assert {p.dtype for p in layer.parameters()} == {torch.float32, torch.bfloat16}


@each_named
def test_a_frozen_16_bit_layer_computes_the_same(make):
    layer, x = make(M, N).bfloat16(), normal(T, B, M).bfloat16()
    expected = layer(x)[0]
    assert torch.equal(layer.freeze()(x)[0], expected)


@each_named
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_16_bit_layer_rounds_no_state_that_goes_on(make, dtype):
    layer = make(M, N, generator=stream()).to(dtype)
    x = normal(40, B, M).to(dtype)
    exact = copy.deepcopy(layer).double()(x.double())[0]
    # what is returned is rounded, and in some layers the inputs of a step
    error = (layer(x)[0].double() - exact).norm() / exact.norm()
    assert error < 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("outputs", [2, 40])  # with more outputs than units, no kernel has them
@each_named
def test_a_16_bit_model_with_a_head_agrees_with_double_precision(make, outputs, dtype):
    model = SequenceModel(make(M, N, generator=stream()), outputs, "all").to(dtype)
    x = normal(20, B, M).to(dtype)
    exact = copy.deepcopy(model).double()(x.double())
    got = model(x)
    assert got.dtype == dtype
    assert (got.double() - exact).norm() < 3 * torch.finfo(dtype).eps * exact.norm()


@pytest.mark.parametrize("given", [torch.float64, torch.int64, torch.complex64], ids=str)
@each_named
def test_under_autocast_inputs_of_more_than_32_bits_are_refused(make, given):
    layer = make(M, N)
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(TypeError, match=f"expected input of torch.float32.* got {given}"),
    ):
        layer(normal(T, B, M).to(given))


@each_named
def test_under_autocast_the_recurrence_and_its_matrix_stay_in_float32(make):
    layer, x = make(M, N, generator=stream()), normal(40, B, M).bfloat16().float()
    output, last = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        got, got_last = layer(x)
        matrices = layer.recurrent_matrices()
    assert got.dtype == dtype_under_autocast(layer)
    torch.testing.assert_close(got_last, last, **near(torch.float32, 40 * N))
    torch.testing.assert_close(got.to(output.dtype), output, rtol=2**-8, atol=1e-4)
    assert all(W.dtype.to_real() == torch.float32 for W in matrices)


@each_named
def test_under_autocast_16_bit_inputs_give_gradients(make):
    layer = make(M, N, num_layers=2)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = layer(normal(T, B, M).bfloat16())
    output.square().sum().backward()
    assert output.dtype == dtype_under_autocast(layer)
    assert all(p.grad.isfinite().all() for p in layer.parameters())


LAYER = RNN(M, N)
DEEP = RNN(M, N, 2, bidirectional=True)
x = normal(T, B, M)
PACKED = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
PAIR = (torch.zeros(1, B, N), torch.zeros(1, B, N))
INVALID_CALLS = {
    "one dimension": (LAYER, (x[0, 0],), ValueError, r"got .*\(4,\)"),
    "input size": (LAYER, (x[..., :3],), ValueError, r"got 3 in .*\(6, 3, 3\)"),
    "packed input size": (
        LAYER,
        (pack_padded_sequence(x[..., :3], LENGTHS, enforce_sorted=False),),
        ValueError,
        "got 3",
    ),
    "no steps": (LAYER, (x[:0],), ValueError, "got T = 0"),
    "double": (LAYER, (x.double(),), TypeError, "got torch.float64"),
    "h0 layers": (DEEP, (x, torch.zeros(2, B, N)), ValueError, r"got \(2, 3, 8\)"),
    "h0 dtype": (LAYER, (x, torch.zeros(1, B, N).double()), TypeError, "got torch.float64"),
    "packed h0": (LAYER, (PACKED, torch.zeros(1, 1, N)), ValueError, r"\(1, 3, 8\), got"),
    "packed with lengths": (LAYER, (PACKED, None, LENGTHS), ValueError, "or lengths"),
    "too long": (LAYER, (x, None, [7, 1, 1]), ValueError, "got 1 to 7"),
    "length zero": (LAYER, (x, None, [6, 0, 1]), ValueError, "got 0 to 6"),
    "too many lengths": (LAYER, (x, None, [1] * 4), ValueError, r"shape \(3,\), got \(4,\)"),
    "fractional": (LAYER, (x, None, [1.0, 2.0, 3.0]), TypeError, "lengths to be integers, got"),
    "list": (LAYER, (x.tolist(),), TypeError, "got list"),
    "pair": (LAYER, (x, PAIR), TypeError, "got tuple"),
}


@pytest.mark.parametrize(
    ("layer", "arguments", "error", "message"), INVALID_CALLS.values(), ids=INVALID_CALLS.keys()
)
def test_an_invalid_call_raises_with_the_expected_value(layer, arguments, error, message):
    with pytest.raises(error, match=message):
        layer(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((x,), ValueError, r"got \(6, 3, 4\)"),
        ((x[0, :, :3],), ValueError, "got 3"),
        ((x[0].double(),), TypeError, "got torch.float64"),
        ((x[0], torch.zeros(1, 1, N)), ValueError, r"initial states of shape \(1, 3, 8\), got"),
    ],
)
def test_an_invalid_step_raises_with_the_expected_value(arguments, error, message):
    with pytest.raises(error, match=message):
        LAYER.step(*arguments)


def test_a_bidirectional_layer_rejects_single_steps():
    with pytest.raises(ValueError, match="got a bidirectional one"):
        DEEP.step(x[0])


INVALID_OPTIONS = {
    "unknown": ({"leak": 0.5}, TypeError, "RNN has no option 'leak'"),
    "input_size": ({"input_size": 0}, ValueError, "input_size to be a positive integer, got 0"),
    "hidden_size": ({"hidden_size": -1}, ValueError, "hidden_size to be a positive integer"),
    "num_layers": ({"num_layers": 0}, ValueError, "num_layers to be a positive .*, got 0"),
    "dropout": ({"dropout": 1.5}, ValueError, "got 1.5"),
    "nan dropout": ({"dropout": math.nan}, ValueError, "got nan"),
    "complex dtype": ({"dtype": torch.complex64}, ValueError, "got torch.complex64"),
    "output": ({"output": "imag"}, ValueError, "got 'imag'"),
    "backend": ({"backend": "cuda"}, ValueError, "got 'cuda'"),
    "nonlinearity": ({"nonlinearity": "sine"}, ValueError, "got 'sine'"),
    "tanh": ({"constraint": FourierProduct, "nonlinearity": "tanh"}, ValueError, "got 'tanh'"),
    "constraint": ({"constraint": nn.Identity}, TypeError, "got .* Identity"),
    "constraint instance": ({"constraint": ScaledCayley(N)}, TypeError, "got Scaled"),
    "constraint size": ({"constraint": lambda n: ScaledCayley(n + 1)}, ValueError, r"Cayley\(9"),
}


@pytest.mark.parametrize(
    ("options", "error", "message"), INVALID_OPTIONS.values(), ids=INVALID_OPTIONS.keys()
)
def test_an_invalid_option_raises_with_the_expected_value(options, error, message):
    with pytest.raises(error, match=message):
        RNN(**{"input_size": M, "hidden_size": N} | options)


@pytest.mark.parametrize("lengths", [None, []], ids=repr)
@each_of_ours
def test_an_empty_batch_gives_an_empty_output(make, lengths):
    layer = make(M, N, num_layers=2, bidirectional=True)
    output, h_n = layer(x[:, :0], lengths=lengths)
    assert output.shape == (T, 0, 2 * N)
    sizes = {each.shape[2] for each in tree_leaves(layer(x)[1])}  # that of complex states is 2 N
    assert {each.shape for each in tree_leaves(h_n)} == {(4, 0, size) for size in sizes}


@pytest.mark.parametrize("value", [torch.nan, torch.inf], ids=["nan", "infinity"])
def test_the_spectrum_of_weights_with_nan_or_infinity_raises(value):
    layer = RNN(2, 3, constraint=Unconstrained)
    with torch.no_grad():
        layer.directions[0].constraint.raw[0, 1] = value
    with pytest.raises(ValueError, match="got 1 of 9"):
        layer.spectrum()
