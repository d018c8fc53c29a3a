"""Which calls the Triton kernels support, and how they are launched; imports no Triton."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from eigenrnn.nonlinearities import LEAKY_SLOPES
from eigenrnn.ops.dispatch import Backend, Call

__all__ = [
    "INTERPRETED",
    "MOST_ROUNDS",
    "TritonBackend",
    "fewer_barriers",
    "fused_steps",
    "launch",
    "layout",
    "multiprocessors",
    "pieces",
    "sequence_lengths",
    "state_dtype",
    "unavailable",
]

INTERPRETED = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "y", "yes")
"""Whether Triton's interpreter runs the kernels on the CPU."""

fewer_barriers = os.environ.get("EIGENRNN_FEWER_BARRIERS", "") == "1"
"""Whether the newer variants of the kernels run, until timings on a GPU choose between them."""

_OLDEST = (3, 4)  # the oldest version that compiled the kernels
fused_steps = os.environ.get("EIGENRNN_FUSED_STEPS", "") == "1"
"""Whether the loop computes modReLU in one launch, until timings on a GPU have judged it."""

MOST_ROUNDS: Sequence[tuple[int, int]] = ((192, 15),)
"""The largest ceil(B / multiprocessors) at which the kernels are preferred, by the state size.

A program takes a whole multiprocessor, so the time of a step is proportional to it. Each row holds
the largest state size to which it applies and this number: an expectation that was never timed.
"""

_MOST_COLUMNS = 176  # with 192 rows, 8 to 56 bytes per thread do not fit into registers
_GPU = "cuda", "a CUDA device"
_INTERPRETER = "cpu", "the CPU, because TRITON_INTERPRET is set"
_WARPS = {16: 1, 32: 2, 64: 4, 128: 8}  # by the size of the first piece, for 32-bit numbers
_STATE_DTYPES = {16: torch.float32, 32: torch.float32, 64: torch.float64}  # by bits of x


def _triton_unavailable() -> str | None:
    if not find_spec("triton"):
        if not (INTERPRETED or torch.cuda.device_count()):
            return "it needs an NVIDIA GPU, and this machine has none"
        return "Triton is not installed: pip install triton (CUDA builds of torch bring it)"
    for name in ("triton", "pytorch-triton"):  # nightly builds of torch install pytorch-triton
        with suppress(PackageNotFoundError):
            found = version(name)
            if tuple(map(int, found.split(".")[:2])) < _OLDEST:
                return f"expected Triton 3.4 or newer, which comes with torch 2.8, got {found}"
    return None


_UNAVAILABLE = _triton_unavailable()


def multiprocessors() -> int | None:
    """Return the number of multiprocessors of the current GPU; None without one."""
    if torch.compiler.is_compiling() or not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


def _too_many_rounds(call: Call) -> str | None:
    """Return that the loop is expected to be faster, by `MOST_ROUNDS`, or None."""
    available = multiprocessors()
    most = next((rounds for size, rounds in MOST_ROUNDS if call.state_size <= size), None)
    if available is None or most is None:
        return None
    rounds = -(-call.batch_size // available)
    if rounds <= most:
        return None
    return (
        f"{call.batch_size} sequences take {rounds} rounds on {available} multiprocessors, and "
        f"above {most} the loop is expected to be faster: used only if requested by name"
    )


def unavailable() -> str | None:
    """Return why this machine cannot run the Triton kernels, or None."""
    return _UNAVAILABLE


class TritonBackend(Backend):
    """A backend that launches these kernels."""

    name = "gpu"
    description = "Triton on NVIDIA GPUs, the matrix in the registers of one multiprocessor"

    limits: Mapping[torch.dtype, int] | None = None
    """The largest number of real numbers in a state, by the dtype that holds it; None if any."""

    def unavailable(self) -> str | None:
        return unavailable()

    def unsupported(self, call: Call) -> str | None:
        device, where = _INTERPRETER if INTERPRETED else _GPU
        if call.device != device:
            return f"it needs tensors on {where}, and they are on {call.device}"
        if torch.version.hip:
            return "its kernels support only NVIDIA GPUs"
        if call.transformed:
            return "torch.func transforms and forward mode need differentiable operations"
        limit = None if self.limits is None else self.limits[state_dtype(call.dtype)]
        if limit is not None and call.state_size > limit:
            return (
                f"states of {call.state_size} numbers are too many: the registers of one "
                f"multiprocessor hold W only for at most {limit}"
            )
        return None

    def experimental(self, call: Call) -> str | None:
        if INTERPRETED:
            return "Triton's interpreter is for tests: used only if requested by name"
        return (
            None if self.limits is None else _too_many_rounds(call)
        ) or "it has never been run on a GPU: used only if requested by name"


def launch(
    kernel: Any,
    B: int,
    N: int,
    arguments: Sequence[Any],
    bias: Tensor | None,
    options: Any,
    **flags: bool,
) -> None:
    """Launch one program per sequence on the device of the first argument."""
    from triton.language import float32, float64

    first: Tensor = arguments[0]
    numbers = state_dtype(first.dtype)
    sizes, rows = layout(N, numbers)
    name, slope = _kernel_nonlinearity(options.nonlinearity, bias)
    with torch.cuda.device_of(first):
        kernel[(B,)](
            *arguments,
            SIZES=sizes,
            ROWS=rows,
            DTYPE=float64 if numbers == torch.float64 else float32,
            NAME=name,
            SLOPE=slope,
            BIASED=bias is not None,
            RAGGED=options.batch_sizes is not None,
            REVERSE=options.reverse,
            num_warps=warps(pieces(N), numbers),
            enable_fp_fusion=True,
            **flags,
        )


def pieces(N: int) -> tuple[int, ...]:
    """Split N units into pieces whose sizes are powers of two; the last is padded.

    One piece is best where it fits: each piece adds a sum that warps have to exchange.
    """
    if N <= 128:
        return (_power_of_two(N),)
    return 128, _power_of_two(N - 128)


def layout(N: int, state_dtype: torch.dtype) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the pieces of a vector of N units and those of the rows of a matrix.

    With fewer barriers, a vector of more than 128 units is one piece, and each thread owns one
    column. Each piece of the rows costs two barriers per step, so W of 176 rows takes six.
    """
    sizes = pieces(N)
    if not fewer_barriers or len(sizes) == 1 or N > _MOST_COLUMNS or state_dtype != torch.float32:
        return sizes, sizes
    rest = -(-(N - 128) // 16) * 16  # 16, 32 or 48
    return (256,), (128, *(size for size in (32, 16) if rest & size))


def warps(sizes: Sequence[int], state_dtype: torch.dtype) -> int:
    """Return the number of warps that share a matrix, limited by the registers."""
    return min(8, _WARPS[sizes[0]] * torch.finfo(state_dtype).bits // 32)


def sequence_lengths(
    batch_sizes: Sequence[int] | None, B: int, device: torch.device
) -> Tensor | None:  # (B,)
    """Copy the lengths of all sequences to the device without synchronising."""
    if batch_sizes is None:
        return None
    lengths: list[int] = []
    length = len(batch_sizes)
    for b in range(B):
        while batch_sizes[length - 1] <= b:
            length -= 1
        lengths.append(length)
    on_device = device.type == "cuda"
    on_host = torch.tensor(lengths, dtype=torch.int32, pin_memory=on_device)
    return on_host.to(device, non_blocking=True)


def _power_of_two(N: int) -> int:
    return max(16, 1 << (N - 1).bit_length())


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype that holds states between steps."""
    return _STATE_DTYPES[torch.finfo(dtype).bits]


def _kernel_nonlinearity(name: str, bias: Tensor | None) -> tuple[str, float]:
    """Return the kernels' name of a nonlinearity, and its slope.

    modReLU without a bias is the identity.
    """
    if name in LEAKY_SLOPES:
        return "leaky_relu", LEAKY_SLOPES[name]
    return ("identity" if name.startswith("modrelu") and bias is None else name), 0.0
