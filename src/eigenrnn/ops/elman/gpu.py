"""The Elman recurrence in Triton kernels, as torch operators.

README.md in this folder explains the design and the limits on N.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, pairs_to_complex, real_matrix_of_complex
from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend
from eigenrnn.ops.elman.backward import register_gradients
from eigenrnn.ops.gpu import (
    DESCRIPTION,
    experimental,
    launch,
    sequence_lengths,
    unavailable,
    unsupported,
)
from eigenrnn.ops.inplace_nonlinearities import moduli_like
from eigenrnn.ops.time_steps import states_and_last

__all__ = ["BACKEND", "LIMITS", "elman_gpu"]

LIMITS = {torch.float32: 192, torch.float64: 128}
"""The largest number of real numbers in a state, by the dtype that holds it."""

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
def _elman_gpu_backward(  # noqa: PLR0913, the signature of all backends
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


def _launch(  # noqa: PLR0913, the arguments of both kernels
    kernel: Any,
    tensors: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,  # (N,)
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    result: Tensor,  # (T, B, N)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> None:
    """Launch the forward or the backward kernel, which share one signature."""
    if not result.numel():
        return
    first, matrix = tensors[0], tensors[1]
    T, B, N = result.shape
    lengths = sequence_lengths(batch_sizes, B, result.device)
    absent = matrix  # the kernel never reads this address
    arguments = (
        *tensors,
        absent if bias is None else bias.contiguous(),
        absent if lengths is None else lengths,
        moduli.contiguous() if len(moduli) else absent,
        result,
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


register_gradients(elman_gpu, _elman_gpu_backward)


def _run(  # noqa: PLR0913, the signature of all backends
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
    x = map_inputs(x, U, c)
    if not W.is_complex():
        h, _ = elman_gpu(x, W, h0, bias, nonlinearity, batch_sizes, reverse)
        return states_and_last(h, batch_sizes, reverse)
    if nonlinearity == "modrelu":
        nonlinearity = "modrelu_paired"
        bias = None if bias is None else bias.repeat_interleave(2)
    pairs = complex_to_pairs(x), real_matrix_of_complex(W), complex_to_pairs(h0), bias
    h, _ = elman_gpu(*pairs, nonlinearity, batch_sizes, reverse)
    return states_and_last(pairs_to_complex(h), batch_sizes, reverse)


BACKEND = Backend(
    name="gpu",
    run=_run,
    description=DESCRIPTION,
    dtypes=REAL | COMPLEX,
    unavailable=unavailable,
    unsupported=unsupported(LIMITS),
    experimental=experimental,
)
