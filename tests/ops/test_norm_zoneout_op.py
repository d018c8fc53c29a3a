"""LayerNorm and zoneout in the recurrences, compared with NumPy and between backends."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit as sigmoid
from states import elman, gru
from test_elman import assert_near, normal, operands, ragged_sizes, weights_like
from torch.utils._python_dispatch import TorchDispatchMode

from eigenrnn import GRU, RNN
from eigenrnn.ops import explain
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.dispatch import Call
from eigenrnn.ops.elman import BACKENDS, ElmanOperands
from kernel_testing import each_direction, each_raggedness, needs_kernels

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]

T, B, N = 7, 3, 4
RATE = 0.3

each_zoneout = pytest.mark.parametrize("kind", ["none", "mask", "rate"])
each_norm = pytest.mark.parametrize("normed", [False, True], ids=["plain", "norm"])
each_backend = pytest.mark.parametrize(
    "backend", ["loop", pytest.param("cpu", marks=needs_kernels)]
)

# all combinations but neither
OPERATORS = {"loop": "elman_loop", "cpu": "elman_cpu_norm_zoneout"}
each_option = pytest.mark.parametrize(
    ("kind", "normed"),
    [("mask", False), ("rate", False), ("none", True), ("mask", True), ("rate", True)],
)


def zoneout_of(kind, shape=(T, B, N)):
    generator = torch.Generator().manual_seed(3)
    mask = torch.rand(shape, generator=generator) < RATE
    return {"none": None, "mask": mask, "rate": RATE}[kind]


def norm_of(normed, width=N, dtype=torch.float64):
    generator = torch.Generator().manual_seed(4)
    pair = 1 + normal(generator, (width,), dtype) / 2, normal(generator, (width,), dtype)
    return pair if normed else ()


def options_of(kind, shape=(T, B, N), *, reverse=False, ragged=False):
    return {
        "zoneout": zoneout_of(kind, shape),
        "reverse": reverse,
        "batch_sizes": ragged_sizes(*shape[:2]) if ragged else None,
    }


def run_elman(tensors, norm, **options):
    return elman(*tensors, layer_norm=tuple(norm) or None, **options)


def layer_norm(z, gain, shift):
    centred = z - z.sum() / z.size
    return gain * centred / np.sqrt((centred**2).sum() / z.size + 1e-5) + shift


def zone_out(h, moved, zoneout, t, b):
    if zoneout is None:
        return moved
    keeps = zoneout[t, b].numpy().astype(float) if torch.is_tensor(zoneout) else zoneout
    return keeps * h + (1 - keeps) * moved


def in_numpy(cell, h0, options):
    """Run each sequence separately."""
    states = np.zeros((T, B, N))
    sizes = options["batch_sizes"] or [B] * T
    for b in range(B):
        length = sum(size > b for size in sizes)
        h = h0[b]
        for t in reversed(range(length)) if options["reverse"] else range(length):
            h = zone_out(h, cell(t, b, h), options["zoneout"], t, b)
            states[t, b] = h
    return torch.as_tensor(states)


@each_raggedness
@each_direction
@each_norm
@each_zoneout
def test_the_elman_recurrence_agrees_with_its_formula(kind, normed, reverse, ragged):
    x, W, h0 = (t.detach() for t in operands(T, B, N))
    norm, options = norm_of(normed), options_of(kind, reverse=reverse, ragged=ragged)

    def cell(t, b, h):
        z = x[t, b].numpy() + W.numpy() @ h
        return np.tanh(layer_norm(z, *(v.numpy() for v in norm)) if normed else z)

    expected = in_numpy(cell, h0.numpy(), options)
    got = run_elman((x, W, h0), norm, backend="reference", **options)
    assert_near([got], [expected], torch.float64, T * N)


@each_raggedness
@each_direction
@pytest.mark.parametrize("update_keeps", [False, True], ids=["replaces", "keeps"])
@pytest.mark.parametrize("reset_after", [False, True], ids=["before", "after"])
@each_norm
@each_zoneout
def test_the_gated_recurrence_agrees_with_its_formula(
    kind, normed, reset_after, update_keeps, reverse, ragged
):
    generator = torch.Generator().manual_seed(0)
    x, W, h0 = (normal(generator, s, torch.float64) for s in ((T, B, 3 * N), (3 * N, N), (B, N)))
    b_c = normal(generator, (N,), torch.float64) if reset_after else None
    norm, options = norm_of(normed, 3 * N), options_of(kind, reverse=reverse, ragged=ragged)
    W_r, W_u, W_c = W.numpy().reshape(3, N, N)
    norms = [v.numpy().reshape(3, N) for v in norm]

    def normed_gate(z, gate):
        return layer_norm(z, *(v[gate] for v in norms)) if normed else z

    def cell(t, b, h):
        x_r, x_u, x_c = x[t, b].numpy().reshape(3, N)
        r = sigmoid(normed_gate(x_r + W_r @ h, 0))
        u = sigmoid(normed_gate(x_u + W_u @ h, 1))
        q = r * (W_c @ h + b_c.numpy()) if reset_after else W_c @ (r * h)
        c = np.tanh(normed_gate(x_c + q, 2))
        return u * h + (1 - u) * c if update_keeps else (1 - u) * h + u * c

    got = gru(
        x,
        W,
        h0,
        recurrent_bias=b_c,
        reset_after=reset_after,
        update_keeps=update_keeps,
        layer_norm=norm or None,
        **options,
    )
    assert_near([got], [in_numpy(cell, h0.numpy(), options)], torch.float64, T * N)


def test_the_norm_is_that_of_torch():
    x, W, h0 = operands(1, B, N)
    norm = torch.nn.LayerNorm(N, dtype=torch.float64)
    torch.nn.init.normal_(norm.weight, generator=torch.Generator().manual_seed(1))
    got = run_elman((x, W, h0), (norm.weight, norm.bias), nonlinearity="identity")
    assert_near([got[0].detach()], [norm(x[0] + h0 @ W.T).detach()], torch.float64, N)


def test_a_rate_is_the_mean_over_the_masks_of_a_step():
    tensors = [t.detach() for t in operands(1, 1, 2)]
    expected = 0.0
    for keeps in itertools.product([False, True], repeat=2):
        chance = np.prod([RATE if each else 1 - RATE for each in keeps])
        expected = expected + chance * elman(*tensors, zoneout=torch.tensor([[keeps]]))
    assert_near([elman(*tensors, zoneout=RATE)], [expected], torch.float64, 2)


@pytest.mark.parametrize(
    "backend", [name for name, backend in BACKENDS.items() if "zoneout" in backend.features]
)
def test_a_unit_that_always_keeps_its_state_ignores_its_input(backend):
    x, W, h0 = operands(T, B, N)
    mask = torch.zeros(T, B, N, dtype=torch.bool)
    mask[..., 0] = True
    h = elman(x, W, h0, zoneout=mask, backend=backend)
    assert torch.equal(h[..., 0], h0[:, 0].expand(T, B))
    of_x, of_W = torch.autograd.grad(h.sum(), (x, W))
    assert not of_x[..., 0].any()
    assert not of_W[0].any()


@pytest.mark.parametrize("options", [{}, {"layer_norm": True}], ids=str)
@pytest.mark.parametrize("make", [RNN, GRU])
@pytest.mark.parametrize("training", [False, True], ids=["rate", "mask"])
@pytest.mark.parametrize("B", [1, 5])
def test_states_are_the_same_bits_for_any_number_of_threads(threads, B, training, make, options):
    layer, x = make(3, 400, zoneout=RATE, **options).train(training), torch.randn(20, B, 3)
    found = []
    for count in (1, 2, 3):
        threads(count)
        torch.manual_seed(1)  # of the masks in training
        with torch.no_grad():
            found.append(layer(x)[0])
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@each_option
def test_an_empty_batch_gives_an_empty_output_and_no_gradient(kind, normed):
    x, W, h0 = operands(T, 0, N)
    norm = [v.requires_grad_() for v in norm_of(normed)]
    h = run_elman((x, W, h0), norm, zoneout=zoneout_of(kind, (T, 0, N)))
    assert h.shape == (T, 0, N)
    assert not any(g.any() for g in torch.autograd.grad(h.sum(), (W, *norm)))


@pytest.mark.parametrize("needed", [*itertools.combinations(range(6), 2)], ids=str)
@each_backend
def test_only_the_requested_gradients_are_needed(backend, needed):
    tensors = [t.detach() for t in (*operands(T, B, N, bias=True), *norm_of(True))]
    requested = [tensors[k].requires_grad_() for k in needed]
    options = options_of("mask") | {"nonlinearity": "modrelu"}
    got, expected = (
        torch.autograd.grad(
            run_elman(tensors[:4], tensors[4:], backend=b, **options).sum(), requested
        )
        for b in (backend, "reference")
    )
    assert_near(got, expected, torch.float64, T * N)


@pytest.mark.parametrize("needed", [(3,), (4,), (0, 3), (1, 4)], ids=str)
@needs_kernels
def test_the_gated_kernels_compute_only_the_requested_gradients(needed):
    generator = torch.Generator().manual_seed(0)
    shapes = (T, B, 3 * N), (3 * N, N), (B, N)
    tensors = [normal(generator, shape, torch.float64) for shape in shapes]
    tensors += [v.detach() for v in norm_of(True, 3 * N)]
    requested = [tensors[k].requires_grad_() for k in needed]
    got, expected = (
        torch.autograd.grad(
            gru(*tensors[:3], layer_norm=tensors[3:], zoneout=RATE, backend=backend).sum(),
            requested,
        )
        for backend in ("cpu", "reference")
    )
    assert_near(got, expected, torch.float64, T * N)


@needs_kernels
def test_any_byte_of_a_mask_but_zero_is_true():
    x, W, h0 = (t.detach() for t in operands(T, B, N))
    mask = zoneout_of("mask")
    bytes_ = (mask.to(torch.uint8) * 2).view(torch.bool)
    assert torch.equal(
        elman(x, W, h0, zoneout=bytes_, backend="cpu"),
        elman(x, W, h0, zoneout=mask, backend="cpu"),
    )


def checked(kind, normed, reverse, ragged, backend):
    """Return a function of the leaves, and the leaves."""
    shape = (3, 2, 3)
    tensors = operands(*shape, bias=True)
    norm = [v.requires_grad_() for v in norm_of(normed, 3)]
    options = options_of(kind, shape, reverse=reverse, ragged=ragged)
    options |= {"nonlinearity": "modrelu", "backend": backend}
    return lambda *leaves: run_elman(leaves[:4], leaves[4:], **options), (*tensors, *norm)


@each_raggedness
@each_direction
@each_option
@each_backend
def test_first_and_second_derivatives_equal_finite_differences(
    backend, kind, normed, reverse, ragged
):
    run, leaves = checked(kind, normed, reverse, ragged, backend)
    assert torch.autograd.gradcheck(run, leaves)
    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


@each_option
def test_the_gated_recurrence_has_the_gradients_of_finite_differences(kind, normed):
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 2, 6), (6, 2), (2, 2))
    tensors = [normal(generator, s, torch.float64).requires_grad_() for s in shapes]
    norm = [v.requires_grad_() for v in norm_of(normed, 6)]
    zoneout = zoneout_of(kind, (3, 2, 2))
    assert torch.autograd.gradcheck(
        lambda x, W, h0, *norm: gru(x, W, h0, layer_norm=norm or None, zoneout=zoneout),
        (*tensors, *norm),
    )


@each_raggedness
@each_option
@each_backend
def test_the_operators_pass_opcheck(backend, kind, normed, ragged):
    x, W, h0, bias = operands(T, B, N, torch.float32, bias=True)
    gain, shift = norm_of(normed, dtype=torch.float32) or (None, None)
    zoneout = zoneout_of(kind)
    mask, rate = (zoneout, 0.0) if torch.is_tensor(zoneout) else (None, zoneout or 0.0)
    options = Options("modrelu", ragged_sizes(T, B) if ragged else None, rate=rate)
    leaves = ElmanOperands(x, W, h0, bias, gain=gain, shift=shift, mask=mask)
    there = getattr(torch.ops.eigenrnn, OPERATORS[backend]).default
    # tracing compares all results, and the kernels leave the padding of what they save as it was
    traced = ("test_aot_dispatch_dynamic",) if backend == "loop" else ()
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", *traced)
    torch.library.opcheck(there, (*leaves, *options, True), test_utils=checks)
    tensors = [v if v is None else v.detach() for v in leaves]
    h, *saved = there(*tensors, *options, True)
    needed = [v is not None and v.is_floating_point() for v in tensors]
    # the results are the states, the last ones, outputs of the kernels, and what was saved
    saved = saved[{"loop": 1, "cpu": 2}[backend] :]
    given = {"loop": (weights_like(h), None), "cpu": (weights_like(h), None, None)}[backend]
    back = getattr(torch.ops.eigenrnn, f"{OPERATORS[backend]}_backward").default
    torch.library.opcheck(back, (*given, h, *saved, *tensors, *options, needed))


class Numbers(TorchDispatchMode):
    """Counts the numbers in the results of our operators, which are what they save."""

    def __init__(self):
        super().__init__()
        self.kept = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        if func.name() in [f"eigenrnn::{name}" for name in OPERATORS.values()]:
            self.kept = sum(each.numel() for each in results)
        return results


# besides the states, the loop keeps the moments, and the kernels the last states
@pytest.mark.parametrize(
    ("backend", "others"), [("loop", 2 * T * B), pytest.param("cpu", B * N, marks=needs_kernels)]
)
def test_without_gradients_little_is_saved(backend, others):
    tensors, norm = [t.detach() for t in operands(T, B, N)], norm_of(True)
    with Numbers() as numbers:
        h = run_elman(tensors, norm, zoneout=RATE, backend=backend)
    assert numbers.kept == h.numel() + others
    tensors[1].requires_grad_()
    assert torch.equal(run_elman(tensors, norm, zoneout=RATE, backend=backend), h)


def called(dtype=torch.float32, *options, transformed=False):
    return Call("cpu", dtype, "tanh", transformed, 3, options)


@needs_kernels
def test_the_kernels_and_the_loop_support_both_features():
    reasons = explain(BACKENDS, called(torch.float32, "layer_norm", "zoneout"))
    assert reasons["cpu"] == "chosen"
    assert reasons["loop"].startswith("possible")


@needs_kernels
def test_the_loop_does_not_compute_layer_norm_in_sixteen_bits():
    reasons = explain(BACKENDS, called(torch.bfloat16, "layer_norm"))
    assert reasons["cpu"] == "chosen"
    assert reasons["loop"].startswith("layer_norm in 16 bits")


@pytest.mark.parametrize("options", [{}, {"zoneout": 0.0}, {"layer_norm": None}], ids=str)
def test_a_call_without_options_is_the_plain_one(options):
    x, W = torch.ones(2, 1, 6), torch.ones(6, 2)
    assert torch.equal(gru(x, W, backend="loop", **options), gru(x, W, backend="loop"))


@each_option
def test_autocast_runs_the_recurrence_in_float32(kind, normed):
    tensors = [t.detach() for t in operands(T, B, N, torch.float32)]
    norm, zoneout = norm_of(normed, dtype=torch.float32), zoneout_of(kind)
    rounded = [v.bfloat16() for v in norm]
    with torch.autocast("cpu", torch.bfloat16):
        h = run_elman(tensors, rounded, zoneout=zoneout)
    expected = run_elman(tensors, [v.float() for v in rounded], zoneout=zoneout)
    assert h.dtype == torch.float32
    assert torch.equal(h, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@each_option
def test_sixteen_bits_agree_with_double_precision_up_to_rounding(kind, normed, dtype):
    tensors = [t.detach().to(dtype) for t in operands(3, 2, 4)]
    norm, zoneout = [v.to(dtype) for v in norm_of(normed)], zoneout_of(kind, (3, 2, 4))
    h = run_elman(tensors, norm, zoneout=zoneout)
    exact = [[v.double() for v in each] for each in (tensors, norm)]
    assert h.dtype == dtype
    assert_near([h], [run_elman(*exact, zoneout=zoneout)], dtype, 3)


x, W, _ = (t.detach() for t in operands(T, B, N, torch.float32))
ones, mask = torch.ones(N), zoneout_of("mask")
REJECTED = {
    "device of the mask": ({"zoneout": mask.to("meta")}, ValueError, "got meta"),
    "a rate of one": ({"zoneout": 1.0}, ValueError, "got 1.0"),
    "no number": ({"zoneout": float("nan")}, ValueError, "got nan"),
    "size of the mask": ({"zoneout": mask[0]}, ValueError, r"got \(3, 4\)"),
    "type of the mask": ({"zoneout": mask.float()}, TypeError, "got .*float32"),
    "size of the gain": ({"layer_norm": (ones[:1], ones)}, ValueError, r"got \(1,\)"),
    "type of the shift": ({"layer_norm": (ones, ones.double())}, TypeError, "got torch.float64"),
}


@pytest.mark.parametrize(("options", "error", "message"), REJECTED.values(), ids=REJECTED.keys())
def test_bad_options_raise_an_error_that_says_what_was_expected(options, error, message):
    with pytest.raises(error, match=message):
        elman(x, W, **options)


def test_the_norm_of_complex_states_is_rejected():
    with pytest.raises(ValueError, match="complex64"):
        elman(x.cfloat(), W.cfloat(), nonlinearity="modrelu", layer_norm=(ones, ones))


def test_the_gated_norm_has_a_gain_for_each_gate():
    with pytest.raises(ValueError, match=r"got \(2,\)"):
        gru(torch.ones(2, 1, 6), torch.ones(6, 2), layer_norm=(torch.ones(2), torch.ones(2)))
