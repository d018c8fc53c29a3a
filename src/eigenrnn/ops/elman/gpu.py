"""The Elman recurrence by Triton's kernels, as torch operators.

The design, and what a multiprocessor can hold, stands in the README beside this file.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.backend import COMPLEX, REAL, Backend
from eigenrnn.ops.elman.from_deltas import differentiate
from eigenrnn.ops.gpu import ABOUT, launch, lengths_of, missing, refuses, reluctant
from eigenrnn.ops.inplace import moduli_like
from eigenrnn.ops.inputs import mapped
from eigenrnn.ops.paired import as_complex, as_pairs, matrix_of_pairs
from eigenrnn.ops.steps import with_last

__all__ = ["BACKEND", "LIMITS", "elman_gpu"]

LIMITS = {torch.float32: 192, torch.float64: 128}
"""Of how many numbers a state may consist, by the type in which it is kept."""

_OPTIONS = "str nonlinearity, SymInt[]? batch_sizes, bool reverse"


@torch.library.custom_op(
    "eigenrnn::elman_gpu",
    mutates_args=(),
    schema=f"(Tensor x, Tensor W, Tensor h0, Tensor? bias, {_OPTIONS}) -> (Tensor, Tensor)",
)
def elman_gpu(
    x: Tensor,  # (T, B, N)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, N / 2) or (0, B, N / 2)
    """Evaluate the recurrence in one launch.

    Return the states and, for modReLU of pairs, the moduli of the pre-activations.
    """
    from eigenrnn.ops.elman.triton_kernels import elman_forward

    h, moduli = x.new_empty(x.shape), moduli_like(x, nonlinearity, bias)
    tensors = x, W.T.contiguous(), h0.contiguous()
    _launch(elman_forward, tensors, bias, moduli, h, nonlinearity, batch_sizes, reverse)
    return h, moduli


@torch.library.custom_op(
    "eigenrnn::elman_gpu_backward",
    mutates_args=(),
    schema="(Tensor g, Tensor h, Tensor moduli, Tensor W, Tensor h0, Tensor? bias, "
    f"{_OPTIONS}) -> Tensor",
)
def _elman_gpu_backward(  # noqa: PLR0913, every backend's
    g: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)  # noqa: ARG001, the operator's signature
    bias: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Return the gradients of all pre-activations."""
    from eigenrnn.ops.elman.triton_kernels import elman_backward

    delta = h.new_empty(h.shape)
    tensors = g, h.contiguous(), W.contiguous()
    _launch(elman_backward, tensors, bias, moduli, delta, nonlinearity, batch_sizes, reverse)
    return delta


def _launch(  # noqa: PLR0913, what both kernels are told
    kernel: Any,
    tensors: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,  # (N,)
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    made: Tensor,  # (T, B, N)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> None:
    """Start either kernel: they differ in what they read, and in nothing else."""
    if not made.numel():
        return
    first, matrix = tensors[0], tensors[1]
    T, B, N = made.shape
    lengths = lengths_of(batch_sizes, B, made.device)
    absent = matrix  # an address that is never read
    arguments = (
        *tensors,
        absent if bias is None else bias.contiguous(),
        absent if lengths is None else lengths,
        moduli.contiguous() if len(moduli) else absent,
        made,
        *(T, B, N, *first.stride()),
    )
    launch(kernel, B, N, arguments, nonlinearity, bias, lengths is not None, reverse)


@elman_gpu.register_fake
def _(
    x: Tensor,
    W: Tensor,  # noqa: ARG001, the operator's signature
    h0: Tensor,  # noqa: ARG001
    bias: Tensor | None,
    nonlinearity: str,
    *_: Any,
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), moduli_like(x, nonlinearity, bias)


@_elman_gpu_backward.register_fake
def _(g: Tensor, h: Tensor, *_: Any) -> Tensor:  # noqa: ARG001, the operator's signature
    return h.new_empty(h.shape)


differentiate(elman_gpu, _elman_gpu_backward)


def _run(  # noqa: PLR0913, every backend's
    x: Tensor,  # (T, B, N) or (T, B, M)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    x = mapped(x, U, c)
    if not W.is_complex():
        h, _ = elman_gpu(x, W, h0, bias, nonlinearity, batch_sizes, reverse)
        return with_last(h, batch_sizes, reverse)
    if nonlinearity == "modrelu":
        nonlinearity = "modrelu_paired"
        bias = None if bias is None else bias.repeat_interleave(2)
    pairs = as_pairs(x), matrix_of_pairs(W), as_pairs(h0), bias
    h, _ = elman_gpu(*pairs, nonlinearity, batch_sizes, reverse)
    return with_last(as_complex(h), batch_sizes, reverse)


BACKEND = Backend(
    name="gpu",
    run=_run,
    about=ABOUT,
    dtypes=REAL | COMPLEX,
    missing=missing,
    refuses=refuses(LIMITS),
    reluctant=reluctant,
)
