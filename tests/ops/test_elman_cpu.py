"""What the kernels of the Elman recurrence have alone; `test_kernels.py` has the rest."""

import contextlib
import os

import pytest
import torch

from cases import NONLINEARITIES
from eigenrnn.init import haar_
from eigenrnn.linalg import tol
from eigenrnn.ops import compiled
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.elman import BACKENDS, ElmanOperands
from kernel_testing import (
    SpiedKernels,
    assert_near,
    each_pass,
    each_raggedness,
    needs_kernels,
    poisoned,
    python,
    ragged_sizes,
    steps_apart,
)

pytestmark = [poisoned, needs_kernels, pytest.mark.pairs]

NAMES = ("x", "W", "h0", "bias", "U", "c")

# modReLU is discontinuous. Among millions of float32 numbers, some are so close to its jump that
# rounding moves them across; in float64 none are
each_smoothness = pytest.mark.parametrize(
    ("case", "dtype"), [("elu", torch.float32), ("modrelu", torch.float64)], ids=["elu", "modrelu"]
)


def each_shape(*shapes):
    return pytest.mark.parametrize("shape", shapes, ids=lambda s: "x".join(map(str, s)))


def wider(dtype):
    return torch.complex128 if dtype.is_complex else torch.float64


def normal(generator, shape, dtype):
    return torch.randn(shape, generator=generator, dtype=wider(dtype)).to(dtype)


def operands(T, B, N, dtype=torch.float32, *, bias=False, M=None, seed=0):
    """Inputs, a unitary matrix, an initial state, a bias, an input map and its bias, or None."""
    generator = torch.Generator().manual_seed(seed)
    W = haar_(torch.empty(N, N, dtype=torch.float64), generator=generator).to(dtype)
    if dtype.is_complex:
        W = (W * torch.exp(1j * torch.arange(N, dtype=torch.float64))).to(dtype)
    real = dtype.to_real()
    x = normal(generator, (T, B, N if M is None else M), dtype if M is None else real)
    h0 = normal(generator, (B, N), dtype)
    b = normal(generator, (N,), real) / 2 if bias else None
    U = None if M is None else normal(generator, (N, M), dtype) / M**0.5
    c = None if M is None else normal(generator, (N,), dtype) / 2
    return [x, W, h0, b, U, c]


def operands_of(case, shape, dtype=torch.float32, *, M=None):
    return operands(*shape, dtype, bias=NONLINEARITIES[case][1], M=M)


def options_of(case, shape, *, reverse=False, ragged=False):
    T, B, _ = shape
    return NONLINEARITIES[case][0], ragged_sizes(T, B) if ragged else None, reverse


def weights_like(tensor, seed):
    return normal(torch.Generator().manual_seed(seed), tensor.shape, tensor.dtype)


def leaves_of(tensors):
    return [None if v is None else v.detach().requires_grad_() for v in tensors]


def evaluated(backend, tensors, options):
    """Return all states, the last states and the gradients of all tensors, by name."""
    leaves = leaves_of(tensors)
    h, last = backend.run(ElmanOperands(*leaves), Options(*options))
    present = {name: v for name, v in zip(NAMES, leaves, strict=True) if v is not None}
    weights = weights_like(h, 7), weights_like(last, 8)
    found = torch.autograd.grad((h, last), tuple(present.values()), weights)
    values = {"h": h.detach(), "last": last.detach()}
    return values | dict(zip((f"d{name}" for name in present), found, strict=True))


def assert_equals_reference(tensors, options, against=BACKENDS["reference"]):
    got = evaluated(BACKENDS["cpu"], tensors, options)
    exact = [None if v is None else v.to(wider(v.dtype)) for v in tensors]
    T, _, N = got["h"].shape
    with one_thread():  # more threads of torch would wait longer than they compute
        expected = evaluated(against, exact, options)
    # rounding errors accumulate over T steps, each with a sum over N
    assert_near(got, expected, tol(tensors[1].dtype, T + N))


@contextlib.contextmanager
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def spy(monkeypatch):
    spy = SpiedKernels("elman")
    monkeypatch.setattr(compiled, "kernels", spy)
    return spy


@each_raggedness
@each_smoothness
def test_a_kernel_agrees_at_the_size_of_an_experiment(case, dtype, ragged):
    shape = 784, 20, 190
    tensors = operands_of(case, shape, dtype, M=1)
    options = options_of(case, shape, ragged=ragged)
    # the reference would take a minute; other tests compare the loop with it
    assert_equals_reference(tensors, options, against=BACKENDS["loop"])


@each_shape((2, 3, 1), (63, 17, 31), (784, 1, 2), (63, 3, 190))
def test_a_kernel_agrees_for_complex_states_at_odd_sizes(shape):
    tensors = operands_of("modrelu", shape, torch.complex128)
    tensors[3] = -tensors[3].abs() / 10  # a positive bias makes errors grow with time
    assert_equals_reference(tensors, options_of("modrelu", shape))


def test_a_map_of_complex_inputs_is_applied_too():
    shape = 5, 3, 4
    tensors = operands_of("modrelu", shape, torch.complex128, M=2)
    tensors[0] = torch.complex(tensors[0], tensors[0].flip(0))
    assert_equals_reference(tensors, options_of("modrelu", shape))


@pytest.mark.parametrize(("N", "M"), [(3, 0), (0, 3), (0, None)], ids=str)
def test_zero_channels_and_zero_units_are_supported(N, M):
    x, h0 = torch.ones(4, 2, N if M is None else M), torch.ones(2, N)
    U, c = (None, None) if M is None else (torch.ones(N, M), torch.ones(N))
    tensors = [x, torch.eye(N), h0, None, U, c]
    assert_equals_reference(tensors, ("identity", None, False))


@pytest.mark.parametrize("which", ["x", "h0", "W"])
def test_gradients_of_nan_are_nan(which):
    tensors = dict(zip(NAMES, operands_of("tanh", (4, 3, 5)), strict=True))
    tensors[which].view(-1)[0] = torch.nan
    got = evaluated(BACKENDS["cpu"], tensors.values(), ("tanh", None, False))
    assert got["dW"].isnan().any()


@pytest.mark.parametrize("lay_out", [torch.clone, steps_apart], ids=["whole", "gaps"])
def test_contiguous_rows_are_never_copied(spy, lay_out):
    tensors = operands_of("modrelu", (5, 3, 16), M=4)
    tensors[0] = lay_out(tensors[0])
    BACKENDS["cpu"].run(ElmanOperands(*tensors), Options("modrelu"))
    for name, tensor in zip(NAMES, tensors, strict=True):
        assert spy.call[name][0] == tensor.data_ptr()


@each_pass
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_last_only_returns_the_same_last_states(spy, dtype, M, reverse, ragged):
    shape = 9, 5, 19
    tensors = operands_of("modrelu", shape, dtype, M=M)
    options = options_of("modrelu", shape, reverse=reverse, ragged=ragged)
    _, expected = BACKENDS["cpu"].run(ElmanOperands(*tensors), Options(*options))
    h, last = BACKENDS["cpu"].run(ElmanOperands(*tensors), Options(*options, last_only=True))
    assert "h" not in spy.call
    assert h.numel() == 0
    assert torch.equal(last, expected)


def test_the_environment_selects_the_instruction_set():
    assert compiled.kernels.isa == (os.environ.get("EIGENRNN_ISA") or compiled.kernels.isas[0])


def test_an_unknown_instruction_set_is_rejected_by_name():
    code = "from eigenrnn.ops import compiled; print(compiled.unavailable())"
    done = python("-c", code, EIGENRNN_ISA="sse9")
    known = ", ".join(compiled.kernels.isas)
    assert f"expected EIGENRNN_ISA among {known}, got sse9" in done.stdout
