"""Analyses of cells and step functions agree with those of layers and with closed forms."""

import numpy as np
import pytest
import torch
from torch import nn

import eigenrnn
from eigenrnn.analysis import (
    StateMap,
    analyse,
    fixed_points,
    gradient_map,
    gradient_norms,
    henrici,
    jacobian_bound,
    linear_decodability,
    lyapunov,
    recurrent_matrices,
    spectrum,
    state_maps,
    trajectory,
)
from eigenrnn.analysis.forward_pass import layer_inputs
from eigenrnn.analysis.state_map import recurrent_weights
from eigenrnn.constraints import ScaledCayley, constrain

M, N, T, B = 2, 5, 6, 3


def inputs(*shape):
    return torch.randn(shape or (T, B, M), dtype=torch.float64)


def layer_of(cell):
    """Return torch's layer with the weights of one of torch's cells."""
    options = {"nonlinearity": cell.nonlinearity} if isinstance(cell, nn.RNNCell) else {}
    layer = getattr(nn, type(cell).__name__.removesuffix("Cell"))(M, N, **options).double()
    with torch.no_grad():
        for name, value in cell.named_parameters():
            getattr(layer, f"{name}_l0").copy_(value)
    return layer


TORCH_CELLS = {
    "tanh": lambda: nn.RNNCell(M, N),
    "relu": lambda: nn.RNNCell(M, N, nonlinearity="relu"),
    "gru": lambda: nn.GRUCell(M, N),
    "lstm": lambda: nn.LSTMCell(M, N),
}
OUR_CELLS = {
    "rnn": lambda: eigenrnn.RNNCell(M, N),
    "gru": lambda: eigenrnn.GRUCell(M, N, candidate=ScaledCayley),
    "lstm": lambda: eigenrnn.LSTMCell(M, N, constraint=ScaledCayley),
}


@pytest.fixture(params=TORCH_CELLS)
def torch_cell(request):
    return TORCH_CELLS[request.param]().double()


# cells of other libraries, with the calls that these take


class MinimalCell(nn.Module):
    """A state in, a state out, as in torchrecurrent."""

    def __init__(self):
        super().__init__()
        self.input_size, self.hidden_size = M, N
        self.U, self.W = nn.Linear(M, N), nn.Linear(N, N)

    def forward(self, inp, state=None):
        return torch.tanh(self.U(inp) + self.W(state))


class PairCell(MinimalCell):
    """A pair (h, c), as the LSTMs of torchrecurrent."""

    def forward(self, inp, state=None):
        h, c = state
        c = 0.9 * c + super().forward(inp, h)
        return torch.sigmoid(self.U(inp)) * torch.tanh(c), c


class OutputPairCell(PairCell):
    """An output beside a pair of states."""

    def forward(self, inp, state):
        h, c = super().forward(inp, state)
        return h + 1, (h, c)


OTHER_CELLS = {
    "one state": (MinimalCell, lambda cell, x, h: cell(x, h)),
    "a pair": (PairCell, lambda cell, x, h: torch.cat(cell(x, h.chunk(2, 1)), 1)),
    "an output": (OutputPairCell, lambda cell, x, h: torch.cat(cell(x, h.chunk(2, 1))[1], 1)),
}


def test_a_cell_of_torch_is_its_layer(torch_cell):
    (cell,), (layer,) = state_maps(torch_cell), state_maps(layer_of(torch_cell))
    x = inputs()
    torch.testing.assert_close(cell.states(x), layer.states(x))
    assert (cell.name, cell.blocks, cell.state_size) == (
        layer.name,
        layer.blocks,
        layer.state_size,
    )
    matrices = recurrent_matrices(torch_cell)
    for name, W in recurrent_matrices(layer_of(torch_cell)).items():
        np.testing.assert_array_equal(matrices[name], W)
        torch.testing.assert_close(recurrent_weights(torch_cell)[name].W, torch.from_numpy(W))


@pytest.mark.parametrize("make", OUR_CELLS.values(), ids=OUR_CELLS)
def test_a_cell_of_ours_is_its_layer(make):
    cell = make().double()
    x = inputs()
    (state_map,) = state_maps(cell)
    torch.testing.assert_close(state_map.output(x, state_map.states(x)[1:]), cell.layer(x)[0])
    assert recurrent_matrices(cell).keys() == recurrent_matrices(cell.layer).keys()


def test_the_constraint_of_a_cell_of_torch_is_found():
    cell = constrain(nn.RNNCell(M, N), "weight_hh", ScaledCayley)
    assert isinstance(recurrent_weights(cell)["hh_l0"].constraint, ScaledCayley)
    assert henrici(cell).absolute < 1e-13


@pytest.mark.parametrize(("make", "step"), OTHER_CELLS.values(), ids=OTHER_CELLS)
def test_a_cell_of_another_library_steps_as_it_does(make, step):
    cell = make()
    (state_map,) = state_maps(cell)
    exact, x, h = make().double(), inputs()[0], torch.randn(B, state_map.state_size).double()
    exact.load_state_dict(cell.state_dict())
    torch.testing.assert_close(state_map.step(x, h), step(exact, x, h))
    by_state, by_input = state_map.jacobians(x, h)
    for b in range(B):
        rows = slice(b, b + 1)
        expected = torch.autograd.functional.jacobian(
            lambda x, h: step(exact, x, h)[0], (x[rows], h[rows])
        )
        torch.testing.assert_close(by_input[b], expected[0][:, 0])
        torch.testing.assert_close(by_state[b], expected[1][:, 0])
    assert len(lyapunov(cell, inputs(), burn_in=5).exponents) == state_map.state_size


def test_a_state_map_of_a_step_keeps_its_matrices_while_a_cell_trains():
    cell = nn.RNNCell(2, 2).double()
    before = cell.weight_hh.detach().clone().numpy()
    state_map = StateMap.from_step(cell, 2, 2, matrices={"hh": cell.weight_hh})
    with torch.no_grad():
        cell.weight_hh.mul_(10)
    np.testing.assert_array_equal(recurrent_matrices(state_map)["hh_l0"], before)


def test_fixed_points_of_a_step_are_those_of_its_equation():
    found = fixed_points(
        StateMap.from_step(lambda x, h: torch.tanh(2 * h + x), 1, 1),
        initial_states=torch.tensor([[0.0], [1.0]]),
    )
    stable = 0.9575040240772687  # h = tanh(2 h)
    np.testing.assert_allclose(found.points, [[stable], [0]], atol=1e-9)
    np.testing.assert_allclose(found.eigenvalues, [[2 * (1 - stable**2)], [2]], atol=1e-9)


# Lyapunov exponents on the attractor


def quadratic(x, h):
    return 1 - 2 * h**2 + 0 * x  # conjugate to the tent map, with exponent log 2


def test_exponents_are_those_of_the_attractor_and_not_of_a_fixed_point():
    x = torch.zeros(1000, 8, 1, dtype=torch.float64)
    step = StateMap.from_step(quadratic, 1, 1)
    on_attractor = lyapunov(step, x)
    assert on_attractor.burn_in == 1000
    assert on_attractor.exponents == pytest.approx(np.log(2), abs=0.01)
    at_fixed_point = lyapunov(step, x[:50], h0=torch.tensor([-1.0]))
    assert at_fixed_point.burn_in == 0
    assert at_fixed_point.exponents == pytest.approx(np.log(4))
    assert at_fixed_point.headline()["burn-in (steps)"] == 0


def test_exponents_of_the_henon_map_are_the_known_ones():
    def henon(x, h):
        a, b = h[:, :1], h[:, 1:]
        return torch.cat([1 - 1.4 * a**2 + b + 0 * x, 0.3 * a], dim=1)

    result = lyapunov(StateMap.from_step(henon, 1, 2), torch.zeros(1000, 8, 1))
    assert result.exponents[0] == pytest.approx(0.41922, abs=0.01)
    assert result.exponents.sum() == pytest.approx(np.log(0.3), rel=1e-9)  # b is the determinant


def test_a_network_leaves_its_unstable_origin_before_the_measurement():
    layer = nn.RNN(1, 60, bias=False).double()
    nn.init.normal_(layer.weight_hh_l0, std=2.5 / 60**0.5)
    x = torch.zeros(200, 2, 1)
    W = layer.weight_hh_l0.detach().numpy()
    origin = np.log(np.abs(np.linalg.eigvals(W)).max())
    assert lyapunov(layer, x, burn_in=0, discard=100).exponents[0] == pytest.approx(
        origin, abs=0.1
    )
    assert 0 < lyapunov(layer, x, exponents=1).exponents[0] < origin / 2


def test_states_that_grow_without_bound_have_no_attractor():
    step = StateMap.from_step(lambda x, h: 3 * h + x, 1, 1)
    with pytest.raises(ValueError, match=r"1000 steps.*burn_in=0"):
        lyapunov(step, torch.ones(5, 1, 1))
    assert lyapunov(step, torch.ones(5, 1, 1), burn_in=0).exponents == pytest.approx(np.log(3))


@pytest.mark.parametrize("which", ["l0", "l0_reverse", "l1", "l1_reverse"])
def test_a_burn_in_repeats_the_input(which):
    layer, x = nn.GRU(M, N, 2, bidirectional=True).double(), inputs()
    path = trajectory(layer, x, which, burn_in=2 * T)
    index = ["l0", "l0_reverse", "l1", "l1_reverse"].index(which)
    repeated = layer(torch.cat([x] * 5))[1][index]  # T steps more at both ends
    repeated = trajectory(layer, torch.cat([x] * 5), which).states
    torch.testing.assert_close(path.states, repeated[2 * T : 3 * T + 1], atol=1e-4, rtol=0)
    assert path.states.shape == (T + 1, B, N)


# initial states


@pytest.mark.parametrize("make", [nn.GRU, nn.LSTM, eigenrnn.GRU, eigenrnn.LSTM])
@pytest.mark.parametrize("batch_first", [False, True])
def test_initial_states_are_those_that_the_layer_takes(make, batch_first):
    layer = make(M, N, 2, bidirectional=True, batch_first=batch_first).double()
    x, h0 = inputs(), inputs(4, B, N)
    if "LSTM" in make.__name__:
        h0 = (h0, inputs(4, B, N))
    y = layer(x.transpose(0, 1) if batch_first else x, h0)[0].detach()
    y = y.transpose(0, 1) if batch_first else y
    for which, part in (("l1", slice(0, N)), ("l1_reverse", slice(N, 2 * N))):
        path = trajectory(layer, x.transpose(0, 1) if batch_first else x, which, h0)
        states = path.states[1:, :, :N]
        torch.testing.assert_close(states.flip(0) if "reverse" in which else states, y[..., part])


def test_one_initial_state_serves_all_sequences():
    cell, x, h = nn.GRUCell(M, N).double(), inputs(), inputs(N)
    every = h.expand(B, N)
    for function in (gradient_map, jacobian_bound):
        one, all_of_them = (function(cell, x, h0=h0).table() for h0 in (h, every))
        for name, column in one.items():
            np.testing.assert_array_equal(column, all_of_them[name])
    assert not np.array_equal(
        gradient_map(cell, x).by_state["whole"], gradient_map(cell, x, h0=h).by_state["whole"]
    )


def test_a_decoder_starts_from_the_initial_state():
    step = StateMap.from_step(lambda x, h: h * h + x, 1, 1)
    options = {"generator": np.random.default_rng(0), "samples": 100}
    assert linear_decodability(step, 1, h0=[0.5], **options).r_squared[0] == pytest.approx(1)


# gradients of a loss, and models with cells


class Looping(nn.Module):
    """A model that runs a cell over its inputs."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        state, outputs = None, []
        for x_t in x:
            state = self.cell(x_t, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs)


def loss(y):
    return y.square().sum()


def test_gradients_of_a_cell_and_of_a_model_that_loops_it_are_those_of_the_layer(torch_cell):
    x = inputs()
    expected = gradient_norms(layer_of(torch_cell), x, loss).curves["l0"]
    for model in (torch_cell, Looping(torch_cell)):
        np.testing.assert_allclose(gradient_norms(model, x, loss).curves["l0"], expected)


def test_gradients_of_a_loss_depend_on_the_initial_state(torch_cell):
    h0 = inputs(1, B, N)
    h0 = (h0, inputs(1, B, N)) if isinstance(torch_cell, nn.LSTMCell) else h0
    x = inputs()
    cell, layer = (
        gradient_norms(each, x, loss, h0=h0).curves["l0"]
        for each in (torch_cell, layer_of(torch_cell))
    )
    np.testing.assert_allclose(cell, layer)
    with pytest.raises(ValueError, match="got Looping"):
        gradient_norms(Looping(torch_cell), x, loss, h0=h0)


@pytest.mark.parametrize("make", [nn.LSTMCell, eigenrnn.RNNCell, MinimalCell])
def test_the_inputs_of_a_cell_are_those_of_all_steps(make):
    x = inputs()
    cell = make(M, N) if make is not MinimalCell else make()
    models = (cell,) if make is MinimalCell else (cell, Looping(cell))
    for model in models:
        (recorded,) = layer_inputs(model, x).values()
        torch.testing.assert_close(recorded, x)


# all analyses


def test_all_analyses_of_a_cell_are_those_of_the_layer():
    cell, x = nn.GRUCell(M, N).double(), inputs(12, 1, M)
    ours, theirs = analyse(cell, x, loss), analyse(layer_of(cell), x, loss)
    assert ours.results.keys() == theirs.results.keys()
    assert ours.skipped == theirs.skipped
    for name, result in ours.results.items():
        assert result.headline() == pytest.approx(theirs.results[name].headline(), nan_ok=True)


def test_all_analyses_of_a_step_are_those_that_need_no_matrix():
    W = 0.3 * torch.randn(N, N, dtype=torch.float64)

    def step(x, h):
        return torch.tanh(h @ W.T + x.sum(1, keepdim=True))

    found = analyse(StateMap.from_step(step, M, N), inputs(20, 1, M), loss, h0=torch.zeros(N))
    assert {"fixed_points_l0", "lyapunov_l0", "gradient_map_l0", "gradient_norms"} <= set(
        found.results
    )
    assert "matrices={'hh': W}" in found.skipped["spectrum"]
    known = StateMap.from_step(step, M, N, matrices={"hh": W})
    found = analyse(known, inputs(20, 1, M))
    assert {"spectrum_hh_l0", "lyapunov_l0"} <= set(found.results)
    assert "no input weights" in found.skipped["fisher_memory_hh_l0"]


# refusals


W = torch.eye(N, dtype=torch.float64)


class Leaky(nn.Module):
    """A module of a user: a step, and a forward pass over time."""

    def __init__(self):
        super().__init__()
        self.input_size = M
        self.hidden_size = N
        self.W = nn.Parameter(torch.randn(N, N) / N**0.5)

    def step(self, x, h):
        return 0.8 * h + 0.2 * torch.tanh(h @ self.W.T + x.sum(1, keepdim=True))

    def forward(self, x):
        h = x.new_zeros(x.shape[1], N)
        for x_t in x:
            h = self.step(x_t, h)
        return h


def test_the_matrices_of_a_module_of_the_user_are_analysed():
    module = Leaky()
    step = StateMap.from_step(module.step, M, N, matrices={"hh": module.W})
    found = analyse(step, inputs(20, 1, M))
    expected = spectrum(module.W).radius
    assert found.results["spectrum_hh_l0"].radius == pytest.approx(expected)
    assert {"lyapunov_l0", "fixed_points_l0"} <= set(found.results)
    assert module.W.dtype == torch.float32


def test_a_method_of_a_module_is_copied_in_double_precision():
    module = Leaky()
    state_map = StateMap.from_step(module.step, M, N)
    h = torch.randn(3, N)
    x = torch.randn(3, M)
    expected = module.step(x, h).double()
    found = state_map.step(x.double(), h.double())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert module.W.dtype == torch.float32
