"""The compiled kernels of the linear recurrence agree with the reference."""

import pytest
import torch

from eigenrnn.linalg import tol
from eigenrnn.ops import linear
from eigenrnn.ops.linear import BACKENDS, LinearOperands, LinearOptions
from kernel_testing import (
    assert_near,
    each_raggedness,
    needs_kernels,
    ragged_sizes,
    same,
)

pytestmark = [needs_kernels, pytest.mark.pairs]

CPU = BACKENDS["cpu"]
# above 8 MiB, where results are written past the caches
STREAMED = {torch.float32: (129, 4, 4096), torch.complex128: (33, 4, 4096)}
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
each_decay = pytest.mark.parametrize("gated", [False, True], ids=["constant", "gated"])


def operands(shape, dtype, gated):
    generator = torch.Generator().manual_seed(0)

    def normal(*sizes):
        return torch.randn(sizes, generator=generator, dtype=dtype)

    raw = normal(*(shape if gated else shape[2:]))
    return LinearOperands(normal(*shape), raw / (0.1 + raw.abs()), normal(*shape[1:]))


def options_of(shape, *, reverse=False, ragged=False):
    return LinearOptions(ragged_sizes(*shape[:2]) if ragged else None, reverse)


def evaluated(backend, tensors, options):
    """Return all states, the last states and the gradients of all tensors, by name."""
    *leaves, resets = (None if v is None else v.detach() for v in tensors)
    for leaf in leaves:
        leaf.requires_grad_()
    h, last = backend.run(LinearOperands(*leaves, resets), options)
    weights = torch.linspace(-1, 1, h.numel(), dtype=h.real.dtype).view(h.shape)
    loss = (h * weights).real.sum() + last.abs().square().sum()
    gradients = torch.autograd.grad(loss, leaves)
    names = ("h", "last", "dx", "ddecay", "dh0")
    return dict(zip(names, (h.detach(), last.detach(), *gradients), strict=True))


def assert_equals_reference(tensors, options, name="reference"):
    got = evaluated(CPU, tensors, options)
    wide = torch.complex128 if tensors.x.is_complex() else torch.float64
    *drawn, resets = tensors
    exact = LinearOperands(*(v.to(wide) for v in drawn), resets)
    expected = evaluated(BACKENDS[name], exact, options)
    assert_near(got, expected, tol(tensors.x.dtype, sum(tensors.x.shape[:2])))


@each_decay
@each_dtype
def test_results_that_are_written_past_the_caches_are_the_same(dtype, gated):
    assert_equals_reference(operands(STREAMED[dtype], dtype, gated), LinearOptions(), "scan")


LAYOUTS = {
    "batch first": lambda v: v.transpose(0, 1).contiguous().transpose(0, 1),
    "gaps": lambda v: torch.nn.functional.pad(v, (0, 0, 0, 3, 0, 2))[:-2, :-3],
    "every second": lambda v: torch.stack([v, v], dim=-1)[..., 0],
    "expanded": lambda v: v[:1].expand_as(v),
    "conjugate": lambda v: v.conj(),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@each_decay
@each_dtype
def test_strides_do_not_change_the_results(dtype, gated, layout):
    tensors = operands((7, 3, 19), dtype, gated)
    decay = layout(tensors.decay) if gated else tensors.decay
    assert_equals_reference(tensors._replace(x=layout(tensors.x), decay=decay), LinearOptions())


@each_raggedness
@each_decay
@pytest.mark.parametrize("shape", [(31, 1, 65), (31, 13, 1), (5, 40, 33)], ids=str)
def test_results_do_not_depend_on_the_number_of_threads(threads, shape, gated, ragged):
    tensors = operands(shape, torch.complex64, gated)
    options = options_of(shape, ragged=ragged)
    threads(1)
    alone = evaluated(CPU, tensors, options)
    for number in (2, 5):
        threads(number)
        assert same(alone, evaluated(CPU, tensors, options)) == []


def test_only_the_last_states_are_stored_if_no_others_are_asked_for():
    tensors = operands((9, 5, 33), torch.float32, gated=True)
    h, last = CPU.run(tensors, LinearOptions(last_only=True))
    assert h.numel() == 0
    assert torch.equal(last, CPU.run(tensors, LinearOptions())[1])


@pytest.mark.parametrize("shape", [(4, 0, 3), (4, 3, 0)], ids=["no sequences", "no units"])
@each_decay
def test_empty_tensors_give_empty_states(shape, gated):
    got = evaluated(CPU, operands(shape, torch.float32, gated), LinearOptions())
    assert got["h"].shape == shape
    assert not got["ddecay"].any()


def test_gradients_of_sums_have_no_memory_of_their_own():
    # torch expands the gradient of a sum, and the copy with rows must outlive the call
    x = torch.linspace(-1, 1, 30).view(3, 2, 5)
    decay = torch.full((5,), 0.5)
    found = []
    for backend in ("cpu", "reference"):
        leaf = x.clone().requires_grad_()
        states, last = linear(leaf, decay, backend=backend)
        (states.sum() + last.sum()).backward()
        found.append(leaf.grad)
    torch.testing.assert_close(*found)
