"""Two sets in one matrix: its blocks, and Theorem 3.1 of ENRNN."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from eigenrnn.constraints import (
    BlockTriangular,
    Exponential,
    FourierProduct,
    ScaledCayley,
    Schur,
    SpectralRadius,
    Unconstrained,
)
from eigenrnn.errors import NotInSetError
from eigenrnn.init import orthogonal_
from eigenrnn.layers import RNN
from eigenrnn.linalg import tol
from eigenrnn.models import SequenceModel, constrained_parameters, penalty
from random_constraints import (
    assert_same_state,
    distance,
    initialised,
    perturbed,
    state_of,
    take_steps,
)


def array(tensor):
    return tensor.detach().numpy()


def test_its_blocks_are_arranged_as_in_the_paper():
    constraint = perturbed(partial(BlockTriangular, short_size=3), 8)
    W_L, W_S, W_C = constraint.long(), constraint.short(), constraint.coupling
    expected = np.block([[array(W_L), array(W_C)], [np.zeros((3, 5)), array(W_S)]])
    assert np.array_equal(array(constraint()), expected)


def test_without_coupling_both_off_diagonal_blocks_are_zero():
    constraint = perturbed(partial(BlockTriangular, short_size=3, coupling=False), 8)
    assert constraint.coupling is None
    W = constraint()
    assert not W[:5, 5:].any()
    assert not W[5:, :5].any()


def test_the_residual_is_that_of_the_parts_and_of_the_zeros():
    constraint = BlockTriangular(6, short_size=2)
    W = torch.zeros(6, 6)
    W[:4, :4] = 2 * torch.eye(4)
    W[4:, 4:] = 5 * torch.eye(2)
    W[4, 0] = 12
    W[0, 5] = 100  # free
    assert constraint.residual(W) == pytest.approx(math.hypot(3 * math.sqrt(4), 4, 12))


def test_without_coupling_its_entries_count_in_the_residual():
    W = torch.eye(6)
    W[0, 5], W[5, 0] = 3, 4
    assert BlockTriangular(6, coupling=False).residual(W) == 5
    assert BlockTriangular(6, coupling=True).residual(W) == 4


def test_the_coupling_is_initialised_as_by_glorot():
    coupling = initialised(BlockTriangular, 100).coupling
    bound = math.sqrt(6 / sum(coupling.shape))
    assert 0.95 * bound < coupling.abs().max() <= bound


def test_the_coupling_can_be_initialised_truncated_orthogonal():
    coupling = BlockTriangular(10, short_size=3, coupling_init=orthogonal_).coupling
    assert distance(coupling.T @ coupling, torch.eye(3)) <= tol(torch.float32, 10)


def test_the_parts_are_initialised_as_they_are_alone():
    constraint = initialised(BlockTriangular, 8)
    assert torch.equal(constraint.long(), initialised(ScaledCayley, 4)())


def test_penalties_are_summed():
    constraint = perturbed(partial(BlockTriangular, long=Schur, short=Schur), 8)
    total = constraint.long.penalty() + constraint.short.penalty()
    assert constraint.penalty() == total > 0


def test_a_model_adds_each_penalty_once():
    make = partial(BlockTriangular, long=Schur, short=Schur)
    model = SequenceModel(RNN(2, 8, num_layers=2, constraint=make), 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    parts = [part for part in model.modules() if isinstance(part, Schur)]
    assert len(parts) == 4
    torch.testing.assert_close(penalty(model), torch.stack([p.penalty() for p in parts]).sum())


def test_the_recurrent_optimiser_gets_the_recurrent_parameters_of_the_parts():
    model = SequenceModel(RNN(2, 8, constraint=partial(BlockTriangular, short=Schur)), 1)
    constraint = model.layer.all_directions()[0].constraint
    assert [*constrained_parameters(model)] == [constraint.long.raw, constraint.short.P.raw]


def test_the_parts_advance_automatically():
    make = partial(BlockTriangular, long=partial(Exponential, period=1), short_size=4)
    constraint = initialised(make, 8)
    with torch.no_grad():
        constraint.short.raw.mul_(3)
    base = constraint.long.base.clone()
    take_steps(constraint, torch.optim.SGD(constraint.parameters(), lr=0.1), range(1))
    assert not torch.equal(constraint.long.base, base)
    assert constraint.short.divided
    assert constraint.residual(constraint()) <= tol(torch.float32, 8)


def test_a_matrix_that_one_part_rejects_changes_neither_part():
    make = partial(BlockTriangular, long=Exponential, short=partial(ScaledCayley, negative=0))
    constraint = perturbed(make, 8)
    before = state_of(constraint)
    W = constraint().detach().clone()
    W[:4, :4] = torch.eye(4)
    W[4:, 4:] = -torch.eye(4)  # orthogonal, and out of reach of the Cayley map
    with pytest.raises(NotInSetError, match="eigenvalue near -1"):
        constraint.assign(W)
    assert_same_state(state_of(constraint), before)


REJECTED = {
    "no short": ({"short_size": 0}, ValueError, "1 <= short_size"),
    "no long": ({"short_size": 8}, ValueError, "1 <= short_size"),
    "short too large": ({"short": lambda _: SpectralRadius(5)}, ValueError, "Radius"),
    "complex": ({"long": FourierProduct}, ValueError, "got FourierProduct"),
    "no constraint": ({"short": torch.eye}, TypeError, "expected a function from the size"),
}


@pytest.mark.parametrize(("options", "error", "message"), REJECTED.values(), ids=REJECTED)
def test_blocks_that_do_not_fit_are_rejected(options, error, message):
    with pytest.raises(error, match=message):
        BlockTriangular(8, **options)


PAIRS = {
    "dense short": partial(BlockTriangular, short=Unconstrained),
    "two rotations": partial(BlockTriangular, long=Exponential, short=Exponential),
    "schur below": partial(BlockTriangular, short=Schur),
    "nested": partial(BlockTriangular, short=BlockTriangular),
}
