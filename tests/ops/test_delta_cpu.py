"""The compiled kernels of the delta rule: instruction sets, layouts, threads, a single step."""

from types import SimpleNamespace

import pytest
import torch
from test_delta_op import assert_equals_reference, evaluated, exact, operands

from eigenrnn.layers import DeltaProduct
from eigenrnn.linalg import tol
from eigenrnn.ops import compiled, delta
from eigenrnn.ops.delta import DeltaOperands
from eigenrnn.ops.delta import cpu as delta_module
from eigenrnn.ops.delta.cpu import chunk_steps
from kernel_testing import (
    SpiedKernels,
    needs_kernels,
    ragged_sizes,
    same,
)

pytestmark = [needs_kernels, pytest.mark.usefixtures("fresh_memory_is_poisoned")]


LAYOUTS = {
    "batch first": lambda v: v.transpose(0, 1).contiguous().transpose(0, 1),
    "gaps": lambda v: torch.nn.functional.pad(v, (0, 3))[..., :-3],
    "every second": lambda v: torch.stack([v, v], dim=-1)[..., 0],
    "expanded": lambda v: v[:1].expand_as(v),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_strides_do_not_change_the_results(layout):
    tensors = operands(40, R=2)
    changed = tensors._make([layout(v) if i < 5 else v for i, v in enumerate(tensors)])
    assert_equals_reference(changed, "cpu", 1e-12)


def test_gradients_of_any_strides_are_read():
    tensors = operands(40)
    leaves = [v.requires_grad_() for v in tensors]
    found = []
    for backend in ("cpu", "reference"):
        o, S_n = delta(*leaves, backend=backend)
        loss = o.sum() + S_n.mT.contiguous().sin().sum() + o.transpose(0, 3).cos().sum()
        found.append(torch.autograd.grad(loss, leaves))
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)


def test_results_do_not_depend_on_the_number_of_threads(threads):
    tensors = operands(70, B=3, H=3, R=2, dtype=torch.float32)
    options = {"batch_sizes": ragged_sizes(70, 3)}
    threads(1)
    alone = evaluated(tensors, "cpu", **options)
    for number in (2, 5):
        threads(number)
        assert same(alone, evaluated(tensors, "cpu", **options)) == []


def test_a_gradient_of_the_last_states_may_have_the_heads_first():
    tensors = operands(5, B=3, H=2)
    tensors = tensors._replace(S0=tensors.S0.requires_grad_())
    _, S_n = delta(*tensors, backend="cpu")
    g = torch.randn(2, *S_n.shape[:1], *S_n.shape[2:], dtype=S_n.dtype).transpose(0, 1)
    (got,) = torch.autograd.grad(S_n, tensors.S0, g, retain_graph=True)
    (expected,) = torch.autograd.grad(S_n, tensors.S0, g.contiguous())
    assert torch.equal(got, expected)


@pytest.mark.parametrize("steps", [1, 2, 7, 33, 64, 100])
def test_any_length_of_a_chunk_gives_the_same_numbers(monkeypatch, steps):
    monkeypatch.setattr(delta_module, "chunk_steps", lambda _: steps)
    tensors = operands(66, R=2, K=19, V=34)
    assert_equals_reference(tensors, "cpu", 1e-12, batch_sizes=ragged_sizes(66, 3))


def test_a_batch_of_no_sequences_or_heads_is_empty():
    for sizes in ({"B": 0}, {"H": 0}):
        tensors = operands(5, **sizes)
        o, S_n = delta(*(v.requires_grad_() for v in tensors))
        assert o.numel() == S_n.numel() == 0


def test_denormal_decays_are_zero():
    tensors = operands(40, decay=0.0, dtype=torch.float32)
    tensors = tensors._replace(log_decay=tensors.log_decay - 9)
    assert_equals_reference(tensors, "cpu", tol(torch.float32, 40))


@pytest.mark.parametrize("R", [1, 3])
def test_the_gradient_of_a_strong_decay_keeps_its_digits(R):
    values = torch.tensor([-0.1, -20, -60])
    tensors = operands(80, R=R, dtype=torch.float32)
    chosen = torch.randint(3, tensors.log_decay.shape, generator=torch.Generator().manual_seed(1))
    tensors = tensors._replace(log_decay=values[chosen])
    options = {"batch_sizes": ragged_sizes(80, 3)}
    got = evaluated(tensors, "cpu", **options)["dlog_decay"]
    expected = evaluated(exact(tensors), "reference", **options)["dlog_decay"]
    for i in range(3):
        ours, others = got[chosen == i].double(), expected[chosen == i]
        bound = 100 * torch.finfo(torch.float32).eps * float(others.abs().max())
        torch.testing.assert_close(ours, others, rtol=0, atol=bound)


def test_only_states_of_chunks_are_saved():
    tensors = operands(200, K=16, V=16)
    steps = chunk_steps(tensors)
    _, _, saved = torch.ops.eigenrnn.delta_cpu(*tensors, None, False, False, True)
    assert saved.shape == (-(-200 // steps), 3, 2, 16, 16)
    before = states_after(tensors, steps)
    torch.testing.assert_close(saved[1], before, rtol=0, atol=1e-12)
    _, _, saved = torch.ops.eigenrnn.delta_cpu(*tensors, None, False, False, False)
    assert not saved.numel()


def states_after(tensors, steps):
    """Return the states after some steps, by definition."""
    return delta(*(v[:steps] for v in tensors[:5]), tensors.S0, backend="reference")[1]


def test_python_sets_every_member_of_the_arguments(monkeypatch):
    spy = SpiedKernels("delta")
    monkeypatch.setattr(compiled, "kernels", spy)
    evaluated(operands(4, R=2), "cpu", batch_sizes=[3, 2, 2, 1])
    assert set(spy.call) | {"o", "S_n"} == set(spy.kernels.members["delta"])
    assert set(spy.gradients) == {*DeltaOperands._fields, "o", "S_n"}


def test_python_sets_every_member_of_a_layer(monkeypatch):
    given = {}
    members = compiled.kernels.members["delta_stepper"]
    monkeypatch.setattr(
        compiled, "kernels", SimpleNamespace(delta_stepper=lambda _, call: given.update(call))
    )
    layer = DeltaProduct(3, 8, heads=2, bias=True)
    layer.all_directions()[0].stepper()
    assert set(given) == set(members)
