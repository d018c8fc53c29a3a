"""A hundred thousand optimiser steps in float32 leave every matrix in its set."""

import itertools

import pytest

from cases import CONFINED, ONE_OF_EACH
from crossing import few
from drift_walk import MEASURED_STEPS, N, bound, walk
from random_constraints import distance

each_confined = pytest.mark.parametrize("name", CONFINED)


@pytest.mark.slow
@each_confined
def test_rounding_does_not_accumulate_over_a_hundred_thousand_steps(name):
    residuals = dict(walk(CONFINED[name](N), "Adam"))
    assert residuals.keys() >= set(MEASURED_STEPS)
    assert max(residuals.values()) <= bound(name)


@few(
    "name",
    {name: name for name in CONFINED},
    [name for name in ONE_OF_EACH if name in CONFINED][::3],
)
def test_the_matrix_keeps_changing(name):
    constraint = CONFINED[name](N)
    steps = walk(constraint, "Adam", measured=range(50, 201, 50))
    matrices = [constraint().detach().clone() for _ in itertools.islice(steps, 4)]
    assert all(distance(*pair) > 0.1 for pair in itertools.pairwise(matrices))
