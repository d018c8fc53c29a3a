"""The gated recurrence as `torch.export` and `torch.onnx.export` record it."""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import features_of
from eigenrnn.ops.exporting import export_steps, onnx_operator, onnx_supports
from eigenrnn.ops.gru.operands import GRUOperands, GRUOptions
from eigenrnn.ops.gru.reference import GRU

__all__ = ["export_gru"]

_ONNX_NAMES = {"tanh": "Tanh", "relu": "Relu"}


def export_gru(
    operands: GRUOperands, options: GRUOptions, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Record the recurrence as ONNX's GRU where it computes it, else as a scan of steps.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.
    """
    x = operands.x
    h0 = operands.h0
    U = operands.U
    plain = not features_of(operands, options)
    activation = _ONNX_NAMES.get(options.nonlinearity)
    if U is not None and plain and activation is not None and onnx_supports(x):
        attributes: dict[str, Any] = {"activations": ["Sigmoid", activation]}
        attributes["linear_before_reset"] = int(options.reset_after)
        weights = _onnx_weights(operands, U, options.update_keeps)
        return onnx_operator("GRU", x, weights, lengths, h0, options.reverse, **attributes)
    h, last = export_steps(GRU, operands, options, lengths)
    return h, last


def _onnx_weights(
    operands: GRUOperands,
    U: Tensor,  # (3 N, M)
    update_keeps: bool,
) -> list[Tensor]:  # (3 N, M), (3 N, N), (6 N,)
    """Return the weights in ONNX's order of the gates: update, reset, candidate.

    ONNX's update gate keeps the state where it is one. One minus a sigmoid is the sigmoid of the
    negative argument.
    """
    W = operands.W
    c = operands.c
    recurrent_bias = operands.recurrent_bias
    N = W.shape[1]
    zero = W.new_zeros(3 * N)
    input_bias = zero
    if c is not None:
        input_bias = c
    product_bias = zero
    if recurrent_bias is not None:  # of the candidate alone
        product_bias = torch.cat([zero[: 2 * N], recurrent_bias])

    def reorder(rows: Tensor) -> Tensor:
        r, u, c = rows.chunk(3)
        if not update_keeps:  # ONNX's gate multiplies the state, and 1 - sigmoid(a) = sigmoid(-a)
            u = -u
        return torch.cat([u, r, c])

    biases = torch.cat([reorder(input_bias), reorder(product_bias)])
    return [reorder(U), reorder(W), biases]
