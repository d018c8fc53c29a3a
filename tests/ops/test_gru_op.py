"""Every backend of the gated recurrence agrees with the reference in values and gradients."""

from functools import partial

import numpy as np
import pytest
import torch
from states import gru

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

# test_torch_backend.py and test_triton.py have the cases of the other two
QUICK = [name for name in BACKENDS if name not in ("torch", "triton")]
each_backend = pytest.mark.parametrize("backend", QUICK)
each_form = pytest.mark.parametrize("form", FORMS)


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


@each_backend
def test_without_biases_they_are_zero(backend):
    x, W, h0, _, recurrent = operands(5, 3, 2)
    expected = gru(x, W, h0, None, torch.zeros_like(recurrent), backend=backend)
    assert torch.equal(gru(x, W, h0, backend=backend), expected)


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


@pytest.mark.parametrize("backend", QUICK)
@pytest.mark.parametrize("reset_after", [True, False])
def test_a_recurrence_without_units_has_gradients(backend, reset_after):
    x = torch.ones(3, 2, 2, requires_grad=True)
    W, U = torch.ones(0, 0), torch.ones(0, 2)
    h, _ = public_gru(x, W, U=U, reset_after=reset_after, backend=backend)
    h.sum().backward()
    assert (h.shape, float(x.grad.abs().sum())) == ((3, 2, 0), 0.0)
