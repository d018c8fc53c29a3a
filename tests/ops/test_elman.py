"""Every backend of the Elman recurrence agrees with the reference in values and gradients."""

import numpy as np
import pytest
import torch
from states import elman

from cases import NONLINEARITIES
from eigenrnn import ops
from eigenrnn.init import haar_
from eigenrnn.linalg import tol
from eigenrnn.nonlinearities import NONLINEARITIES as FUNCTIONS
from eigenrnn.ops.elman import BACKENDS, loop
from eigenrnn.ops.elman.backward import bias_gradient
from kernel_testing import Work, each_direction, each_raggedness, forward_mode, ragged_sizes

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]

EXACT = {
    torch.float32: torch.float64,
    torch.float64: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex128: torch.complex128,
}

# test_torch_backend.py and test_triton.py have the cases of the other two
QUICK = [name for name in BACKENDS if name not in ("torch", "triton")]
each_backend = pytest.mark.parametrize("backend", QUICK)
each_nonlinearity = pytest.mark.parametrize("case", NONLINEARITIES)


def normal(generator, shape, dtype):
    return torch.randn(shape, generator=generator, dtype=EXACT[dtype]).to(dtype)


def operands(T, B, N, dtype=torch.float64, *, bias=False, seed=0):
    """Inputs, an orthogonal or unitary matrix, an initial state and a bias, all of them leaves."""
    generator = torch.Generator().manual_seed(seed)
    x = normal(generator, (T, B, N), dtype)
    W = haar_(torch.empty(N, N, dtype=torch.float64), generator=generator).to(dtype)
    if dtype.is_complex:
        W = (W * torch.exp(1j * torch.arange(N, dtype=torch.float64))).to(dtype)
    h0 = normal(generator, (B, N), dtype)
    tensors = [x, W, h0]
    if bias:
        tensors.append(normal(generator, (N,), dtype).real.clone() / 2)
    return [tensor.requires_grad_() for tensor in tensors]


def options_of(case, T, B, *, reverse=False, ragged=False):
    return {
        "nonlinearity": NONLINEARITIES[case][0],
        "reverse": reverse,
        "batch_sizes": ragged_sizes(T, B) if ragged else None,
    }


def weights_like(h):
    weights = normal(torch.Generator().manual_seed(7), h.shape, torch.complex128)
    return weights.to(h.dtype) if h.is_complex() else weights.real.to(h.dtype)


def assert_near(got, expected, dtype, n):
    for one, other in zip(got, expected, strict=True):
        scale = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(
            one.to(other.dtype), other, rtol=0, atol=scale * tol(dtype, n), equal_nan=False
        )


IN_NUMPY = {
    "modrelu": lambda z, b: np.sign(z) * np.maximum(np.abs(z) + b, 0),
    "modrelu-no-bias": lambda z, _: z,
    "tanh": lambda z, _: np.tanh(z),
    "relu": lambda z, _: np.maximum(z, 0),
    "elu": lambda z, _: np.where(z > 0, z, np.expm1(z)),
    "leaky_relu": lambda z, _: np.where(z > 0, z, 0.01 * z),
    "leaky_relu_0.1": lambda z, _: np.where(z > 0, z, 0.1 * z),
    "softplus": lambda z, _: np.log(1 + np.exp(z)),
    "retanh": lambda z, _: np.maximum(np.tanh(z), 0),
    "identity": lambda z, _: z,
}


@each_raggedness
@each_direction
@each_nonlinearity
def test_the_reference_runs_each_sequence_independently(case, reverse, ragged):
    T, B, N = 7, 3, 4
    tensors = operands(T, B, N, bias=NONLINEARITIES[case][1])
    options = options_of(case, T, B, reverse=reverse, ragged=ragged)
    x, W, h0, *bias = (tensor.detach().numpy() for tensor in tensors)
    expected, last = np.zeros((T, B, N)), np.zeros((B, N))
    sizes = options["batch_sizes"] or [B] * T
    for b in range(B):
        length = sum(size > b for size in sizes)
        h = h0[b]
        for t in reversed(range(length)) if reverse else range(length):
            h = IN_NUMPY[case](x[t, b] + W @ h, bias[0] if bias else None)
            expected[t, b] = h
        last[b] = h
    got = ops.elman(*tensors, backend="reference", **options)
    assert_near(got, map(torch.as_tensor, (expected, last)), torch.float64, T * N)


def test_the_complex_modrelu_keeps_the_phase_and_shifts_the_modulus():
    z = torch.tensor([3 + 4j, -0.6 + 0.8j, 0j])
    h = FUNCTIONS["modrelu"].forward(z, torch.tensor([1.0, -2.0, 1.0]))
    assert_near([h], [torch.tensor([3.6 + 4.8j, 0j, 0j])], torch.float32, 3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@each_nonlinearity
def test_the_gradient_of_a_nonlinearity_follows_from_its_output(case, dtype):
    name, has_bias = NONLINEARITIES[case]
    f = FUNCTIONS[name]
    if dtype.is_complex and not f.supports_complex:
        return
    generator = torch.Generator().manual_seed(0)
    z = normal(generator, (50,), dtype).requires_grad_()
    bias = normal(generator, (50,), torch.float64) if has_bias else None
    h, g = f.forward(z, bias), normal(generator, (50,), dtype)
    expected = torch.autograd.grad(h, z, g)
    assert_near([f.backward(g, h.detach(), bias, z.detach().abs())], expected, torch.float64, 50)


@each_backend
def test_a_lazy_conjugate_equals_a_physical_one(backend):
    tensors = [tensor.detach() for tensor in operands(5, 3, 4, torch.complex128)]
    lazy = elman(*(t.conj() for t in tensors), nonlinearity="identity", backend=backend)
    physical = [tensor.conj_physical() for tensor in tensors]
    expected = elman(*physical, nonlinearity="identity", backend=backend)
    assert_near([lazy.resolve_conj()], [expected], lazy.dtype, 20)


@each_raggedness
@each_direction
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("case", ["modrelu", "identity"])
def test_it_can_be_differentiated_twice(case, dtype, reverse, ragged):
    tensors = operands(3, 2, 2, dtype, bias=NONLINEARITIES[case][1])
    options = options_of(case, 3, 2, reverse=reverse, ragged=ragged)
    assert torch.autograd.gradgradcheck(
        lambda *tensors: elman(*tensors, backend="loop", **options), tensors, fast_mode=True
    )


def test_the_gradient_is_the_same_with_and_without_create_graph():
    tensors = operands(5, 3, 4, bias=True)
    h = elman(*tensors, nonlinearity="modrelu", batch_sizes=[3, 3, 2, 1, 1])
    plain = torch.autograd.grad(h.sum(), tensors, retain_graph=True)
    graphed = torch.autograd.grad(h.sum(), tensors, create_graph=True)
    assert_near(graphed, plain, torch.float64, 20)


@each_direction
@pytest.mark.parametrize("case", ["modrelu", "tanh"])
def test_vmap_over_matrices_equals_a_loop_over_them(case, reverse):
    pairs = [operands(4, 3, 2, bias=NONLINEARITIES[case][1], seed=seed) for seed in range(3)]
    options = options_of(case, 4, 3, reverse=reverse)
    stacked = [torch.stack(tensors) for tensors in zip(*pairs, strict=True)]
    got = torch.func.vmap(lambda *tensors: elman(*tensors, **options))(*stacked)
    expected = torch.stack([elman(*tensors, **options) for tensors in pairs])
    assert_near([got.detach()], [expected.detach()], torch.float64, 8)


@forward_mode
@pytest.mark.parametrize("jacobian", [torch.func.jacrev, torch.func.jacfwd])
@pytest.mark.parametrize("case", ["modrelu", "tanh"])
def test_jacobians_of_torch_func_equal_those_of_autograd(case, jacobian):
    tensors = operands(4, 2, 2, bias=NONLINEARITIES[case][1])
    options = options_of(case, 4, 2, ragged=True)

    def states(W):
        return elman(tensors[0], W, *tensors[2:], **options)

    W = tensors[1].detach()
    expected = torch.autograd.functional.jacobian(states, W)
    assert_near([jacobian(states)(W).detach()], [expected], torch.float64, 8)


def test_per_example_gradients_equal_those_of_each_example():
    x, W, h0 = operands(4, 3, 2)

    def loss(W, x, h0):
        return elman(x.unsqueeze(1), W, h0.unsqueeze(0)).square().sum()

    got = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 1, 0))(W, x, h0)
    expected = [torch.autograd.grad(loss(W, x[:, b], h0[b]), W)[0] for b in range(3)]
    assert_near([got.detach()], [torch.stack(expected)], torch.float64, 8)


@forward_mode
@pytest.mark.parametrize("which", range(3), ids=["x", "W", "h0"])
def test_forward_mode_is_the_transpose_of_backward_mode(which):
    tensors = operands(4, 2, 2)
    tangent = weights_like(tensors[which])
    with torch.autograd.forward_ad.dual_level():
        duals = [tensor.detach() for tensor in tensors]
        duals[which] = torch.autograd.forward_ad.make_dual(duals[which], tangent)
        forward = torch.autograd.forward_ad.unpack_dual(elman(*duals)).tangent
    h = elman(*tensors)
    g = weights_like(h)
    backward = torch.autograd.grad(h, tensors[which], g)[0]
    assert_near([(forward * g).sum()], [(backward * tangent).sum()], torch.float64, 8)


@pytest.mark.parametrize("backend", ["loop"])
@each_direction
def test_batched_gradients_equal_single_ones(backend, reverse):
    tensors = operands(4, 2, 2, bias=True)
    h = elman(*tensors, nonlinearity="modrelu", reverse=reverse, backend=backend)
    gs = torch.eye(h.numel(), dtype=h.dtype).view(-1, *h.shape)
    batched = torch.autograd.grad(h, tensors, gs, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(h, tensors, g, retain_graph=True) for g in gs]
    assert_near(batched, map(torch.stack, zip(*one_by_one, strict=True)), torch.float64, 8)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize(
    "shape", [(600, 3, 171), (5, 1, 2**17 + 1), (7, 0, 3), (1, 1, 1)], ids=str
)
def test_the_bias_gradient_in_blocks_is_the_plain_sum(shape, dtype):
    generator = torch.Generator().manual_seed(0)
    delta, h = (normal(generator, shape, dtype) for _ in range(2))
    expected = (delta * h.sgn().conj()).real.sum((0, 1))
    got = bias_gradient(delta, h, "modrelu")
    assert_near([got], [expected], torch.float64, shape[0] * shape[1])


@pytest.mark.parametrize("size", [1e-3, 1e-8, 1e-9, 1e-34])
@pytest.mark.parametrize(
    ("backend", "zoneout"),
    [*((name, None) for name in QUICK), ("reference", 0.25)],
)
def test_modrelu_of_complex_numbers_far_below_the_bias_has_exact_gradients(backend, zoneout, size):
    generator = torch.Generator().manual_seed(0)
    phases = torch.exp(1j * normal(generator, (200,), torch.float64))
    z, g = (size * phases).to(torch.complex64), normal(generator, (200,), torch.complex64)
    bias, W = torch.full((200,), 0.01), torch.zeros(200, 200)

    def gradients(dtype, backend):
        x = z.to(dtype)[None, None].requires_grad_()
        b = bias.to(dtype.to_real()).requires_grad_()
        options = {"nonlinearity": "modrelu", "zoneout": zoneout, "backend": backend}
        h = elman(x, W.to(dtype), bias=b, **options)
        return torch.autograd.grad(h, (x, b), g.to(dtype)[None, None])

    exact = gradients(torch.complex128, "reference")
    for one, other in zip(gradients(torch.complex64, backend), exact, strict=True):
        assert float((one - other).abs().max() / other.abs().max()) <= tol(torch.float32, 1)


INSIDE = {
    torch.ops.eigenrnn.elman_loop.default: loop.elman_loop.call_forward,
    torch.ops.eigenrnn.elman_loop_backward.default: loop.elman_loop.call_backward,
}


def work_of(T, backend, what, *, ragged):
    tensors = operands(T, 3, 2, bias=True)
    forward, backward = Work(INSIDE), Work(INSIDE)
    with forward:
        h = elman(*tensors, backend=backend, **options_of("modrelu", T, 3, ragged=ragged))
    with backward:
        torch.autograd.grad(h, tensors, torch.ones_like(h))
    return np.array([getattr(forward, what), getattr(backward, what)])


@each_raggedness
@pytest.mark.parametrize("what", ["operations", "numbers"])
@pytest.mark.parametrize("backend", ["loop", "reference"])
def test_the_work_grows_linearly_with_the_number_of_steps(backend, what, ragged):
    of_12, of_24, of_36 = (work_of(T, backend, what, ragged=ragged) for T in (12, 24, 36))
    assert ((of_36 - of_24) == (of_24 - of_12)).all()
