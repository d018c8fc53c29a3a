"""The compiled kernels of the recurrences with matrices: sizes, memory, threads and gradients.

`test_recurrences.py` crosses their options. What one recurrence has alone is in its own file.
"""

import itertools
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
import torch
from recurrence_cases import BACKENDS, RECORDS, draw, exact, results_and_gradients, weight_of

from eigenrnn import ops
from eigenrnn.linalg import tol
from eigenrnn.ops import compiled
from kernel_testing import (
    MAPS,
    SpiedKernels,
    assert_near,
    each_direction,
    each_raggedness,
    needs_kernels,
    poisoned,
    ragged_sizes,
    same,
    steps_apart,
)

pytestmark = [poisoned, needs_kernels, pytest.mark.pairs]

BEFORE = {"reset_after": False, "update_keeps": False}
# Together they cover B of 1, 3, 17, 128, N of 1, 2, 31, 33, 170 and T of 1, 2, 63.
SHAPES = [
    (1, 1, 1),
    (1, 3, 2),
    (2, 1, 170),
    (2, 17, 33),
    (2, 128, 31),
    (63, 1, 31),
    (63, 3, 170),
    (63, 17, 2),
    (63, 128, 1),
]
# Few sequences of many units, which threads share.
SHARED = {"elman": (17, 2, 301), "gru": (17, 1, 213), "lstm": (17, 1, 185)}


@dataclass(frozen=True)
class Kernel:
    """A recurrence with some of its options.

    Args:
        kind: The name of the recurrence.
        more: Operands besides the inputs, W and the initial states.
        options: Options other than the defaults.
        dtype: In single precision modReLU amplifies rounding errors at its jump.
    """

    kind: str
    more: tuple[str, ...] = ()
    options: dict = field(default_factory=dict)
    dtype: torch.dtype = torch.float32

    @property
    def record(self):
        return RECORDS[self.kind]

    @property
    def cpu(self):
        return BACKENDS[self.kind]["cpu"]

    def draw(self, shape, dtype=None, M=None):
        return draw(self.record, shape, dtype or self.dtype, M=M, more=self.more)

    def options_of(self, shape, *, reverse=False, ragged=False, **others):
        sizes = ragged_sizes(*shape[:2]) if ragged else None
        options = {"batch_sizes": sizes, "reverse": reverse} | self.options | others
        return self.record.options(**options)

    def run(self, tensors, options, backend="cpu"):
        return BACKENDS[self.kind][backend].run(self.record.operands(**tensors), options)

    def evaluated(self, tensors, options, backend="cpu"):
        """Return all results and the gradients of all tensors, by name."""
        return results_and_gradients(
            self.record, tensors, lambda leaves: self.run(leaves, options, backend)
        )

    def assert_equals_reference(self, tensors, options):
        got = self.evaluated(tensors, options)
        expected = self.evaluated(exact(tensors), options, "reference")
        T, _, N = got["h"].shape
        # rounding errors accumulate over T steps, each with a sum over N
        assert_near(got, expected, tol(tensors["W"].dtype, T + N))


SMOOTH = {
    "elman": Kernel("elman"),
    "gru": Kernel("gru", ("recurrent_bias",)),
    "nc-gru": Kernel("gru", options=BEFORE),
    "lstm": Kernel("lstm"),
}
MODRELU = {"nonlinearity": "modrelu"}
KERNELS = SMOOTH | {
    "elman-modrelu": Kernel("elman", ("bias",), MODRELU, torch.float64),
    "gru-modrelu": Kernel("gru", ("bias", "recurrent_bias"), MODRELU, torch.float64),
}
WITH_RESETS = KERNELS | {
    f"{name}-resets": replace(kernel, more=(*kernel.more, "resets"))
    for name, kernel in SMOOTH.items()
}
GATED = {name: kernel for name, kernel in SMOOTH.items() if name != "elman"}

each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
each_with_resets = pytest.mark.parametrize("kernel", WITH_RESETS.values(), ids=WITH_RESETS)
each_smooth = pytest.mark.parametrize("kernel", SMOOTH.values(), ids=SMOOTH)
LONG = {name: kernel for name, kernel in WITH_RESETS.items() if name in GATED or "resets" in name}
each_long = pytest.mark.parametrize("kernel", LONG.values(), ids=LONG)
each_gated = pytest.mark.parametrize("kernel", GATED.values(), ids=GATED)
each_map = pytest.mark.parametrize("M", MAPS.values(), ids=MAPS.keys())
with_and_without_map = pytest.mark.parametrize("M", [None, 3], ids=["no map", "three channels"])
each_map_full_or_ragged = pytest.mark.parametrize(
    ("M", "ragged"), [(None, True), (1, False)], ids=["no map", "one channel"]
)


@pytest.fixture
def spy(monkeypatch, kernel):
    spy = SpiedKernels(kernel.kind)
    monkeypatch.setattr(compiled, "kernels", spy)
    return spy


@each_map_full_or_ragged
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@each_with_resets
def test_a_kernel_agrees_at_odd_sizes(kernel, shape, M, ragged):
    kernel.assert_equals_reference(
        kernel.draw(shape, M=M), kernel.options_of(shape, ragged=ragged)
    )


@each_map
@each_kernel
def test_an_initial_state_may_be_one_number(kernel, M):
    shape = 5, 3, 17
    tensors = kernel.draw(shape, torch.float64, M)
    for name in kernel.record.states:
        number = torch.full((1, 1), 0.5, dtype=torch.float64)
        kernel.assert_equals_reference(
            tensors | {name: number.expand(3, 17)}, kernel.options_of(shape)
        )


@each_kernel
def test_the_biases_are_optional(kernel):
    shape = 5, 3, 17
    tensors = kernel.draw(shape, torch.float64, M=3)
    for name in {"c", "bias", "recurrent_bias"} & set(tensors):
        others = {other: tensor for other, tensor in tensors.items() if other != name}
        kernel.assert_equals_reference(others, kernel.options_of(shape))


@each_map
@each_smooth
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_sixteen_bit_inputs_are_summed_in_float32(kernel, M, backend, dtype):
    shape = 63, 3, 33
    tensors = kernel.draw(shape, dtype, M)
    run = partial(getattr(ops, kernel.kind), **kernel.options, backend=backend)
    got = results_and_gradients(kernel.record, tensors, lambda leaves: run(**leaves))
    assert all(found.dtype == dtype for found in got.values())
    # each result is rounded once, for any number of steps
    expected = kernel.evaluated(exact(tensors), kernel.options_of(shape), "reference")
    assert_near(got, expected, torch.finfo(dtype).eps)


@pytest.mark.parametrize("sizes", [[3, 2, 2, 0], [3, 0, 0, 0], [3, 3, 3, 0]], ids=str)
@with_and_without_map
@each_direction
@each_smooth
def test_steps_at_which_no_sequence_runs_give_zeros(kernel, reverse, M, sizes):
    shape = 4, 3, 2
    options = kernel.options_of(shape, reverse=reverse, batch_sizes=sizes)
    kernel.assert_equals_reference(kernel.draw(shape, torch.float64, M), options)


@each_kernel
def test_zero_channels_are_supported(kernel):
    shape = 4, 2, 3
    kernel.assert_equals_reference(kernel.draw(shape, M=0), kernel.options_of(shape))


@pytest.mark.parametrize(
    ("value", "M"), [(torch.nan, None), (torch.inf, 1), (-torch.inf, 3), (torch.nan, 37)], ids=str
)
@each_smooth
def test_non_finite_values_spread_as_in_the_reference(kernel, M, value):
    shape = 4, 3, 5
    tensors = kernel.draw(shape, M=M)
    tensors["x"][1, 2, 0] = value
    options = kernel.options_of(shape)
    got = kernel.run(tensors, options)
    expected = kernel.run(tensors, options, "reference")
    assert got[0][:, :2].isfinite().all()
    bound = tol(torch.float32, sum(shape))
    torch.testing.assert_close(got, expected, rtol=bound, atol=bound, equal_nan=True)


def test_large_cells_saturate_without_overflow():
    shape = 4, 3, 5
    kernel = KERNELS["lstm"]
    tensors = kernel.draw(shape)
    tensors |= {"x": 1e4 * tensors["x"], "c0": 1e30 * tensors["c0"]}
    got = kernel.evaluated(tensors, kernel.options_of(shape))
    assert all(found.isfinite().all() for found in got.values())


@pytest.mark.parametrize("shape", [(784, 1, 31), (784, 3, 2), (300, 2, 190)], ids=str)
@each_long
def test_a_long_sequence_fills_the_ring_of_deltas_several_times(kernel, shape):
    tensors = kernel.draw(shape, torch.float64)
    tensors |= {name: tensors[name] / shape[2] ** 0.5 for name in ("x", "W")}
    options = kernel.options_of(shape)
    got = kernel.evaluated(tensors, options)
    assert_near(got, kernel.evaluated(tensors, options, "reference"), 1e-9)


def batch_first(tensor):
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def every_second(tensor):
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


def first_expanded(tensor):
    return tensor[:1].expand_as(tensor)


ALL_OPERANDS = ("x", "W", "h0", "c0", "bias", "recurrent_bias", "U", "c")
LAYOUTS = {
    "batch first": {"x": batch_first},
    "gaps": {"x": steps_apart},
    "transposed matrices": {"W": lambda W: W.T.contiguous().T, "U": lambda U: U.T.contiguous().T},
    "slices of matrices": {"W": every_second, "U": every_second},
    "expanded": dict.fromkeys(("x", "h0", "c0"), first_expanded),
    "one number as input": {"x": lambda x: x[:1, :1, :1].expand_as(x)},
    "expanded biases": dict.fromkeys(("bias", "recurrent_bias", "c"), first_expanded),
    "halves of one state": dict.fromkeys(("h0", "c0"), lambda v: torch.cat([v, v], 1)[:, :19]),
    "every second": dict.fromkeys(ALL_OPERANDS, every_second),
}


@each_map_full_or_ragged
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@each_kernel
def test_strides_do_not_change_the_results(kernel, layout, M, ragged):
    shape = 5, 3, 19
    tensors = kernel.draw(shape, torch.float64, M)
    laid_out = {name: layout.get(name, torch.clone)(v) for name, v in tensors.items()}
    kernel.assert_equals_reference(laid_out, kernel.options_of(shape, ragged=ragged))


@each_smooth
def test_batch_first_tensors_are_read_and_written_without_copies(spy, kernel):
    shape = 5, 3, 16
    tensors = kernel.draw(shape)
    x = batch_first(tensors["x"]).requires_grad_()
    h, *_ = kernel.run(tensors | {"x": x}, kernel.options_of(shape))
    assert spy.call["x"] == (x.data_ptr(), *x.stride()[:2], False)
    assert h.transpose(0, 1).is_contiguous()
    g = batch_first(weight_of(h, 7))
    (dx,) = torch.autograd.grad(h, x, g)
    assert spy.gradients["h"] == (g.data_ptr(), *g.stride()[:2], False)
    assert dx.stride() == x.stride()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("M", [None, 2], ids=["no map", "two channels"])
@each_kernel
def test_only_the_requested_gradients_are_computed(spy, kernel, M, size):
    shape = 5, 3, 7
    tensors = kernel.draw(shape, M=M)
    options = kernel.options_of(shape)
    whole = kernel.evaluated(tensors, options)
    for requested in itertools.combinations(tensors, size):
        leaves = {n: v.clone().requires_grad_(n in requested) for n, v in tensors.items()}
        results = kernel.run(leaves, options)
        chosen = [leaves[name] for name in requested]
        weights = [weight_of(result, seed) for seed, result in enumerate(results, start=7)]
        found = torch.autograd.grad(results, chosen, weights)
        for name, gradient in zip(requested, found, strict=True):
            assert torch.equal(gradient, whole[f"d{name}"])
        assert {n for n in tensors if n in spy.gradients} == set(requested)


@pytest.mark.parametrize(
    ("kernel", "result"),
    [*((kernel, 1) for kernel in SMOOTH.values()), (SMOOTH["lstm"], 2)],
    ids=[*SMOOTH, "last cells"],
)
@each_raggedness
@each_direction
def test_a_loss_on_the_end_allocates_no_gradient_of_all_states(
    spy, monkeypatch, kernel, result, reverse, ragged
):
    shape = T, _, N = 9, 5, 19
    tensors = kernel.draw(shape, torch.float64, M=3)
    leaves = {n: v.requires_grad_(n != "x") for n, v in tensors.items()}
    options = kernel.options_of(shape, reverse=reverse, ragged=ragged)
    end = kernel.run(leaves, options)[result]
    buffers = []
    new_empty = torch.Tensor.new_empty

    def counted(*arguments, **keywords):
        buffers.append(new_empty(*arguments, **keywords))
        return buffers[-1]

    monkeypatch.setattr(torch.Tensor, "new_empty", counted)
    requested = [leaf for leaf in leaves.values() if leaf.requires_grad]
    got = torch.autograd.grad(end, requested, weight_of(end, 8))
    assert "h" not in spy.gradients
    assert sum(buffer.numel() for buffer in buffers) == sum(leaf.numel() for leaf in requested)
    expected = kernel.run(leaves, options, "reference")[result]
    other = torch.autograd.grad(expected, requested, weight_of(end, 8))
    torch.testing.assert_close(got, other, rtol=0, atol=tol(end.dtype, T * N))


@each_raggedness
@each_direction
@each_gated
def test_without_gradients_nothing_is_saved(spy, kernel, reverse, ragged):
    shape = 9, 5, 19
    leaves = {name: v.requires_grad_() for name, v in kernel.draw(shape, M=3).items()}
    options = kernel.options_of(shape, reverse=reverse, ragged=ragged)
    results = kernel.run(leaves, options)
    assert "saved" in spy.call
    with torch.no_grad():
        plain = kernel.run(leaves, options)
        assert "saved" not in spy.call
        none, *ends = kernel.run(leaves, options._replace(last_only=True))
        assert "h" not in spy.call
    assert none.numel() == 0
    assert all(map(torch.equal, plain, results))
    assert all(map(torch.equal, ends, results[1:]))


@each_raggedness
@each_direction
@pytest.mark.parametrize("M", [None, 2], ids=["no map", "two channels"])
@each_smooth
def test_gradients_have_the_gradients_of_the_definition(kernel, M, reverse, ragged):
    shape = 4, 3, 5
    options = kernel.options_of(shape, reverse=reverse, ragged=ragged)

    def second(backend):
        tensors = kernel.draw(shape, torch.float64, M)
        leaves = {name: v.requires_grad_() for name, v in tensors.items()}
        present = list(leaves.values())
        results = kernel.run(leaves, options, backend)
        loss = sum((v**3 * weight_of(v, k)).sum() for k, v in enumerate(results, start=7))
        first = torch.autograd.grad(loss, present, create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), present)

    torch.testing.assert_close(second("cpu"), second("reference"), rtol=1e-9, atol=1e-9)


@each_map_full_or_ragged
@pytest.mark.parametrize(
    "shape",
    [(31, 1, 65), (31, 13, 65), (5, 40, 33), None],
    ids=lambda shape: str(shape or "shared"),
)
@each_with_resets
def test_states_and_gradients_of_inputs_do_not_depend_on_the_number_of_threads(
    threads, kernel, shape, M, ragged
):
    shape = shape or SHARED[kernel.kind]
    tensors = kernel.draw(shape, M=M)
    options = kernel.options_of(shape, ragged=ragged)
    threads(1)
    alone = kernel.evaluated(tensors, options)
    fixed = [*kernel.record.results, "dx", *(f"d{name}" for name in kernel.record.states)]
    for number in (2, 3, 5):
        threads(number)
        shared = kernel.evaluated(tensors, options)
        assert same({n: alone[n] for n in fixed if n in alone}, shared) == []
        assert_near(shared, alone, tol(kernel.dtype, sum(shape)))
        assert same(shared, kernel.evaluated(tensors, options)) == []


@each_kernel
def test_a_sequence_does_not_depend_on_its_batch(kernel):
    shape = 31, 29, 65
    tensors = kernel.draw(shape, M=1)
    options = kernel.options_of(shape)
    whole, *ends = kernel.run(tensors, options)
    for b in (0, 7, 28):
        one = tensors | {"x": tensors["x"][:, b : b + 1]}
        one |= {name: tensors[name][b : b + 1] for name in kernel.record.states}
        h, *its_ends = kernel.run(one, options)
        assert torch.equal(h[:, 0], whole[:, b])
        for end, of_all in zip(its_ends, ends, strict=True):
            assert torch.equal(end[0], of_all[b])
