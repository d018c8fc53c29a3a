"""The Elman recurrence in Triton kernels, as torch operators.

README.md in this folder explains the design and the limits on N.
"""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.linalg import pairs_to_complex
from eigenrnn.ops.arguments import Options, map_inputs
from eigenrnn.ops.autograd import empty_gradients, from_operator, register_gradients
from eigenrnn.ops.dispatch import COMPLEX, REAL
from eigenrnn.ops.elman.backward import bias_gradient, operand_gradients, state_gradients
from eigenrnn.ops.elman.operands import (
    PLAIN_SCHEMA,
    ElmanOperands,
    as_pairs,
    plain_arguments,
    plain_records,
)
from eigenrnn.ops.elman.reference import elman_reference
from eigenrnn.ops.gpu import TritonBackend, launch, sequence_lengths
from eigenrnn.ops.inplace_nonlinearities import moduli_like
from eigenrnn.ops.time_steps import first_steps, states_and_last

__all__ = ["ElmanGPU", "elman_gpu"]


@torch.library.custom_op(
    "eigenrnn::elman_gpu", mutates_args=(), schema=f"({PLAIN_SCHEMA}) -> (Tensor, Tensor)"
)
def elman_gpu(*arguments: Any) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, N / 2) or (0, ...)
    """Evaluate the recurrence in one launch.

    Return the states and, for modReLU of pairs, the moduli of the pre-activations.
    """
    from eigenrnn.ops.elman.triton_kernels import elman_forward

    operands, options = plain_records(arguments)
    x = map_inputs(operands.x, operands.U, operands.c)
    h, moduli = _results(operands, options)
    tensors = x, operands.W.T.contiguous(), operands.h0.contiguous()
    _launch(elman_forward, tensors, operands.bias, moduli, h, options)
    return h, moduli


@torch.library.custom_op(
    "eigenrnn::elman_gpu_backward",
    mutates_args=(),
    schema=f"(Tensor g, Tensor h, Tensor moduli, {PLAIN_SCHEMA}, bool[] needed) -> Tensor[]",
)
def _elman_gpu_backward(
    g: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    *arguments: Any,
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    from eigenrnn.ops.elman.triton_kernels import elman_backward

    (operands, options), needed = plain_records(arguments), arguments[-1]
    W, bias, reverse = operands.W, operands.bias, options.reverse
    delta = h.new_empty(h.shape)
    tensors = g, h.contiguous(), W.contiguous()
    _launch(elman_backward, tensors, bias, moduli, delta, options)
    known = {"h0": first_steps(delta, options.batch_sizes, reverse) @ W}
    if bias is not None:
        total = state_gradients(g, delta, W, reverse) if len(moduli) else delta
        known["bias"] = bias_gradient(total, h, options.nonlinearity)
    return operand_gradients(delta, h, operands, options, needed, known)


def _results(operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
    h = operands.W.new_empty(*operands.x.shape[:2], len(operands.W))
    return h, moduli_like(h, options.nonlinearity, operands.bias)


def _launch(
    kernel: Any,
    tensors: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,  # (N,)
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    result: Tensor,  # (T, B, N)
    options: Options,
) -> None:
    """Launch the forward or the backward kernel, which share one signature."""
    if not result.numel():
        return
    first, matrix = tensors[0], tensors[1]
    T, B, N = result.shape
    lengths = sequence_lengths(options.batch_sizes, B, result.device)
    absent = matrix  # the kernel never reads this address
    arguments = (
        *tensors,
        absent if bias is None else bias.contiguous(),
        absent if lengths is None else lengths,
        moduli.contiguous() if len(moduli) else absent,
        result,
        *(T, B, N, *first.stride()),
    )
    launch(kernel, B, N, arguments, bias, options)


@elman_gpu.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    return _results(*plain_records(arguments))


@_elman_gpu_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    operands, _ = plain_records(arguments[3:])
    return empty_gradients(operands, arguments[-1])


_backward = from_operator(_elman_gpu_backward, plain_arguments)
register_gradients(elman_gpu, plain_records, elman_reference, 1, _backward, operands=8)


class ElmanGPU(TritonBackend):
    """One launch for all steps."""

    dtypes = REAL | COMPLEX
    limits = {torch.float32: 192, torch.float64: 128}  # noqa: RUF012

    def run(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        is_complex = operands.W.is_complex()
        if is_complex:
            operands, options = as_pairs(operands, options)
        h, _ = elman_gpu(*plain_arguments(operands, options))
        h = pairs_to_complex(h) if is_complex else h
        return states_and_last(h, options.batch_sizes, options.reverse)
