"""Analyses of states: closed forms, planted structure, and methods written in another way."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from draws import stream
from eigenrnn import RNN, LeakyRNN
from eigenrnn.analysis import (
    StateMap,
    fixed_points,
    line_attractor,
    lyapunov,
    perturb,
    reduced_model,
    state_maps,
    trajectory,
)
from eigenrnn.constraints import LowRank, Unconstrained


def network(W, nonlinearity="identity", inputs=2, **options):
    W = torch.as_tensor(np.asarray(W), dtype=torch.float64)
    layer = RNN(
        inputs,
        len(W),
        nonlinearity=nonlinearity,
        bias=False,
        constraint=Unconstrained,
        dtype=torch.float64,
        generator=stream(),
        **options,
    )
    layer.directions[0].constraint.assign(W)
    return layer


def line(S=6, seed=0):
    """Return a matrix with one eigenvalue of one, its right and its left eigenvector."""
    generator = np.random.default_rng(seed)
    V = generator.normal(size=(S, S))
    values = np.array([1.0, 0.8, 0.5, 0.3, 0.2, -0.4])[:S]
    V /= np.linalg.norm(V, axis=0)
    left = np.linalg.inv(V)
    return V * values @ left, V[:, 0], left[0]


# --------------------------------------------------------------------------------- slow points


def test_a_line_attractor_is_not_an_alternating_mode():
    along = torch.ones(4, dtype=torch.float64) / 2
    other = torch.tensor([1, -1, 1, -1], dtype=torch.float64) / 2
    W = torch.outer(along, along) - 1.0005 * torch.outer(other, other)
    integrator = StateMap.from_step(lambda x, h: h @ W + 0 * x, 4, 4)
    starts = torch.linspace(-1, 1, 9, dtype=torch.float64).unsqueeze(1) * along
    found = line_attractor(fixed_points(integrator, threshold=1e-8, initial_states=starts))
    np.testing.assert_allclose(found.alignments, 1)
    np.testing.assert_allclose(found.selections[0], along)
    assert found.time_constants[0, 0] == pytest.approx(-1 / math.log(1.0005))  # it grows
    _, right = found.plot().axes
    drawn = {each.get_label(): each for each in right.lines}
    assert drawn["slowest mode, growing"].get_ydata() == pytest.approx(1 / math.log(1.0005))
    assert np.isnan(drawn["slowest mode"].get_ydata()).all()


def test_a_linear_line_attractor_has_its_direction_selection_and_time_constants():
    W, right, left = line()
    points = fixed_points(network(W), initial_states=20, generator=stream(), threshold=1e-16)
    assert points.failed == 0
    found = line_attractor(points)
    np.testing.assert_array_equal(found.table()["coordinate"], found.coordinates)
    assert set(found.table()["time_constant_2"]) == {found.time_constants[0, 1]}
    sign = np.sign(found.directions[0] @ right)
    np.testing.assert_allclose(sign * found.directions[0], right, atol=1e-6)
    np.testing.assert_allclose(sign * found.selections[0], left, atol=1e-6)
    U = network(W).directions[0].weight_ih.detach().numpy()
    np.testing.assert_allclose(sign * found.input_gains[0], left @ U, atol=1e-6)
    assert found.shares[0] == pytest.approx(1)
    assert found.alignments[0] == pytest.approx(1)
    assert abs(found.time_constants[0, 0]) > 1e10
    assert found.time_constants[0, 1] == pytest.approx(-1 / math.log(0.8))


def test_an_integrator_behind_a_delay_line_selects_all_of_it():
    W = np.zeros((4, 4))
    W[[0, 0, 2, 3], [0, 3, 1, 2]] = 1  # 1 -> 2 -> 3 -> 0, which keeps what it gets
    found = line_attractor(
        fixed_points(network(W), threshold=1e-10, initial_states=torch.rand(9, 4))
    )
    np.testing.assert_allclose(found.selections, [[1, 1, 1, 1]], atol=1e-12)


def test_the_selection_vector_predicts_where_a_perturbation_ends():
    W, right, left = line()
    change = np.random.default_rng(3).normal(size=6)
    found = perturb(network(W), torch.zeros(300, 1, 2), change, at=10)
    end = found.changed[-1, 0] - found.states[-1, 0]
    np.testing.assert_allclose(end, (left @ change) * right, atol=1e-9)
    distance = found.distances[:, 0]
    assert (distance[:10] == 0).all()
    steps = [np.linalg.norm(np.linalg.matrix_power(W, k) @ change) for k in range(5)]
    np.testing.assert_allclose(distance[10:15], steps)


def test_a_pair_of_hopfield_units_has_two_stable_memories_and_a_saddle_between():
    layer = network([[0.0, 2.0], [2.0, 0.0]], "tanh")
    found = fixed_points(layer, initial_states=40, generator=stream(), threshold=1e-20)
    r = 0.0
    for _ in range(500):
        r = math.tanh(2 * (r or 1.0))
    expected = sorted([(-r, -r), (0.0, 0.0), (r, r)])
    np.testing.assert_allclose(sorted(map(tuple, found.points.round(8))), expected, atol=1e-7)
    largest = np.abs(found.eigenvalues[:, 0])
    order = np.abs(found.points).sum(1).argsort()
    np.testing.assert_allclose(largest[order], [2.0, *[2 * (1 - r * r)] * 2], atol=1e-6)


def test_the_points_of_a_ring_are_marginal_along_it():
    def step(x, h):  # radius one attracts every state
        radius = h.norm(dim=1, keepdim=True)
        return h + 0.3 * h * (1 - radius) + 0 * x

    ring = StateMap.from_step(step, 2, 2)
    found = fixed_points(ring, initial_states=30, generator=stream(), threshold=1e-20)
    ends = found.points[np.linalg.norm(found.points, axis=1) > 0.5]
    assert len(ends) > 20
    np.testing.assert_allclose(np.linalg.norm(ends, axis=1), 1, atol=1e-8)
    at_ring = np.linalg.norm(found.points, axis=1) > 0.5
    np.testing.assert_allclose(np.abs(found.eigenvalues[at_ring, 0]), 1, atol=1e-7)
    np.testing.assert_allclose(np.abs(found.eigenvalues[at_ring, 1]), 0.7, atol=1e-7)
    tangent = np.stack([-found.points[:, 1], found.points[:, 0]], axis=1)[at_ring]
    J = found.jacobians[at_ring]
    np.testing.assert_allclose(np.einsum("pij,pj->pi", J, tangent), tangent, atol=1e-6)


def test_each_condition_has_the_points_of_its_own_input():
    layer = network([[0.5]], "tanh", inputs=1)
    u = layer.directions[0].weight_ih.item()
    found = fixed_points(layer, [[3.0], [-2.0]], initial_states=6, threshold=1e-22)
    for c, x in enumerate((3.0, -2.0)):
        (h,) = found.points[found.conditions == c, 0]
        assert h == pytest.approx(math.tanh(0.5 * h + u * x), abs=1e-9)


def test_slow_searches_stay_near_where_they_begin_and_failures_are_counted():
    W, right, _ = line()
    begin = torch.as_tensor(np.outer([-2.0, 0.0, 3.0], right))
    found = fixed_points(network(W), initial_states=begin, threshold=1e-10)
    np.testing.assert_allclose(np.sort(found.points @ right), [-2.0, 0.0, 3.0], atol=1e-6)
    drift = network(np.eye(2), inputs=1)
    with torch.no_grad():
        drift.directions[0].weight_ih.fill_(1.0)
    moving = fixed_points(drift, [[1.0]], initial_states=4, threshold=1e-8, steps=20)
    assert (len(moving.points), moving.failed) == (0, 4)
    with pytest.raises(ValueError, match="at least 3 slow points"):
        line_attractor(moving)


def gradient_descent_on_q(cell, x, h, steps=8000, lr=0.01):
    """FixedPointFinder's method: Adam on the speed, all states at once, then a falling rate."""
    h = h.clone().requires_grad_()
    optimiser = torch.optim.Adam([h], lr=lr)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.999)
    for _ in range(steps):
        q = (cell(x.expand(len(h), -1), h) - h).square().sum(1) / 2
        optimiser.zero_grad()
        q.sum().backward()
        optimiser.step()
        schedule.step()
    q = (cell(x.expand(len(h), -1), h) - h).square().sum(1) / 2
    return h.detach(), q.detach()


def trained_flip_flop():
    """Train a GRU to hold the sign of the latest pulse of each of two inputs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        gru, head = nn.GRU(2, 10), nn.Linear(10, 2)
    optimiser = torch.optim.Adam([*gru.parameters(), *head.parameters()], lr=0.02)
    generator = stream(7)
    for _ in range(250):
        drawn = torch.rand(15, 32, 2, generator=generator)
        pulses = (drawn < 0.15).float() - (drawn > 0.85).float()
        held = torch.zeros(32, 2)
        targets = []
        for x_t in pulses:
            held = torch.where(x_t != 0, x_t, held)
            targets.append(held)
        states, _ = gru(pulses)
        loss = (head(states) - torch.stack(targets)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return gru, states.detach().flatten(0, 1).double()


@pytest.mark.long
def test_the_points_of_a_trained_gru_are_those_of_gradient_descent_on_the_speed():
    gru, states = trained_flip_flop()
    chosen = torch.randperm(len(states), generator=stream(1))[:24]
    begin = states[chosen]
    found = fixed_points(gru, initial_states=begin, threshold=1e-20)
    (state_map,) = state_maps(gru)
    held = torch.zeros(1, 2, dtype=torch.float64)
    h, q = gradient_descent_on_q(state_map.step, held, begin)
    # they differ by the speed that is left, over 1 - the largest eigenvalue
    for speed, distance in ((1e-9, 0.05), (1e-14, 1e-4)):
        theirs = h[q < speed].numpy()
        nearest = [np.linalg.norm(found.points - each, axis=1).min() for each in theirs]
        assert len(theirs) >= 3
        assert max(nearest) < distance
    assert found.speeds.max() < 1e-20
    assert found.searches - found.failed >= (q < 1e-9).sum()


def test_time_constants_of_modes_that_stay_decay_grow_and_vanish():
    points = fixed_points(network(np.diag([1.0, 0.5, 0.0])), initial_states=1, threshold=1e-8)
    expected = [math.inf, 1 / math.log(2), 0.0]
    np.testing.assert_allclose(points.time_constants[0], expected)
    growing = fixed_points(network([[2.0]]), initial_states=1, threshold=1e-8)
    assert growing.time_constants[0, 0] == pytest.approx(-1 / math.log(2))


# ---------------------------------------------------------------------------------- exponents


def test_the_error_of_a_lyapunov_exponent_is_that_of_independent_runs():
    # one unit whose slope is a random number at each step: exponents of independent steps
    def step(x, h):
        return torch.exp(x) * h

    one = StateMap.from_step(step, 1, 1)
    generator = stream(4)
    x = 0.5 * torch.randn(2000, 6, 1, generator=generator, dtype=torch.float64)
    found = lyapunov(one, x, h0=torch.zeros(1))
    assert found.exponents[0] == pytest.approx(float(x.mean()))
    expected = 0.5 / (2000 * 6) ** 0.5
    assert 0.7 * expected < found.errors[0] < 1.4 * expected


# ------------------------------------------------------------------------------ reduced models


@pytest.mark.parametrize("state", ["rate", "current"])
def test_the_reduced_model_of_a_low_rank_network_is_the_network(state):
    P = torch.randn(16, 16, generator=stream(2), dtype=torch.float64) / 8
    layer = LeakyRNN(
        2,
        16,
        nonlinearity="tanh",
        leak=0.5,
        state=state,
        constraint=lambda n: LowRank(n, rank=2, plus=P),
        dtype=torch.float64,
        generator=stream(),
    )
    layer.directions[0].constraint.plus.copy_(P)
    x = torch.randn(20, 3, 2, generator=stream(3), dtype=torch.float64)
    found = reduced_model(layer, x, 2, plus=P)
    assert found.error < 1e-12
    np.testing.assert_allclose(found.singular_values[2:], 0, atol=1e-12)
    low = found.m @ found.n.T / 16
    W = layer.recurrent_matrices()[0].detach()
    np.testing.assert_allclose(low, W - P, atol=1e-12)
    rates = layer(x)[0].detach().numpy()
    states = found.states[1:]
    np.testing.assert_allclose(np.tanh(states) if state == "current" else states, rates, atol=1e-9)
    # what the recurrence reads of the rates
    rates = np.tanh(found.reduced_states) if state == "current" else found.reduced_states
    np.testing.assert_allclose(found.latents @ found.m.T, rates @ low.T, atol=1e-12)
    table = found.table()
    is_latent = table["kind"] == "latent"
    wanted = is_latent & (table["t"] == 4) & (table["sequence"] == 2) & (table["number"] == 1)
    assert table["value"][wanted].tolist() == [found.latents[4, 2, 1]]
    np.testing.assert_array_equal(table["value"][~is_latent], found.singular_values)
    worse = reduced_model(layer, x, 1, plus=P)
    assert worse.error > 1e-3


class OwnNetwork(nn.Module):
    """A module with a method `step`, and a forward of its own."""

    input_size, hidden_size = 2, 3

    def __init__(self):
        super().__init__()
        self.W = nn.Parameter(torch.randn(3, 3, generator=stream()))

    def step(self, x, h):
        return torch.tanh(h @ self.W.T + x.sum(1, keepdim=True))

    def forward(self, text):
        raise NotImplementedError


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_layer_of_torch_is_reduced_like_ours(batch_first):
    theirs = torch.nn.RNN(2, 6, nonlinearity="relu", batch_first=batch_first).double()
    x = torch.randn(7, 3, 2)
    same = {"nonlinearity": "relu", "constraint": Unconstrained, "batch_first": batch_first}
    ours = RNN(2, 6, **same).double().load_torch(theirs)
    found = reduced_model(theirs, x, 2)
    np.testing.assert_allclose(found.reduced_states, reduced_model(ours, x, 2).reduced_states)
    W = theirs.weight_hh_l0.detach().numpy()
    np.testing.assert_allclose(found.singular_values, np.linalg.svd(W)[1], rtol=1e-12)


def test_a_reduced_model_draws_nothing():
    state = torch.get_rng_state()
    reduced_model(network(line()[0]), torch.zeros(4, 2, 2), 2)
    assert torch.equal(torch.get_rng_state(), state)


def test_what_has_no_single_matrix_is_not_reduced():
    with pytest.raises(TypeError, match="got GRU"):
        reduced_model(torch.nn.GRU(2, 3), torch.zeros(4, 1, 2), 1)


def test_a_module_with_a_step_is_taken_as_it_is():
    module = OwnNetwork()
    x = torch.randn(4, 2, 2, generator=stream(1))
    *_, (last, _) = trajectory(module, x).jacobians()
    h = torch.zeros(2, 3)
    for x_t in x[:-1]:
        h = module.step(x_t, h)
    after = module.step(x[-1], h)
    J = (1 - after[0] ** 2)[:, None] * module.W
    np.testing.assert_allclose(last[0], J.detach().numpy(), atol=1e-5)


def test_a_number_is_the_input_of_a_network_with_one():
    layer = network([[0.5]], "tanh", inputs=1)
    found = fixed_points(layer, 3.0, initial_states=6, generator=stream(), threshold=1e-8)
    expected = fixed_points(layer, [[3.0]], initial_states=6, generator=stream(), threshold=1e-8)
    np.testing.assert_array_equal(found.points, expected.points)


SMALL = network(np.eye(3) / 2)
X = torch.zeros(4, 2, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fixed_points(network(line()[0]), initial_states=5, threshold=1e-8),
        lambda: line_attractor(fixed_points(network(line()[0]), initial_states=9, threshold=1e-8)),
        lambda: perturb(network(line()[0]), torch.zeros(4, 2, 2), np.ones(6)),
        lambda: reduced_model(network(line()[0]), torch.ones(4, 2, 2), 2),
    ],
)
def test_results_have_a_picture_and_a_table_of_equal_columns(make, tmp_path):
    result = make()
    assert all(path.stat().st_size for path in result.save(tmp_path / "result"))
    assert len({len(np.asarray(column)) for column in result.table().values()}) == 1
