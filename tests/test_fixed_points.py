"""Fixed points against roots found one by one, and what their stability says."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from torch import nn

from eigenrnn.analysis import fixed_points, recurrences
from eigenrnn.constraints import Unconstrained
from eigenrnn.layers import LSTM, NCGRU, RNN, URNN, ScoRNN


@pytest.fixture(autouse=True)
def same_weights_each_time():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def seed(number=0):
    return torch.Generator().manual_seed(number)


def tanh(W):
    W = torch.tensor(W, dtype=torch.float64)
    made = RNN(1, len(W), nonlinearity="tanh", bias=False, constraint=Unconstrained).double()
    made.all_directions()[0].constraint.assign(W)
    return made


def linear(W):
    made = RNN(1, len(W), nonlinearity="identity", bias=False, constraint=Unconstrained).double()
    made.all_directions()[0].constraint.assign(torch.tensor(W, dtype=torch.float64))
    return made


@pytest.mark.parametrize("w", [0.3, 0.9, -0.8])
def test_a_weak_unit_rests_at_zero_alone(w):
    found = fixed_points(tanh([[w]]), generator=seed())
    np.testing.assert_allclose(found.points, [[0]], atol=1e-9)
    np.testing.assert_allclose(found.eigenvalues, [[w]], rtol=1e-9)
    assert found.kinds == ["stable"]


@pytest.mark.parametrize("w", [1.2, 2.0, 5.0])
def test_a_strong_unit_has_two_stable_points_around_an_unstable_one(w):
    root = brentq(lambda h: math.tanh(w * h) - h, 0.1, 1, xtol=1e-14)
    found = fixed_points(tanh([[w]]), generator=seed())
    np.testing.assert_allclose(sorted(found.points[:, 0]), [-root, 0, root], atol=1e-8)
    assert sorted(found.kinds) == ["stable", "stable", "unstable"]
    slopes = sorted(found.eigenvalues[:, 0].real)
    np.testing.assert_allclose(slopes, sorted([w, *[w * (1 - root**2)] * 2]), atol=1e-7)


def test_two_units_that_inhibit_each_other_are_a_flip_flop():
    W = [[1.5, -1.0], [-1.0, 1.5]]
    found = fixed_points(tanh(W), generator=seed())
    # along (1, -1) the pair is a unit of weight 2.5; along (1, 1) one of weight 0.5
    root = brentq(lambda h: math.tanh(2.5 * h) - h, 0.1, 1, xtol=1e-14)
    kinds = dict(zip(map(tuple, found.points.round(6)), found.kinds, strict=True))
    r = round(root, 6)
    assert {(a + 0, b + 0): kind for (a, b), kind in kinds.items()} == {
        (r, -r): "stable",
        (-r, r): "stable",
        (0, 0): "saddle",
    }


def test_points_move_with_the_input():
    layer = tanh([[0.5]])
    U = layer.all_directions()[0].weight_ih.detach().item()
    found = fixed_points(layer, input=[3.0], generator=seed())
    root = brentq(lambda h: math.tanh(0.5 * h + 3 * U) - h, -1, 1, xtol=1e-14)
    np.testing.assert_allclose(found.points, [[root]], atol=1e-8)


LAYERS = {
    "gru": lambda: nn.GRU(2, 6),
    "lstm": lambda: LSTM(2, 4),
    "nc-gru": lambda: NCGRU(2, 6),
    "scornn": lambda: ScoRNN(2, 6),
    "relu": lambda: nn.RNN(2, 6, nonlinearity="relu"),
    "urnn": lambda: URNN(2, 4),
    "reverse": lambda: nn.GRU(2, 6, bidirectional=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_point_found_stays_where_it_is(name):
    layer, x = LAYERS[name](), torch.tensor([0.3, -0.2], dtype=torch.float64)
    which = "l0_reverse" if name == "reverse" else "l0"
    one = next(each for each in recurrences(layer) if each.name == which)
    found = fixed_points(layer, input=x, starts=16, generator=seed(), which=which)
    h = torch.from_numpy(found.points)
    moved = (one.step(x.expand(len(h), 2), h) - h).norm(dim=1)
    assert (moved <= 1e-9 * (1 + h.norm(dim=1))).all()
    np.testing.assert_allclose(moved.detach(), found.residuals, atol=1e-13)
    J = [one.jacobians(x[None], each[None])[0][0].detach() for each in h]
    for found_values, each in zip(found.eigenvalues, J, strict=True):
        assert found_values.prod() == pytest.approx(complex(torch.linalg.det(each)), abs=1e-9)
    assert found.starts == 16


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_a_gated_network_at_its_start_has_one_stable_point_that_a_long_run_comes_to(name):
    layer = LAYERS[name]()
    found = fixed_points(layer, starts=16, generator=seed())
    states = recurrences(layer)[0].states(torch.zeros(400, 1, 2))
    assert found.kinds == ["stable"]
    assert found.failed == 0
    np.testing.assert_allclose(found.points[0], states[-1, 0].detach(), atol=1e-7)


def test_a_line_of_fixed_points_gives_some_of_it():
    found = fixed_points(linear([[1.0, 0.0], [0.0, 0.5]]), starts=10, generator=seed())
    np.testing.assert_allclose(found.points[:, 1], 0, atol=1e-8)
    assert set(found.kinds) == {"marginal"}
    assert len(found.points) == 10


def test_a_network_without_fixed_points_says_that_no_start_came_to_one():
    layer = RNN(1, 1, nonlinearity="identity", constraint=Unconstrained).double()
    layer.all_directions()[0].constraint.assign(torch.ones(1, 1, dtype=torch.float64))
    with torch.no_grad():
        layer.all_directions()[0].input_bias.fill_(1)
    found = fixed_points(layer, starts=5, generator=seed())
    assert (found.failed, found.points.shape, found.kinds) == (5, (0, 1), [])
    kinds = dict.fromkeys(("stable", "marginal", "saddle", "unstable"), 0)
    assert found.headline() == {"points": 0, **kinds, "failed": 5}
    assert found.plot().axes


def test_all_kinds_of_points_are_counted():
    found = fixed_points(tanh([[2.0, 0.0], [0.0, 3.0]]), starts=200, generator=seed())
    assert found.headline() == {
        "points": 9,
        "stable": 4,
        "marginal": 0,
        "saddle": 4,
        "unstable": 1,
        "failed": found.failed,
    }


def test_a_number_of_starts_may_be_numpys():
    assert fixed_points(tanh([[0.5]]), starts=np.int64(4)).starts == 4


def test_a_generator_of_numpys_is_refused():
    with pytest.raises(TypeError, match=r"a torch\.Generator.*got numpy\.random"):
        fixed_points(tanh([[0.5]]), generator=np.random.default_rng(0))


def test_given_starts_are_where_the_search_begins():
    start = torch.tensor([[2.0]], dtype=torch.float64)
    found = fixed_points(tanh([[2.0]]), starts=start)
    assert found.points.shape == (1, 1)
    assert found.points[0, 0] > 0.9
    assert start.item() == 2


def test_the_same_generator_finds_the_same_points():
    first, second = (fixed_points(tanh([[2.0]]), generator=seed(3)) for _ in range(2))
    np.testing.assert_array_equal(first.points, second.points)


def test_picture_and_table_show_all_eigenvalues():
    found = fixed_points(tanh([[2.0, 0.0], [0.0, 0.5]]), generator=seed())
    assert len(found.table()["eigenvalue_real"]) == found.eigenvalues.size
    (axes,) = found.plot().axes
    drawn = sum(len(line.get_xdata()) for line in axes.lines[1:])
    assert drawn == found.eigenvalues.size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input": [1.0, 2.0]}, "expected input of size 1"),
        ({"input": [math.nan]}, "expected finite numbers in input"),
        ({"starts": 0}, r"expected at least one start, \(P, 1\)"),
        ({"starts": torch.zeros(3, 2)}, "expected starts of size 1"),
        ({"starts": torch.full((3, 1), math.inf)}, "expected finite numbers in starts"),
        ({"starts": True}, "expected starts to be a number or states, got True"),
        ({"starts": "many"}, "expected starts to be a tensor or an array of numbers, got str"),
        ({"tolerance": 0.0}, "expected tolerance > 0, got 0.0"),
        ({"steps": 0}, "expected steps to be a positive integer, got 0"),
        ({"steps": 2.5}, "expected steps to be a positive integer, got 2.5"),
        ({"which": "l3"}, "expected which to be one of l0, got 'l3'"),
    ],
)
def test_a_search_that_cannot_begin_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fixed_points(tanh([[2.0]]), **options)
