"""Bases that move, under optimisers that wrap others, and raw parameters that are not plain."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from cases import CONSTRAINTS
from drawn import assert_same_state, distance, started, state_of, stream, take_steps
from eigenrnn.constraints import Exponential, Householder, MovingCayley, NeumannCayley
from eigenrnn.layers import DtrivRNN, FullCapacityURNN
from eigenrnn.linalg import orthogonality_error

ADAM = partial(torch.optim.Adam, lr=0.01)


class Wrapper(torch.optim.Optimizer):
    """Does nothing but call the `step` of another optimiser."""

    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner
        self.param_groups = inner.param_groups

    def step(self, closure=None):
        return self.inner.step(closure)


class Lookahead(Wrapper):
    """Goes back halfway to slow weights after every fifth step."""

    def __init__(self, inner):
        super().__init__(inner)
        self.averaging = Averaging(inner)

    def step(self, closure=None):
        self.inner.step(closure)
        self.averaging.step()


class Averaging:
    def __init__(self, inner):
        self.count = 0
        self.parameters = [p for group in inner.param_groups for p in group["params"]]
        self.slow = [p.detach().clone() for p in self.parameters]

    def step(self):
        self.count += 1
        if self.count % 5 == 0:
            for slow, fast in zip(self.slow, self.parameters, strict=True):
                slow.lerp_(fast.detach(), 0.5)
                fast.data.copy_(slow)  # which the version of the tensor does not show


class WrapperWithoutHooks(torch.optim.Optimizer):
    """As many are: torch calls hooks for those alone that call the constructor of their base."""

    def __init__(self, inner):
        self.inner = inner
        self.param_groups = inner.param_groups

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self, closure=None):
        return self.inner.step(closure)


class LookaheadWithoutHooks(WrapperWithoutHooks):
    def __init__(self, inner):
        super().__init__(inner)
        self.averaging = Averaging(inner)

    def step(self, closure=None):
        self.inner.step(closure)
        self.averaging.step()


class CallsItsBase(torch.optim.Adam):
    """A subclass whose `step` calls that of its base class, which has hooks of its own."""

    def step(self, closure=None):
        return super().step(closure)


def twice_wrapped(parameters):
    return Wrapper(Wrapper(ADAM(parameters)))


WRAPPED = {
    "wrapper": lambda parameters: Wrapper(ADAM(parameters)),
    "twice": twice_wrapped,
    "without hooks": lambda parameters: WrapperWithoutHooks(ADAM(parameters)),
    "super": partial(CallsItsBase, lr=0.01),
}
each_wrapped = pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED)

LAYERS = {
    "dtriv": partial(DtrivRNN, period=7),
    "full-capacity": FullCapacityURNN,
}


def train(layer, optimiser, steps=40):
    x = torch.randn(6, 4, 3, generator=stream(5))
    for k in range(steps):
        optimiser.zero_grad()
        h = layer(x)[0]
        weights = torch.randn(h.shape, generator=stream(k), dtype=h.dtype)
        (h * weights).real.sum().backward()
        optimiser.step()


def made(make):
    return make(3, 8, generator=stream(1))


@each_wrapped
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_forty_steps_of_a_wrapped_optimiser_are_those_of_the_plain_one(make, wrapped):
    plain, other = made(make), made(make)
    ADAM(plain.parameters())  # so that the step of Adam itself has hooks
    train(plain, ADAM(plain.parameters()))
    train(other, wrapped(other.parameters()))
    assert_same_state(state_of(other), state_of(plain))


@pytest.mark.parametrize("make", [Householder, NeumannCayley], ids=str)
@pytest.mark.parametrize("wrap", [Lookahead, LookaheadWithoutHooks])
def test_slow_weights_serve_a_set_whose_base_stays(make, wrap):
    constraint = started(make, 8)
    take_steps(constraint, wrap(ADAM(constraint.parameters())), range(23))
    assert orthogonality_error(constraint()) <= 0.01
    exact = constraint.cayley() if make is NeumannCayley else constraint()
    assert distance(constraint(), exact) <= 0.01


REFUSED = {
    "dtriv": (partial(Exponential, period=7), Lookahead),
    "cayley": (MovingCayley, Lookahead),
    "dtriv without hooks": (partial(Exponential, period=7), LookaheadWithoutHooks),
}


@pytest.mark.parametrize(("make", "wrap"), REFUSED.values(), ids=REFUSED)
def test_slow_weights_are_refused_where_the_base_moves(make, wrap):
    constraint = started(make)
    optimiser = wrap(ADAM(constraint.parameters()))
    with pytest.raises(RuntimeError, match=rf"once in a step, got {wrap.__name__}"):
        take_steps(constraint, optimiser, range(6))


def test_slow_weights_of_zero_change_nothing():
    # an optimiser without hooks finds the raw parameters of this set at zero after each step
    plain, other = started(MovingCayley), started(MovingCayley)
    take_steps(plain, ADAM(plain.parameters()), range(12))
    take_steps(other, LookaheadWithoutHooks(ADAM(other.parameters())), range(12))
    assert_same_state(state_of(other), state_of(plain))


@pytest.mark.parametrize("change", ["assign", "reset", "load_state_dict"])
def test_a_change_between_steps_of_a_wrapper_is_no_averaging(change):
    constraint = started(MovingCayley)
    optimiser = WrapperWithoutHooks(ADAM(constraint.parameters()))
    take_steps(constraint, optimiser, range(3))
    other = started(MovingCayley, seed=4)
    if change == "assign":
        constraint.assign(other())
    elif change == "reset":
        constraint.reset(stream(4))
    else:
        constraint.load_state_dict(other.state_dict())
    assert torch.equal(constraint(), other())
    take_steps(constraint, optimiser, range(3))


def test_after_an_outer_step_that_fails_the_inner_optimiser_moves_the_base():
    class Fails(Wrapper):
        def step(self, closure=None):
            super().step(closure)
            raise KeyError("later")

    constraint = started(MovingCayley)
    inner = ADAM(constraint.parameters())
    with pytest.raises(KeyError):
        take_steps(constraint, Fails(inner), range(1))
    before = constraint.base.clone()
    take_steps(constraint, inner, range(1))
    assert not torch.equal(constraint.base, before)
    assert not constraint.raw.any()


# ------------------------------------------------- raw parameters that something else replaced


class Doubled(nn.Module):
    def forward(self, raw):
        return 2 * raw


def parametrised(constraint):
    parametrize.register_parametrization(owner_of_raw(constraint), "raw", Doubled())


def pruned(constraint):
    prune.l1_unstructured(owner_of_raw(constraint), "raw", amount=2)


def owner_of_raw(constraint):
    return constraint.cayley if isinstance(constraint, NeumannCayley) else constraint


REPLACED = ("dtriv-1", "moving-cayley", "householder", "spectral-radius", "neumann-cayley")


@pytest.mark.parametrize("replace", [parametrised, pruned])
@pytest.mark.parametrize("name", REPLACED)
def test_what_replaces_the_raw_parameters_of_a_moving_reference_is_refused(name, replace):
    constraint = started(CONSTRAINTS[name])
    replace(constraint)
    with pytest.raises(ValueError, match=r"'raw' of .* to be a parameter of its own"):
        constraint()


@pytest.mark.parametrize("replace", [parametrised, pruned])
def test_a_base_that_stays_serves_what_replaces_the_raw_parameters(replace):
    constraint = started(Exponential)
    replace(constraint)
    take_steps(constraint, torch.optim.SGD(constraint.parameters(), lr=0.1), range(3))
    assert orthogonality_error(constraint()) < 1e-5
