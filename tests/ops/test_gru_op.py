"""What the loop of the gated recurrence has alone; `test_recurrences.py` has the rest."""

import numpy as np
import pytest
import torch
from recurrence_cases import FORMS, draw

from eigenrnn import ops
from eigenrnn.ops.gru import BACKENDS, GRUOperands, GRUOptions
from eigenrnn.ops.gru.loop import gru_loop
from eigenrnn.ops.gru.reference import GRU
from kernel_testing import Work, each_direction, each_raggedness, ragged_sizes

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]

# test_torch_backend.py and test_triton.py have the cases of the other two
QUICK = [name for name in BACKENDS if name not in ("torch", "triton")]
each_backend = pytest.mark.parametrize("backend", QUICK)
each_form = pytest.mark.parametrize("form", FORMS)


def operands(shape, form="torch", more=()):
    """Return the tensors of a form by name."""
    return draw(GRU, shape, more=[*more, "recurrent_bias"] if FORMS[form][0] else more)


def gru(tensors, form="torch", **options):
    """Return all states."""
    reset_after, update_keeps = FORMS[form]
    return ops.gru(**tensors, reset_after=reset_after, update_keeps=update_keeps, **options)[0]


@each_backend
def test_without_biases_they_are_zero(backend):
    tensors = operands((5, 3, 2))
    recurrent_bias = torch.zeros_like(tensors.pop("recurrent_bias"))
    expected = gru(tensors | {"recurrent_bias": recurrent_bias}, backend=backend)
    assert torch.equal(gru(tensors, backend=backend), expected)


@each_form
def test_the_operator_gives_the_same_states_without_saving_gates(form):
    tensors = GRUOperands(**operands((4, 3, 2), form))
    options = GRUOptions("tanh", *FORMS[form])
    kept, lost = (gru_loop.compute(tensors, options, save) for save in (True, False))
    assert torch.equal(kept["h"], lost["h"])
    assert lost["gates"].shape == (1, 3, 8)


@each_raggedness
@each_direction
@each_form
def test_it_can_be_differentiated_twice(form, reverse, ragged):
    tensors = operands((3, 2, 2), form)
    options = {"reverse": reverse, "batch_sizes": ragged_sizes(3, 2) if ragged else None}

    def run(*leaves):
        return gru(dict(zip(tensors, leaves, strict=True)), form, backend="loop", **options)

    leaves = [v.requires_grad_() for v in tensors.values()]
    # along random directions, because all of them take seconds
    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


INSIDE = {
    torch.ops.eigenrnn.gru_loop.default: gru_loop.call_forward,
    torch.ops.eigenrnn.gru_loop_backward.default: gru_loop.call_backward,
}


def work_of(T, form, what, sizes):
    tensors = operands((T, 3, 2), form, ["bias"])
    leaves = [v.requires_grad_() for v in tensors.values()]
    there, back = Work(INSIDE), Work(INSIDE)
    with there:
        h = gru(tensors, form, nonlinearity="modrelu", backend="loop", batch_sizes=sizes)
    with back:
        torch.autograd.grad(h, leaves, torch.ones_like(h))
    return np.array([getattr(there, what), getattr(back, what)])


@each_raggedness
@pytest.mark.parametrize("what", ["operations", "numbers"])
@each_form
def test_the_work_of_the_loop_grows_linearly_with_the_number_of_steps(form, what, ragged):
    of_12, of_24, of_36 = (
        work_of(T, form, what, ragged_sizes(T, 3) if ragged else None) for T in (12, 24, 36)
    )
    assert ((of_36 - of_24) == (of_24 - of_12)).all()


@each_backend
@pytest.mark.parametrize("reset_after", [True, False])
def test_a_recurrence_without_units_has_gradients(backend, reset_after):
    x = torch.ones(3, 2, 2, requires_grad=True)
    W, U = torch.ones(0, 0), torch.ones(0, 2)
    h, _ = ops.gru(x, W, U=U, reset_after=reset_after, backend=backend)
    h.sum().backward()
    assert (h.shape, float(x.grad.abs().sum())) == ((3, 2, 0), 0.0)
