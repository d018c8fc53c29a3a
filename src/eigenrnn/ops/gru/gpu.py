"""The gated recurrence in Triton kernels, as torch operators.

README.md in this folder explains the design and the limits on N.
"""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops import gpu
from eigenrnn.ops.arguments import map_inputs, needs_gradient
from eigenrnn.ops.autograd import empty_gradients, from_operator, register_gradients
from eigenrnn.ops.dispatch import REAL
from eigenrnn.ops.gpu import TritonBackend, launch, sequence_lengths
from eigenrnn.ops.gru.backward import operand_gradients
from eigenrnn.ops.gru.operands import (
    FORMS,
    PLAIN_SCHEMA,
    GRUOperands,
    GRUOptions,
    plain_arguments,
    plain_records,
)
from eigenrnn.ops.gru.reference import gru_reference
from eigenrnn.ops.time_steps import states_and_last

__all__ = ["GRUGPU", "gru_gpu"]


@torch.library.custom_op(
    "eigenrnn::gru_gpu",
    mutates_args=(),
    schema=f"({PLAIN_SCHEMA}, bool save) -> (Tensor, Tensor)",
)
def gru_gpu(*arguments: Any) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, 4 N)
    """Evaluate the states in one launch; with `save` also return r, u, q and c."""
    from eigenrnn.ops.gru.triton_kernels import gru_forward

    (operands, options), save = plain_records(arguments), arguments[-1]
    _, W, h0, bias, recurrent_bias, *_ = operands
    x = map_inputs(operands.x, operands.U, operands.c)
    h, gates = results = _results(operands, save)
    T, B, N = h.shape
    if not h.numel():
        return results
    Wt = W.reshape(3, N, N).transpose(1, 2).contiguous()
    lengths = sequence_lengths(options.batch_sizes, B, x.device)
    vectors = (Wt if v is None else v.contiguous() for v in (bias, recurrent_bias, lengths))
    arguments = x, Wt, h0.contiguous(), *vectors, h, gates, T, B, N, *x.stride()
    launch(
        *(gru_forward, B, N, arguments, bias, options),
        SHIFTED=recurrent_bias is not None,
        RESET_AFTER=options.reset_after,
        UPDATE_KEEPS=options.update_keeps,
        ONE_REDUCTION=gpu.fewer_barriers and len(gpu.pieces(N)) == 1,
        SAVE=save,
    )
    return results


@torch.library.custom_op(
    "eigenrnn::gru_gpu_backward",
    mutates_args=(),
    schema=f"(Tensor g, Tensor h, Tensor gates, {PLAIN_SCHEMA}, bool[] needed) -> Tensor[]",
)
def _gru_gpu_backward(
    g: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    gates: Tensor,  # (T, B, 4 N)
    *arguments: Any,
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    from eigenrnn.ops.gru.triton_kernels import gru_backward

    (operands, options), needed = plain_records(arguments), arguments[-1]
    W, h0, bias = operands.W.contiguous(), operands.h0, operands.bias
    T, B, N = h.shape
    dx, dh0 = h.new_empty(T, B, 3 * N), h.new_empty(B, N)
    dq = h.new_empty(T if options.reset_after else 0, B, N)
    if h.numel():
        lengths = sequence_lengths(options.batch_sizes, B, g.device)
        vectors = (W if v is None else v.contiguous() for v in (bias, lengths))
        tensors = g, W, h0.contiguous(), *vectors, h.contiguous(), gates.contiguous(), dx, dq, dh0
        launch(
            *(gru_backward, B, N, (*tensors, T, B, N, *g.stride()), bias, options),
            RESET_AFTER=options.reset_after,
            UPDATE_KEEPS=options.update_keeps,
            ONE_REDUCTION=gpu.fewer_barriers and len(gpu.pieces(N)) == 1,
        )
    return operand_gradients((dx, dq, dh0), h, gates, operands, options, needed)


def _results(operands: GRUOperands, save: bool) -> tuple[Tensor, Tensor]:
    make, T, (B, N) = operands.x.new_empty, len(operands.x), operands.h0.shape
    return make(T, B, N), make(T if save else 0, B, 4 * N)


@gru_gpu.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    operands, _ = plain_records(arguments)
    return _results(operands, arguments[-1])


@_gru_gpu_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    operands, _ = plain_records(arguments[3:])
    return empty_gradients(operands, arguments[-1])


_backward = from_operator(_gru_gpu_backward, plain_arguments)
register_gradients(gru_gpu, plain_records, gru_reference, 1, _backward, operands=7)


class GRUGPU(TritonBackend):
    """One launch for all steps."""

    dtypes = REAL
    features = FORMS
    limits = {torch.float32: 128, torch.float64: 64}  # noqa: RUF012

    def run(self, operands: GRUOperands, options: GRUOptions) -> tuple[Tensor, Tensor]:
        h, _ = gru_gpu(*plain_arguments(operands, options), needs_gradient(operands))
        return states_and_last(h, options.batch_sizes, options.reverse)
