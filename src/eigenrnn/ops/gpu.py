"""Which calls Triton's kernels can serve, and how they are started; Triton itself comes later."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from eigenrnn.nonlinearities import LEAKY_SLOPES
from eigenrnn.ops.backend import Call

__all__ = ["ABOUT", "INTERPRETED", "launch", "lengths_of", "missing", "refuses", "reluctant"]

ABOUT = "Triton on NVIDIA GPUs, the matrix in the registers of one multiprocessor"
"""What the backends made of the kernels say of themselves."""

INTERPRETED = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "y", "yes")
"""Whether Triton's interpreter stands in for a GPU, on the processor."""

_OLDEST = (3, 4)  # the first that the kernels were compiled with
_GPU = "cuda", "a CUDA device"
_INTERPRETER = "cpu", "the processor, as TRITON_INTERPRET is set"
_WARPS = {16: 1, 32: 2, 64: 4, 128: 8}  # by the first piece, for numbers of 32 bits
_CARRIERS = {16: torch.float32, 32: torch.float32, 64: torch.float64}  # by bits of a number


def missing() -> str | None:
    """Say why there are no kernels for a GPU, or None."""
    return _ABSENCE


def _absence() -> str | None:
    if not find_spec("triton"):
        if not (INTERPRETED or torch.cuda.device_count()):
            return "it needs an NVIDIA GPU, and this machine has none"
        return "Triton is not installed: pip install triton (CUDA builds of torch bring it)"
    for name in ("triton", "pytorch-triton"):  # the latter comes with previews of torch
        with suppress(PackageNotFoundError):
            found = version(name)
            if tuple(map(int, found.split(".")[:2])) < _OLDEST:
                return f"expected Triton 3.4 or newer, which comes with torch 2.8, got {found}"
    return None


_ABSENCE = _absence()


def refuses(limits: Mapping[torch.dtype, int]) -> Callable[[Call], str | None]:
    """Return what says why a call cannot be served.

    Args:
        limits: Of how many real numbers a state may consist, by the type in which it is kept.
    """

    def objection(call: Call) -> str | None:
        device, where = _INTERPRETER if INTERPRETED else _GPU
        if call.device != device:
            return f"it needs tensors on {where}, and they are on {call.device}"
        if torch.version.hip:
            return "its kernels were made for NVIDIA's GPUs alone"
        if call.transformed:
            return "torch.func transforms and forward mode need differentiable operations"
        limit = limits[_carrier(call.dtype)]
        if call.state_size > limit:
            return (
                f"states of {call.state_size} numbers are too many: only for at most {limit} do "
                "the registers of one multiprocessor hold W"
            )
        return None

    return objection


def reluctant(_: Call) -> str:
    """Say why a call is served only by wish."""
    if INTERPRETED:
        return "Triton's interpreter is for tests: only where it is named"
    return "it has never been run on a GPU: only where it is named"


def launch(  # noqa: PLR0913, what all kernels are told
    kernel: Any,
    B: int,
    N: int,
    arguments: Sequence[Any],
    nonlinearity: str,
    bias: Tensor | None,
    ragged: bool,
    reverse: bool,
    **options: bool,
) -> None:
    """Start one program for each sequence, on the device of the first argument."""
    from triton.language import float32, float64

    first: Tensor = arguments[0]
    carrier = _carrier(first.dtype)
    sizes = pieces(N)
    name, slope = _form(nonlinearity, bias)
    with torch.cuda.device_of(first):
        kernel[(B,)](
            *arguments,
            SIZES=sizes,
            KIND=float64 if carrier == torch.float64 else float32,
            NAME=name,
            SLOPE=slope,
            BIASED=bias is not None,
            RAGGED=ragged,
            REVERSE=reverse,
            num_warps=warps(sizes, carrier),
            enable_fp_fusion=True,
            **options,
        )


def pieces(N: int) -> tuple[int, ...]:
    """Cut N units into pieces of powers of two; the last is filled up.

    One piece where it fits: more of them are more sums that warps have to meet for.
    """
    if N <= 128:
        return (_power(N),)
    return 128, _power(N - 128)


def warps(sizes: Sequence[int], carrier: torch.dtype) -> int:
    """Return how many warps share a matrix: no more than a multiprocessor has registers for."""
    return min(8, _WARPS[sizes[0]] * torch.finfo(carrier).bits // 32)


def lengths_of(
    batch_sizes: Sequence[int] | None, B: int, device: torch.device
) -> Tensor | None:  # (B,)
    """Bring the numbers of steps of all sequences to a device, without waiting for it."""
    if batch_sizes is None:
        return None
    lengths: list[int] = []
    length = len(batch_sizes)
    for b in range(B):
        while batch_sizes[length - 1] <= b:
            length -= 1
        lengths.append(length)
    on_device = device.type == "cuda"
    here = torch.tensor(lengths, dtype=torch.int32, pin_memory=on_device)
    return here.to(device, non_blocking=True)


def _power(N: int) -> int:
    return max(16, 1 << (N - 1).bit_length())


def _carrier(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which states are kept between steps."""
    return _CARRIERS[torch.finfo(dtype).bits]


def _form(name: str, bias: Tensor | None) -> tuple[str, float]:
    """Return what kernels call a nonlinearity, and its slope; modReLU needs a bias."""
    if name in LEAKY_SLOPES:
        return "leaky_relu", LEAKY_SLOPES[name]
    return ("identity" if name.startswith("modrelu") and bias is None else name), 0.0
