"""Fixed points and their stability against roots of scalar equations."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from torch import nn

import eigenrnn
from draws import stream
from eigenrnn import LeakyRNN
from eigenrnn.analysis import (
    StateMap,
    fixed_points,
    state_maps,
    trajectory,
)
from eigenrnn.constraints import Unconstrained
from eigenrnn.layers import GRU, NCGRU, RNN, URNN, ScoRNN


def tanh(W):
    W = torch.tensor(W, dtype=torch.float64)
    layer = RNN(1, len(W), nonlinearity="tanh", bias=False, constraint=Unconstrained).double()
    layer.all_directions()[0].constraint.assign(W)
    return layer


def linear(W):
    layer = RNN(1, len(W), nonlinearity="identity", bias=False, constraint=Unconstrained).double()
    layer.all_directions()[0].constraint.assign(torch.tensor(W, dtype=torch.float64))
    return layer


@pytest.mark.parametrize("w", [0.3, 0.9, -0.8])
def test_unit_with_a_small_weight_has_only_the_fixed_point_zero(w):
    result = fixed_points(tanh([[w]]), generator=stream())
    np.testing.assert_allclose(result.points, [[0]], atol=1e-9)
    np.testing.assert_allclose(result.eigenvalues, [[w]], rtol=1e-9)
    assert result.kinds == ["stable"]


@pytest.mark.parametrize("w", [1.2, 2.0, 5.0])
def test_unit_with_a_large_weight_is_bistable(w):
    root = brentq(lambda h: math.tanh(w * h) - h, 0.1, 1, xtol=1e-14)
    result = fixed_points(tanh([[w]]), generator=stream())
    np.testing.assert_allclose(sorted(result.points[:, 0]), [-root, 0, root], atol=1e-8)
    assert sorted(result.kinds) == ["stable", "stable", "unstable"]
    slopes = sorted(result.eigenvalues[:, 0].real)
    np.testing.assert_allclose(slopes, sorted([w, *[w * (1 - root**2)] * 2]), atol=1e-7)


def test_two_units_with_mutual_inhibition_are_a_flip_flop():
    W = [[1.5, -1.0], [-1.0, 1.5]]
    result = fixed_points(tanh(W), generator=stream())
    # along (1, -1) the pair is a unit of weight 2.5; along (1, 1) one of weight 0.5
    root = brentq(lambda h: math.tanh(2.5 * h) - h, 0.1, 1, xtol=1e-14)
    kinds = dict(zip(map(tuple, result.points.round(6)), result.kinds, strict=True))
    r = round(root, 6)
    assert {(a + 0, b + 0): kind for (a, b), kind in kinds.items()} == {
        (r, -r): "stable",
        (-r, r): "stable",
        (0, 0): "saddle",
    }


def test_fixed_points_depend_on_the_input():
    layer = tanh([[0.5]])
    U = layer.all_directions()[0].weight_ih.detach().item()
    result = fixed_points(layer, [3.0], generator=stream())
    root = brentq(lambda h: math.tanh(0.5 * h + 3 * U) - h, -1, 1, xtol=1e-14)
    np.testing.assert_allclose(result.points, [[root]], atol=1e-8)


LAYERS = {
    "gru": lambda: nn.GRU(2, 6),
    "lstm": lambda: nn.LSTM(2, 4),
    "nc-gru": lambda: NCGRU(2, 6),
    "scornn": lambda: ScoRNN(2, 6),
    "relu": lambda: nn.RNN(2, 6, nonlinearity="relu"),
    "urnn": lambda: URNN(2, 4),
    "reverse": lambda: nn.GRU(2, 6, bidirectional=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_result_is_a_fixed_point_with_the_right_jacobian(name):
    layer, x = LAYERS[name](), torch.tensor([0.3, -0.2], dtype=torch.float64)
    which = "l0_reverse" if name == "reverse" else "l0"
    one = next(each for each in state_maps(layer) if each.name == which)
    result = fixed_points(layer, x, initial_states=16, generator=stream(), which=which)
    h = torch.from_numpy(result.points)
    moved = (one.step(x.expand(len(h), 2), h) - h).norm(dim=1)
    assert (moved <= 1e-9 * (1 + h.norm(dim=1))).all()
    np.testing.assert_allclose(moved.detach(), (2 * result.speeds) ** 0.5, atol=1e-13)
    J = [one.jacobians(x[None], each[None])[0][0].detach() for each in h]
    for found_values, each in zip(result.eigenvalues, J, strict=True):
        assert found_values.prod() == pytest.approx(complex(torch.linalg.det(each)), abs=1e-9)
    assert result.searches == 16


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_long_run_of_a_new_gated_network_converges_to_its_one_stable_point(name):
    layer = LAYERS[name]()
    result = fixed_points(layer, initial_states=16, generator=stream())
    states = state_maps(layer)[0].states(torch.zeros(400, 1, 2))
    assert result.kinds == ["stable"]
    assert result.failed == 0
    np.testing.assert_allclose(result.points[0], states[-1, 0].detach(), atol=1e-7)


def test_line_of_fixed_points_gives_marginal_points_on_it():
    result = fixed_points(linear([[1.0, 0.0], [0.0, 0.5]]), initial_states=10, generator=stream())
    np.testing.assert_allclose(result.points[:, 1], 0, atol=1e-8)
    assert set(result.kinds) == {"marginal"}
    along = np.sort(result.points[:, 0])
    assert len(along) > 5
    assert np.diff(along).min() > 0.05


DEGENERATE = {
    "quadratic": lambda h: h - h**2,
    "pitchfork": torch.tanh,
    "cubic": lambda h: h - h**3,
    "quintic": lambda h: h - h**5,
    "one of two modes": lambda h: torch.tanh(h) * torch.tensor([1, 0.5], dtype=h.dtype),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_a_point_with_an_eigenvalue_of_one_is_a_single_marginal_point(name):
    step, size = DEGENERATE[name], 2 if name == "one of two modes" else 1
    network = StateMap.from_step(lambda x, h: step(h) + 0 * x, size, size)
    start = torch.randn(40, size, generator=stream(), dtype=torch.float64)
    result = fixed_points(network, initial_states=start)
    assert result.kinds == ["marginal"]
    np.testing.assert_allclose(result.points, 0, atol=0.02)


def test_points_just_behind_a_bifurcation_are_told_apart():
    result = fixed_points(tanh([[1.001]]), generator=stream())
    root = brentq(lambda h: math.tanh(1.001 * h) - h, 0.01, 1, xtol=1e-14)
    np.testing.assert_allclose(np.sort(result.points[:, 0]), [-root, 0, root], atol=1e-7)
    assert sorted(result.kinds) == ["stable", "stable", "unstable"]


def test_network_without_fixed_points_counts_every_search_as_failed():
    layer = RNN(1, 1, nonlinearity="identity", constraint=Unconstrained).double()
    layer.all_directions()[0].constraint.assign(torch.ones(1, 1, dtype=torch.float64))
    with torch.no_grad():
        layer.all_directions()[0].input_bias.fill_(1)
    result = fixed_points(layer, initial_states=5, generator=stream())
    assert (result.failed, result.points.shape, result.kinds) == (5, (0, 1), [])
    kinds = dict.fromkeys(("stable", "marginal", "saddle", "unstable", "not smooth"), 0)
    assert result.headline() == {"points": 0, **kinds, "failed": 5}
    assert result.plot().axes


def test_search_begins_at_the_initial_states_and_keeps_them():
    start = torch.tensor([[2.0]], dtype=torch.float64)
    result = fixed_points(tanh([[2.0]]), initial_states=start)
    assert result.points.shape == (1, 1)
    assert result.points[0, 0] > 0.9
    assert start.item() == 2


def two_bits():
    layer = torch.nn.RNN(1, 2, bias=False).double()
    layer.weight_hh_l0.data = torch.diag(torch.tensor([1.3, 1.6], dtype=torch.float64))
    return layer


def test_stable_points_are_drawn_on_top():
    (_, axes) = fixed_points(two_bits()).plot().axes
    order = {line.get_label(): line.get_zorder() for line in axes.lines}
    assert order["4 stable"] > order["4 saddle"] > order["1 unstable"]


def test_points_and_trajectories_are_drawn_in_the_plane_of_the_states():
    result = fixed_points(two_bits(), generator=stream())
    path = trajectory(two_bits(), torch.randn(30, 3, 1, generator=stream())).states
    (plane, _) = result.plot(path).axes
    curves, points = plane.lines[:3], plane.lines[3:]
    drawn = np.stack([curve.get_xydata() for curve in curves], axis=1)
    spread = np.cov(drawn.reshape(-1, 2).T)
    assert spread[0, 0] > spread[1, 1]
    assert abs(spread[0, 1]) < 1e-12
    found = np.concatenate([each.get_xydata() for each in points])
    everywhere = np.concatenate([drawn.reshape(-1, 2), found])
    states = np.concatenate([path.flatten(0, 1).numpy(), by_kind(result)])
    np.testing.assert_allclose(distances(everywhere), distances(states), atol=1e-12)
    with pytest.raises(ValueError, match="states of 2 numbers, got 3"):
        result.plot(torch.zeros(4, 1, 3))


def by_kind(result):
    kinds = np.array(result.kinds)
    order = ("stable", "marginal", "saddle", "unstable")
    return np.concatenate([result.points[kinds == kind] for kind in order])


def distances(points):
    return np.linalg.norm(points[:, None] - points, axis=2)


# where the search begins, and where it stays


def three_way_flip_flop():
    """Return a network of rank three, with an attractor at both ends of each axis."""
    rnn = nn.RNN(3, 32, bias=False).double()
    axes = torch.linalg.qr(torch.randn(32, 3, generator=stream()))[0].double()
    rnn.weight_hh_l0.data = 1.5 * axes @ axes.T
    return rnn


def attractors(rnn, count=200):
    """Return the distinct states in which the network ends from random ones."""
    h = torch.randn(1, count, 32, generator=stream(5)).double()
    last = rnn(torch.zeros(3_000, count, 3).double(), h)[1][0]
    return {tuple(state) for state in last.detach().numpy().round(3) + 0.0}


@pytest.mark.parametrize("number", range(3))
def test_all_attractors_are_found_from_drawn_states(number):
    rnn = three_way_flip_flop()
    result = fixed_points(rnn, generator=stream(number))
    stable = [kind == "stable" for kind in result.kinds]
    assert {tuple(point) for point in result.points[stable].round(3) + 0.0} == attractors(rnn)


@pytest.mark.parametrize("threshold", [None, 1e-6])
@pytest.mark.parametrize(("entries", "at_once"), [(100, 1), (3 * 32**2, 3)])
def test_search_from_many_states_holds_few_jacobians(monkeypatch, threshold, entries, at_once):
    rnn = three_way_flip_flop()
    start = torch.randn(20, 32, generator=stream(), dtype=torch.float64)
    inputs = [[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]]
    expected = fixed_points(rnn, inputs, initial_states=start, threshold=threshold)
    sizes, jacobians = [], StateMap.jacobians

    def recorded(self, x, state):
        sizes.append(len(state))
        return jacobians(self, x, state)

    monkeypatch.setattr(StateMap, "jacobians", recorded)
    monkeypatch.setattr(eigenrnn.analysis.state_map, "_MAX_JACOBIAN_ENTRIES", entries)
    result = fixed_points(rnn, inputs, initial_states=start, threshold=threshold)
    *during, at_the_points = sizes
    assert max(during) == at_once
    assert at_the_points == len(expected.points) > at_once
    assert (result.kinds, result.failed) == (expected.kinds, expected.failed)
    np.testing.assert_allclose(result.points, expected.points, atol=1e-9)
    np.testing.assert_array_equal(result.conditions, expected.conditions)


def saturated_gru(cls=nn.GRU):
    """Return a GRU whose update gates keep a large state nearly as it is."""
    gru = cls(1, 16)
    with torch.no_grad():
        gru.weight_hh_l0[16:32] *= 6
    return gru


def test_a_search_stays_in_the_range_of_the_states():
    options = {"threshold": 1e-8, "initial_states": 64, "generator": stream()}
    slow = fixed_points(saturated_gru(), **options)
    assert np.abs(slow.points).max(initial=0) <= 1
    # the same step without a known range, as of a function, leaves it
    (known,) = state_maps(saturated_gru())
    free = fixed_points(replace(known, bounds=None), **options)
    assert np.abs(free.points).max() > 1


@pytest.mark.parametrize(
    ("layer", "bounds"),
    [
        (nn.RNN(1, 2), [1, 1]),
        (nn.RNN(1, 2, nonlinearity="relu"), None),
        (nn.GRU(1, 2), [1, 1]),
        (nn.LSTMCell(1, 2), [1, 1, math.inf, math.inf]),
        (LeakyRNN(1, 2, nonlinearity="tanh", leak=0.5), [1, 1]),
        (LeakyRNN(1, 2, nonlinearity="tanh", leak=0.5, state="current"), None),
        (ScoRNN(1, 2), None),
        (nn.LSTM(1, 2), [1, 1, math.inf, math.inf]),
        (GRU(1, 2), [1, 1]),
        (GRU(1, 2, nonlinearity="relu"), None),
        (eigenrnn.LSTM(1, 2), [1, 1, math.inf, math.inf]),
    ],
)
def test_states_keep_to_the_bounds(layer, bounds):
    (state_map,) = state_maps(layer)
    if bounds is None:
        assert state_map.bounds is None
        return
    assert state_map.bounds.tolist() == bounds
    size = state_map.state_size
    h = 2 * torch.rand(500, size, generator=stream()).double() - 1
    after = state_map.step(9 * torch.randn(500, 1, generator=stream()).double(), h)
    assert bool((after.abs() <= state_map.bounds).all())


def test_states_of_a_trajectory_begin_a_search():
    lstm = nn.LSTM(2, 3)
    x = torch.randn(20, 4, 2, generator=stream())
    states = trajectory(lstm, x).states
    whole, c = lstm(x)[0].double(), states[-1, :, 3:]
    torch.testing.assert_close(states[1:, :, :3], whole, rtol=1e-5, atol=1e-5)
    assert states.shape == (21, 4, 6)
    torch.testing.assert_close(c, lstm(x)[1][1][0].double(), rtol=1e-5, atol=1e-5)
    assert fixed_points(lstm, initial_states=states).searches == 84


def test_a_sample_of_a_trajectory_is_of_its_states():
    path = trajectory(nn.RNN(2, 3), torch.randn(20, 4, 2, generator=stream()))
    states = {tuple(state) for state in path.states.flatten(0, 1).tolist()}
    drawn = path.sample(50, generator=stream())
    assert drawn.shape == (50, 3)
    assert {tuple(state) for state in drawn.tolist()} <= states
    assert len({tuple(state) for state in drawn.tolist()}) > 20
    noisy = path.sample(20_000, noise=0.5, generator=stream())
    spread = (noisy.var(0) - path.states.flatten(0, 1).var(0)).sqrt()
    torch.testing.assert_close(spread, torch.full((3,), 0.5).double(), rtol=0.05, atol=0)


def test_a_search_begins_in_the_range_of_the_states():
    far = torch.full((4, 16), 9.0)
    found = fixed_points(saturated_gru(), initial_states=far, threshold=1e-8)
    assert np.abs(found.points).max(initial=0) <= 1


def test_states_that_grow_without_bound_do_not_settle():
    # a thousandfold at each step, 1e600 after 200
    found = fixed_points(linear([[1e3]]), initial_states=6, generator=stream())
    np.testing.assert_allclose(found.points, [[0]], atol=1e-9)
    assert found.failed == 0


def test_a_point_on_a_kink_has_no_stability():
    relu = nn.RNN(1, 2, nonlinearity="relu", bias=False)
    with torch.no_grad():
        relu.weight_hh_l0.copy_(2 * torch.eye(2))  # grows on one side, and is zero on the other
    assert fixed_points(relu, initial_states=1).kinds == ["not smooth"]
    modrelu = URNN(1, 4)
    assert fixed_points(modrelu, initial_states=1).kinds == ["not smooth"]
    with torch.no_grad():
        modrelu.directions[0].bias.fill_(-0.1)  # flat around zero
    points = fixed_points(modrelu, initial_states=1)
    assert points.kinds == ["stable"]
    assert points.headline()["not smooth"] == 0


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda x, h: 1 / h + 0.1 * h + 0 * x, [-math.sqrt(1 / 0.9), math.sqrt(1 / 0.9)]),
        (lambda x, h: h.abs().sqrt() + 1 + 0 * x, [(3 + math.sqrt(5)) / 2]),
        (lambda x, h: 1e200 * h**3 + x, [-1e-100, 0, 1e-100]),
    ],
    ids=["pole", "root", "overflow"],
)
def test_a_search_that_meets_infinite_numbers_fails_alone(step, expected):
    points = fixed_points(StateMap.from_step(step, 1, 1), generator=stream())
    found = points.points.ravel()
    assert np.isfinite(found).all()
    assert all(np.isclose(expected, point, rtol=1e-6).any() for point in found)


def test_the_inputs_of_points_are_not_the_callers_memory():
    x = torch.zeros(1, 2, dtype=torch.float64)
    found = fixed_points(torch.nn.RNN(2, 3), x, initial_states=2)
    x += 7
    assert not found.inputs.any()
