"""The gated layers: formulas, initialisation, and the theorems of the NC-GRU paper."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from draws import normal, stream
from eigenrnn import GORU, GRU, NCGRU
from eigenrnn.constraints import Exponential, Givens, NeumannCayley, ScaledCayley, Unconstrained
from eigenrnn.init import uniform_, weights_
from eigenrnn.linalg import tol
from eigenrnn.models import SequenceModel, constrained_parameters
from gru_cells import assert_computes, goru_cell, nc_gru_cell

T, B, M, N = 6, 3, 4, 8
GATES = ("reset", "update", "candidate")


def near(dtype, n=T * N):
    return {"rtol": 0, "atol": tol(dtype, n)}


CELLS = {
    "nc-gru": (NCGRU, nc_gru_cell),
    "nc-gru-2": (partial(NCGRU, orthogonal=("reset", "candidate")), nc_gru_cell),
    "goru": (partial(GORU, capacity=4), goru_cell),
}


@pytest.mark.parametrize(("make", "cell"), CELLS.values(), ids=CELLS.keys())
def test_a_layer_computes_the_formula_of_its_paper(make, cell):
    assert_computes(cell, make(M, N, generator=stream(), dtype=torch.float64))


NAMES = {"weight_ih", "reset_gate.raw", "update_gate.raw", "candidate.raw"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"gate_bias", "input_bias", "recurrent_bias"}),
        ({"reset_after": False}, {"gate_bias", "input_bias"}),
        ({"nonlinearity": "modrelu"}, {"gate_bias", "bias"}),
        ({"nonlinearity": "modrelu", "reset_after": False}, {"gate_bias", "bias"}),
        ({"bias": False}, set()),
        ({"trainable_h0": True, "bias": False}, {"h0"}),
    ],
    ids=str,
)
def test_the_biases_are_those_of_the_formula(options, expected):
    names = dict(GRU(M, N, **options).all_directions()[0].named_parameters())
    assert names.keys() - NAMES == expected


def test_each_gate_has_its_own_constraint():
    layer = GRU(M, N, reset=Givens, update=Exponential, candidate=ScaledCayley)
    direction = layer.all_directions()[0]
    assert [type(c) for c in direction.constraints()] == [Givens, Exponential, ScaledCayley]
    assert torch.equal(direction.weight_hh[N : 2 * N], direction.update_gate())


@pytest.mark.parametrize("gate", GATES)
def test_training_keeps_the_matrix_of_a_gate_in_its_set(gate):
    layer = GRU(M, N, **{gate: ScaledCayley}, dtype=torch.float64)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for k in range(5):
        optimiser.zero_grad()
        layer(normal(T, B, M, seed=k))[0].square().sum().backward()
        optimiser.step()
    before = GRU(M, N, **{gate: ScaledCayley}, dtype=torch.float64)
    assert layer.constrained_gates == before.constrained_gates == [gate]
    assert layer.orthogonality_error().item() <= tol(torch.float64, N)


@pytest.mark.parametrize("gates", [(), ("candidate",), ("reset", "candidate"), GATES], ids=str)
def test_spectra_cover_the_constrained_gates_or_all(gates):
    layer = GRU(M, N, 2, bidirectional=True, **dict.fromkeys(gates, ScaledCayley))
    assert layer.constrained_gates == list(gates)
    measured = gates or GATES
    assert layer.spectrum().shape == (4, len(measured), N)
    assert layer.orthogonality_error().shape == (4, len(measured))
    matrices = torch.stack(layer.recurrent_matrices()).view(4, 3, N, N)
    W = matrices[3, GATES.index(measured[-1])].detach()
    expected = torch.linalg.eigvals(W).angle().sort(descending=True).values
    torch.testing.assert_close(layer.spectrum()[3, -1].angle(), expected, **near(torch.float32))


def test_only_constrained_gates_get_the_recurrent_optimiser():
    model = SequenceModel(NCGRU(M, N, orthogonal=("reset", "candidate")), 2)
    direction = model.layer.all_directions()[0]
    expected = [direction.reset_gate.cayley.raw, direction.candidate.cayley.raw]
    assert list(map(id, constrained_parameters(model))) == list(map(id, expected))


@pytest.mark.parametrize("gate", GATES)
def test_a_function_that_returns_no_constraint_raises(gate):
    with pytest.raises(TypeError, match=r"got .*Identity"):
        GRU(M, N, **{gate: nn.Identity})


def test_the_repr_lists_the_differences_from_torch():
    expected = """\
GRU(
  2, 4, reset_after=False, num_layers=2
  (directions): ModuleList(
    (0-1): 2 x GatedDirection(
      (reset_gate): Unconstrained(4)
      (update_gate): Unconstrained(4)
      (candidate): ScaledCayley(4, negative=1)
    )
  )
)"""
    candidate = partial(ScaledCayley, negative=1)
    assert repr(GRU(2, 4, 2, candidate=candidate, reset_after=False)) == expected


def sets_of(layer):
    return [type(constraint) for constraint in layer.all_directions()[0].constraints()]


@pytest.mark.parametrize(
    "orthogonal", [("candidate",), ("reset", "candidate"), ["candidate", "reset"], GATES], ids=str
)
def test_nc_gru_is_orthogonal_in_the_chosen_gates(orthogonal):
    expected = [NeumannCayley if gate in orthogonal else Unconstrained for gate in GATES]
    assert sets_of(NCGRU(M, N, orthogonal=orthogonal)) == expected


def test_nc_gru_passes_its_options_to_the_constraint():
    layer = NCGRU(M, N, negative=3, order=1, reset_every=20)
    candidate = layer.all_directions()[0].candidate
    assert (candidate.cayley.negative, candidate.order, candidate.reset_every) == (3, 1, 20)


@pytest.mark.parametrize("orthogonal", ["candidate", ("reset", 3)], ids=str)
def test_nc_gru_rejects_an_unknown_gate(orthogonal):
    with pytest.raises(ValueError, match="orthogonal"):
        NCGRU(M, N, orthogonal=orthogonal)


def largest(tensor):
    return tensor.abs().max().item()


def test_nc_gru_has_the_initialisation_of_the_tensorflow_cell():
    layer = NCGRU(20, 40, orthogonal=(), generator=stream())
    direction = layer.all_directions()[0]
    assert not direction.gate_bias.any()
    assert 0.09 < largest(direction.bias) <= 0.1
    bound = math.sqrt(6 / (20 + 40))
    kernel = torch.cat([direction.weight_ih[:80], direction.weight_hh[:80]], dim=1)
    assert 0.99 * bound < largest(kernel) <= bound
    bound = math.sqrt(6 / 20)
    assert 0.98 * bound < largest(direction.weight_ih[80:]) <= bound


def test_goru_has_the_published_initialisation():
    direction = GORU(20, 40, generator=stream()).all_directions()[0]
    assert 0.0099 < largest(direction.weight_ih) <= 0.01
    assert 0.0099 < largest(direction.weight_hh[:80]) <= 0.01
    assert (direction.gate_bias[:40] == 2).all()
    bound = math.sqrt(6 / 80)
    assert 0.9 * bound < largest(direction.gate_bias[40:]) <= bound
    assert torch.equal(direction.bias, torch.full((40,), 0.01 + 0.001))


@pytest.mark.parametrize(
    ("options", "layers"), [({}, 2), ({"capacity": 4}, 4), ({"style": "fft"}, 3)], ids=str
)
def test_goru_passes_its_capacity_to_the_constraint(options, layers):
    layer = GORU(M, N, **options)
    assert layer.all_directions()[0].candidate.layers == layers
    assert layer.constrained_gates == ["candidate"]


@pytest.mark.parametrize("make", [NCGRU, GORU])
def test_an_option_overrides_the_default_of_the_paper(make):
    chosen = {"nonlinearity": "tanh", "reset_after": True, "update_keeps": False}
    layer = make(2, 4, init=partial(weights_, weight_ih=partial(uniform_, bound=0.0)), **chosen)
    assert not layer.all_directions()[0].weight_ih.any()
    assert {name: getattr(layer, name) for name in chosen} == chosen
