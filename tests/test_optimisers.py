"""RMSprop of TensorFlow 1, and the optimisers of a run."""

import numpy as np
import pytest
import torch
from torch.nn import Parameter

from eigenrnn.experiments.training.optimisers import RMSpropTF1, build_optimisers
from eigenrnn.experiments.training.settings import Settings
from eigenrnn.models import constrained_parameters
from training_run import small_model


def reference(theta, gradients, lr, alpha=0.9, eps=1e-10, momentum=0.0, weight_decay=0.0):
    """The definition in NumPy, one step at a time."""
    square, moment = np.ones_like(theta), np.zeros_like(theta)
    for gradient in gradients:
        g = gradient + weight_decay * theta
        square = alpha * square + (1 - alpha) * g**2
        moment = momentum * moment + lr * g / np.sqrt(square + eps)
        theta = theta - moment
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
        {"momentum": 0.9},
        {"weight_decay": 0.1},
        {"momentum": 0.5, "weight_decay": 0.01},
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


def test_the_first_step_is_small_unlike_that_of_torch():
    def first_step(optimiser_class):
        parameter = Parameter(torch.zeros(1))
        parameter.grad = torch.full((1,), 1e-3)
        optimiser_class([parameter], lr=1.0, alpha=0.9).step()
        return -parameter.item()

    assert first_step(RMSpropTF1) == pytest.approx(1e-3 / 0.9**0.5, rel=1e-5)
    assert first_step(torch.optim.RMSprop) == pytest.approx(10**0.5, rel=1e-3)


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
    uninterrupted = train(Parameter(torch.ones(3)), gradients, lr=0.1, momentum=0.5)

    parameter = Parameter(torch.ones(3))
    optimiser = RMSpropTF1([parameter], lr=0.1, momentum=0.5)
    for gradient in gradients:
        restored = RMSpropTF1([parameter], lr=0.1, momentum=0.5)
        restored.load_state_dict(optimiser.state_dict())
        optimiser = restored
        parameter.grad = gradient.clone()
        optimiser.step()
    assert torch.equal(parameter, uninterrupted)


@pytest.mark.parametrize("name", ["lr", "alpha", "eps", "momentum", "weight_decay"])
def test_numbers_out_of_range_raise(name):
    with pytest.raises(ValueError, match=f"expected .*{name}.*, got -1"):
        RMSpropTF1([Parameter(torch.ones(1))], **{name: -1.0})


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


def test_by_default_constrained_matrices_have_a_tenth_of_the_learning_rate():
    recurrent, other = build_optimisers(small_model(), Settings(steps=1, lr=0.5))
    assert type(recurrent) is type(other) is torch.optim.RMSprop
    assert recurrent.param_groups[0]["lr"] == pytest.approx(0.05)


def test_weight_decay_does_not_apply_to_constrained_matrices():
    settings = Settings(steps=1, weight_decay=0.1)
    recurrent, other = build_optimisers(small_model(), settings)
    assert recurrent.param_groups[0]["weight_decay"] == 0
    assert other.param_groups[0]["weight_decay"] == 0.1


@pytest.mark.parametrize(("name", "default"), [("rmsprop", 0.99), ("rmsprop_tf1", 0.9)])
def test_the_default_alpha_depends_on_the_optimiser(name, default):
    model = torch.nn.Linear(1, 1)
    (optimiser,) = build_optimisers(model, Settings(steps=1, optimiser=name))
    assert optimiser.param_groups[0]["alpha"] == default
    (optimiser,) = build_optimisers(model, Settings(steps=1, optimiser=name, alpha=0.5))
    assert optimiser.param_groups[0]["alpha"] == 0.5


def test_sgd_is_available():
    (optimiser,) = build_optimisers(
        torch.nn.Linear(1, 1), Settings(steps=1, optimiser="sgd", lr=0.3)
    )
    assert isinstance(optimiser, torch.optim.SGD)
    assert optimiser.param_groups[0]["lr"] == 0.3


def test_an_empty_group_has_no_optimiser():
    model = small_model()
    for parameter in constrained_parameters(model):
        parameter.requires_grad_(False)
    assert len(build_optimisers(model, Settings(steps=1))) == 1


def test_a_model_without_trainable_parameters_raises():
    with pytest.raises(ValueError, match="expected a model with trainable parameters, got none"):
        build_optimisers(torch.nn.ReLU(), Settings(steps=1))
