"""The stored inverse by explicit sums: its error, its gradient and its exact recomputation."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch.func import functional_call

from draws import normal, stream
from eigenrnn.constraints import NeumannCayley, ScaledCayley
from eigenrnn.linalg import orthogonality_error, skew, tol
from random_constraints import distance

ORDERS = [1, 2, 3]
OPTIMISERS = {
    "SGD": partial(torch.optim.SGD, lr=0.01, momentum=0.9),
    "Adam": partial(torch.optim.Adam, lr=1e-3),
    "RMSprop": partial(torch.optim.RMSprop, lr=1e-3),
    "AdamW": partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1),
}

each_order = pytest.mark.parametrize("order", ORDERS)
each_optimiser = pytest.mark.parametrize("optimiser", OPTIMISERS.values(), ids=OPTIMISERS)


def build(n=7, dtype=torch.float64, seed=0, **options):
    with torch.random.fork_rng(devices=()):
        constraint = NeumannCayley(n, **options)
    constraint.reset(stream(seed))
    return constraint.to(dtype)


def train(constraint, steps, optimiser=OPTIMISERS["Adam"], correlated=False):
    """Take steps on a random linear objective and yield after each."""
    optimiser = optimiser(constraint.parameters())
    n = constraint.size
    for k in range(steps):
        optimiser.zero_grad()
        G = normal(n, n, seed=0 if correlated else k).to(constraint.dtype)
        (constraint() * G).sum().backward()
        optimiser.step()
        yield k


def rho_of(constraint):
    A = skew(constraint.cayley.raw.detach().double(), constraint.size)
    I = torch.eye(constraint.size, dtype=torch.float64)
    return float(torch.linalg.matrix_norm(I - constraint.inverse.double() @ (I + A)))


def skew_of(constraint):
    return skew(constraint.cayley.raw.detach(), constraint.size).numpy()


@each_optimiser
@each_order
def test_inverse_and_matrix_equal_algorithm_1_by_explicit_sums(order, optimiser):
    constraint = build(order=order, reset_every=5, negative=3, max_error=math.inf)
    I, D = np.eye(7), np.diag([1.0] * 4 + [-1.0] * 3)
    A = skew_of(constraint)
    inverse = np.linalg.inv(I + A)
    for k in train(constraint, 13, optimiser):
        delta, A = A - skew_of(constraint), skew_of(constraint)
        powers = [np.linalg.matrix_power(inverse @ delta, i) for i in range(order + 1)]
        inverse = np.linalg.inv(I + A) if (k + 1) % 5 == 0 else sum(powers) @ inverse
        assert distance(constraint.inverse, inverse) <= 1e-10
        assert distance(constraint(), inverse @ (I - A) @ D) <= 1e-10


@each_optimiser
def test_without_an_order_it_is_the_scaled_cayley_transform_at_every_step(optimiser):
    constraint = build(order=None)
    exact = ScaledCayley(7).double()
    for _ in train(constraint, 9, optimiser):
        exact.load_state_dict(constraint.cayley.state_dict())
        assert distance(constraint(), exact().detach()) <= tol(torch.float64, 7)


@pytest.mark.parametrize("negative", [0, 3, 7])
def test_the_gradient_is_that_of_the_stored_inverse(negative):
    constraint = build(order=1, negative=negative)
    list(train(constraint, 6, partial(torch.optim.SGD, lr=0.003)))
    assert rho_of(constraint) > 1e-5  # so the exact gradient is different
    constraint.zero_grad()
    G = normal(7, 7, seed=50)
    W = constraint()
    W.backward(G)
    D = np.diag([1.0] * (7 - negative) + [-1.0] * negative)
    V = constraint.inverse.numpy().T @ G.numpy() @ (D + W.detach().numpy().T)
    gradient = skew(constraint.cayley.raw.grad, 7)
    assert distance(gradient, V.T - V) <= np.linalg.norm(V) * tol(G.dtype, 7)


# in forward mode torch scripts some of its own functions
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_inside_transforms_and_in_forward_mode_it_is_the_scaled_cayley_transform():
    constraint = build(4)
    list(train(constraint, 7))
    G, raw = normal(4, 4, seed=1), constraint.cayley.raw.detach()

    def loss(raw, module, name):
        return (functional_call(module, {name: raw}, ()) * G).sum() ** 2

    own = partial(loss, module=constraint, name="cayley.raw")
    exact = partial(loss, module=constraint.cayley, name="raw")
    for transform in (torch.func.grad, torch.func.hessian):
        torch.testing.assert_close(transform(own)(raw), transform(exact)(raw))
    torch.testing.assert_close(torch.vmap(own)(raw[None]), torch.vmap(exact)(raw[None]))
    direction = normal(6, seed=2)
    slope = torch.func.grad(exact)(raw) @ direction
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(raw, direction)
        found = torch.autograd.forward_ad.unpack_dual(own(dual)).tangent
    torch.testing.assert_close(found, slope)


def test_second_derivatives_are_those_of_the_exact_map():
    constraint = build(4)
    G, raw = normal(4, 4, seed=1), constraint.cayley.raw
    (first,) = torch.autograd.grad((constraint() * G).sum() ** 2, raw, create_graph=True)
    second = [torch.autograd.grad(each, raw, retain_graph=True)[0] for each in first]
    exact = torch.autograd.functional.hessian(
        lambda raw: (functional_call(constraint.cayley, {"raw": raw}, ()) * G).sum() ** 2, raw
    )
    torch.testing.assert_close(torch.stack(second), exact)


@each_order
def test_the_error_of_a_step_has_the_order_of_the_series(order):
    def error(size):
        constraint = build(order=order)
        with torch.no_grad():
            constraint.cayley.raw.add_(normal(21, seed=2), alpha=size)
        constraint.advance()
        return rho_of(constraint)

    # doubling the step multiplies the error by 2^(q + 1)
    assert abs(math.log2(error(2e-3) / error(1e-3)) - (order + 1)) < 0.05


@pytest.mark.parametrize("rate", [0.01, 0.1, 1.0])
@each_order
def test_the_error_bound_holds_for_steps_of_any_size(order, rate):
    constraint = build(12, torch.float32, order=order)
    for _ in train(constraint, 60, partial(torch.optim.SGD, lr=rate, momentum=0.9)):
        assert constraint.residual(constraint()) <= 0.01 + tol(torch.float32, 12)


def exact_after(constraint, steps, optimiser=OPTIMISERS["Adam"]):
    return [k + 1 for k in train(constraint, steps, optimiser) if rho_of(constraint) < 1e-13]


@pytest.mark.parametrize("reset_every", [1, 3, 4])
@pytest.mark.parametrize("options", [{"order": 1}, {"gradient_rate": 1e-3}], ids=str)
def test_the_inverse_is_exact_after_every_period(options, reset_every):
    constraint = build(reset_every=reset_every, **options)
    assert exact_after(constraint, 10) == [*range(reset_every, 11, reset_every)]


def test_the_released_rule_moves_the_inverse_by_the_gradient():
    constraint = build(gradient_rate=1e-3, order=1)
    before = constraint.inverse.clone()
    list(train(constraint, 1))
    step = before @ skew(1e-3 * constraint.cayley.raw.grad, 7)
    assert distance(constraint.inverse, before + step @ before) <= tol(torch.float64, 7)


def test_the_number_of_steps_since_the_inversion_is_saved():
    constraint = build(order=1, reset_every=4)
    list(train(constraint, 3))
    resumed = build(order=1, reset_every=4)
    resumed.load_state_dict(constraint.state_dict())
    assert exact_after(resumed, 6) == [1, 5]


def test_a_step_with_a_closure_updates_the_inverse():
    constraint = build(max_error=1e-9)
    optimiser = torch.optim.LBFGS(constraint.parameters(), lr=0.1, max_iter=4)

    def closure():
        optimiser.zero_grad()
        loss = (constraint() * normal(7, 7)).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimiser.step(closure)
        assert orthogonality_error(constraint()) <= 1e-9


def test_raw_parameters_changed_without_an_optimiser_give_an_exact_matrix():
    constraint = build()
    for _ in range(3):
        (constraint() * normal(7, 7)).sum().backward()
        with torch.no_grad():
            constraint.cayley.raw -= 0.3 * constraint.cayley.raw.grad
        assert distance(constraint(), constraint.cayley().detach()) <= 7 * tol(torch.float64, 7)
    list(train(constraint, 1))
    assert orthogonality_error(constraint()) <= 0.01


def add_in_place(constraint):
    with torch.no_grad():
        constraint.cayley.raw.add_(0.3 * normal(21, seed=8))


def change_data(constraint):
    constraint.cayley.raw.data += 0.3 * normal(21, seed=8)


def load(constraint, assign=False):
    constraint.load_state_dict(other_state(), assign=assign)


def load_only_raw(constraint):
    raw = {"cayley.raw": other_state()["cayley.raw"]}
    constraint.load_state_dict(raw | {"cayley._extra_state": torch.tensor(3)}, strict=False)


def other_state():
    other = build(order=1, reset_every=4)
    list(train(other, 3))
    return other.state_dict()


CHANGES = {
    "add": add_in_place,
    "data": change_data,
    "load": load,
    "load by assigning": partial(load, assign=True),
    "load A alone": load_only_raw,
    "assign": lambda constraint: constraint.assign(build(seed=4)()),
    "reset": lambda constraint: constraint.reset(stream(6)),
}


# torch's own compiler still scripts some of its modules, and instantiates functions
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_compiled_constraint_notices_every_change(change):
    torch.compiler.reset()
    constraint = build(order=1, reset_every=4)
    compiled = torch.compile(constraint, backend="aot_eager", fullgraph=True)
    G = normal(7, 7, seed=1)

    def gradient(matrix):
        W = matrix()
        return W.detach(), *torch.autograd.grad((W * G).sum(), constraint.cayley.raw)

    gradient(compiled)
    list(train(constraint, 2))
    for _ in range(2):
        for got, expected in zip(gradient(compiled), gradient(constraint), strict=True):
            assert distance(got, expected) <= float(expected.norm()) * tol(torch.float64, 7)
        assert distance(constraint(), constraint.cayley().detach()) <= 0.01
        change(constraint)


def test_a_forward_pass_changes_no_state():
    constraint = build()
    before = {name: value.clone() for name, value in constraint.state_dict().items()}
    (constraint() * normal(7, 7)).sum().backward()
    for name, value in constraint.state_dict().items():
        assert torch.equal(value, before[name])


def test_changing_the_returned_matrix_changes_no_state():
    constraint = build()
    before = constraint().detach().clone()
    constraint().detach().zero_()
    assert torch.equal(constraint(), before)


def test_a_matrix_from_within_a_period_can_be_assigned():
    constraint = build(12, order=1, max_error=0.01)
    for _ in train(constraint, 20):
        W = constraint().detach().clone()
    assert orthogonality_error(W) > 1e-6
    constraint.assign(W)
    assert distance(constraint(), W) <= 0.01
    assert orthogonality_error(constraint()) <= tol(torch.float64, 12)


def test_a_wider_dtype_is_exact_to_its_own_precision():
    constraint = build(30, torch.float32)
    list(train(constraint, 5))
    assert rho_of(constraint.double()) <= tol(torch.float64, 30)


def test_signs_and_initialisation_are_those_of_the_scaled_cayley_transform():
    with pytest.raises(ValueError, match="got 5"):
        NeumannCayley(4, negative=5)
    W = NeumannCayley(4, negative=1, init="zero")()
    assert torch.equal(W, torch.diag(torch.tensor([1.0, 1, 1, -1])))
