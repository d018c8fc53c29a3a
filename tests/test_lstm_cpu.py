"""The compiled kernels of the LSTM agree with the reference."""

import itertools

import pytest
import torch

from eigenrnn.init import haar_
from eigenrnn.linalg import tol
from eigenrnn.ops import compiled
from eigenrnn.ops.lstm import BACKENDS, LSTMOperands, LSTMOptions
from kernel_testing import (
    SpiedKernels,
    assert_near,
    assert_passes_with_isa,
    each_direction,
    each_isa,
    each_map,
    each_pass,
    each_raggedness,
    needs_kernels,
    ragged_sizes,
    same,
)

pytestmark = [
    pytest.mark.usefixtures("fresh_memory_is_poisoned"),
    needs_kernels,
    pytest.mark.pairs,
]

CPU, REFERENCE = BACKENDS["cpu"], BACKENDS["reference"]
NAMES = LSTMOperands._fields
RESULTS = ("h", "last", "cell")
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

each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
each_map_full_or_ragged = pytest.mark.parametrize(
    ("M", "ragged"), [(None, True), (1, False)], ids=["no map", "one channel"]
)


@pytest.fixture
def spy(monkeypatch):
    spy = SpiedKernels("lstm")
    monkeypatch.setattr(compiled, "kernels", spy)
    return spy


def operands(shape, dtype=torch.float32, *, M=None, seed=0):
    """Return all tensors; None for unused ones."""
    T, B, N = shape
    generator = torch.Generator().manual_seed(seed)

    def normal(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    def orthogonal():
        return haar_(torch.empty(N, N, dtype=torch.float64), generator=generator)

    tensors = LSTMOperands(
        normal(T, B, 4 * N if M is None else M),
        torch.cat([orthogonal() for _ in range(4)]),
        normal(B, N),
        normal(B, N),
        None if M is None else normal(4 * N, M) / max(1, M) ** 0.5,
        None if M is None else normal(4 * N) / 2,
    )
    return LSTMOperands(*(None if v is None else v.to(dtype) for v in tensors))


def options_of(shape, *, reverse=False, ragged=False):
    return LSTMOptions(ragged_sizes(*shape[:2]) if ragged else None, reverse)


def weights_like(tensor, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.dtype)


def weights_of(results):
    return [weights_like(each, seed) for seed, each in enumerate(results, start=7)]


def leaves_of(tensors):
    return LSTMOperands(*(None if v is None else v.detach().requires_grad_() for v in tensors))


def evaluated(backend, tensors, options):
    """Return all states, the last states and cells, and the gradients of all tensors, by name."""
    leaves = leaves_of(tensors)
    results = backend.run(leaves, options)
    present = {name: v for name, v in leaves._asdict().items() if v is not None}
    found = torch.autograd.grad(results, tuple(present.values()), weights_of(results))
    values = dict(zip(RESULTS, (each.detach() for each in results), strict=True))
    return values | dict(zip((f"d{name}" for name in present), found, strict=True))


def exact(tensors):
    return [None if v is None else v.double() for v in tensors]


def assert_equals_reference(tensors, options):
    got = evaluated(CPU, tensors, options)
    T, _, N = got["h"].shape
    # rounding errors accumulate over T steps, each with a sum over N
    bound = tol(tensors[1].dtype, T + N)
    assert_near(got, evaluated(REFERENCE, exact(tensors), options), bound)


# --------------------------------------------------------------- comparison with the reference


@each_pass
@each_dtype
def test_a_kernel_gives_the_values_and_gradients_of_the_reference(dtype, M, reverse, ragged):
    shape = 9, 5, 33
    options = options_of(shape, reverse=reverse, ragged=ragged)
    assert_equals_reference(operands(shape, dtype, M=M), options)


@each_map_full_or_ragged
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@each_dtype
def test_a_kernel_agrees_at_odd_sizes(dtype, shape, M, ragged):
    assert_equals_reference(operands(shape, dtype, M=M), options_of(shape, ragged=ragged))


@pytest.mark.parametrize("missing", ["h0 is a number", "c0 is a number", "no c"])
@each_map
def test_a_kernel_agrees_without_the_optional_tensors(M, missing):
    shape = 5, 3, 17
    tensors = operands(shape, torch.float64, M=M)
    number = torch.full((1, 1), 0.5, dtype=torch.float64).expand(3, 17)
    changes = {"h0 is a number": {"h0": number}, "c0 is a number": {"c0": number}}
    tensors = tensors._replace(**changes.get(missing, {"c": None}))
    assert_equals_reference(tensors, options_of(shape))


@each_map
def test_sixteen_bit_inputs_are_summed_in_float32(M):
    shape = 63, 3, 33
    tensors = operands(shape, torch.bfloat16, M=M)
    got = evaluated(CPU, tensors, options_of(shape))
    assert all(found.dtype == torch.bfloat16 for found in got.values())
    expected = evaluated(REFERENCE, exact(tensors), options_of(shape))
    # each result is rounded once, for any number of steps
    assert_near(got, expected, torch.finfo(torch.bfloat16).eps)


@pytest.mark.parametrize("sizes", [[3, 2, 2, 0], [3, 0, 0, 0], [3, 3, 3, 0]], ids=str)
@each_direction
def test_steps_at_which_no_sequence_runs_give_zeros(reverse, sizes):
    tensors = operands((4, 3, 2), torch.float64, M=2)
    assert_equals_reference(tensors, LSTMOptions(sizes, reverse))


@each_map
def test_an_empty_batch_gives_empty_states_and_no_gradient(M):
    got = evaluated(CPU, operands((4, 0, 3), M=M), LSTMOptions())
    assert got["h"].shape == (4, 0, 3)
    assert not any(found.any() for found in got.values())


def test_zero_channels_are_supported():
    assert_equals_reference(operands((4, 2, 3), M=0), LSTMOptions())


@pytest.mark.parametrize(
    ("value", "M"), [(torch.nan, None), (torch.inf, 1), (-torch.inf, 3), (torch.nan, 37)], ids=str
)
def test_non_finite_values_spread_as_in_the_reference(M, value):
    shape = 4, 3, 5
    tensors = operands(shape, M=M)
    tensors.x[1, 2, 0] = value
    got, expected = (b.run(tensors, LSTMOptions()) for b in (CPU, REFERENCE))
    assert got[0][:, :2].isfinite().all()
    bound = tol(torch.float32, sum(shape))
    torch.testing.assert_close(got, expected, rtol=bound, atol=bound, equal_nan=True)


def test_large_cells_saturate_without_overflow():
    shape = 4, 3, 5
    tensors = operands(shape)
    tensors = tensors._replace(x=1e4 * tensors.x, c0=1e30 * tensors.c0)
    got = evaluated(CPU, tensors, LSTMOptions())
    assert all(found.isfinite().all() for found in got.values())


# ------------------------------------------------------------------------------------- strides


def batch_first(tensor):
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def every_second(tensor):
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


LAYOUTS = {
    "batch first": {"x": batch_first},
    "gaps": {"x": lambda x: torch.nn.functional.pad(x, (0, 0, 0, 3, 0, 2))[:-2, :-3]},
    "transposed matrices": {"W": lambda W: W.T.contiguous().T, "U": lambda U: U.T.contiguous().T},
    "expanded": {name: lambda v: v[:1].expand_as(v) for name in ("x", "h0", "c0")},
    "halves of one state": dict.fromkeys(("h0", "c0"), lambda v: torch.cat([v, v], 1)[:, :19]),
    "every second": dict.fromkeys(NAMES, every_second),
}


@pytest.mark.parametrize("M", [None, 3], ids=["no map", "three channels"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_strides_do_not_change_the_results(layout, M):
    shape = 5, 3, 19
    tensors = LSTMOperands(
        *(
            v if v is None else layout.get(name, torch.clone)(v)
            for name, v in operands(shape, torch.float64, M=M)._asdict().items()
        )
    )
    assert_equals_reference(tensors, options_of(shape))


def test_batch_first_tensors_are_read_and_written_without_copies(spy):
    tensors = operands((5, 3, 16))
    x = batch_first(tensors.x).requires_grad_()
    h, *_ = CPU.run(tensors._replace(x=x), LSTMOptions())
    assert spy.call["x"] == (x.data_ptr(), *x.stride()[:2])
    assert h.transpose(0, 1).is_contiguous()
    g = batch_first(weights_like(h, 7))
    dx = torch.autograd.grad(h, x, g)[0]
    assert spy.gradients["dh"] == (g.data_ptr(), *g.stride()[:2])
    assert dx.stride() == x.stride()


# ---------------------------------------------------------------------- requested results only


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("M", [None, 2], ids=["no map", "two channels"])
def test_only_the_requested_gradients_are_computed(spy, M, size):
    shape = 5, 3, 7
    tensors = operands(shape, M=M)
    whole = evaluated(CPU, tensors, LSTMOptions())
    present = [name for name, v in tensors._asdict().items() if v is not None]
    for requested in itertools.combinations(present, size):
        leaves = {
            name: v if v is None else v.clone().requires_grad_(name in requested)
            for name, v in tensors._asdict().items()
        }
        results = CPU.run(LSTMOperands(**leaves), LSTMOptions())
        chosen = [leaves[name] for name in requested]
        found = torch.autograd.grad(results, chosen, weights_of(results))
        for name, gradient in zip(requested, found, strict=True):
            assert torch.equal(gradient, whole[f"d{name}"])
        assert {n for n in NAMES if f"d{n}" in spy.gradients} == set(requested)


@pytest.mark.parametrize("result", [1, 2], ids=["last states", "last cells"])
@each_raggedness
@each_direction
def test_a_loss_on_the_end_allocates_no_gradient_of_all_states(
    spy, monkeypatch, reverse, ragged, result
):
    shape = T, _, N = 9, 5, 19
    leaves = leaves_of(operands(shape, torch.float64, M=3))
    leaves.x.requires_grad_(False)
    options = options_of(shape, reverse=reverse, ragged=ragged)
    end = CPU.run(leaves, options)[result]
    buffers = []
    new_empty = torch.Tensor.new_empty

    def counted(*arguments, **keywords):
        buffers.append(new_empty(*arguments, **keywords))
        return buffers[-1]

    monkeypatch.setattr(torch.Tensor, "new_empty", counted)
    requested = leaves[1:]
    got = torch.autograd.grad(end, requested, weights_like(end, 8))
    assert "dh" not in spy.gradients
    assert sum(buffer.numel() for buffer in buffers) == sum(leaf.numel() for leaf in requested)
    expected = REFERENCE.run(leaves, options)[result]
    other = torch.autograd.grad(expected, requested, weights_like(end, 8))
    torch.testing.assert_close(got, other, rtol=0, atol=tol(end.dtype, T * N))


@each_raggedness
@each_direction
def test_without_gradients_nothing_is_saved(spy, reverse, ragged):
    shape = 9, 5, 19
    leaves = leaves_of(operands(shape, M=3))
    options = options_of(shape, reverse=reverse, ragged=ragged)
    results = CPU.run(leaves, options)
    assert "saved" in spy.call
    with torch.no_grad():
        plain = CPU.run(leaves, options)
        assert "saved" not in spy.call
        none, *ends = CPU.run(leaves, options._replace(last_only=True))
        assert "h" not in spy.call
    assert none.numel() == 0
    assert all(map(torch.equal, plain, results))
    assert all(map(torch.equal, ends, results[1:]))


# -------------------------------------------------------------------------- second derivatives


@each_raggedness
@each_direction
@pytest.mark.parametrize("M", [None, 2], ids=["no map", "two channels"])
def test_gradients_have_the_gradients_of_the_definition(M, reverse, ragged):
    shape = 4, 3, 5
    options = options_of(shape, reverse=reverse, ragged=ragged)

    def second(backend):
        leaves = leaves_of(operands(shape, torch.float64, M=M))
        present = [leaf for leaf in leaves if leaf is not None]
        results = backend.run(leaves, options)
        loss = sum((v**3 * w).sum() for v, w in zip(results, weights_of(results), strict=True))
        first = torch.autograd.grad(loss, present, create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), present)

    torch.testing.assert_close(second(CPU), second(REFERENCE), rtol=1e-9, atol=1e-9)


# ----------------------------------------------------------------------------- reproducibility


@each_map_full_or_ragged
@pytest.mark.parametrize(  # the last shares units
    "shape", [(31, 1, 65), (31, 13, 65), (5, 40, 33), (17, 1, 185)], ids=str
)
def test_states_and_gradients_of_inputs_do_not_depend_on_the_number_of_threads(
    threads, shape, M, ragged
):
    tensors, options = operands(shape, M=M), options_of(shape, ragged=ragged)
    threads(1)
    alone = evaluated(CPU, tensors, options)
    for number in (2, 3, 5):
        threads(number)
        shared = evaluated(CPU, tensors, options)
        assert same({n: alone[n] for n in (*RESULTS, "dx", "dh0", "dc0")}, shared) == []
        assert_near(shared, alone, tol(torch.float32, sum(shape)))
        assert same(shared, evaluated(CPU, tensors, options)) == []


def test_a_sequence_does_not_depend_on_its_batch():
    shape = 31, 29, 65
    tensors = operands(shape, M=1)
    whole, last, cell = CPU.run(tensors, LSTMOptions())
    for b in (0, 7, 28):
        rows = {"h0": tensors.h0[b : b + 1], "c0": tensors.c0[b : b + 1]}
        one = tensors._replace(x=tensors.x[:, b : b + 1], **rows)
        h, end, end_cell = CPU.run(one, LSTMOptions())
        assert torch.equal(h[:, 0], whole[:, b])
        assert torch.equal(end[0], last[b])
        assert torch.equal(end_cell[0], cell[b])


# ---------------------------------------------------------------------------- instruction sets


@each_isa
def test_every_instruction_set_passes_the_tests(isa):
    chosen = "odd_sizes or values_and_gradients or threads"
    assert_passes_with_isa(isa, __file__, "-k", chosen)


@pytest.mark.parametrize("shape", [(784, 1, 31), (784, 3, 2), (300, 2, 190)], ids=str)
def test_a_long_sequence_fills_the_ring_of_deltas_several_times(shape):
    T, B, N = shape
    generator = torch.Generator().manual_seed(0)

    def normal(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64) / sizes[-1] ** 0.5

    tensors = LSTMOperands(normal(T, B, 4 * N), normal(4 * N, N), normal(B, N), normal(B, N))
    got, expected = (
        evaluated(BACKENDS[name], tensors, LSTMOptions()) for name in ("cpu", "reference")
    )
    assert_near(got, expected, 1e-9)
