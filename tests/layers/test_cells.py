"""The cells: one time step of the layers, with torch's signatures."""

import pytest
import torch
from torch import nn

from cases import CELLS
from draws import normal
from eigenrnn.constraints import ScaledCayley
from eigenrnn.linalg import tol

T, B, M, N = 6, 3, 4, 8

each_cell = pytest.mark.parametrize("make", CELLS.values(), ids=CELLS.keys())


def first(states):
    return states[0] if isinstance(states, tuple) else states


def loop(cell, x):
    states, outputs = None, []
    for x_t in x:
        states = cell(x_t, states)
        outputs.append(first(states))
    return torch.stack(outputs), states


@each_cell
def test_a_loop_over_a_cell_equals_the_layer(make):
    cell, x = make(M, N, dtype=torch.float64), normal(T, B, M)
    outputs, states = loop(cell, x)
    expected, last = cell.layer(x)
    near = {"rtol": 0, "atol": tol(torch.float64, T * N)}
    torch.testing.assert_close(outputs, expected, **near)
    torch.testing.assert_close(first(states), first(last)[0], **near)


@each_cell
def test_inside_the_block_the_constraints_are_evaluated_once(make):
    cell, x = make(M, N, constraint=ScaledCayley, dtype=torch.float64), normal(T, B, M)
    (direction,) = cell.layer.all_directions()
    evaluations = []
    for constraint in direction.constraints():
        constraint.register_forward_hook(lambda *_: evaluations.append(1))
    with cell.evaluated_once():
        got = torch.autograd.grad(loop(cell, x)[0].sum(), [*cell.parameters()])
    assert len(evaluations) == len(direction.constraints())
    expected = torch.autograd.grad(loop(cell, x)[0].sum(), [*cell.parameters()])
    assert len(evaluations) == (1 + T) * len(direction.constraints())
    torch.testing.assert_close(got, expected, rtol=0, atol=tol(torch.float64, 100 * T * N))


@each_cell
def test_after_the_block_a_change_of_the_weights_has_effect(make):
    cell, x = make(M, N, dtype=torch.float64), normal(B, M)
    with cell.evaluated_once():
        before = first(cell(x))
    nn.init.zeros_(cell.layer.all_directions()[0].weight_ih)
    assert not torch.equal(first(cell(x)), before)


@each_cell
def test_an_unbatched_input_gives_an_unbatched_state(make):
    cell, x = make(M, N, dtype=torch.float64), normal(B, M)
    alone = first(cell(x[0], None))
    assert alone.shape == (N,)
    torch.testing.assert_close(alone, first(cell(x))[0], rtol=0, atol=tol(torch.float64, N))
