"""A recurrence that is written from CONTRIBUTING's table alone, without W and without kernels."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import pytest
import torch
from torch import Tensor

from eigenrnn.ops import use_backend
from eigenrnn.ops.dispatch import REAL, Backend, Reference
from eigenrnn.ops.entry import BACKENDS, Entry
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.ops.time_steps import batch_sizes_of

T, B, N = 6, 3, 4
LENGTHS = torch.tensor([6, 4, 1])


class Operands(NamedTuple):
    x: Annotated[Tensor, "T", "B", "N"]
    a: Annotated[Tensor, "N"]
    h0: Annotated[Tensor, "B", "N"]
    resets: Annotated[Tensor | None, "T", "B"] = None


class Options(NamedTuple):
    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False


def step(states, now, operands, _options):
    h = torch.tanh(operands.a * states["h0"] + now["x"])
    return h, {"h0": h}


@pytest.fixture
def small(monkeypatch):
    """The public function of h_t = tanh(a h_{t-1} + x_t)."""
    monkeypatch.setitem(BACKENDS, "small", {})  # removes the entry after the test
    record = Recurrence(
        "small",
        operands=Operands,
        options=Options,
        states=("h0",),
        results=("h", "last"),
        step=step,
        features=frozenset({"resets"}),
    )
    backends: dict[str, Backend] = {"reference": Reference(record, REAL)}
    entry = Entry(record, backends)

    def call(x, a, h0=None, *, resets=None, backend=None, **options):
        operands = Operands(x, a, h0)
        record.check_tensors(operands)
        record.check_shapes(operands)
        return entry(operands._replace(resets=resets), Options(**options), backend)

    return call


def drawn():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(*shape, generator=generator) for shape in ((T, B, N), (N,), (B, N))]


def by_hand(x, a, h0, sizes, resets):
    states = []
    h = h0
    for t, n in enumerate(sizes):
        begun = torch.where(resets[t].unsqueeze(1), 0.0, h)
        new = torch.tanh(a * begun + x[t])
        runs = torch.arange(B).unsqueeze(1) < n
        h = torch.where(runs, new, h)
        states.append(torch.where(runs, new, 0.0))
    return torch.stack(states), h


@pytest.mark.parametrize("ragged", [False, True])
def test_states_are_those_of_a_loop(small, ragged):
    x, a, h0 = drawn()
    sizes = batch_sizes_of(LENGTHS, T) if ragged else None
    resets = torch.rand(T, B, generator=torch.Generator().manual_seed(2)) < 0.3
    got = small(x, a, h0, resets=resets, batch_sizes=sizes)
    torch.testing.assert_close(got, by_hand(x, a, h0, sizes or [B] * T, resets))
    without = torch.zeros(T, B, dtype=torch.bool)
    from_zero = by_hand(x, a, torch.zeros(B, N), [B] * T, without)
    torch.testing.assert_close(small(x, a), from_zero)


def test_autocast_leaves_it_in_float32(small):
    x, a, h0 = drawn()
    with torch.autocast("cpu", torch.bfloat16):
        got = small(x.bfloat16(), a.bfloat16(), h0)
    expected = small(x.bfloat16().float(), a.bfloat16().float(), h0)
    assert all(map(torch.equal, got, expected))


def test_it_compiles_and_has_a_second_derivative(small):
    x, a, _ = drawn()
    compiled = torch.compile(lambda x, a: small(x, a)[0], backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, a), small(x, a)[0])
    given = [v.double().requires_grad_() for v in (x[:2], a)]
    assert torch.autograd.gradgradcheck(lambda *v: small(*v)[1], given, fast_mode=True)


class Module(torch.nn.Module):
    def __init__(self, small):
        super().__init__()
        self.small = small
        self.register_buffer("a", drawn()[1])

    def forward(self, x):
        return self.small(x, self.a)


def test_it_is_exported_as_a_scan(small):
    module = Module(small)
    x = drawn()[0]
    program = torch.export.export(
        module, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), strict=False
    )
    assert any("scan" in str(node.target) for node in program.graph.nodes)
    longer = torch.cat([x, x])
    torch.testing.assert_close(program.module()(longer), module(longer))


WRONG = {
    "no a": (lambda x, _, h0: (x, None, h0), TypeError, "expected a to be a tensor"),
    "a of other units": (lambda x, a, h0: (x, a[1:], h0), ValueError, "expected a of shape"),
    "two axes": (lambda x, a, h0: (x[0], a, h0), ValueError, "expected x of shape"),
    "no step": (lambda x, a, h0: (x[:0], a, h0), ValueError, "expected T >= 1"),
    "double a": (lambda x, a, h0: (x, a.double(), h0), TypeError, "expected a of torch.float32"),
    "whole numbers": (lambda x, a, h0: (x.long(), a, h0), TypeError, "expected x of one of"),
    "other device": (lambda x, a, h0: (x, a.to("meta"), h0), ValueError, "expected a on cpu"),
}


@pytest.mark.parametrize(("change", "error", "text"), WRONG.values(), ids=WRONG)
def test_wrong_operands_are_refused(small, change, error, text):
    with pytest.raises(error, match=text):
        small(*change(*drawn()))


def test_a_forced_backend_that_it_lacks_is_refused(small):
    x, a, _ = drawn()
    with use_backend("cpu"), pytest.raises(ValueError, match="expected backend"):
        small(x, a)
