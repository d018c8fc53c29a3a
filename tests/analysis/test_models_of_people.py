"""Models as people write them: what they do around a layer or a cell reaches the analyses."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from draws import normal
from eigenrnn import GRU, LeakyRNN, ResidualStack
from eigenrnn.analysis import (
    StateMap,
    analyse,
    gradient_norms,
    lyapunov,
    recurrent_matrices,
    state_maps,
    trajectory,
    transient_growth,
)
from eigenrnn.analysis.forward_pass import layer_inputs

T, B, M, N = 6, 2, 2, 3
x = normal(T, B, M, dtype=torch.float32)


class Model(nn.Module):
    """A layer or a cell, and a head on what `run` makes of it."""

    def __init__(self, layer, run):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(N, 1)
        self.run = run

    def forward(self, x):
        return self.head(self.run(self.layer, x))


def whole(layer, x):
    return layer(x)[0]


def step_by_step(layer, x):
    h = None
    outputs = []
    for each in x:
        y, h = layer(each.unsqueeze(0), h)
        outputs.append(y)
    return torch.cat(outputs)


def from_zeros(layer, x):
    return layer(x, torch.zeros(1, x.shape[1], N))[0]


def by_keyword(layer, x):
    return layer(input=x)[0]


def from_ones(layer, x):
    return layer(x, torch.ones(1, x.shape[1], N))[0]


def of_cell(cell, x, leak=0.0):
    h = torch.zeros(x.shape[1], N)
    outputs = []
    for each in x:
        h = leak * h + (1 - leak) * cell(each, h)
        outputs.append(h)
    return torch.stack(outputs)


def leaking(cell, x):
    return of_cell(cell, x, leak=0.5)


def shrinking(cell, x):
    h = cell(x[0])
    return cell(x[1, :1], h[:1])


@torch.no_grad()
def from_its_own_state():
    layer = LeakyRNN(M, N, trainable_h0=True)
    layer.directions[0].h0.fill_(1)
    return layer


def total(y):
    return y.square().sum()


@pytest.mark.parametrize("run", [from_zeros, by_keyword])
def test_a_layer_is_followed_however_it_is_called(run):
    layer = nn.GRU(M, N)
    expected = analyse(Model(layer, whole), x).results
    found = analyse(Model(layer, run), x).results
    for name in ("lyapunov_l0", "participation_ratio_l0"):
        assert found[name].headline() == expected[name].headline()


@pytest.mark.parametrize(
    ("layer", "run", "reason"),
    [
        (nn.GRU(M, N), step_by_step, "calls it several times"),
        (nn.GRU(M, N), from_ones, "gives it an initial state"),
        (from_its_own_state(), from_zeros, "gives it an initial state"),
        (nn.GRUCell(M, N), leaking, "other states than its own"),
        (nn.GRUCell(M, N), shrinking, "batches of several sizes"),
    ],
    ids=["steps", "state", "trained state", "leak", "sizes"],
)
def test_inputs_that_do_not_tell_the_states_have_a_reason(layer, run, reason):
    assert reason in layer_inputs(Model(layer, run), x)["layer"]
    results = analyse(Model(layer, run), x)
    assert reason in results.skipped["lyapunov_l0"]
    assert "fixed_points_l0" in results.results


def test_gradients_of_a_loop_over_steps_are_those_of_the_layer():
    layer = nn.GRU(M, N)
    models = Model(layer, whole), Model(layer, step_by_step)
    models[1].head = models[0].head
    expected, found = (gradient_norms(model, x, total).curves["l0"] for model in models)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))
    torch.testing.assert_close(
        layer_inputs(Model(nn.GRUCell(M, N), of_cell), x)["layer"], x.double()
    )


class LeakyCell(nn.GRUCell):
    def forward(self, x, h):
        return 0.9 * h + 0.1 * super().forward(x, h)


class WithStep(nn.Module):
    input_size, hidden_size = M, N

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(M, N)

    def step(self, x, h):
        return 0.9 * h + 0.1 * self.cell(x, h)


@pytest.mark.parametrize("make", [lambda: LeakyCell(M, N), WithStep])
def test_what_is_around_a_cell_counts(make):
    module = make()
    step = getattr(module, "step", module)
    expected = lyapunov(StateMap.from_step(step, M, N), x)
    assert (lyapunov(module, x).exponents == expected.exponents).all()
    assert expected.exponents[0] > -0.2  # the leak keeps


class Scaled(nn.GRU):
    def forward(self, x):
        y, h = super().forward(x)
        return 2 * y, h


def test_a_layer_with_a_forward_of_its_own_is_refused():
    with pytest.raises(ValueError, match="got Scaled with a forward of its own"):
        lyapunov(Scaled(M, N), x)
    assert (
        recurrent_matrices(nn.GRU(M, N)).keys()
        == recurrent_matrices(state_maps(nn.GRU(M, N))).keys()
    )


def test_states_that_a_model_keeps_and_pruned_weights_are_copied():
    model = Model(nn.GRU(M, N), whole)
    model.kept = (model.layer(x)[1], 1)
    prune.l1_unstructured(model.layer, "weight_hh_l0", amount=0.5)
    assert "lyapunov_l0" in analyse(model, x).results
    assert (recurrent_matrices(model)["candidate_l0"] == 0).any()


def test_noise_in_evaluation_is_left_out():
    layer = LeakyRNN(M, N, noise=0.5, noise_in_eval=True)
    path = trajectory(layer, x).states
    assert torch.equal(path, trajectory(layer, x).states)
    assert layer.directions[0].leak.options.noise == 0.5


def test_complex_parameters_keep_their_imaginary_part():
    class Rotation(nn.Module):
        input_size, hidden_size = M, 2

        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.tensor(0.9 * 1j))

        def step(self, x, h):
            z = self.factor * torch.view_as_complex(h)
            return torch.view_as_real(z) + 0 * x

    modulus = lyapunov(Rotation(), x).exponents
    torch.testing.assert_close(torch.tensor(modulus).exp(), torch.full((2,), 0.9).double())


def test_a_loss_gets_the_whole_output_and_a_head_keeps_its_gradients():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.GRU(M, N)

        def forward(self, x):
            y, _ = self.layer(x)
            return y, y[0]

    curve = gradient_norms(Pair(), x, lambda output: output[1].sum()).curves["l0"]
    assert curve[0] > 0
    assert not curve[1:].any()
    head = nn.Linear(N, 1, dtype=torch.float64)
    gradient_norms(nn.GRU(M, N), x, lambda h: head(h).sum())
    assert head.weight.grad is None


def test_a_list_of_state_maps_is_no_network_where_calls_are_followed():
    with pytest.raises(ValueError, match="got 2 of them"):
        gradient_norms(state_maps(nn.GRU(M, N, num_layers=2)), x, total)


def test_a_model_that_never_calls_its_layer_has_no_gradients():
    with pytest.raises(ValueError, match="calls its recurrent layers"):
        gradient_norms(Model(nn.GRU(M, N), lambda _, x: x @ torch.ones(M, N)), x, total)


@torch.inference_mode()
def test_inference_mode_changes_nothing():
    layer = nn.GRU(M, N)
    assert gradient_norms(layer, x, total).curves["l0"].all()
    assert StateMap.from_step(nn.GRUCell(M, N), M, N).state_size == N


def test_inputs_may_be_in_a_dictionary():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.GRU(M, N)

        def forward(self, batch):
            return self.layer(batch["x"][0])[0]

    assert layer_inputs(Named(), {"x": [x]})["layer"].dtype == torch.float64


def test_curves_of_different_lengths_are_padded(tmp_path):
    class Seq2seq(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.GRU(M, N), nn.GRU(M, N)

        def forward(self, x):
            _, h = self.encoder(x)
            return self.decoder(x[:2], h)[0]

    found = gradient_norms(Seq2seq(), x, total)
    table = found.table()
    assert table["decoder.l0"][:2].all()
    assert torch.tensor(table["decoder.l0"][2:]).isnan().all()
    found.save(tmp_path / "curves")


def test_a_stack_of_one_layer_has_the_leak_of_the_layer():
    stack = ResidualStack(lambda width: LeakyRNN(width, N, leak=0.1), M, 1)
    (layer,) = stack.layers()
    found = transient_growth(stack, 3).norms
    assert (found == transient_growth(layer, 3).norms).all()
    assert found[1] > 0.8


def test_resets_and_gaps_have_a_reason():
    class Anew(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = GRU(M, N)

        def forward(self, x):
            return self.layer(x, resets=torch.ones(x.shape[:2], dtype=torch.bool))[0]

    results = analyse(Anew(), x, total)
    assert "resets=" in results.skipped["lyapunov_l0"]
    assert "without resets" in results.skipped["gradient_norms"]
