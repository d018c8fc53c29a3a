"""The contract of every set of matrices, and each set against a second definition."""

import copy
import gc
import io
import itertools
import math
import pickle
import re
import weakref
from functools import partial

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from cases import (
    ALL,
    COMPLEX,
    CONFINED,
    FEW,
    INITS,
    INVERTIBLE,
    MOVING,
    ONE_OF_EACH,
    ONE_WAY,
    PENALISED,
    REAL,
    STRAIGHT_THROUGH,
    UNITARY,
)
from crossing import few
from eigenrnn import RNN, linalg
from eigenrnn.constraints import Constraint, Exponential, ScaledCayley, Unconstrained
from eigenrnn.errors import NoInverseError, NotInSetError
from eigenrnn.init import haar_
from eigenrnn.linalg import skew, tol
from random_constraints import (
    assert_same_state,
    distance,
    initialised,
    loss,
    perturbed,
    skew_entry_by_entry,
    state_of,
    stream,
    take_steps,
)

OPTIMISERS = {
    "SGD": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "Adam": partial(torch.optim.Adam, lr=0.01),
    "RMSprop": partial(torch.optim.RMSprop, lr=0.01),
}

# behaviour of the base class
few_constraints = few("case", ALL, FEW)
few_confined = few("case", CONFINED, [name for name in FEW if name in CONFINED])
few_invertible = few("case", INVERTIBLE, [name for name in FEW if name in INVERTIBLE])
few_real = few("case", REAL, [name for name in FEW if name in REAL])
each_constraint = pytest.mark.parametrize("case", ALL.values(), ids=ALL)
each_confined = pytest.mark.parametrize("case", CONFINED.values(), ids=CONFINED)
each_unitary = pytest.mark.parametrize("case", UNITARY.values(), ids=UNITARY)
each_without_inverse = pytest.mark.parametrize("case", ONE_WAY.values(), ids=ONE_WAY)
each_complex = pytest.mark.parametrize("case", COMPLEX.values(), ids=COMPLEX)
each_moving = pytest.mark.parametrize("make", MOVING.values(), ids=MOVING.keys())


def each_size_of(cases, sizes=None):
    """Every case with each of its sizes, or with its nearest sizes to `sizes`."""
    return pytest.mark.parametrize(
        ("case", "n"),
        [
            pytest.param(case, n, id=f"{name}-{n}")
            for name, case in cases.items()
            for n in (case.sizes if sizes is None else sorted({case.near(n) for n in sizes}))
        ],
    )


@each_size_of(ALL)
def test_an_initialised_matrix_lies_in_the_set(case, n):
    constraint = initialised(case, n)
    assert constraint.residual(constraint()) <= case.tol(torch.float32, n)


@each_constraint
def test_the_matrix_has_the_size_and_type_of_the_constraint(case):
    constraint = initialised(case, 7)
    W = constraint()
    assert W.shape == (case.near(7), case.near(7))
    assert W.dtype == constraint.dtype
    assert W.dtype == (torch.complex64 if constraint.is_complex else torch.float32)


@few_constraints
def test_the_constructor_draws_from_the_global_stream(case):
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(3)
        first = case(case.near(5))()
        torch.manual_seed(3)
        second = case(case.near(5))()
    assert torch.equal(first, second)


@pytest.mark.pairs
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@each_size_of(INVERTIBLE)
def test_assigning_its_own_matrix_changes_nothing(case, n, dtype):
    constraint = perturbed(case, n, dtype=dtype)
    W = constraint().detach().clone()
    constraint.assign(W)
    assert distance(constraint(), W) <= case.tol(dtype, n)


# a clamped Schur form keeps its basis
ANY_BASIS = {name: case for name, case in INVERTIBLE.items() if name != "schur-clamped"}


@each_size_of(ANY_BASIS, [2, 7])
def test_assigning_the_matrix_of_another_reproduces_it(case, n):
    W = perturbed(case, n, seed=5)()
    constraint = initialised(case, n)
    constraint.assign(W)
    assert distance(constraint(), W) <= case.tol(torch.float32, n)


@few("case", ANY_BASIS, [name for name in FEW if name in ANY_BASIS])
def test_a_matrix_of_another_precision_can_be_assigned(case):
    W = perturbed(case, seed=5, dtype=torch.float64)()
    constraint = initialised(case)
    constraint.assign(W)
    assert distance(constraint(), W) <= case.tol(torch.float32, constraint.size)


@few_invertible
def test_an_assigned_matrix_is_copied(case):
    constraint = initialised(case)
    W = constraint.sample(stream(1))
    constraint.assign(W)
    before = constraint().detach().clone()
    W.zero_()
    assert torch.equal(constraint(), before)


def with_an_optimiser(names):
    """Each case with one optimiser, in turns; the rest of the product is long."""
    turns = zip(names, itertools.cycle(OPTIMISERS), strict=False)
    return few(
        ("case", "optimiser"),
        {
            f"{name}-{optimiser}": (case, OPTIMISERS[optimiser])
            for name, case in ALL.items()
            for optimiser in OPTIMISERS
        },
        [f"{name}-{optimiser}" for name, optimiser in turns],
    )


@with_an_optimiser(ONE_OF_EACH)
def test_two_hundred_optimiser_steps_stay_in_the_set(case, optimiser):
    constraint = initialised(case, 8)
    take_steps(constraint, optimiser(constraint.parameters()), range(200))
    assert constraint.residual(constraint()) <= case.tol(torch.float32, constraint.size)


SMOOTH = {name: case for name, case in ALL.items() if name not in STRAIGHT_THROUGH}


@each_size_of(SMOOTH, [1, 2, 5])
def test_the_map_has_the_right_gradient(case, n):
    constraint = perturbed(case, n, dtype=torch.float64)
    names, raws = zip(*constraint.named_parameters(), strict=True)

    def matrix(*raws):
        return functional_call(constraint, dict(zip(names, raws, strict=True)), ())

    assert torch.autograd.gradcheck(matrix, raws)


@each_constraint
def test_every_raw_entry_gets_a_gradient(case):
    constraint = perturbed(case)  # if W is normal, several bases give the same W
    loss(constraint).backward()
    assert all((raw.grad != 0).all() for raw in constraint.parameters())


@each_size_of(ALL, [8, 65])
def test_a_wider_dtype_lies_in_the_set_to_its_own_precision(case, n):
    constraint = initialised(case, n).to(torch.float64)
    assert constraint.residual(constraint()) <= case.tol(torch.float64, n)


@each_constraint
def test_a_wider_dtype_keeps_the_matrix(case):
    constraint = initialised(case, 8)
    W = constraint().detach().clone()
    assert distance(constraint.double()(), W) <= case.tol(torch.float32, constraint.size)


def rounded_state(constraint, narrow):
    return {
        name: value.to(narrow) if value.is_floating_point() else value
        for name, value in constraint.state_dict().items()
    }


NARROW = pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (torch.half, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.bfloat16, torch.float64),
        (torch.float32, torch.float64),
    ],
    ids=str,
)


@NARROW
@each_constraint
def test_a_rounded_state_is_a_matrix_of_the_set(case, narrow, wide):
    saved = perturbed(case).to(wide)
    constraint = initialised(case).to(wide)
    constraint.load_state_dict(rounded_state(saved, narrow))
    W = constraint()
    assert constraint.residual(W) <= case.tol(wide, constraint.size)
    assert distance(W, saved()) <= 100 * torch.finfo(narrow).eps


@pytest.mark.parametrize("narrow", [torch.half, torch.bfloat16], ids=["half", "bfloat16"])
@each_constraint
def test_tensors_of_sixteen_bits_that_are_assigned_become_float32(case, narrow):
    saved, constraint = perturbed(case), initialised(case)
    constraint.load_state_dict(rounded_state(saved, narrow), assign=True)
    W = constraint()
    assert W.dtype == saved().dtype
    assert constraint.residual(W) <= case.tol(torch.float32, constraint.size)


@pytest.mark.parametrize("narrow", [nn.Module.half, nn.Module.bfloat16], ids=["half", "bfloat16"])
@few_constraints
def test_sixteen_bit_types_leave_everything_in_float32(case, narrow):
    constraint = initialised(case)
    before, W = state_of(constraint), constraint().detach().clone()
    narrow(constraint)
    assert_same_state(state_of(constraint), before)
    assert torch.equal(constraint(), W)


@few_constraints
def test_a_default_type_of_sixteen_bits_leaves_everything_in_float32(case, default_dtype):
    expected = state_of(initialised(case))
    default_dtype(torch.bfloat16)
    assert_same_state(state_of(initialised(case)), expected)


@few_constraints
def test_autocast_does_not_change_the_matrix(case):
    constraint = initialised(case)
    with torch.autocast("cpu", torch.bfloat16):
        W = constraint()
    assert W.dtype == constraint.dtype
    assert torch.equal(W, constraint())


class RoundedProducts(TorchDispatchMode):
    """Rounds the factors of products if the switch says so, as torch does with AMX."""

    PRODUCTS = (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.mv)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        switch = torch.backends.mkldnn.matmul
        if function.overloadpacket in self.PRODUCTS and switch.fp32_precision == "bf16":
            args = [v.bfloat16().to(v) if v.dtype == torch.float32 else v for v in args]
        return function(*args, **kwargs or {})


@pytest.fixture
def switch():
    """A switch of torch, which lets products of float32 be rounded to bfloat16."""
    switch = torch.backends.mkldnn.matmul
    switch.fp32_precision = "bf16"
    yield switch
    switch.fp32_precision = "none"


@each_confined
def test_a_matrix_stays_in_its_set_whatever_torch_rounds_in_products(case, switch, monkeypatch):
    monkeypatch.setitem(linalg.ROUNDING_SWITCHES, "cpu", switch)
    constraint = perturbed(case, case.near(8))
    with RoundedProducts():
        take_steps(constraint, torch.optim.SGD(constraint.parameters(), lr=0.01), range(5))
        W = constraint()
    assert constraint.residual(W) <= constraint.tolerance
    assert switch.fp32_precision == "bf16"


@each_confined
def test_steps_inside_autocast_keep_a_matrix_in_its_set(case):
    constraint = perturbed(case, case.near(8))
    with torch.autocast("cpu", torch.bfloat16):
        take_steps(constraint, torch.optim.SGD(constraint.parameters(), lr=0.01), range(5))
        W = constraint()
    assert constraint.residual(W) <= constraint.tolerance


ROUNDING = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "a switch": RoundedProducts,
}
each_rounding = pytest.mark.parametrize("rounding", ROUNDING.values(), ids=ROUNDING)


@each_rounding
@each_confined
def test_drawn_and_loaded_matrices_are_in_their_set_whatever_is_rounded(
    case, rounding, switch, monkeypatch
):
    monkeypatch.setitem(linalg.ROUNDING_SWITCHES, "cpu", switch)
    constraint, saved = perturbed(case, case.near(8)), perturbed(case, case.near(8), seed=3)
    with rounding():
        constraint.reset(stream(1))
    assert constraint.residual(constraint()) <= constraint.tolerance
    with rounding():
        constraint.load_state_dict(rounded_state(saved, torch.bfloat16))
    assert constraint.residual(constraint()) <= constraint.tolerance


@each_rounding
@few("case", INVERTIBLE, [name for name in ONE_OF_EACH if name in INVERTIBLE])
def test_an_assigned_matrix_is_not_rounded(case, rounding, switch, monkeypatch):
    monkeypatch.setitem(linalg.ROUNDING_SWITCHES, "cpu", switch)
    constraint = perturbed(case, case.near(8))
    W = constraint().detach().clone()
    with rounding():
        constraint.assign(W)
    assert distance(constraint(), W) <= case.tol(torch.float32, constraint.size)


class Fixed(Constraint):
    """A matrix that nobody trains, such as that of a reservoir."""

    def __init__(self, size):
        super().__init__(size)
        self.register_buffer("W", torch.eye(size).roll(1, 0))

    def _matrix(self):
        return self.W

    def reset(self, generator=None):
        pass

    def residual(self, W):
        return distance(W, self.W)


def test_a_set_may_have_no_parameters():
    constraint = Fixed(3).double()
    assert (constraint.dtype, constraint.device.type) == (torch.float64, "cpu")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(constraint(), constraint.W)
    h, _ = RNN(2, 3, constraint=Fixed)(torch.randn(4, 2))
    assert h.isfinite().all()


def test_a_switch_that_was_not_set_still_inherits_its_value_after_a_block(switch):
    switch.fp32_precision = "none"
    torch.backends.fp32_precision = "tf32"
    with linalg.switched_to_ieee(switch):
        assert switch.fp32_precision == "ieee"
    inherited = switch.fp32_precision
    torch.backends.fp32_precision = "none"
    assert (inherited, switch.fp32_precision) == ("tf32", "none")


@pytest.mark.parametrize("name", ["Adam", "RMSprop"])
@few_constraints
def test_training_resumes_exactly_after_saving_and_loading(case, name):
    uninterrupted = initialised(case)
    optimiser = OPTIMISERS[name](uninterrupted.parameters())
    take_steps(uninterrupted, optimiser, range(5))  # in the middle of a period of three
    file = io.BytesIO()
    torch.save([uninterrupted.state_dict(), optimiser.state_dict()], file)
    take_steps(uninterrupted, optimiser, range(5, 12))

    resumed = initialised(case, seed=7)
    optimiser = OPTIMISERS[name](resumed.parameters())
    take_steps(resumed, optimiser, range(1))
    file.seek(0)
    saved, saved_optimiser = torch.load(file, weights_only=True)
    resumed.load_state_dict(saved)
    optimiser.load_state_dict(saved_optimiser)
    take_steps(resumed, optimiser, range(5, 12))
    assert_same_state(state_of(resumed), state_of(uninterrupted))
    assert torch.equal(resumed(), uninterrupted())


def pickled(constraint):
    return pickle.loads(pickle.dumps(constraint))


each_copy = pytest.mark.parametrize("copied", [copy.deepcopy, pickled], ids=["deepcopy", "pickle"])


@each_copy
@few_constraints
def test_a_copy_trains_like_the_original(case, copied):
    original = initialised(case)
    take_steps(original, torch.optim.SGD(original.parameters(), lr=0.1), range(2))
    twin = copied(original)
    for each in (original, twin):
        take_steps(each, torch.optim.SGD(each.parameters(), lr=0.1), range(2, 9))
    assert_same_state(state_of(twin), state_of(original))


@each_copy
@few_constraints
def test_training_a_copy_does_not_change_the_original(case, copied):
    original = initialised(case)
    before = state_of(original)
    twin = copied(original)
    take_steps(twin, torch.optim.SGD(twin.parameters(), lr=0.1), range(7))
    assert_same_state(state_of(original), before)


@each_constraint
def test_a_sample_equals_the_draw_of_a_reset(case):
    constraint = initialised(case)
    sample = constraint.sample(stream(3))
    constraint.reset(stream(3))
    assert torch.equal(constraint(), sample)


@few_constraints
def test_a_sample_is_a_plain_tensor(case):
    sample = initialised(case).sample()
    assert type(sample) is torch.Tensor
    assert not sample.requires_grad


@each_constraint
def test_a_reset_erases_all_training(case):
    trained, fresh = initialised(case), initialised(case)
    take_steps(trained, torch.optim.SGD(trained.parameters(), lr=0.1), range(4))
    trained.reset(stream(3))
    fresh.reset(stream(3))
    assert_same_state(state_of(trained), state_of(fresh))


@each_constraint
def test_the_penalty_is_a_scalar_and_zero_for_most_sets(case):
    penalty = perturbed(case).penalty()
    assert penalty.shape == ()
    assert penalty > 0 if case.name in PENALISED else penalty == 0


@each_confined
def test_a_matrix_outside_the_set_is_rejected_with_residual_and_tolerance(case):
    constraint = initialised(case)
    W = case.outside(constraint.sample())
    residual, tolerance = constraint.residual(W), case.tol(torch.float32, constraint.size)
    with pytest.raises(NotInSetError) as rejected:
        constraint.assign(W)
    assert rejected.value.residual == residual
    assert rejected.value.tolerance == tolerance
    assert f"residual {residual:.3g} (tolerance {tolerance:.3g})" in str(rejected.value)
    assert type(constraint).__name__ in str(rejected.value)


@pytest.mark.parametrize("case", [ALL[name] for name in ONE_OF_EACH], ids=ONE_OF_EACH)
def test_the_residual_is_that_of_a_matrix_of_the_size_of_the_set(case):
    constraint = initialised(case)
    n = constraint.size
    for shape in ((n, n // 2), (n // 2, n), (n - 1, n - 1), (n, n, 1), (n,)):
        with pytest.raises(ValueError, match=re.escape(f"({n}, {n}), got {shape}")):
            constraint.residual(torch.zeros(shape))


@each_unitary
def test_the_residual_of_three_times_the_identity_is_exact(case):
    constraint = initialised(case)
    n = constraint.size
    assert constraint.residual(3 * torch.eye(n)) == 8 * math.sqrt(n)


@pytest.mark.parametrize("case", [COMPLEX[name] for name in COMPLEX if name in UNITARY])
def test_the_residual_includes_the_imaginary_part(case):
    constraint = initialised(case)
    n = constraint.size
    assert constraint.residual(torch.eye(n) * (3 + 4j)) == 24 * math.sqrt(n)


def with_nan(W):
    W[1, 2] = torch.nan
    return W


INVALID = {
    "nan": (with_nan, ValueError, "expected finite entries, got NaN or infinity"),
    "size": (lambda W: W[:3, :3], ValueError, r"got \(3, 3\)"),
    "integer": (lambda W: W.real.long(), TypeError, "torch.int64"),
}


@pytest.mark.parametrize(("corrupt", "error", "message"), INVALID.values(), ids=INVALID.keys())
@few_constraints
def test_an_invalid_matrix_is_rejected_and_changes_nothing(case, corrupt, error, message):
    constraint = perturbed(case)
    before = state_of(constraint)
    with pytest.raises(error, match=re.sub(r"\bn\b", str(constraint.size), message)):
        constraint.assign(corrupt(constraint.sample(stream(1))))
    assert_same_state(state_of(constraint), before)


@few_real
def test_a_real_set_rejects_complex_matrices(case):
    constraint = perturbed(case)
    before = state_of(constraint)
    with pytest.raises(TypeError, match=r"torch.complex64"):
        constraint.assign(constraint.sample(stream(1)).cfloat())
    assert_same_state(state_of(constraint), before)


@each_complex
def test_a_complex_set_accepts_real_matrices(case):
    constraint = initialised(case)
    real = case.outside(torch.eye(constraint.size))
    assert constraint.residual(real) == constraint.residual(real.cfloat())


@each_without_inverse
def test_a_set_without_an_inverse_raises_and_changes_nothing(case):
    constraint = perturbed(case)
    before = state_of(constraint)
    with pytest.raises(NoInverseError, match=type(constraint).__name__):
        constraint.assign(constraint())
    assert_same_state(state_of(constraint), before)


@few_constraints
def test_a_numpy_integer_is_accepted_as_size(case):
    constraint = case(np.int64(case.near(4)))
    assert type(constraint.size) is int
    assert constraint().shape == (constraint.size, constraint.size)


@each_constraint
def test_its_repr_names_the_set_and_the_size(case):
    constraint = case(case.near(5))
    assert re.match(rf"{type(constraint).__name__}\(\s*{constraint.size}\b", repr(constraint))


def moves_of(constraint, steps, step):
    """The steps that change the base."""
    moved = []
    for k in steps:
        before = constraint.base.clone()
        step(k)
        moved += [] if torch.equal(constraint.base, before) else [k]
    return moved


@pytest.mark.parametrize("period", [1, 2, 3, 5])
@pytest.mark.parametrize("optimiser", OPTIMISERS.values(), ids=OPTIMISERS.keys())
def test_a_base_moves_after_every_period_of_optimiser_steps(period, optimiser):
    constraint = initialised(partial(Exponential, period=period))
    optimiser = optimiser(constraint.parameters())
    moved = moves_of(
        constraint, range(1, 13), lambda k: take_steps(constraint, optimiser, range(k, k + 1))
    )
    assert moved == [*range(period, 13, period)]


@pytest.mark.parametrize("period", [None, math.inf])
def test_a_base_without_a_period_never_moves(period):
    constraint = initialised(partial(Exponential, period=period))
    optimiser = torch.optim.SGD(constraint.parameters(), lr=0.1)
    assert moves_of(constraint, range(9), lambda k: take_steps(constraint, optimiser, [k])) == []


@each_moving
def test_the_matrix_is_continuous_where_the_base_moves(make):
    constraint = perturbed(make, 8)
    W = constraint().detach().clone()
    before = constraint.base.clone()
    for _ in range(constraint.period):
        constraint.advance()
    assert not torch.equal(constraint.base, before)
    assert distance(constraint(), W) <= tol(torch.float32, 8)


@few("make", MOVING, ["dtriv-3-haar"])
def test_the_base_stays_orthogonal_over_many_moves(make):
    constraint = initialised(make, 8)
    take_steps(constraint, torch.optim.SGD(constraint.parameters(), lr=0.3), range(600))
    assert constraint.residual(constraint.base) <= tol(torch.float32, 8)


def test_moving_bases_follow_the_algorithm_of_the_paper():
    constraint = initialised(partial(Exponential, init="haar", period=3), dtype=torch.float64)
    base, raw = constraint().detach().clone(), torch.zeros_like(constraint.raw)
    optimiser = torch.optim.SGD(constraint.parameters(), lr=0.2)
    take_steps(constraint, optimiser, range(8))
    for k in range(8):
        raw.requires_grad_()
        W = base @ torch.linalg.matrix_exp(skew(raw, 5))
        (W * torch.randn(5, 5, generator=stream(1000 + k)).to(W)).sum().backward()
        raw = (raw - 0.2 * raw.grad).detach()
        if (k + 1) % 3 == 0:
            base, raw = base @ torch.linalg.matrix_exp(skew(raw, 5)), torch.zeros_like(raw)
    assert distance(constraint(), base @ torch.linalg.matrix_exp(skew(raw, 5))) <= tol(
        torch.float64, 5 * 8
    )


@pytest.fixture
def moving():
    return perturbed(partial(Exponential, period=2))  # so that any move of the base is visible


def test_several_parameter_groups_count_a_step_once(moving):
    other = nn.Linear(2, 2)
    optimiser = torch.optim.Adam(
        [{"params": other.parameters()}, {"params": moving.parameters(), "lr": 1e-4}]
    )

    def step(k):
        optimiser.zero_grad()
        (loss(moving, k) + other(torch.ones(2)).sum()).backward()
        optimiser.step()

    assert moves_of(moving, range(1, 7), step) == [2, 4, 6]


def test_only_the_optimiser_that_holds_the_parameters_counts(moving):
    other = nn.Linear(2, 2)
    optimisers = [
        torch.optim.RMSprop(moving.parameters(), lr=1e-4),
        torch.optim.Adam(other.parameters()),
    ]

    def step(k):
        (loss(moving, k) + other(torch.ones(2)).sum()).backward()
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()

    assert moves_of(moving, range(1, 7), step) == [2, 4, 6]


def test_a_step_without_a_gradient_does_not_count(moving):
    optimiser = torch.optim.SGD(moving.parameters(), lr=0.1)
    assert moves_of(moving, range(4), lambda _: optimiser.step()) == []


def test_a_forward_and_backward_pass_does_not_count(moving):
    assert moves_of(moving, range(4), lambda k: loss(moving, k).backward()) == []


def test_a_step_with_a_closure_counts_once(moving):
    optimiser = torch.optim.LBFGS(moving.parameters(), lr=0.1, max_iter=3)

    def closure():
        optimiser.zero_grad()
        value = loss(moving)
        value.backward()
        return value

    assert moves_of(moving, range(1, 5), lambda _: optimiser.step(closure)) == [2, 4]


def test_the_optimiser_hooks_do_not_keep_a_constraint_alive(moving):
    twin = weakref.ref(copy.deepcopy(moving))
    gc.collect()
    assert twin() is None


def test_the_number_of_steps_since_the_last_move_is_saved(moving):
    take_steps(moving, torch.optim.SGD(moving.parameters(), lr=0.1), range(3))
    resumed = initialised(partial(Exponential, period=2))
    resumed.load_state_dict(moving.state_dict())
    optimiser = torch.optim.SGD(resumed.parameters(), lr=0.1)
    assert moves_of(resumed, [1, 2], lambda k: take_steps(resumed, optimiser, [k])) == [1]


def test_parameters_replaced_by_loading_still_count_steps(moving):
    moving.load_state_dict(state_of(moving), assign=True)
    optimiser = torch.optim.SGD(moving.parameters(), lr=0.1)
    assert moves_of(moving, range(1, 5), lambda k: take_steps(moving, optimiser, [k])) == [2, 4]


@pytest.mark.parametrize("negative", [0, 1, 3, 7])
def test_the_scaled_cayley_map_is_that_of_the_paper(negative):
    constraint = perturbed(partial(ScaledCayley, negative=negative), 7, dtype=torch.float64)
    A, I = skew_entry_by_entry(constraint.raw, 7), np.eye(7)
    D = np.diag([1.0] * (7 - negative) + [-1.0] * negative)
    assert distance(constraint(), scipy.linalg.solve(I + A, I - A) @ D) <= tol(torch.float64, 7)


def test_the_scaled_cayley_gradient_is_that_of_theorem_3_2():
    constraint = perturbed(partial(ScaledCayley, negative=3), 7, dtype=torch.float64)
    W = constraint()
    G = torch.randn(7, 7, generator=stream(4), dtype=torch.float64)
    W.backward(G)
    A, I = skew_entry_by_entry(constraint.raw.detach(), 7), np.eye(7)
    D = np.diag([1.0] * 4 + [-1.0] * 3)
    V = scipy.linalg.solve(I - A, G.numpy()) @ (D + W.detach().numpy().T)
    gradient = skew_entry_by_entry(constraint.raw.grad, 7)
    assert distance(torch.as_tensor(gradient), V.T - V) <= np.linalg.norm(V) * tol(G.dtype, 7)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("period", [None, 3])
def test_the_exponential_map_is_that_of_scipy_at_the_base(init, period):
    constraint = perturbed(partial(Exponential, init=init, period=period), 7)
    constraint.double()
    expected = constraint.base.numpy() @ scipy.linalg.expm(skew_entry_by_entry(constraint.raw, 7))
    assert distance(constraint(), expected) <= tol(torch.float64, 7)


def angles_of(W):
    return np.sort(np.angle(np.linalg.eigvals(W.detach().double().numpy())))


def pairs(angles):
    return np.sort(np.concatenate([angles, -angles]))


def test_the_unit_circle_initialisation_lies_in_the_right_half_before_the_signs():
    constraint = initialised(partial(ScaledCayley, negative=0), 40, dtype=torch.float64)
    expected = torch.empty(20).uniform_(0, math.pi / 2, generator=stream())
    np.testing.assert_allclose(
        angles_of(constraint()), pairs(expected.numpy()), rtol=0, atol=tol(torch.float32, 40)
    )


def test_an_odd_size_is_initialised_with_one_eigenvalue_at_one():
    W = initialised(partial(ScaledCayley, negative=0), 7, dtype=torch.float64)()
    assert np.abs(angles_of(W)).min() <= tol(torch.float64, 7)


def test_the_zero_initialisation_is_the_diagonal_of_signs():
    W = ScaledCayley(5, negative=2, init="zero")()
    assert torch.equal(W, torch.diag(torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0])))


def test_an_orthogonal_matrix_out_of_reach_of_the_cayley_map_is_rejected_with_a_hint():
    constraint = ScaledCayley(4, negative=0)
    before = state_of(constraint)
    with pytest.raises(NotInSetError, match="negative=0"):
        constraint.assign(-torch.eye(4))
    assert_same_state(state_of(constraint), before)


def test_another_number_of_signs_reaches_that_matrix():
    constraint = ScaledCayley(4, negative=4)
    constraint.assign(-torch.eye(4))
    assert torch.equal(constraint(), -torch.eye(4))


@pytest.mark.parametrize(
    ("negative", "W", "parity"),
    [(2, torch.diag(torch.tensor([1.0, 1.0, 1.0, -1.0])), "odd"), (1, torch.eye(4), "even")],
    ids=["reflection", "rotation"],
)
def test_a_matrix_of_the_other_determinant_is_rejected_with_the_required_parity(
    negative, W, parity
):
    with pytest.raises(NotInSetError, match=parity):
        ScaledCayley(4, negative=negative).assign(W)


def test_the_weights_of_another_number_of_signs_are_rejected():
    constraint = ScaledCayley(5, negative=2)
    with pytest.raises(ValueError, match="got those of 3"):
        constraint.load_state_dict(ScaledCayley(5, negative=3).state_dict())


def test_the_number_of_signs_is_saved_and_the_signs_are_not():
    assert [*ScaledCayley(5, negative=2).state_dict()] == ["raw", "_extra_state"]


@pytest.mark.parametrize("n", [16, 170])
def test_an_exponential_of_large_raw_parameters_can_be_assigned(n):
    constraint = initialised(Exponential, n)
    with torch.no_grad():
        constraint.raw.copy_(40 * torch.randn(constraint.raw.shape, generator=stream(1)))
    W = constraint().detach().clone()
    constraint.assign(W)
    assert torch.equal(constraint(), W)


@pytest.mark.parametrize("period", [None, 3])
def test_the_henaff_initialisation_has_uniform_angles(period):
    make = partial(Exponential, init="henaff", period=period)
    constraint = initialised(make, 40, dtype=torch.float64)
    expected = torch.empty(20).uniform_(-math.pi, math.pi, generator=stream())
    np.testing.assert_allclose(
        angles_of(constraint()), pairs(expected.numpy()), rtol=0, atol=tol(torch.float32, 40)
    )


@pytest.mark.parametrize("period", [None, 3])
def test_the_cayley_initialisation_has_tangents_of_half_uniform_angles(period):
    make = partial(Exponential, init="cayley", period=period)
    constraint = initialised(make, 40, dtype=torch.float64)
    t = torch.empty(20).uniform_(0, math.pi / 2, generator=stream())
    np.testing.assert_allclose(
        angles_of(constraint()), pairs(np.tan(t.numpy() / 2)), rtol=0, atol=tol(torch.float32, 40)
    )


@pytest.mark.parametrize("period", [None, 3, math.inf])
def test_the_haar_initialisation_draws_the_base_uniformly_from_the_rotations(period):
    constraint = initialised(partial(Exponential, init="haar", period=period))
    assert torch.equal(constraint(), haar_(torch.empty(5, 5), generator=stream()))
    assert not constraint.raw.any()


def test_without_a_period_the_base_is_the_identity():
    assert torch.equal(initialised(Exponential).base, torch.eye(5))


@pytest.mark.parametrize("period", [3, math.inf])
def test_with_a_period_the_base_is_the_initial_matrix(period):
    constraint = initialised(partial(Exponential, period=period), 8)
    assert not constraint.raw.any()
    assert distance(constraint.base, initialised(Exponential, 8)()) <= tol(torch.float32, 8)


# in forward mode torch scripts some of its own functions
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("init", INITS)
def test_at_its_base_an_exponential_has_the_derivatives_of_the_general_map(init):
    constraint = initialised(partial(Exponential, init=init, period=math.inf), dtype=torch.float64)

    def matrix(raw):
        return functional_call(constraint, {"raw": raw}, ())

    assert not constraint.raw.any()
    assert torch.equal(constraint(), constraint.base)
    assert torch.autograd.gradcheck(matrix, constraint.raw, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(matrix, constraint.raw)


def test_the_unconstrained_matrix_is_its_raw_parameter():
    constraint = Unconstrained(3)
    assert constraint() is constraint.raw


def test_the_unconstrained_initialisation_is_that_of_torch():
    raw = initialised(Unconstrained, 100).raw
    assert 0.99 / 10 < raw.abs().max() <= 1 / 10


@pytest.mark.parametrize("name", ["_matrix", "reset", "residual"])
def test_what_a_set_lacks_is_named_with_the_page(name):
    methods = {key: lambda *_: None for key in ("_matrix", "reset", "residual") if key != name}
    kind = type(ScaledCayley)("Lacking", (ScaledCayley.__base__,), methods)
    with pytest.raises(TypeError, match=rf"Lacking to define {name}: see docs/extending\.md"):
        kind(3)
