"""RMSprop of TensorFlow 1, and the optimisers of a run."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import Parameter

from cases import NAMED, OURS
from eigenrnn import (
    GRU,
    DeltaNet,
    LeakyRNN,
    NnRNN,
    RNNOrth,
    ScoRNN,
    SequenceModel,
    constrain,
    parameter_groups,
)
from eigenrnn.constraints import Constraint, ScaledCayley, Unconstrained
from eigenrnn.models import constrained_parameters
from eigenrnn_experiments.training.optimisers import RMSpropTF1, build_optimisers, lr_factor
from eigenrnn_experiments.training.settings import Settings
from training_run import small_model


def reference(theta, gradients, lr, alpha=0.9, eps=1e-10, weight_decay=0.0):
    """The definition in NumPy, one step at a time."""
    square = np.ones_like(theta)
    for gradient in gradients:
        g = gradient + weight_decay * theta
        square = alpha * square + (1 - alpha) * g**2
        theta = theta - lr * g / np.sqrt(square + eps)
    return theta


def train(parameter, gradients, **options):
    optimiser = RMSpropTF1([parameter], **options)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimiser.step()
    return parameter.detach()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 0.99, "eps": 1e-3},
        {"weight_decay": 0.1},
    ],
    ids=str,
)
def test_fifty_steps_agree_with_numpy(options):
    generator = torch.Generator().manual_seed(0)
    initial = torch.randn(3, 4, dtype=torch.float64, generator=generator)
    gradients = 0.1 * torch.randn(50, 3, 4, dtype=torch.float64, generator=generator)
    expected = reference(initial.numpy(), gradients.numpy(), lr=0.01, **options)
    found = train(Parameter(initial), gradients, lr=0.01, **options)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)


def test_real_and_imaginary_parts_are_scaled_separately():
    generator = torch.Generator().manual_seed(0)
    initial = torch.randn(5, dtype=torch.complex128, generator=generator)
    gradients = torch.randn(50, 5, dtype=torch.complex128, generator=generator)
    parts = torch.view_as_real(gradients).numpy()
    expected = reference(torch.view_as_real(initial).numpy(), parts, lr=0.01)
    found = train(Parameter(initial), gradients, lr=0.01)
    np.testing.assert_allclose(torch.view_as_real(found).numpy(), expected, rtol=1e-13)


def test_parameters_without_gradient_are_unchanged():
    fixed, updated = Parameter(torch.ones(2)), Parameter(torch.ones(2))
    updated.grad = torch.ones(2)
    RMSpropTF1([fixed, updated], lr=0.1).step()
    assert torch.equal(fixed, torch.ones(2))
    assert not torch.equal(updated, torch.ones(2))


def test_a_closure_is_evaluated_with_gradients():
    parameter = Parameter(torch.ones(1))
    optimiser = RMSpropTF1([parameter], lr=0.1)

    def closure():
        loss = parameter.square().sum()
        loss.backward()
        return loss.item()

    assert optimiser.step(closure) == 1.0
    assert parameter.item() < 1


def test_its_state_can_be_saved_and_loaded():
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(6, 3, generator=generator)
    uninterrupted = train(Parameter(torch.ones(3)), gradients, lr=0.1)

    parameter = Parameter(torch.ones(3))
    optimiser = RMSpropTF1([parameter], lr=0.1)
    for gradient in gradients:
        restored = RMSpropTF1([parameter], lr=0.1)
        restored.load_state_dict(optimiser.state_dict())
        optimiser = restored
        parameter.grad = gradient.clone()
        optimiser.step()
    assert torch.equal(parameter, uninterrupted)


def test_constrained_matrices_have_their_own_optimiser_and_learning_rate():
    model = small_model()
    settings = Settings(
        steps=1, optimiser="adam", lr=0.1, optimiser_recurrent="rmsprop_tf1", lr_recurrent=0.2
    )
    recurrent, other = build_optimisers(model, settings)
    assert isinstance(recurrent, RMSpropTF1)
    assert isinstance(other, torch.optim.Adam)
    assert (recurrent.param_groups[0]["lr"], other.param_groups[0]["lr"]) == (0.2, 0.1)
    constrained = {id(p) for p in constrained_parameters(model)}
    assert {id(p) for p in recurrent.param_groups[0]["params"]} == constrained
    all_ids = constrained | {id(p) for p in other.param_groups[0]["params"]}
    assert all_ids == {id(p) for p in model.parameters()}


@pytest.mark.parametrize(("name", "default"), [("rmsprop", 0.99), ("rmsprop_tf1", 0.9)])
def test_the_default_alpha_depends_on_the_optimiser(name, default):
    model = torch.nn.Linear(1, 1)
    (optimiser,) = build_optimisers(model, Settings(steps=1, optimiser=name))
    assert optimiser.param_groups[0]["alpha"] == default
    (optimiser,) = build_optimisers(model, Settings(steps=1, optimiser=name, alpha=0.5))
    assert optimiser.param_groups[0]["alpha"] == 0.5


def test_an_empty_group_has_no_optimiser():
    model = small_model()
    for parameter in constrained_parameters(model):
        parameter.requires_grad_(False)
    assert len(build_optimisers(model, Settings(steps=1))) == 1


def rates_and_decays(model, optimisers):
    names = {id(p): name for name, p in model.named_parameters()}
    return {
        names[id(p)]: (group["lr"], group["weight_decay"])
        for optimiser in optimisers
        for group in optimiser.param_groups
        for p in group["params"]
    }


def test_weight_decay_leaves_all_raw_parameters_alone_unless_they_are_named():
    model = SequenceModel(NnRNN(2, 8), 3)
    cases = {None: "head weight_ih bias", ("triangle", "head"): "triangle head"}
    for parts, expected in cases.items():
        settings = Settings(
            steps=1, optimiser="adamw", lr=0.1, weight_decay=0.5, weight_decay_of=parts
        )
        found = rates_and_decays(model, build_optimisers(model, settings))
        assert found.keys() == dict(model.named_parameters()).keys()
        for name, (lr, decay) in found.items():
            assert lr == pytest.approx(0.01 if name.endswith("P.raw") else 0.1)
            assert decay == (0.5 if any(part in name for part in expected.split()) else 0), name


def test_a_free_matrix_can_have_the_recurrent_rate():
    model = SequenceModel(RNNOrth(2, 8), 3)
    settings = Settings(
        steps=1, lr=0.5, lr_recurrent=0.1, lr_recurrent_of=("constraint",), weight_decay=0.2
    )
    recurrent, _ = optimisers = build_optimisers(model, settings)
    assert [p.shape for group in recurrent.param_groups for p in group["params"]] == [(8, 8)]
    found = rates_and_decays(model, optimisers)
    assert {name for name, (lr, _) in found.items() if lr == 0.1} == {
        "layer.directions.0.constraint.raw"
    }
    assert {decay for _, decay in found.values()} == {0.2}  # a free matrix decays too


def test_a_constrained_matrix_without_the_recurrent_rate_does_not_decay():
    model = SequenceModel(ScoRNN(2, 8), 3)
    settings = Settings(steps=1, lr=0.5, lr_recurrent_of=("head",), weight_decay=0.2)
    found = rates_and_decays(model, build_optimisers(model, settings))
    assert found["layer.directions.0.constraint.raw"] == (0.5, 0.0)
    assert found["head.weight"] == (0.05, 0.2)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("warmup", [0, 2, 7])
def test_schedules_agree_with_those_of_torch(schedule, warmup):
    steps = 30
    settings = Settings(steps=steps, lr_schedule=schedule, warmup_steps=warmup)
    optimiser = torch.optim.SGD([Parameter(torch.ones(1))], lr=1.0)
    schedulers = torch.optim.lr_scheduler
    parts = []
    if warmup:
        parts = [schedulers.LinearLR(optimiser, 1 / warmup, total_iters=warmup - 1)]
    match schedule:
        case "constant":
            parts.append(schedulers.ConstantLR(optimiser, factor=1.0))
        case "linear":
            parts.append(schedulers.LinearLR(optimiser, 1.0, 0.0, steps - warmup))
        case "cosine":
            parts.append(schedulers.CosineAnnealingLR(optimiser, steps - warmup))
    whole = schedulers.SequentialLR(optimiser, parts, [warmup] if warmup else [])
    for step in range(1, steps + 1):
        found = lr_factor(settings, step=step, steps=steps, per_epoch=None, plateaus=0)
        assert found == pytest.approx(whole.get_last_lr()[0], abs=1e-12), step
        optimiser.step()
        whole.step()


def test_decays_multiply_the_schedule():
    settings = Settings(steps=8, lr_schedule="linear", lr_decay=0.5, lr_decay_at="plateau")
    assert lr_factor(settings, step=5, steps=8, per_epoch=None, plateaus=2) == 0.5 * 0.25


def test_parameter_groups_separate_matrices_raw_parameters_and_weights():
    model = SequenceModel(NnRNN(2, 8), 3)
    groups = parameter_groups(model, lr=0.1, lr_recurrent=0.02, weight_decay=0.3)
    optimiser = torch.optim.AdamW(groups)
    assert rates_and_decays(model, [optimiser]) == {
        "layer.directions.0.weight_ih": (0.1, 0.3),
        "layer.directions.0.bias": (0.1, 0.3),
        "layer.directions.0.constraint.theta": (0.1, 0.0),
        "layer.directions.0.constraint.gamma": (0.1, 0.0),
        "layer.directions.0.constraint.triangle": (0.1, 0.0),
        "layer.directions.0.constraint.P.raw": (0.02, 0.0),
        "head.weight": (0.1, 0.3),
        "head.bias": (0.1, 0.3),
    }


def test_trained_leaks_do_not_decay():
    layer = LeakyRNN(2, 8, nonlinearity="tanh", leak=0.1, trainable_leak=True, num_layers=2)
    optimiser = torch.optim.AdamW(parameter_groups(layer, lr=0.1, weight_decay=0.5))
    settings = Settings(steps=1, optimiser="adamw", lr=0.1, weight_decay=0.5)
    for optimisers in ([optimiser], build_optimisers(layer, settings)):
        decays = rates_and_decays(layer, optimisers)
        undecayed = [name for name, (_, decay) in decays.items() if not decay]
        assert sorted(undecayed) == ["directions.0.leak.raw", "directions.1.leak.raw"]
        for parameter in layer.parameters():
            parameter.grad = torch.zeros_like(parameter)
        for each in optimisers:
            each.step()
        for direction in layer.all_directions():
            torch.testing.assert_close(direction.leak.alpha(), torch.full((8,), 0.1))


GATED_DELTA = partial(DeltaNet, heads=2, gated=True)


# weights, biases, gains and initial states; a new name is a decision
DECAYING = {
    *("weight_ih", "weight_out", "weight_skip", "convolution_weight", "s"),
    *("bias", "input_bias", "gate_bias", "recurrent_bias", "output_bias"),
    *("gain", "shift", "norm_weight", "h0"),
    "raw",  # of `Unconstrained`
}
OPTIONS = {"trainable_h0": True, "layer_norm": True}
MORE = {
    "leak": partial(LeakyRNN, nonlinearity="tanh", leak=0.5, trainable_leak=True, **OPTIONS),
    "gru": partial(GRU, candidate=ScaledCayley, **OPTIONS),
    "delta": partial(GATED_DELTA, convolution=2, output_gate=True, trainable_h0=True),
}


@pytest.mark.parametrize("make", [*OURS.values(), *NAMED.values(), *MORE.values()])
def test_only_weights_biases_and_gains_decay(make):
    layer = make(2, 16)
    named = {id(parameter): name for name, parameter in layer.named_parameters()}
    for group in parameter_groups(layer, lr=0.1, weight_decay=0.5):
        for parameter in group["params"]:
            path, _, name = named[id(parameter)].rpartition(".")
            decays = name in DECAYING
            if name == "raw":
                decays = isinstance(layer.get_submodule(path), Unconstrained)
            elif isinstance(layer.get_submodule(path), Constraint):
                decays = False
            assert bool(group["weight_decay"]) == decays, named[id(parameter)]


def test_in_a_run_rates_decay_as_in_the_archived_ones():
    layer = GATED_DELTA(2, 16)
    settings = Settings(steps=1, optimiser="adamw", lr=0.1, weight_decay=0.5)
    decays = rates_and_decays(layer, build_optimisers(layer, settings))
    assert all(decay == 0.5 for _, decay in decays.values())


def test_parameter_groups_of_a_layer_of_torch_with_a_constraint():
    gru = constrain(torch.nn.GRU(2, 8), "weight_hh_l0", ScaledCayley, rows="n")
    groups = parameter_groups(gru, lr=1.0, weight_decay=0.3)
    assert [(len(g["params"]), g["lr"], g["weight_decay"]) for g in groups] == [
        (1, 0.1, 0.0),
        (len([*gru.parameters()]) - 1, 1.0, 0.3),
    ]


def test_a_model_without_constrained_matrix_is_one_group():
    (group,) = parameter_groups(torch.nn.LSTM(2, 3), lr=1.0, weight_decay=0.3)
    assert (len(group["params"]), group["lr"], group["weight_decay"]) == (4, 1.0, 0.3)


def test_frozen_parameters_are_in_no_group():
    model = small_model().requires_grad_(False)
    model.head.bias.requires_grad_(True)
    (group,) = parameter_groups(model, lr=1.0)
    assert group["params"][0] is model.head.bias
