"""Which calls the Triton kernels compute, and how they are launched; imports no Triton."""

import os
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import torch
from torch import Tensor

from eigenrnn.nonlinearities import LEAKY_SLOPES
from eigenrnn.ops.dispatch import Backend, Call

__all__ = ["TritonBackend", "kept_share", "launch", "layout"]

_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether Triton's interpreter runs the kernels on the CPU, as in the tests."""

_NONLINEARITIES = frozenset({"tanh", "relu", "elu", "modrelu", "identity", *LEAKY_SLOPES})

_MOST_IN_ONE_PIECE = 176  # with more rows, a thread's column does not fit into its registers


def _why_unavailable() -> str | None:
    if not (_INTERPRETED or torch.cuda.device_count()):
        return "it needs an NVIDIA GPU, and this machine has none"
    if find_spec("triton") is None:
        return "Triton is not installed: pip install triton (CUDA builds of torch bring it)"
    if not _INTERPRETED and not _has_compiler():
        return (
            "Triton needs a C compiler (the variable CC, gcc or clang) and Python.h, which Debian "
            "has in python3-dev"
        )
    return None


def _has_compiler() -> bool:
    """Whether Triton can compile the function that launches a kernel."""
    compiler = os.environ.get("CC") or which("gcc") or which("clang")
    # Triton looks there, also where Debian installs packages elsewhere
    header = Path(sysconfig.get_path("include", "posix_prefix"), "Python.h")
    return compiler is not None and header.is_file()


# asked once: torch.compile cannot trace it
_UNAVAILABLE = _why_unavailable()


class TritonBackend(Backend):
    """A backend that launches one Triton program for each sequence.

    It is preferred to cuDNN, which is slower up to 176 units and as fast up to 192; README.md in
    the folder of each recurrence has the timings.
    """

    name = "triton"
    description = "Triton kernels on NVIDIA GPUs, with W in the registers of one multiprocessor"
    # sums and states are in float32
    dtypes = frozenset({torch.float32})

    unmeasured = frozenset({"leak", "resets", "zoneout"})
    """Features that the kernels compute, and whose time on a GPU is not known yet."""

    largest_state: int
    """The most real numbers in a state for which the registers hold W."""

    def unavailable(self) -> str | None:
        return _UNAVAILABLE

    def unsupported(self, call: Call) -> str | None:
        device = "cpu" if _INTERPRETED else "cuda"
        if call.device != device or torch.version.hip:
            return f"it needs tensors on an NVIDIA GPU, and they are on {call.device}"
        if call.nonlinearity not in _NONLINEARITIES:
            return f"it has no kernel for {call.nonlinearity}"
        if call.state_size > self.largest_state:
            return (
                f"the registers of a multiprocessor hold W for at most {self.largest_state} "
                f"numbers in a state, and here are {call.state_size}"
            )
        return None

    def experimental(self, call: Call) -> str | None:
        if _INTERPRETED:
            return "Triton's interpreter is for tests: used only if requested by name"
        unmeasured = [each for each in call.features if each in self.unmeasured]
        if unmeasured:
            return f"nobody has timed it with {' and '.join(unmeasured)}: requested by name only"
        return None


def kept_share(operands: Any, options: Any) -> Tensor | None:  # (N,) or (T, B, N)
    """Return the share of the state before that each step keeps; None if it keeps nothing."""
    leak: Tensor | None = getattr(operands, "leak", None)
    if leak is not None:
        return 1 - leak
    if operands.mask is not None:
        return operands.mask
    if options.rate:
        return operands.h0.new_full(operands.h0.shape[1:], options.rate)
    return None


def launch(
    kernel: Any,
    steps: Tensor,  # (T, B, .), of any strides; the inputs of a pass
    others: Mapping[str, Tensor | None],
    results: Mapping[str, Tensor],
    operands: Any,
    options: Any,
    **flags: bool,
) -> None:
    """Launch one program per sequence, with a nonlinearity f and what a step keeps of its states.

    Args:
        kernel: The kernel.
        steps: What the kernel reads at each step, its first argument.
        others: The other tensors that it reads, by the names of its arguments.
        results: The tensors that it writes.
        operands: The operands of the call.
        options: The options of the call.
        **flags: The flags of the kernel that are its own.
    """
    T, B, _ = steps.shape
    if not steps.numel():
        return
    if steps.stride(2) != 1:
        steps = steps.contiguous()
    N = operands.h0.shape[1]
    biased = others["bias"] is not None
    name = options.nonlinearity
    slope = 0.0
    if name in LEAKY_SLOPES:
        slope = LEAKY_SLOPES[name]
        name = "leaky_relu"
    elif name == "modrelu" and not biased:
        name = "identity"
    share = kept_share(operands, options)
    lengths = _sequence_lengths(options.batch_sizes, B, steps.device)
    resets = _as_bytes(operands.resets)
    of_steps = {"share": _as_bytes(share), "lengths": lengths, "resets": resets}
    read: dict[str, Tensor] = {}
    # in place of None, a tensor that the kernel never reads
    for argument, tensor in {**others, **of_steps}.items():
        read[argument] = steps if tensor is None else tensor.contiguous()
    columns, rows = layout(N)
    with torch.cuda.device_of(steps):
        kernel[(B,)](
            steps,
            **read,
            **results,
            T=T,
            B=B,
            N=N,
            steps_stride=steps.stride(0),
            row_stride=steps.stride(1),
            COLUMNS=columns,
            ROWS=rows,
            RAGGED=lengths is not None,
            REVERSE=options.reverse,
            RESETS=resets is not None,
            NAME=name,
            SLOPE=slope,
            BIASED=biased,
            KEEPS=share is not None,
            KEEPS_BY_STEP=share is not None and share.dim() == 3,
            MASKED=operands.mask is not None,
            num_warps=min(8, columns[0] // 16),  # so that W fits into the registers of all threads
            enable_fp_fusion=True,  # multiply and add in one instruction
            **flags,
        )


def _as_bytes(tensor: Tensor | None) -> Tensor | None:
    """Return truth values as bytes, and other tensors as they are."""
    if tensor is None or tensor.dtype != torch.bool:
        return tensor
    return tensor.contiguous().view(torch.uint8)


def layout(N: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of the pieces of a vector of N units, and of the rows of each matrix.

    All are powers of two, as Triton demands, and padded with zeros. One piece is best where it
    fits: each thread then owns a column and adds it alone, and each further piece of the rows
    costs a barrier per step.
    """
    if N <= 128:
        size = max(16, 1 << (N - 1).bit_length())
        return (size,), (size,)
    if N <= _MOST_IN_ONE_PIECE:
        rest = 16 * -(-(N - 128) // 16)  # 16, 32 or 48
        return (256,), (128, *(size for size in (32, 16) if rest & size))
    return (128, 64), (128, 64)


def _sequence_lengths(
    batch_sizes: Sequence[int] | None, B: int, device: torch.device
) -> Tensor | None:  # (B,)
    """Copy the lengths of all sequences to the device without waiting for it."""
    if batch_sizes is None:
        return None
    lengths: list[int] = []
    length = len(batch_sizes)
    for b in range(B):
        while batch_sizes[length - 1] <= b:
            length -= 1
        lengths.append(length)
    pinned = torch.tensor(lengths, dtype=torch.int32, pin_memory=device.type == "cuda")
    return pinned.to(device, non_blocking=True)
