"""Moving bases: optimisers, replaced raw parameters, transforms of torch.func."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, stack_module_state, vmap
from torch.nn.utils import parametrize, prune

from cases import CONSTRAINTS
from eigenrnn.constraints import (
    Exponential,
    Householder,
    SpectralRadius,
)
from eigenrnn.layers import NCGRU, FullCapacityURNN
from random_constraints import (
    initialised,
    loss,
    perturbed,
    stream,
    take_steps,
)

ADAM = partial(torch.optim.Adam, lr=0.01)


def test_a_step_that_a_scaler_skips_does_not_move_a_base():
    constraint = initialised(partial(Exponential, period=100))
    optimiser = torch.optim.Adam(constraint.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu")
    for k in range(6):
        optimiser.zero_grad()
        overflow = float("inf") if k in (2, 3) else 1.0
        scaler.scale(overflow * loss(constraint, k)).backward()
        scaler.step(optimiser)
        scaler.update()
    assert constraint.get_extra_state() == 4


def test_a_raw_parameter_in_two_constraints_is_refused():
    one, other = (initialised(partial(Exponential, period=3)) for _ in range(2))
    other.raw = one.raw
    optimiser = torch.optim.SGD(one.parameters(), lr=0.1)
    (one().sum() + other().sum()).backward()
    with pytest.raises(RuntimeError, match="Exponential in one constraint, got one in two"):
        optimiser.step()
    del other  # shared as a whole it is one constraint
    gc.collect()
    take_steps(one, optimiser, range(5))


def test_two_threads_train_two_models_at_the_same_time():
    def wait(*_):
        both.wait()  # both steps are running

    both = threading.Barrier(2, timeout=60)
    constraints = [initialised(partial(Exponential, period=100)) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for each in constraints:
            optimiser = torch.optim.SGD(each.parameters(), lr=0.1)
            optimiser.register_step_pre_hook(wait)
            pool.submit(take_steps, each, optimiser, range(5))
    assert [int(each.get_extra_state()) for each in constraints] == [5, 5]


class Doubled(nn.Module):
    def forward(self, raw):
        return 2 * raw


def parametrised(constraint, name="raw"):
    parametrize.register_parametrization(constraint, name, Doubled())


def pruned(constraint, name="raw"):
    prune.l1_unstructured(constraint, name, amount=2)


REPLACED = [("dtriv-1", "raw"), ("moving-cayley", "raw"), ("moving-cayley-complex", "imaginary")]


@pytest.mark.parametrize("replace", [parametrised, pruned])
@pytest.mark.parametrize(("case", "name"), REPLACED)
def test_a_base_does_not_move_where_its_raw_parameters_were_replaced(case, name, replace):
    constraint = initialised(CONSTRAINTS[case])
    replace(constraint, name)
    with pytest.raises(AttributeError, match=name):
        take_steps(constraint, ADAM(constraint.parameters()), range(1))


@pytest.mark.parametrize("replace", [parametrised, pruned])
@pytest.mark.parametrize("make", [Exponential, Householder, SpectralRadius])
def test_replaced_raw_parameters_work_without_a_moving_base(make, replace):
    constraint = initialised(make)
    replace(constraint)
    take_steps(constraint, torch.optim.SGD(constraint.parameters(), lr=0.1), range(3))
    assert constraint.residual(constraint()) <= constraint.tolerance


TRANSFORMED = ("moving-cayley", "moving-cayley-complex", "neumann-cayley-exact")


def trained(name):
    constraint = initialised(CONSTRAINTS[name], 6, dtype=torch.float64)
    take_steps(constraint, ADAM(constraint.parameters()), range(2))
    return constraint


def loss_at(constraint):
    def loss(raws, x):
        W = functional_call(constraint, raws, ())
        return (W @ x.to(W)).abs().square().sum() + (W[0] @ x.to(W)).real

    return loss


def gradients(constraint, x):
    constraint.zero_grad()
    raws = dict(constraint.named_parameters())
    loss_at(constraint)(raws, x).backward()
    return {name: raw.grad.clone() for name, raw in raws.items()}


def detached(constraint):
    return {name: raw.detach() for name, raw in constraint.named_parameters()}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_gradients_of_each_sample_are_those_of_backward(name):
    constraint = trained(name)
    x = torch.randn(3, 6, generator=stream(4), dtype=torch.float64)
    got = vmap(grad(loss_at(constraint)), (None, 0))(detached(constraint), x)
    for k in range(3):
        for key, expected in gradients(constraint, x[k]).items():
            torch.testing.assert_close(got[key][k], expected)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_an_ensemble_has_the_gradients_of_its_members(name):
    members = [trained(name), perturbed(CONSTRAINTS[name], 6, seed=3, dtype=torch.float64)]
    raws, buffers = stack_module_state(members)
    x = torch.randn(6, generator=stream(4), dtype=torch.float64)
    raws = {key: raw.detach() for key, raw in raws.items()}
    got = vmap(grad(lambda raws, held: loss_at(members[0])(raws | held, x)))(raws, buffers)
    for k, member in enumerate(members):
        for key, expected in gradients(member, x).items():
            torch.testing.assert_close(got[key][k], expected)


# in forward mode torch scripts some of its own functions
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", TRANSFORMED)
def test_derivatives_of_forward_mode_are_those_of_backward(name):
    constraint = trained(name)
    x = torch.randn(6, generator=stream(4), dtype=torch.float64)
    raws = detached(constraint)
    ways = {key: torch.randn(raw.shape, generator=stream(7)).double() for key, raw in raws.items()}
    expected = sum((g * ways[key]).sum() for key, g in gradients(constraint, x).items())
    _, slope = jvp(lambda raws: loss_at(constraint)(raws, x), (raws,), (ways,))
    with forward_ad.dual_level():
        duals = {key: forward_ad.make_dual(raw, ways[key]) for key, raw in raws.items()}
        of_dual = forward_ad.unpack_dual(loss_at(constraint)(duals, x)).tangent
    torch.testing.assert_close(slope, expected)
    torch.testing.assert_close(of_dual, expected)


@pytest.mark.parametrize("make", [FullCapacityURNN, NCGRU])
def test_a_layer_has_gradients_of_each_sample(make):
    layer = make(3, 6, generator=stream(1)).double()
    x = torch.randn(5, 4, 3, generator=stream(2), dtype=torch.float64)
    raws = detached(layer)

    def loss(raws, x):
        return functional_call(layer, raws, (x.unsqueeze(1),))[0].real.square().sum()

    got = vmap(grad(loss), (None, 1))(raws, x)
    for k in range(4):
        layer.zero_grad()
        layer(x[:, k : k + 1])[0].real.square().sum().backward()
        for key, raw in layer.named_parameters():
            torch.testing.assert_close(got[key][k], raw.grad)
