"""Every backend of the linear recurrence agrees with the definition in values and gradients."""

import numpy as np
import pytest
import torch
from recurrence_cases import draw, weight_of
from test_elman import assert_near

from eigenrnn.linalg import tol
from eigenrnn.ops import linear
from eigenrnn.ops.linear import BACKENDS, LinearOperands, LinearOptions
from eigenrnn.ops.linear.reference import LINEAR
from kernel_testing import each_direction, each_raggedness, forward_mode, ragged_sizes

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]

each_other_backend = pytest.mark.parametrize(
    "backend", [name for name in BACKENDS if name != "reference"]
)
each_decay = pytest.mark.parametrize("gated", [False, True], ids=["constant", "gated"])


def operands(shape, dtype=torch.float64, *, gated=False):
    """Return x, the decay and h0."""
    drawn = draw(LINEAR, shape, dtype, gated=gated)
    return [drawn[name].requires_grad_() for name in ("x", "decay", "h0")]


def options_of(shape, *, reverse=False, ragged=False):
    return {"reverse": reverse, "batch_sizes": ragged_sizes(*shape[:2]) if ragged else None}


def weights_of(results):
    return [weight_of(result, seed) for seed, result in enumerate(results, start=7)]


def values_and_gradients(tensors, **options):
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    results = linear(*leaves, **options)
    gradients = torch.autograd.grad(results, leaves, weights_of(results))
    return *(each.detach() for each in results), *gradients


@each_raggedness
@each_direction
@each_decay
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_the_reference_equals_a_product_with_powers_of_the_decay(dtype, gated, reverse, ragged):
    shape = T, B, N = 7, 3, 4
    tensors = operands(shape, dtype, gated=gated)
    options = options_of(shape, reverse=reverse, ragged=ragged)
    x, decay, h0 = (tensor.detach().numpy() for tensor in tensors)
    decay = np.broadcast_to(decay, shape)
    states, last = np.zeros(shape, x.dtype), np.zeros((B, N), x.dtype)
    for k in range(B):
        length = sum(size > k for size in options["batch_sizes"] or [B] * T)
        steps = list(reversed(range(length)) if reverse else range(length))
        for i, t in enumerate(steps):  # h_t = sum over s of (product of later decays) x_s
            states[t, k] = np.prod(decay[steps[: i + 1], k], axis=0) * h0[k]
            for j in range(i + 1):
                states[t, k] += np.prod(decay[steps[j + 1 : i + 1], k], axis=0) * x[steps[j], k]
        last[k] = states[steps[-1], k]
    got = [each.detach() for each in linear(*tensors, backend="reference", **options)]
    assert_near(got, map(torch.as_tensor, (states, last)), torch.float64, T * N)


@each_raggedness
@each_direction
@each_decay
@pytest.mark.parametrize("value", [torch.nan, torch.inf], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_states_that_are_not_finite_end_at_a_reset(backend, value, gated, reverse, ragged):
    # chunks of three steps and two more
    shape = T, B, _ = 11, 2, 3
    options = options_of(shape, reverse=reverse, ragged=ragged)
    for early in range(1, T - 1):
        late = early - 1 if reverse else early + 1
        resets = torch.zeros(T, B, dtype=torch.bool)
        resets[late, 0] = True
        drawn = [v.detach() for v in operands(shape, gated=gated)]
        expected = values_and_gradients(drawn, resets=resets, backend="reference", **options)
        x = drawn[0]
        x[early, 0] = value
        h, *others = values_and_gradients(drawn, resets=resets, backend=backend, **options)
        assert not h[early, 0].isfinite().any()
        # all else is as if x was finite, but not what reads the state before the reset
        h[early, 0] = expected[0][early, 0]
        assert_near([h, *others], expected, torch.float64, sum(shape))


@each_direction
@each_decay
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_are_not_finite_end_at_a_reset(backend, gated, reverse):
    shape = T, B, _ = 11, 2, 3
    for late in range(T):
        resets = torch.zeros(T, B, dtype=torch.bool)
        resets[late, 0] = True
        x, decay, h0 = operands(shape, gated=gated)
        h, _ = linear(x, decay, h0, resets=resets, reverse=reverse, backend=backend)
        weights = weight_of(h, 7)
        (expected,) = torch.autograd.grad(h, x, weights, retain_graph=True)
        weights[late, 0] = torch.nan
        dx, dh0 = torch.autograd.grad(h, (x, h0), weights)
        assert dx[late, 0].isnan().all()
        dx[late, 0] = expected[late, 0]
        assert torch.equal(dx, expected)
        assert dh0.isfinite().all()


@pytest.mark.parametrize("sizes", [[3, 2, 2, 0], [3, 0, 0, 0], [3, 3, 3, 0]], ids=str)
@each_direction
@each_decay
@each_other_backend
def test_steps_at_which_no_sequence_runs_give_zeros(backend, gated, reverse, sizes):
    tensors, options = operands((4, 3, 2), gated=gated), {"reverse": reverse, "batch_sizes": sizes}
    got = values_and_gradients(tensors, backend=backend, **options)
    expected = values_and_gradients(tensors, backend="reference", **options)
    assert_near(got, expected, torch.float64, 12)


@pytest.mark.parametrize("result", [0, 1], ids=["all states", "last states"])
@each_direction
@each_decay
@each_other_backend
def test_a_loss_on_one_result_alone(backend, gated, reverse, result):
    shape = 9, 5, 3
    tensors = operands(shape, gated=gated)
    one = linear(*tensors, reverse=reverse, backend=backend)[result]
    other = linear(*tensors, reverse=reverse, backend="reference")[result]
    got = torch.autograd.grad(one, tensors, weights_of([one]))
    expected = torch.autograd.grad(other, tensors, weights_of([other]))
    assert_near(got, expected, torch.float64, sum(shape))


@pytest.mark.parametrize("requested", [[0], [1], [2], [0, 2], [1, 2]], ids=str)
@each_decay
@each_other_backend
def test_only_requested_gradients_are_computed(backend, gated, requested):
    shape = 9, 5, 3
    tensors = [v.detach() for v in operands(shape, gated=gated)]
    whole = values_and_gradients(tensors, backend=backend)[2:]
    leaves = [v.clone().requires_grad_(i in requested) for i, v in enumerate(tensors)]
    results = linear(*leaves, backend=backend)
    found = torch.autograd.grad(results, [leaves[i] for i in requested], weights_of(results))
    assert all(torch.equal(g, whole[i]) for g, i in zip(found, requested, strict=True))


@each_direction
@each_decay
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@each_other_backend
def test_gradients_have_the_gradients_of_the_definition(backend, dtype, gated, reverse):
    def second(name):
        leaves = operands((4, 3, 2), dtype, gated=gated)
        h, last = linear(*leaves, reverse=reverse, backend=name)
        loss = (h.abs() ** 3).sum() + (last.abs() ** 2).sum()
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        return torch.autograd.grad(sum((g.abs() ** 2).sum() for g in first), leaves)

    torch.testing.assert_close(second(backend), second("reference"), rtol=1e-9, atol=1e-9)


@forward_mode
@each_decay
def test_transforms_of_torch_func_use_the_reference(gated):
    tensors = [v.detach() for v in operands((4, 3, 2), gated=gated)]

    def last_state(x):
        return linear(x, *tensors[1:])[1]

    _, tangent = torch.func.jvp(last_state, (tensors[0],), (torch.ones_like(tensors[0]),))
    jacobian = torch.func.jacrev(last_state)(tensors[0])
    assert_near([tangent], [jacobian.sum((2, 3, 4))], torch.float64, 12)


x, decay, h0 = (tensor.detach() for tensor in operands((4, 3, 2), torch.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_a_decay_above_one_is_warned_of(dtype):
    with pytest.warns(UserWarning, match=r"got 1\.5"):
        linear(x.to(dtype), torch.tensor([1.5, 0], dtype=dtype))


def test_a_decay_of_one_is_not_warned_of():
    angles = torch.linspace(0, 3, 2)
    linear(x.cfloat(), torch.polar(torch.ones(2), angles))


def test_states_of_a_long_sequence_stay_bounded_on_the_unit_circle():
    T, angle = 10_000, 2 * torch.pi / 100
    decay = torch.polar(
        torch.ones(1, dtype=torch.float64), torch.tensor([angle], dtype=torch.float64)
    )
    x = torch.zeros(T, 1, 1, dtype=torch.complex128)
    _, last = linear(x, decay, torch.ones(1, 1, dtype=torch.complex128))
    # the rounding of each step adds up; 10 000 steps are 100 whole turns
    assert abs(last.item() - 1) < tol(torch.float64, T)


def test_records_go_through_an_operator_in_order():
    assert LinearOperands._fields == ("x", "decay", "h0", "resets")
    assert LinearOptions() == (None, False, False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_states_are_in_float32_under_autocast(backend):
    x, decay, h0 = operands((5, 3, 4), torch.float32)
    expected, _ = linear(x.bfloat16().float(), decay, h0, backend=backend)
    with torch.autocast("cpu"):
        h, _ = linear(x.bfloat16(), decay.bfloat16(), h0.bfloat16(), backend=backend)
    assert h.dtype == torch.float32
    torch.testing.assert_close(h, expected, rtol=0.1, atol=0.1)
