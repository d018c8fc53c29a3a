"""LayerNorm and zoneout in the recurrences, compared with NumPy and between backends."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit as sigmoid
from states import elman
from test_elman import assert_near, normal, operands, ragged_sizes
from torch.utils._python_dispatch import TorchDispatchMode

from eigenrnn import GRU, RNN, ops
from eigenrnn.ops import explain
from eigenrnn.ops.dispatch import Call
from eigenrnn.ops.elman import BACKENDS
from kernel_testing import each_direction, each_raggedness, needs_kernels

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]

T, B, N = 7, 3, 4
RATE = 0.3

each_zoneout = pytest.mark.parametrize("kind", ["none", "mask", "rate"])
each_norm = pytest.mark.parametrize("normed", [False, True], ids=["plain", "norm"])
each_backend = pytest.mark.parametrize("backend", [pytest.param("cpu", marks=needs_kernels)])

# all combinations but neither
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
    """Run each sequence separately; return all and the last states."""
    states, last = np.zeros((T, B, N)), np.zeros((B, N))
    sizes = options["batch_sizes"] or [B] * T
    for b in range(B):
        length = sum(size > b for size in sizes)
        h = h0[b]
        for t in reversed(range(length)) if options["reverse"] else range(length):
            h = zone_out(h, cell(t, b, h), options["zoneout"], t, b)
            states[t, b] = h
        last[b] = h
    return torch.as_tensor(states), torch.as_tensor(last)


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

    expected, _ = in_numpy(cell, h0.numpy(), options)
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

    got = ops.gru(
        x,
        W,
        h0,
        recurrent_bias=b_c,
        reset_after=reset_after,
        update_keeps=update_keeps,
        layer_norm=norm or None,
        backend="reference",
        **options,
    )
    assert_near(got, in_numpy(cell, h0.numpy(), options), torch.float64, T * N)


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


class Numbers(TorchDispatchMode):
    """Counts the numbers in the results of our operators, which are what they save."""

    def __init__(self):
        super().__init__()
        self.kept = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        if func.name() == "eigenrnn::elman_cpu_norm_zoneout":
            self.kept = sum(each.numel() for each in results)
        return results


@each_backend
def test_without_gradients_the_last_states_alone_are_saved(backend):
    tensors, norm = [t.detach() for t in operands(T, B, N)], norm_of(True)
    with Numbers() as numbers:
        h = run_elman(tensors, norm, zoneout=RATE, backend=backend)
    assert numbers.kept == h.numel() + B * N
    tensors[1].requires_grad_()
    assert torch.equal(run_elman(tensors, norm, zoneout=RATE, backend=backend), h)


def called(dtype=torch.float32, *options, transformed=False):
    return Call("cpu", dtype, "tanh", transformed, 3, options)


@needs_kernels
def test_the_kernels_compute_layer_norm_in_sixteen_bits_and_the_loop_never():
    reasons = explain(BACKENDS, called(torch.bfloat16, "layer_norm"))
    assert reasons["cpu"] == "chosen"
    assert reasons["loop"] == "it does not compute layer_norm"
