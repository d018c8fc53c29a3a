"""Constraints combine: any set in any gate, any two sets in one matrix, any in torch's layers."""

from functools import partial

import pytest
import torch
from torch import nn

from cases import REAL
from crossing import few
from eigenrnn import constrain
from eigenrnn.constraints import BlockTriangular, Schur
from eigenrnn.layers import GRU
from eigenrnn.linalg import tol
from eigenrnn.models import penalty
from random_constraints import distance, initialised, loss, stream, take_steps

GATES = ("reset", "update", "candidate")
SINGLE = torch.float32


def sequence(dtype=SINGLE):
    return torch.randn(5, 3, 2, generator=stream(1), dtype=dtype)


def train(module, steps=12):
    """Train on a random target and keep the gradients of the last step."""
    x, optimiser = sequence(), torch.optim.Adam(module.parameters(), lr=0.01)
    target = torch.randn(module(x)[0].shape, generator=stream(2))
    for _ in range(steps):
        optimiser.zero_grad()
        ((module(x)[0] - target).square().mean() + penalty(module)).backward()
        optimiser.step()


def assert_trained_in_its_set(constraint, initial, tolerance):
    assert all(raw.grad is not None and raw.grad.any() for raw in constraint.parameters())
    assert constraint.residual(constraint()) <= tolerance
    assert distance(constraint(), initial) > tolerance


ROWS = [(nn.LSTM, "g"), (nn.GRU, "n"), (nn.GRU, "r"), (nn.GRU, "z")]
REAL_IN_GATES = {f"{n}-{gate}": (case, gate) for n, case in REAL.items() for gate in GATES}
REAL_IN_ROWS = {
    f"{n}-{kind.__name__}-{rows}": (case, kind, rows)
    for n, case in REAL.items()
    for kind, rows in ROWS
}


def in_turns(products, count):
    """Of `count` products of each set, one: the first of the first set, the second of the next."""
    names = list(products)
    return [names[k * count + k % count] for k in range(len(names) // count)]


@few(("case", "gate"), REAL_IN_GATES, in_turns(REAL_IN_GATES, len(GATES)))
def test_any_set_trains_in_any_gate(case, gate):
    n = case.near(8)
    layer = GRU(2, n, **{gate: case}, generator=stream())
    constraint = layer.all_directions()[0].constraints()[GATES.index(gate)]
    initial = constraint().detach().clone()
    train(layer)
    assert_trained_in_its_set(constraint, initial, case.tol(SINGLE, n))


MIXED = {
    "nnrnn candidate": {"candidate": Schur},
    "enrnn candidate": {"candidate": partial(BlockTriangular, short_size=3)},
    "enrnn update, nnrnn reset": {
        "update": partial(BlockTriangular, short_size=3),
        "reset": partial(Schur, gamma="clamped"),
    },
}


@pytest.mark.parametrize("gates", MIXED.values(), ids=MIXED)
def test_a_gated_layer_with_matrices_of_other_papers_equals_that_of_torch(gates):
    layer = GRU(2, 8, **gates, generator=stream(), dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=stream(3)), alpha=0.2)
    direction = layer.all_directions()[0]
    plain = nn.GRU(2, 8, dtype=torch.float64)
    zeros = torch.zeros(16, dtype=torch.float64)
    values = {
        "weight_ih_l0": direction.weight_ih,
        "weight_hh_l0": torch.cat(direction.matrices()),
        "bias_ih_l0": torch.cat([direction.gate_bias, direction.input_bias]),
        "bias_hh_l0": torch.cat([zeros, direction.recurrent_bias]),
    }
    plain.load_state_dict(values)
    x = sequence(torch.float64)
    atol = tol(torch.float64, 8)
    torch.testing.assert_close(layer(x)[0], plain(x)[0], rtol=0, atol=atol)


def test_the_penalty_of_a_gate_reaches_the_loss():
    layer = GRU(2, 8, candidate=partial(Schur, gamma_penalty=2.0))
    schur = layer.all_directions()[0].candidate
    with torch.no_grad():
        schur.gamma.copy_(torch.tensor([1.5, 1.0, 1.0, 0.0]))
    assert penalty(layer).item() == 2.0 * (0.25 + 1.0)


def pairs_of(cases):
    """Each set with the next one, so that each is once the long and once the short memory."""
    names = list(cases)
    return [
        pytest.param(cases[long], cases[short], id=f"{long} over {short}")
        for long, short in zip(names, names[1:] + names[:1], strict=True)
    ]


@pytest.mark.parametrize(("long", "short"), pairs_of(REAL))
def test_any_two_sets_train_in_one_matrix(long, short):
    q, s = long.near(8), short.near(4)
    constraint = initialised(partial(BlockTriangular, long=long, short=short, short_size=s), q + s)
    initial = constraint().detach().clone()
    take_steps(constraint, torch.optim.Adam(constraint.parameters(), lr=0.01), range(12))
    loss(constraint).backward()
    W, tolerance = constraint().detach(), long.tol(SINGLE, q) + short.tol(SINGLE, s)
    assert_trained_in_its_set(constraint, initial, tolerance)
    assert torch.equal(W[:q, :q], constraint.long())
    assert torch.equal(W[q:, q:], constraint.short())
    assert not W[q:, :q].any()


@few(("case", "kind", "rows"), REAL_IN_ROWS, in_turns(REAL_IN_ROWS, len(ROWS)))
def test_any_set_trains_in_the_rows_of_a_layer_of_torch(case, kind, rows):
    n = case.near(8)
    layer = constrain(kind(2, n), "weight_hh_l0", case, rows=rows)
    constraint = layer.parametrizations.weight_hh_l0[0].constraints[0]
    initial = constraint().detach().clone()
    train(layer)
    assert_trained_in_its_set(constraint, initial, case.tol(SINGLE, n))
    first = {"g": 2, "n": 2, "r": 0, "z": 1}[rows] * n
    assert torch.equal(layer.weight_hh_l0[first : first + n], constraint())
