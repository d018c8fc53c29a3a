"""Every backend of the gated recurrence agrees with the reference in values and gradients."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import expit as sigmoid
from states import gru
from test_elman import assert_near

from cases import NONLINEARITIES
from eigenrnn.init import haar_
from eigenrnn.ops.gru import BACKENDS, GRUOperands, GRUOptions, loop
from eigenrnn.ops.gru import gru as public_gru
from eigenrnn.ops.gru.loop import gru_loop
from kernel_testing import Work, each_direction, each_raggedness, ragged_sizes

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]

# (reset after the candidate's matrix, update keeps the state)
FORMS = {
    "torch": (True, True),
    "nc-gru": (False, False),
    "nc-gru-tensorflow": (False, True),
    "after-replaces": (True, False),
}

SIXTEEN = (torch.bfloat16, torch.float16)
NO_KERNEL = ("cpu", torch.float16)
# test_torch_backend.py and test_triton.py have the cases of the other two
QUICK = [name for name in BACKENDS if name not in ("torch", "triton")]
each_backend = pytest.mark.parametrize("backend", QUICK)
each_form = pytest.mark.parametrize("form", FORMS)
each_nonlinearity = pytest.mark.parametrize("case", NONLINEARITIES)


def operands(T, B, N, form="torch", case="tanh", dtype=torch.float64, *, seed=0):
    """All tensors of a form and a nonlinearity; None for unused ones."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def orthogonal():
        return haar_(torch.empty(N, N, dtype=torch.float64), generator=generator)

    tensors = [normal(T, B, 3 * N), torch.cat([orthogonal() for _ in range(3)]), normal(B, N)]
    tensors.append(normal(N) / 2 if NONLINEARITIES[case][1] else None)
    tensors.append(normal(N) if FORMS[form][0] else None)
    return [None if t is None else t.to(dtype).requires_grad_() for t in tensors]


def leaves_of(tensors):
    return [tensor for tensor in tensors if tensor is not None]


def with_leaves(tensors, leaves):
    """Replace the tensors that are not None."""
    leaves = iter(leaves)
    return [None if tensor is None else next(leaves) for tensor in tensors]


def options_of(form, case, T, B, *, reverse=False, ragged=False):
    return {
        "nonlinearity": NONLINEARITIES[case][0],
        "reset_after": FORMS[form][0],
        "update_keeps": FORMS[form][1],
        "reverse": reverse,
        "batch_sizes": ragged_sizes(T, B) if ragged else None,
    }


def weights_like(h):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(h.shape, generator=generator, dtype=torch.float64).to(h.dtype)


def values_and_gradients(tensors, **options):
    tensors = [None if t is None else t.detach().requires_grad_() for t in tensors]
    h = gru(*tensors, **options)
    return h.detach(), *torch.autograd.grad(h, leaves_of(tensors), weights_like(h))


def modrelu(z, b):
    return np.sign(z) * np.maximum(np.abs(z) + b, 0)


def one_step(form, case, x, W, h, b, recurrent):
    """Evaluate torch's formula for the first form, equation 19 of NC-GRU for the others."""
    N = len(h)
    W_r, W_u, W_c = W[:N], W[N : 2 * N], W[2 * N :]
    r = sigmoid(x[:N] + W_r @ h)
    u = sigmoid(x[N : 2 * N] + W_u @ h)
    inner = r * (W_c @ h + recurrent) if FORMS[form][0] else W_c @ (r * h)
    z = x[2 * N :] + inner
    c = modrelu(z, b) if case == "modrelu" else np.tanh(z)
    kept = u if FORMS[form][1] else 1 - u
    return kept * h + (1 - kept) * c


@each_raggedness
@each_direction
@pytest.mark.parametrize("case", ["modrelu", "tanh"])
@each_form
def test_the_reference_runs_each_sequence_independently(form, case, reverse, ragged):
    T, B, N = 7, 3, 4
    tensors = operands(T, B, N, form, case)
    options = options_of(form, case, T, B, reverse=reverse, ragged=ragged)
    x, W, h0, b, recurrent = (None if t is None else t.detach().numpy() for t in tensors)
    states, last = np.zeros((T, B, N)), np.zeros((B, N))
    sizes = options["batch_sizes"] or [B] * T
    for k in range(B):
        length = sum(size > k for size in sizes)
        h = h0[k]
        for t in reversed(range(length)) if reverse else range(length):
            h = one_step(form, case, x[t, k], W, h, b, recurrent)
            states[t, k] = h
        last[k] = h
    got = [each.detach() for each in public_gru(*tensors, backend="reference", **options)]
    assert_near(got, map(torch.as_tensor, (states, last)), torch.float64, T * N)


@each_backend
def test_without_biases_they_are_zero(backend):
    x, W, h0, _, recurrent = operands(5, 3, 2)
    expected = gru(x, W, h0, None, torch.zeros_like(recurrent), backend=backend)
    assert torch.equal(gru(x, W, h0, backend=backend), expected)


@each_form
@each_backend
def test_inputs_are_not_modified(backend, form):
    tensors = operands(5, 3, 2, form, "modrelu")
    before = [tensor.detach().clone() for tensor in leaves_of(tensors)]
    values_and_gradients(tensors, backend=backend, **options_of(form, "modrelu", 5, 3))
    assert all(map(torch.equal, leaves_of(tensors), before))


OP_CASES = {
    "torch": ("torch", "tanh", torch.float32, None, False),
    "ragged": ("nc-gru", "relu", torch.float64, [3, 2, 1, 1], False),
    "reverse": ("torch", "modrelu", torch.float32, [3, 2, 1, 1], True),
    "tensorflow": ("nc-gru-tensorflow", "modrelu", torch.float64, None, True),
}

each_op_case = pytest.mark.parametrize(
    ("form", "case", "dtype", "sizes", "reverse"), OP_CASES.values(), ids=OP_CASES.keys()
)


@each_op_case
def test_the_operator_passes_opcheck(form, case, dtype, sizes, reverse):
    tensors = GRUOperands(*operands(4, 3, 2, form, case, dtype))
    options = GRUOptions(case, *FORMS[form], sizes, reverse)
    arguments = gru_loop.arguments(tensors, options, save=True)
    torch.library.opcheck(torch.ops.eigenrnn.gru_loop.default, arguments)


@each_op_case
def test_the_operator_of_the_backward_pass_passes_opcheck(form, case, dtype, sizes, reverse):
    tensors = [None if t is None else t.detach() for t in operands(4, 3, 2, form, case, dtype)]
    inputs, options = GRUOperands(*tensors), GRUOptions(case, *FORMS[form], sizes, reverse)
    returned = gru_loop(inputs, options, save=True)
    needed = [name for name, v in inputs._asdict().items() if v is not None]
    grads = {"h": weights_like(returned["h"])}
    arguments = gru_loop.backward_arguments(inputs, options, needed, grads, returned)
    torch.library.opcheck(torch.ops.eigenrnn.gru_loop_backward.default, arguments)


@each_form
def test_the_operator_gives_the_same_states_without_saving_gates(form):
    tensors, options = GRUOperands(*operands(4, 3, 2, form)), GRUOptions("tanh", *FORMS[form])
    kept, lost = (gru_loop(tensors, options, save) for save in (True, False))
    assert torch.equal(kept["h"], lost["h"])
    assert lost["gates"].shape == (1, 3, 8)


# along random directions, because all of them take seconds
gradgradcheck = partial(torch.autograd.gradgradcheck, fast_mode=True)


def check_gradients(check, form, case, **options):
    tensors = operands(3, 2, 2, form, case)
    options = options_of(form, case, 3, 2, **options)

    def run(*leaves):
        return gru(*with_leaves(tensors, leaves), backend="loop", **options)

    assert check(run, leaves_of(tensors))


@each_raggedness
@each_direction
@pytest.mark.parametrize("case", ["modrelu", "tanh"])
@each_form
def test_its_gradients_are_those_of_finite_differences(form, case, reverse, ragged):
    check_gradients(torch.autograd.gradcheck, form, case, reverse=reverse, ragged=ragged)


@each_raggedness
@each_direction
@each_form
def test_it_can_be_differentiated_twice(form, reverse, ragged):
    check_gradients(gradgradcheck, form, "tanh", reverse=reverse, ragged=ragged)


INSIDE = {
    torch.ops.eigenrnn.gru_loop.default: loop.gru_loop.call_forward,
    torch.ops.eigenrnn.gru_loop_backward.default: loop.gru_loop.call_backward,
}


def work_of(T, form, what, *, ragged=False):
    tensors = operands(T, 3, 2, form, "modrelu")
    there, back = Work(INSIDE), Work(INSIDE)
    with there:
        h = gru(*tensors, backend="loop", **options_of(form, "modrelu", T, 3, ragged=ragged))
    with back:
        torch.autograd.grad(h, leaves_of(tensors), torch.ones_like(h))
    return np.array([getattr(there, what), getattr(back, what)])


@each_raggedness
@pytest.mark.parametrize("what", ["operations", "numbers"])
@each_form
def test_the_work_of_the_loop_grows_linearly_with_the_number_of_steps(form, what, ragged):
    of_12, of_24, of_36 = (work_of(T, form, what, ragged=ragged) for T in (12, 24, 36))
    assert ((of_36 - of_24) == (of_24 - of_12)).all()


x, W, h0, b, recurrent = (
    t.detach() for t in operands(4, 3, 2, case="modrelu", dtype=torch.float32)
)
REJECTED = {
    "thirds": ((x[..., :5], W), {}, ValueError, r"got \(4, 3, 5\)"),
    "size of h0": ((x, W, h0[:2]), {}, ValueError, r"got \(2, 2\)"),
    "a recurrent bias too many": (
        (x, W, h0, None, recurrent),
        {"reset_after": False},
        ValueError,
        "no recurrent_bias",
    ),
    "complex": ((x.cfloat(), W.cfloat()), {}, TypeError, "got torch.complex64"),
    "too few sizes": ((x, W), {"batch_sizes": [3, 3, 3]}, ValueError, r"got \[3, 3, 3\]"),
}


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"), REJECTED.values(), ids=REJECTED.keys()
)
def test_bad_input_raises_an_error_that_says_what_was_expected(arguments, options, error, message):
    with pytest.raises(error, match=message):
        gru(*arguments, **options)


@each_form
@each_nonlinearity
def test_autocast_runs_the_recurrence_in_float32(form, case):
    x, *others = operands(5, 3, 4, form, case, torch.float32)
    options, rounded = options_of(form, case, 5, 3), x.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        h = gru(rounded, *others, **options)
    assert torch.equal(h, gru(rounded.float(), *others, **options))


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [(name, dtype) for name in QUICK for dtype in SIXTEEN if (name, dtype) != NO_KERNEL],
    ids=str,
)
@each_form
def test_sixteen_bits_agree_with_double_precision_up_to_rounding(backend, form, dtype):
    tensors = [None if t is None else t.detach() for t in operands(3, 2, 4, form, dtype=dtype)]
    options = options_of(form, "tanh", 3, 2)
    got = values_and_gradients(tensors, backend=backend, **options)
    exact = [None if t is None else t.double() for t in tensors]
    expected = values_and_gradients(exact, backend="reference", **options)
    assert got[0].dtype == dtype
    assert_near(got, expected, dtype, 3)


@pytest.mark.parametrize("backend", QUICK)
@pytest.mark.parametrize("reset_after", [True, False])
def test_a_recurrence_without_units_has_gradients(backend, reset_after):
    x = torch.ones(3, 2, 2, requires_grad=True)
    W, U = torch.ones(0, 0), torch.ones(0, 2)
    h, _ = public_gru(x, W, U=U, reset_after=reset_after, backend=backend)
    h.sum().backward()
    assert (h.shape, float(x.grad.abs().sum())) == ((3, 2, 0), 0.0)
