"""A hundred thousand optimiser steps in float32 leave every matrix in its set."""

import itertools

import pytest

from cases import CONFINED
from drawn import distance
from drifting import LOOKS, N, bound, walk

each_confined = pytest.mark.parametrize("name", CONFINED)


@pytest.mark.slow
@each_confined
def test_rounding_does_not_add_up_over_a_hundred_thousand_steps(name):
    residuals = dict(walk(CONFINED[name](N), "Adam"))
    assert residuals.keys() >= set(LOOKS)
    assert max(residuals.values()) <= bound(name)


@each_confined
def test_the_matrix_never_comes_to_rest(name):
    constraint = CONFINED[name](N)
    steps = walk(constraint, "Adam", looks=range(50, 201, 50))
    places = [constraint().detach().clone() for _ in itertools.islice(steps, 4)]
    assert all(distance(*pair) > 0.1 for pair in itertools.pairwise(places))
