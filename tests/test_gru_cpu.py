"""The compiled kernels of the gated recurrence agree with the reference."""

import itertools

import pytest
import torch

from cases import NONLINEARITIES
from eigenrnn.init import haar_
from eigenrnn.linalg import tol
from eigenrnn.ops import compiled, gru
from eigenrnn.ops.gru import BACKENDS, GRUOperands, GRUOptions
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

NAMES = ("x", "W", "h0", "bias", "recurrent_bias", "U", "c")
# (reset after the candidate's matrix, update keeps the state)
FORMS = {
    "torch": (True, True),
    "nc-gru": (False, False),
    "nc-gru-tensorflow": (False, True),
    "after-replaces": (True, False),
}
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

each_form = pytest.mark.parametrize("form", FORMS)
each_order = pytest.mark.parametrize("form", ["torch", "nc-gru"])
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
each_nonlinearity = pytest.mark.parametrize("case", NONLINEARITIES)
each_map_full_or_ragged = pytest.mark.parametrize(
    ("M", "ragged"), [(None, True), (1, False)], ids=["no map", "one channel"]
)
# modReLU is discontinuous. Some float32 numbers are so close to its jump that rounding moves them
# across, also in the reference; in float64 none are
each_smoothness = pytest.mark.parametrize(
    ("case", "dtype"),
    [("tanh", torch.float32), ("modrelu", torch.float64)],
    ids=["tanh", "modrelu"],
)


@pytest.fixture
def spy(monkeypatch):
    spy = SpiedKernels("gru")
    monkeypatch.setattr(compiled, "kernels", spy)
    return spy


def operands(shape, form="torch", case="tanh", dtype=torch.float32, *, M=None, seed=0):
    """Return all tensors of a form and a nonlinearity; None for unused ones."""
    T, B, N = shape
    generator = torch.Generator().manual_seed(seed)

    def normal(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    def orthogonal():
        return haar_(torch.empty(N, N, dtype=torch.float64), generator=generator)

    tensors = [
        normal(T, B, 3 * N if M is None else M),
        torch.cat([orthogonal() for _ in range(3)]),
        normal(B, N),
        normal(N) / 2 if NONLINEARITIES[case][1] else None,
        normal(N) if FORMS[form][0] else None,
        None if M is None else normal(3 * N, M) / max(1, M) ** 0.5,
        None if M is None else normal(3 * N) / 2,
    ]
    return [None if v is None else v.to(dtype) for v in tensors]


def options_of(form, case, shape, *, reverse=False, ragged=False):
    T, B, _ = shape
    sizes = ragged_sizes(T, B) if ragged else None
    return NONLINEARITIES[case][0], *FORMS[form], sizes, reverse


def weights_like(tensor, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.dtype)


def leaves_of(tensors):
    return [None if v is None else v.detach().requires_grad_() for v in tensors]


def evaluated(backend, tensors, options):
    """Return all states, the last states and the gradients of all tensors, by name."""
    leaves = leaves_of(tensors)
    h, last = backend.run(GRUOperands(*leaves), GRUOptions(*options))
    present = {name: v for name, v in zip(NAMES, leaves, strict=True) if v is not None}
    weights = weights_like(h, 7), weights_like(last, 8)
    found = torch.autograd.grad((h, last), tuple(present.values()), weights)
    values = {"h": h.detach(), "last": last.detach()}
    return values | dict(zip((f"d{name}" for name in present), found, strict=True))


def assert_equals_reference(tensors, options):
    got = evaluated(BACKENDS["cpu"], tensors, options)
    exact = [None if v is None else v.double() for v in tensors]
    T, _, N = got["h"].shape
    # rounding errors accumulate over T steps, each with a sum over N
    bound = tol(tensors[1].dtype, T + N)
    assert_near(got, evaluated(BACKENDS["reference"], exact, options), bound)


# --------------------------------------------------------------- comparison with the reference


@each_dtype
@each_order
@each_nonlinearity
def test_a_kernel_gives_the_values_and_gradients_of_the_reference(case, form, dtype):
    shape = 9, 5, 33
    tensors = operands(shape, form, case, dtype, M=3)
    assert_equals_reference(tensors, options_of(form, case, shape))


@each_pass
@each_form
@each_smoothness
def test_values_and_gradients_are_right_for_all_options(case, dtype, form, M, reverse, ragged):
    shape = 9, 5, 33
    tensors = operands(shape, form, case, dtype, M=M)
    options = options_of(form, case, shape, reverse=reverse, ragged=ragged)
    assert_equals_reference(tensors, options)


@each_map_full_or_ragged
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@each_order
@each_smoothness
def test_a_kernel_agrees_at_odd_sizes(case, dtype, form, shape, M, ragged):
    tensors = operands(shape, form, case, dtype, M=M)
    assert_equals_reference(tensors, options_of(form, case, shape, ragged=ragged))


@pytest.mark.parametrize("missing", ["h0 is a number", "no c", "no recurrent bias"])
@each_map
def test_a_kernel_agrees_without_the_optional_tensors(M, missing):
    shape = 5, 3, 17
    tensors = dict(zip(NAMES, operands(shape, dtype=torch.float64, M=M), strict=True))
    if missing == "h0 is a number":
        tensors["h0"] = torch.full((1, 1), 0.5, dtype=torch.float64).expand(3, 17)
    else:
        tensors["c" if missing == "no c" else "recurrent_bias"] = None
    assert_equals_reference(list(tensors.values()), options_of("torch", "tanh", shape))


@each_map
@each_order
def test_sixteen_bit_inputs_are_summed_in_float32(form, M):
    shape = 63, 3, 33
    tensors = operands(shape, form, dtype=torch.bfloat16, M=M)
    options = options_of(form, "tanh", shape)
    got = evaluated(BACKENDS["cpu"], tensors, options)
    assert all(found.dtype == torch.bfloat16 for found in got.values())
    exact = [None if v is None else v.double() for v in tensors]
    # each result is rounded once, for any number of steps
    assert_near(
        got, evaluated(BACKENDS["reference"], exact, options), torch.finfo(torch.bfloat16).eps
    )


@pytest.mark.parametrize("sizes", [[3, 2, 2, 0], [3, 0, 0, 0], [3, 3, 3, 0]], ids=str)
@each_direction
@each_order
def test_steps_at_which_no_sequence_runs_give_zeros(form, reverse, sizes):
    tensors = operands((4, 3, 2), form, dtype=torch.float64, M=2)
    assert_equals_reference(tensors, ("tanh", *FORMS[form], sizes, reverse))


@each_map
@each_order
def test_an_empty_batch_gives_empty_states_and_no_gradient(form, M):
    tensors = operands((4, 0, 3), form, M=M)
    got = evaluated(BACKENDS["cpu"], tensors, options_of(form, "tanh", (4, 0, 3)))
    assert got["h"].shape == (4, 0, 3)
    assert not any(found.any() for found in got.values())


@each_order
def test_zero_channels_are_supported(form):
    shape = 4, 2, 3
    assert_equals_reference(operands(shape, form, M=0), options_of(form, "tanh", shape))


@pytest.mark.parametrize(
    ("value", "M"), [(torch.nan, None), (torch.inf, 1), (-torch.inf, 3), (torch.nan, 37)], ids=str
)
@each_order
def test_non_finite_values_spread_as_in_the_reference(form, M, value):
    shape = 4, 3, 5
    tensors = operands(shape, form, "relu", M=M)
    tensors[0][1, 2, 0] = value
    options = options_of(form, "relu", shape)
    (h, last), expected = (
        b.run(GRUOperands(*tensors), GRUOptions(*options))
        for b in (BACKENDS["cpu"], BACKENDS["reference"])
    )
    assert h[:, :2].isfinite().all()
    bound = tol(h.dtype, sum(shape))
    torch.testing.assert_close((h, last), expected, rtol=bound, atol=bound, equal_nan=True)


# ------------------------------------------------------------------------------------- strides


def batch_first(tensor):
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def every_second(tensor):
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


LAYOUTS = {
    "batch first": {"x": batch_first},
    "gaps": {"x": lambda x: torch.nn.functional.pad(x, (0, 0, 0, 3, 0, 2))[:-2, :-3]},
    "transposed matrices": {"W": lambda W: W.T.contiguous().T, "U": lambda U: U.T.contiguous().T},
    "expanded": {"x": lambda x: x[:1].expand_as(x), "h0": lambda h0: h0[:1].expand_as(h0)},
    "every second": dict.fromkeys(NAMES, every_second),
}


@pytest.mark.parametrize("M", [None, 3], ids=["no map", "three channels"])
@each_order
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_strides_do_not_change_the_results(layout, form, M):
    shape = 5, 3, 19
    tensors = [
        v if v is None else layout.get(name, torch.clone)(v)
        for name, v in zip(
            NAMES, operands(shape, form, "modrelu", torch.float64, M=M), strict=True
        )
    ]
    assert_equals_reference(tensors, options_of(form, "modrelu", shape))


def test_batch_first_tensors_are_read_and_written_without_copies(spy):
    x, *others = operands((5, 3, 16))
    x = batch_first(x).requires_grad_()
    h, _ = BACKENDS["cpu"].run(
        GRUOperands(x, *others), GRUOptions(*options_of("torch", "tanh", (5, 3, 16)))
    )
    assert spy.call["x"] == (x.data_ptr(), *x.stride()[:2])
    assert h.transpose(0, 1).is_contiguous()
    g = batch_first(weights_like(h, 7))
    dx = torch.autograd.grad(h, x, g)[0]
    assert spy.gradients["dh"] == (g.data_ptr(), *g.stride()[:2])
    assert dx.stride() == x.stride()


# ---------------------------------------------------------------------- requested results only


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("M", [None, 2], ids=["no map", "two channels"])
@each_order
def test_only_the_requested_gradients_are_computed(spy, form, M, size):
    shape = 5, 3, 7
    options = options_of(form, "modrelu", shape)
    tensors = dict(zip(NAMES, operands(shape, form, "modrelu", M=M), strict=True))
    whole = evaluated(BACKENDS["cpu"], tensors.values(), options)
    for requested in itertools.combinations(
        [n for n, v in tensors.items() if v is not None], size
    ):
        leaves = {
            name: v if v is None else v.clone().requires_grad_(name in requested)
            for name, v in tensors.items()
        }
        h, last = BACKENDS["cpu"].run(GRUOperands(*leaves.values()), GRUOptions(*options))
        weights = weights_like(h, 7), weights_like(last, 8)
        found = torch.autograd.grad((h, last), [leaves[name] for name in requested], weights)
        for name, gradient in zip(requested, found, strict=True):
            assert torch.equal(gradient, whole[f"d{name}"])
        assert {n for n in NAMES if f"d{n}" in spy.gradients} == set(requested)


@each_raggedness
@each_direction
@each_order
def test_a_loss_on_the_last_states_allocates_no_gradient_of_all_states(
    spy, monkeypatch, form, reverse, ragged
):
    shape = T, _, N = 9, 5, 19
    leaves = leaves_of(operands(shape, form, dtype=torch.float64, M=3))
    leaves[0].requires_grad_(False)
    options = options_of(form, "tanh", shape, reverse=reverse, ragged=ragged)
    _, last = BACKENDS["cpu"].run(GRUOperands(*leaves), GRUOptions(*options))
    buffers = []
    new_empty = torch.Tensor.new_empty

    def counted(*arguments, **keywords):
        buffers.append(new_empty(*arguments, **keywords))
        return buffers[-1]

    monkeypatch.setattr(torch.Tensor, "new_empty", counted)
    requested = [leaf for leaf in leaves[1:] if leaf is not None]
    got = torch.autograd.grad(last, requested, weights_like(last, 8))
    assert "dh" not in spy.gradients
    assert sum(buffer.numel() for buffer in buffers) == sum(leaf.numel() for leaf in requested)
    _, expected = BACKENDS["reference"].run(GRUOperands(*leaves), GRUOptions(*options))
    other = torch.autograd.grad(expected, requested, weights_like(last, 8))
    torch.testing.assert_close(got, other, rtol=0, atol=tol(last.dtype, T * N))


@each_raggedness
@each_direction
@each_order
def test_without_gradients_nothing_is_saved(spy, form, reverse, ragged):
    shape = 9, 5, 19
    leaves = leaves_of(operands(shape, form, M=3))
    options = options_of(form, "tanh", shape, reverse=reverse, ragged=ragged)
    h, last = BACKENDS["cpu"].run(GRUOperands(*leaves), GRUOptions(*options))
    assert "saved" in spy.call
    with torch.no_grad():
        plain = BACKENDS["cpu"].run(GRUOperands(*leaves), GRUOptions(*options))
        assert "saved" not in spy.call
        none, alone = BACKENDS["cpu"].run(
            GRUOperands(*leaves), GRUOptions(*options, last_only=True)
        )
        assert "h" not in spy.call
    assert none.numel() == 0
    assert torch.equal(plain[0], h)
    assert torch.equal(plain[1], last)
    assert torch.equal(alone, last)


# -------------------------------------------------------------------------- second derivatives


@pytest.mark.parametrize(
    ("M", "reverse", "ragged"),
    [(None, True, False), (2, False, False), (2, True, True)],
    ids=["no map, reverse", "two channels", "two channels, reverse, ragged"],
)
@each_form
def test_gradients_have_the_gradients_of_the_definition(form, M, reverse, ragged):
    shape = 4, 3, 5
    options = options_of(form, "tanh", shape, reverse=reverse, ragged=ragged)

    def second(backend):
        leaves = leaves_of(operands(shape, form, dtype=torch.float64, M=M))
        present = [leaf for leaf in leaves if leaf is not None]
        h, last = backend.run(GRUOperands(*leaves), GRUOptions(*options))
        loss = (h * weights_like(h, 7)).sum() + (last**3 * weights_like(last, 8)).sum()
        first = torch.autograd.grad(loss, present, create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), present)

    expected = second(BACKENDS["reference"])
    torch.testing.assert_close(second(BACKENDS["cpu"]), expected, rtol=1e-9, atol=1e-9)


# ----------------------------------------------------------------------------- reproducibility


@each_map_full_or_ragged
@each_order
@pytest.mark.parametrize(  # the last shares units
    "shape", [(31, 1, 65), (31, 13, 65), (5, 40, 33), (17, 1, 213)], ids=str
)
def test_states_and_gradients_of_inputs_do_not_depend_on_the_number_of_threads(
    threads, shape, form, M, ragged
):
    tensors = operands(shape, form, "modrelu", M=M)
    options = options_of(form, "modrelu", shape, ragged=ragged)
    threads(1)
    alone = evaluated(BACKENDS["cpu"], tensors, options)
    for number in (2, 3, 5):
        threads(number)
        shared = evaluated(BACKENDS["cpu"], tensors, options)
        assert same({n: alone[n] for n in ("h", "last", "dx", "dh0")}, shared) == []
        assert_near(shared, alone, tol(torch.float32, sum(shape)))
        assert same(shared, evaluated(BACKENDS["cpu"], tensors, options)) == []


@each_order
def test_a_sequence_does_not_depend_on_its_batch(form):
    shape = 31, 29, 65
    x, W, h0, *others = operands(shape, form, "modrelu", M=1)
    options = options_of(form, "modrelu", shape)
    whole, last = BACKENDS["cpu"].run(GRUOperands(x, W, h0, *others), GRUOptions(*options))
    for b in (0, 7, 28):
        h, end = BACKENDS["cpu"].run(
            GRUOperands(x[:, b : b + 1], W, h0[b : b + 1], *others), GRUOptions(*options)
        )
        assert torch.equal(h[:, 0], whole[:, b])
        assert torch.equal(end[0], last[b])


# ---------------------------------------------------------------------------- instruction sets


@each_isa
def test_every_instruction_set_passes_the_tests(isa):
    chosen = "odd_sizes or values_and_gradients or threads"
    assert_passes_with_isa(isa, __file__, "-k", chosen)


@pytest.mark.parametrize("shape", [(784, 1, 31), (784, 3, 2), (300, 2, 190)], ids=str)
@each_order
def test_a_long_sequence_fills_the_ring_of_deltas_several_times(shape, form):
    reset_after, update_keeps = FORMS[form]
    T, B, N = shape
    generator = torch.Generator().manual_seed(0)

    def normal(*sizes):
        drawn = torch.randn(sizes, generator=generator, dtype=torch.float64) / sizes[-1] ** 0.5
        return drawn.requires_grad_()

    x, W, h0 = normal(T, B, 3 * N), normal(3 * N, N), normal(B, N)
    g = torch.randn(T, B, N, generator=generator, dtype=torch.float64)
    found = []
    for backend in ("cpu", "loop"):
        options = {"reset_after": reset_after, "update_keeps": update_keeps}
        h, _ = gru(x, W, h0, nonlinearity="tanh", backend=backend, **options)
        found.append([h.detach(), *torch.autograd.grad(h, [x, W, h0], g)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
