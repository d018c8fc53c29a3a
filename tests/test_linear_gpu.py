"""The Triton kernels of the linear recurrence agree with the reference.

They run in Triton's interpreter or, with TRITON_INTERPRET=0, on the GPU.
"""

import pytest
import torch

from eigenrnn.layers import LRU
from eigenrnn.ops.dispatch import Call
from eigenrnn.ops.linear import BACKENDS, LinearOperands, LinearOptions, gpu
from kernel_testing import (
    DEVICE,
    INTERPRETED,
    assert_near,
    each_direction,
    each_raggedness,
    normal,
    ragged_sizes,
    registers,
    tol,
    unavailable,
)

pytestmark = [
    pytest.mark.usefixtures("fresh_memory_is_poisoned"),
    pytest.mark.skipif(unavailable() is not None, reason=f"needs Triton: {unavailable()}"),
]

GPU = BACKENDS["gpu"]
CHUNKS = 3
SHAPE = 16 * (CHUNKS - 1) + 3, 3, 7  # the last chunk is short
each_decay = pytest.mark.parametrize("gated", [False, True], ids=["constant", "gated"])


def operands(shape, dtype, gated):
    generator = torch.Generator().manual_seed(0)
    raw = normal(generator, shape if gated else shape[2:], dtype)
    decay = raw / (0.05 + raw.abs())
    return LinearOperands(
        normal(generator, shape, dtype), decay, normal(generator, shape[1:], dtype)
    )


def evaluated(backend, tensors, options):
    """Return all states, the last states and the gradients of all tensors, by name."""
    leaves = LinearOperands(*(v.detach().requires_grad_() for v in tensors))
    h, last = backend.run(leaves, options)
    generator = torch.Generator().manual_seed(7)
    weights = tuple(normal(generator, v.shape, v.dtype) for v in (h, last))
    found = torch.autograd.grad((h, last), tuple(leaves), weights)
    names = ("h", "last", *(f"d{name}" for name in leaves._fields))
    return dict(zip(names, (h.detach(), last.detach(), *found), strict=True))


def wider(tensors):
    wide = torch.complex128 if tensors.x.is_complex() else torch.float64
    return LinearOperands(*(v.to(wide) for v in tensors))


def assert_equals_reference(tensors, options):
    T, B, _ = tensors.x.shape
    expected = evaluated(BACKENDS["reference"], wider(tensors), options)
    # rounding errors add up over T steps, and in the gradient of a constant decay over B too
    got = evaluated(GPU, tensors, options)
    assert_near(got, expected, 2 * tol(tensors.x.dtype, T + B))


@each_raggedness
@each_direction
@each_decay
def test_values_and_gradients_over_several_chunks(gated, reverse, ragged):
    T, B, N = SHAPE
    assert -(-T // gpu.chunk_length(T, B * N)) == CHUNKS
    sizes = ragged_sizes(T, B) if ragged else None
    tensors = operands(SHAPE, torch.complex128, gated)
    assert_equals_reference(tensors, LinearOptions(sizes, reverse))


@pytest.mark.parametrize("shape", [(1, 1, 1), (17, 1, 300)], ids=str)
@each_decay
def test_values_and_gradients_of_real_numbers(shape, gated):
    assert_equals_reference(operands(shape, torch.float32, gated), LinearOptions())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_states_of_sixteen_bits_are_computed_in_float32(dtype):
    tensors = operands(SHAPE, dtype, gated=False)
    h, _ = GPU.run(tensors, LinearOptions())
    expected, _ = BACKENDS["reference"].run(wider(tensors), LinearOptions())
    rounding = torch.finfo(dtype).eps  # of the results alone; the interpreter truncates
    torch.testing.assert_close(h.double(), expected, rtol=rounding, atol=1e-4)


def test_inputs_of_any_strides_and_conjugates():
    tensors = operands((17, 2, 3), torch.complex64, gated=True)
    strided = LinearOperands(
        tensors.x.transpose(0, 1).contiguous().transpose(0, 1),
        tensors.decay.conj(),
        tensors.h0.t().contiguous().t(),
    )
    plain = strided._replace(decay=tensors.decay.conj().resolve_conj())
    assert torch.equal(GPU.run(strided, LinearOptions())[0], GPU.run(plain, LinearOptions())[0])


@pytest.mark.parametrize("shape", [(4, 0, 3), (4, 3, 0)], ids=str)
def test_empty_batches(shape):
    h, last = GPU.run(operands(shape, torch.float32, gated=False), LinearOptions())
    assert (h.shape, last.shape) == (shape, shape[1:])


@pytest.mark.parametrize(
    ("T", "columns", "length"),
    [
        (1, 1, 1),
        (10, 10, 10),
        (1_000, 32 * 256, 63),
        (16_384, 256, 32),
        (4_096, 8 * 1024, 256),
        (1_000, 2**20, 1_000),
    ],
)
def test_chunks_are_long_if_the_columns_keep_the_gpu_busy(T, columns, length):
    assert gpu.chunk_length(T, columns) == length


@pytest.mark.skipif(not INTERPRETED, reason="concerns the interpreter")
def test_the_interpreter_is_used_only_by_name():
    call = Call(DEVICE, torch.float32, "identity", transformed=False, state_size=4_096)
    assert GPU.unsupported(call) is None
    assert "requested by name" in GPU.experimental(call)


def test_a_layer_names_the_backend():
    x = torch.randn(17, 2, 3, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    layer = LRU(3, 4, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    expected, _ = layer(x)
    layer.backend = "gpu"
    torch.testing.assert_close(layer(x)[0], expected)


@pytest.mark.skipif(not INTERPRETED, reason="compiles for GPUs that need not be present")
def test_the_kernels_compile_without_spilling_registers():
    found = registers("linear:constant:complex128:64:80", "linear:gated:float32:64:90")
    for kernels in found.values():
        assert len(kernels) == 3
        for usage in kernels.values():
            assert usage["stack"] == 0


def test_the_operator_passes_torchs_checks():
    tensors = [v.requires_grad_() for v in operands((9, 2, 3), torch.float64, gated=True)]
    torch.library.opcheck(gpu.linear_gpu, (*tensors, None, False, False))
